"""The loaders that can be measured, with their names on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import InvalidArgument


@dataclass(frozen=True)
class Method:
    """A loader in one of its variants.

    `source` is the kind of store that it reads: experiment, pack, h5ad, h5ad-gzip, annbatch, zarr2, zarr3.
    `blocks` says whether it uses sizes of blocks and chunks; if not, it is measured once.
    """

    name: str
    loader: str
    variant: str
    source: str = "experiment"
    blocks: bool = False
    peer: str | None = None  # the package that must be installed; None for Penstock
    what: str = ""
    filters: bool = False  # whether it selects cells itself
    threads: bool = False  # whether its number of threads can be set


_ALL = (
    Method("penstock", "penstock", "scatter", filters=True, threads=True, what="Penstock's own shuffle"),
    Method("penstock:streamed", "penstock", "streamed", filters=True, threads=True,
           what="the same with keep=False: no cell stays in memory between epochs"),
    Method("penstock:chunks", "penstock", "chunks", blocks=True, filters=True, threads=True,
           what="the Census loaders' shuffle of chunks, by Penstock"),
    Method("penstock:global", "penstock", "global", filters=True, threads=True, what="a uniform shuffle"),
    Method("penstock:pack", "penstock", "pack", "pack", filters=True, threads=True, what="from a pack"),
    Method("penstock:pack-global", "penstock", "pack-global", "pack", filters=True, threads=True,
           what="a uniform shuffle of a pack"),
    Method("penstock:annbatch", "penstock", "annbatch", "annbatch", threads=True,
           what="from annbatch's pre-shuffled collection"),
    Method("penstock:zarr2", "penstock", "zarr2", "zarr2", threads=True,
           what="from a zarr store of version 2, as anndata writes it"),
    Method("penstock:zarr3", "penstock", "zarr3", "zarr3", threads=True,
           what="from a zarr store of version 3, as anndata writes it"),
    Method("penstock:h5ad", "penstock", "h5ad", "h5ad", threads=True, what="from an h5ad file, uncompressed"),
    Method("penstock:h5ad-gzip", "penstock", "h5ad", "h5ad-gzip", threads=True,
           what="from an h5ad file with gzip, as the CELLxGENE downloads are"),
    Method("penstock:memory", "penstock", "memory", "h5ad", threads=True,
           what="an AnnData object in memory, from an h5ad file"),
    Method("penstock:device", "penstock", "device", filters=True, threads=True, what="batches made on the GPU"),
    Method("tiledbsoma_ml", "tiledbsoma_ml", "", blocks=True, filters=True, threads=True, peer="tiledbsoma_ml",
           what="ExperimentDataset"),
    Method("cellxgene_census", "census", "", blocks=True, filters=True, threads=True, peer="cellxgene_census",
           what="ExperimentDataPipe, to version 1.17"),
    Method("np.array", "census_blocks", "np.array", blocks=True, filters=True, threads=True, peer="tiledbsoma",
           what="blocks of chunks read by tiledbsoma, made dense at once"),
    Method("scipy.csr", "census_blocks", "scipy.csr", blocks=True, filters=True, threads=True,
           peer="tiledbsoma", what="the same by way of CSR"),
    Method("annbatch", "annbatch", "", "annbatch", blocks=True, peer="annbatch", threads=True,
           what="on its own pre-shuffled collection"),
    Method("annbatch:zarr2", "annbatch", "zarr2", "zarr2", blocks=True, peer="annbatch", threads=True,
           what="on a zarr store of version 2, which is not shuffled"),
    Method("annbatch:zarr3", "annbatch", "zarr3", "zarr3", blocks=True, peer="annbatch", threads=True,
           what="on a zarr store of version 3, which is not shuffled"),
    Method("scDataset", "scdataset", "", "h5ad", blocks=True, peer="scdataset",
           what="on AnnData in h5ad"),
    Method("scDataset:gzip", "scdataset", "", "h5ad-gzip", blocks=True, peer="scdataset",
           what="on AnnData in h5ad with gzip"),
    Method("AnnLoader", "annloader", "", "h5ad", peer="anndata", what="on backed AnnData"),
    Method("AnnLoader:gzip", "annloader", "", "h5ad-gzip", peer="anndata",
           what="on backed AnnData with gzip"),
    Method("MappedCollection", "mapped_collection", "", "h5ad", peer="lamindb",
           what="LaminDB's, on AnnData in h5ad, with DataLoader workers"),
    Method("AnnDataLoader", "in_memory", "AnnDataLoader", "h5ad", peer="scvi",
           what="scvi-tools' own, on AnnData in memory"),
    Method("in-memory", "in_memory", "rows", "h5ad", peer="anndata",
           what="rows of a CSR matrix in memory, by scipy"),
)  # fmt: skip
#: Loaders that use sizes of tiledbsoma's buffers.
READ_BY_TILEDBSOMA = frozenset({"tiledbsoma_ml", "census", "census_blocks", "read_chunks"})
METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def parse_methods(text: str) -> list[Method]:
    """Return methods by name or unique prefix, separated by commas; ``all`` is every method.

    Raises
    ------
    InvalidArgument
        A name is unknown, or is a prefix of several methods.
    """
    found: list[Method] = []
    for part in text.split(","):
        name = part.strip()
        found += _ALL if name == "all" else [method_named(name)]
    return list(dict.fromkeys(found))


def method_named(name: str) -> Method:
    """Return the method of this name, or the only one with this prefix beside its variants."""
    begins = [each for each in METHODS if name and each.lower().startswith(name.lower())]
    if begins and all(each.startswith(f"{begins[0]}:") for each in begins[1:]):
        return METHODS[begins[0]]
    return METHODS[name_among(name, list(METHODS))]


def name_among(name: str, names: Sequence[str]) -> str:
    """Return the name if it is one of `names`, else the only one with this prefix.

    Raises
    ------
    InvalidArgument
        No name or several names match.
    """
    if name in names:
        return name
    lowered = name.lower()
    begins = [each for each in names if name and each.lower().startswith(lowered)]
    if len(begins) == 1:
        return begins[0]
    problem = "begins several methods" if begins else "is no method"
    raise InvalidArgument(f"{name!r} {problem}: {', '.join(begins or names)}")
