"""A filter that selects 1 % of the cells in a few runs reads about 1 % of X: the chunks that the runs touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import write_h5ad, write_zarr
from several_measurements import Layer, write_measurements

CELLS, GENES, PER_CELL = 20_000, 400, 100
#: Elements of a chunk: a run of `LENGTH` cells has 10 chunks of each array.
CHUNK = 1000
#: 1 % of the cells, in runs that begin and end within chunks.
RUNS, LENGTH = (1_234, 12_345), 100


class Stored(NamedTuple):
    path: Path
    chunk_bytes: list[list[int]]  # of each array, by chunk


@pytest.fixture(scope="module")
def counts() -> sp.csr_matrix:
    """Rows of 95 to 104 values."""
    random = np.random.default_rng(81)
    lengths = random.integers(PER_CELL - 5, PER_CELL + 5, CELLS)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    genes = np.concatenate([np.sort(random.permutation(GENES)[:n]) for n in lengths])
    values = random.integers(1, 200, len(genes)).astype("float32")
    return sp.csr_matrix((values, genes.astype("int32"), indptr), (CELLS, GENES))


def chosen_rows() -> np.ndarray:
    return np.concatenate([np.arange(begin, begin + LENGTH) for begin in RUNS])


def obs() -> pd.DataFrame:
    chosen = np.zeros(CELLS, bool)
    chosen[chosen_rows()] = True
    return pd.DataFrame({"chosen": chosen}, index=[f"c{i}" for i in range(CELLS)])


def write(counts: sp.csr_matrix, kind: str, folder: Path) -> Stored:
    made = anndata.AnnData(counts, obs(), pd.DataFrame(index=[f"g{i}" for i in range(GENES)]))
    chunks = -(-counts.nnz // CHUNK)
    if kind == "zarr 2":
        path = write_zarr(made, folder / "x.zarr", version=2, chunk=CHUNK)
        sizes = [
            [(path / "X" / array / str(i)).stat().st_size for i in range(chunks)]
            for array in ("data", "indices")
        ]
        return Stored(path, sizes)
    if kind == "zarr 3, sharded":
        path = write_zarr(made, folder / "x.zarr", version=3, chunk=CHUNK, shards=(100 * CHUNK,))
        return Stored(path, [sizes_in_shards(path / "X" / a, chunks) for a in ("data", "indices")])
    path = folder / "x.h5ad"
    write_h5ad(made, path)
    with h5py.File(path, "r+") as file:
        for array, values in (("data", counts.data), ("indices", counts.indices)):
            del file["X"][array]
            file["X"].create_dataset(array, data=values, chunks=(CHUNK,), compression="gzip")
        ids = [file["X"][array].id for array in ("data", "indices")]
        return Stored(path, [[d.get_chunk_info(i).size for i in range(chunks)] for d in ids])


def sizes_in_shards(array: Path, chunks: int) -> list[int]:
    """Lengths in the index that ends each shard, before its checksum."""
    sizes: list[int] = []
    for number in range(-(-chunks // 100)):
        index = (array / "c" / str(number)).read_bytes()[-100 * 16 - 4 : -4]
        sizes += np.frombuffer(index, "<u8").reshape(-1, 2)[:, 1].tolist()
    return sizes[:chunks]


def chunks_of(runs: list[tuple[int, int]], indptr: np.ndarray) -> set[int]:
    """Chunks that hold elements of the rows of runs."""
    return {
        chunk
        for begin, end in runs
        for chunk in range(indptr[begin] // CHUNK, (indptr[end] - 1) // CHUNK + 1)
    }


def runs_in(begin: int, end: int) -> list[tuple[int, int]]:
    """The runs, cut at [begin, end)."""
    cut = [(max(run, begin), min(run + LENGTH, end)) for run in RUNS]
    return [(first, last) for first, last in cut if first < last]


def most_chunks(counts: sp.csr_matrix, units: Any) -> int:
    """Bound of the chunks of an array that are read.

    A run of n elements touches n / CHUNK + 1 chunks, rounded up, or fewer. A boundary of units in
    the run divides one more.
    """
    elements = [int(counts.indptr[begin + LENGTH] - counts.indptr[begin]) for begin in RUNS]
    divided = sum(begin < unit.row_begin < begin + LENGTH for unit in units for begin in RUNS)
    return sum(-(-n // CHUNK) + 1 for n in elements) + divided


def expect_share(dataset: ps.Dataset, stored: int, counts: sp.csr_matrix, units: Any) -> None:
    """About 1 % of the stored bytes, within what the size of chunks implies."""
    share = dataset.stats.bytes_read / stored
    # Chunks are compressed to sizes that differ by some percent.
    assert 0.01 / 1.05 <= share <= 1.05 * most_chunks(counts, units) * CHUNK / counts.nnz
    assert share < 0.0125


def dataset_of(source: Any, **settings: Any) -> ps.Dataset:
    return ps.Dataset(source, obs_query="chosen == True", keep=False, batch_size=64, **settings)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3, sharded", "h5ad, gzip"])
def test_chunks_of_a_filter_are_read_and_no_others(
    counts: sp.csr_matrix, tmp_path: Path, kind: str, shuffle: bool
) -> None:
    """Read is what the runs touch: a chunk that a boundary of units divides counts for both units."""
    stored = write(counts, kind, tmp_path)
    dataset = dataset_of(stored.path, shuffle=shuffle)
    rows = np.concatenate([table["soma_joinid"] for _, table in dataset])
    assert sorted(rows) == chosen_rows().tolist()

    indptr = counts.indptr
    units = ps.open(stored.path).x().units()
    visited = [chunks_of(runs_in(unit.row_begin, unit.row_end), indptr) for unit in units]
    assert dataset.stats.bytes_read == sum(
        sizes[chunk] for sizes in stored.chunk_bytes for chunks in visited for chunk in chunks
    )
    assert sum(len(chunks) for chunks in visited) <= most_chunks(counts, units)
    expect_share(dataset, sum(map(sum, stored.chunk_bytes)), counts, units)


@pytest.mark.parametrize("shuffle", [False, True])
def test_tiles_of_soma_likewise(counts: sp.csr_matrix, tmp_path: Path, shuffle: bool) -> None:
    """Tiles hold `CHUNK` values in the order of rows; the three arrays of coordinates and values are files."""
    pytest.importorskip("tiledbsoma")
    layer = Layer(counts, tile=(2048, GENES), capacity=CHUNK)
    path = write_measurements(tmp_path / "soma", {"RNA": layer}, obs().reset_index(drop=True))
    dataset = dataset_of(path, shuffle=shuffle)
    rows = np.concatenate([table["soma_joinid"] for _, table in dataset])
    assert sorted(rows) == chosen_rows().tolist()
    (fragment,) = (path / "ms" / "RNA" / "X" / "raw" / "__fragments").iterdir()
    stored = sum(file.stat().st_size for file in fragment.glob("[ad][0-9].tdb"))
    units = ps.open(path).x().units()
    assert dataset.stats.bytes_read == dataset.stats.bytes_needed
    expect_share(dataset, stored, counts, units)
