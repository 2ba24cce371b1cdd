"""What works on SOMA works on AnnData: splits, sampling, ranks, workers, resume, packs, caches, transforms."""

from __future__ import annotations

import itertools
import shutil
import warnings
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_collection, write_h5ad, write_zarr

CELLS = 500
#: First rows of the datasets of the collection.
DATASETS = (0, 120, 121, 400, CELLS)


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    made = random_anndata(np.random.default_rng(21), CELLS, 40, raw=True)
    made.X.sum_duplicates()
    made.X.data = np.round(made.X.data) + 1
    return made


def collection(adata: anndata.AnnData, path: Path) -> Path:
    """Shards and codec are those of annbatch."""
    from zarr.codecs import BloscCodec

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [adata[first:end].copy() for first, end in itertools.pairwise(DATASETS)]
    codec = BloscCodec(cname="lz4", clevel=3, shuffle="shuffle")
    return write_collection(
        path, parts, version=3, chunks=(150,), shards=(450,), compressors=[codec]
    )


@pytest.fixture(scope="module")
def stores(adata: anndata.AnnData, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same cells in every form."""
    folder = tmp_path_factory.mktemp("everywhere")
    found: dict[str, Any] = {"memory": adata}
    found["zarr 2"] = write_zarr(adata, folder / "two.zarr", version=2, chunk=300)
    found["zarr 3"] = write_zarr(adata, folder / "three.zarr", version=3, chunk=1700)
    found["whole chunks"] = write_zarr(adata, folder / "whole.zarr", version=3)
    found["sharded"] = write_zarr(
        adata, folder / "shards.zarr", version=3, chunk=150, shards=(1500,)
    )
    found["h5ad"] = write_h5ad(adata, folder / "plain.h5ad")
    found["h5ad gzip"] = write_h5ad(adata, folder / "gzip.h5ad", "gzip")
    found["modality"] = folder / "cells.h5mu" / "mod" / "rna"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mudata.MuData({"rna": adata.copy()}).write_h5mu(folder / "cells.h5mu")
    found["collection"] = collection(adata, folder / "collection.zarr")
    archive = shutil.make_archive(str(folder / "cells"), "zip", found["zarr 3"])
    found["zip"] = Path(archive)
    ps.pack(found["zarr 2"], folder / "of-zarr.pack")
    found["pack of zarr"] = folder / "of-zarr.pack"
    ps.pack(adata, folder / "of-memory.pack")
    found["pack of memory"] = folder / "of-memory.pack"
    ps.pack(found["h5ad gzip"], folder / "of-h5ad.pack")
    found["pack of h5ad"] = folder / "of-h5ad.pack"
    ps.pack(found["collection"], folder / "of-collection.pack")
    found["pack of collection"] = folder / "of-collection.pack"
    return found


KINDS = (
    "zarr 2", "zarr 3", "whole chunks", "sharded", "zip", "h5ad", "h5ad gzip", "modality", "collection",
    "pack of zarr", "pack of memory", "pack of h5ad", "pack of collection",
)  # fmt: skip
#: One of each reader: for what does not depend on how a store is written.
READERS = ("memory", "zarr 2", "h5ad gzip", "modality", "collection", "pack of memory")


def batches(dataset: ps.Dataset) -> list[tuple[Any, list[int]]]:
    return [(X, obs["soma_joinid"].tolist()) for X, obs in dataset]


def expect_equal(a: list, b: list) -> None:
    assert len(a) == len(b) > 0
    for (x, rows_x), (y, rows_y) in zip(a, b, strict=True):
        assert rows_x == rows_y
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"var_query": ["g3", "g17", "g30"]},
        {"layer": "counts", "dtype": "int32"},
        {"layer": "raw"},
        {"obs_query": "n_genes > 4000 and doublet == False"},
        {"transforms": [ps.NormalizeTotal(1e4), ps.Log1p()]},
    ],
)
def test_batches_are_bit_for_bit_those_of_memory(
    stores: dict[str, Any], kind: str, settings: dict[str, Any]
) -> None:
    common = {"shuffle": "global", "seed": 4, "batch_size": 33, **settings}
    expect_equal(
        batches(ps.Dataset(stores["memory"], **common)), batches(ps.Dataset(stores[kind], **common))
    )


@pytest.mark.parametrize("kind", ["memory", *KINDS])
def test_a_shuffle_gives_each_row_once(
    stores: dict[str, Any], adata: anndata.AnnData, kind: str
) -> None:
    dataset = ps.Dataset(stores[kind], seed=2, batch_size=37, keep=False)
    dense = adata.X.toarray()
    for epoch in range(2):
        dataset.set_epoch(epoch)
        seen = []
        for X, rows in batches(dataset):
            np.testing.assert_array_equal(X, dense[rows])
            seen += rows
        assert sorted(seen) == list(range(CELLS))
        assert seen != sorted(seen)


@pytest.mark.parametrize("kind", READERS)
def test_ranks_share_the_rows(stores: dict[str, Any], kind: str) -> None:
    seen, counts = [], []
    for rank in range(3):
        dataset = ps.Dataset(
            stores[kind],
            rank=rank,
            world_size=3,
            seed=1,
            batch_size=16,
            uneven="pad",
            compare_ranks=False,
        )
        got = batches(dataset)
        counts.append(len(got))
        seen += [row for _, rows in got for row in rows]
    assert len(set(counts)) == 1
    assert set(seen) == set(range(CELLS))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("shuffle", ["global", "scatter"])
def test_an_epoch_resumes(stores: dict[str, Any], kind: str, shuffle: str) -> None:
    common = {"shuffle": shuffle, "seed": 9, "batch_size": 32}
    whole = batches(ps.Dataset(stores[kind], **common))
    first = ps.Dataset(stores[kind], **common)
    iterator = iter(first)
    for _ in range(5):
        next(iterator)
    state = first.state_dict()
    second = ps.Dataset(stores[kind], **common)
    second.load_state_dict(state)
    expect_equal(whole[5:], batches(second))


@pytest.mark.parametrize("kind", READERS)
def test_splits_are_disjoint_and_whole(stores: dict[str, Any], kind: str) -> None:
    parts = ps.Dataset(stores[kind], batch_size=32).random_split([0.7, 0.3], seed=3)
    rows = [{row for _, found in batches(part) for row in found} for part in parts]
    assert rows[0] | rows[1] == set(range(CELLS))
    assert not rows[0] & rows[1]


@pytest.mark.parametrize("kind", READERS)
def test_draws_by_weight(stores: dict[str, Any], adata: anndata.AnnData, kind: str) -> None:
    weights = np.where(np.arange(CELLS) % 2, 1.0, 0.0)
    dataset = ps.Dataset(stores[kind], weights=weights, num_samples=2000, seed=5, batch_size=50)
    dense = adata.X.toarray()
    drawn = []
    for X, rows in batches(dataset):
        np.testing.assert_array_equal(X, dense[rows])
        drawn += rows
    assert len(drawn) == 2000
    assert all(row % 2 for row in drawn)
    assert len(set(drawn)) > 200


@pytest.mark.parametrize("kind", ["memory", "zarr 3", "h5ad gzip", "collection"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_read_each_row_once(stores: dict[str, Any], kind: str, start: str) -> None:
    torch = pytest.importorskip("torch")
    dataset = ps.Dataset(stores[kind], seed=6, batch_size=25, format="torch")
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=start
    )
    seen = [int(row) for _, obs in loader for row in obs["soma_joinid"]]
    assert sorted(seen) == list(range(CELLS))


@pytest.mark.parametrize(
    "kind", ["zarr 2", "sharded", "zip", "h5ad gzip", "modality", "collection"]
)
def test_a_cache_serves_later_epochs(stores: dict[str, Any], tmp_path: Path, kind: str) -> None:
    common = {"cache_dir": tmp_path / "cache", "batch_size": 32, "seed": 2}
    first = ps.Dataset(stores[kind], **common, keep=False)
    list(first)
    assert first.stats.bytes_read > 0
    second = ps.Dataset(stores[kind], **common, keep=False)
    got = batches(second)
    assert second.stats.bytes_read == 0
    assert sorted(row for _, rows in got for row in rows) == list(range(CELLS))


def test_a_cache_sees_that_a_store_was_written(adata: anndata.AnnData, tmp_path: Path) -> None:
    other = adata.copy()
    path = write_zarr(other, tmp_path / "cells.zarr")
    common = {"cache_dir": tmp_path / "cache", "shuffle": False, "keep": False, "batch_size": 500}
    list(ps.Dataset(path, **common))
    other.X.data[:] = 9
    shutil.rmtree(path)
    write_zarr(other, path)
    ((X, _),) = list(ps.Dataset(path, **common))
    assert set(np.unique(X)) == {0.0, 9.0}


def test_anndata_reads_the_tables_of_a_pack(stores: dict[str, Any], adata: anndata.AnnData) -> None:
    import zarr

    for kind in ("pack of zarr", "pack of memory"):
        obs = anndata.io.read_elem(zarr.open_group(str(stores[kind] / "obs"), mode="r"))
        assert obs.index.tolist() == adata.obs_names.tolist()
        assert list(obs.columns) == list(adata.obs.columns)
        for name in obs.columns:
            wanted = adata.obs[name]
            missing = wanted.isna()
            assert obs[name].isna().tolist() == missing.tolist()
            assert obs[name][~missing].tolist() == wanted[~missing].tolist()
        experiment = ps.open(stores[kind])
        assert experiment.default_layer() == "X"
        assert experiment.obs.columns == ps.open(stores["zarr 2"]).obs.columns
        assert experiment.var("raw").to_pandas()["var_names"].tolist() == list(adata.raw.var_names)


def test_a_pack_of_some_cells_of_a_pack(stores: dict[str, Any], tmp_path: Path) -> None:
    small = ps.pack(stores["pack of memory"], tmp_path / "small.pack", obs_query="n_genes > 4000")
    rows = ps.open(stores["zarr 2"]).obs.select("n_genes > 4000").to_numpy().tolist()
    assert small.obs.to_pandas()["soma_joinid"].tolist() == rows
    got = [row for _, found in batches(ps.Dataset(small, shuffle=False)) for row in found]
    assert got == rows


def test_soma_of_the_same_cells_gives_the_same_batches(
    adata: anndata.AnnData, stores: dict[str, Any], tmp_path: Path
) -> None:
    soma_io = pytest.importorskip("tiledbsoma.io")
    plain = anndata.AnnData(adata.X.copy(), adata.obs[["n_genes"]].copy(), adata.var.copy())
    uri = soma_io.from_anndata(
        str(tmp_path / "soma"), plain, measurement_name="RNA", X_layer_name="raw"
    )
    common = {"shuffle": "global", "seed": 4, "batch_size": 33}
    expect_equal(
        batches(ps.Dataset(uri, **common)), batches(ps.Dataset(stores["zarr 3"], **common))
    )
