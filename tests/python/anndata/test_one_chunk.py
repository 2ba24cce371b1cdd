"""Matrices that are stored in one chunk, as R writes them: a pack reads them a piece at a time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import memory_of_pack
from penstock.cli import main

R_HDF5 = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
"""As rhdf5 writes by default, but for the level of 6."""


def store_in_one_chunk(path: Path, *names: str, **filters: Any) -> None:
    """Write these datasets of a file again, each in one chunk."""
    with h5py.File(path, "r+") as file:
        for name in names:
            values, attributes = file[name][()], dict(file[name].attrs)
            del file[name]
            made = file.create_dataset(name, data=values, chunks=values.shape, **filters)
            made.attrs.update(attributes)


def counts(random: np.random.Generator, cells: int, genes: int, density: float) -> sp.csr_matrix:
    matrix = sp.random(
        cells, genes, density=density, random_state=random, dtype=np.float32, format="csr"
    )
    matrix.data = random.geometric(0.4, matrix.nnz).astype(np.float32)
    return matrix


def x_of(source: Any) -> Any:
    return ps.Dataset(source, sparse=True, shuffle=False).to_anndata().X


def row_files(pack: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of rows."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in pack.rglob("*.rows")
    }


def assert_same(ours: Any, theirs: sp.csr_matrix) -> None:
    assert ours.dtype == theirs.dtype
    assert abs(ours - theirs).nnz == 0


@pytest.mark.parametrize("filters", [R_HDF5, {"compression": "gzip"}], ids=["shuffled", "plain"])
@pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
def test_packs_with_a_budget_below_the_chunk(
    tmp_path: Path, kind: str, filters: dict[str, Any]
) -> None:
    matrix = counts(np.random.default_rng(1), 9_000, 1_000, 0.25)  # 9 MB of each array
    stored = {"csr": matrix, "csc": matrix.tocsc(), "dense": matrix.toarray()}[kind]
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(stored).write_h5ad(path)
    store_in_one_chunk(path, *(["X"] if kind == "dense" else ["X/data", "X/indices"]), **filters)
    ps.pack(path, tmp_path / "pack", layers="X", memory_budget="16MiB")
    assert_same(x_of(tmp_path / "pack"), matrix)
    ample = ps.pack(path, tmp_path / "ample", layers="X")  # decodes the chunk as a whole
    assert row_files(tmp_path / "ample") == row_files(tmp_path / "pack")
    assert_same(x_of(ample), matrix)
    some = np.random.default_rng(2).random(9_000) < 0.01
    ps.pack(path, tmp_path / "some", layers="X", memory_budget="16MiB", obs_query=some)
    assert_same(x_of(tmp_path / "some"), matrix[some])


def test_several_files_and_chunks(tmp_path: Path) -> None:
    """Files end where chunks end, and the pieces do not."""
    matrix = counts(np.random.default_rng(3), 12_000, 900, 0.3)
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(matrix).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        for name, length in (("X/data", 7_001), ("X/indices", 4_999)):
            values = file[name][()]
            del file[name]
            file.create_dataset(name, data=values, chunks=(length,), **R_HDF5)
    for budget, pack in (("512KiB", "small"), ("1GiB", "ample")):
        ps.pack(path, tmp_path / pack, layers="X", memory_budget=budget, rows_per_file=1_000)
        assert_same(x_of(tmp_path / pack), matrix)
    assert len(row_files(tmp_path / "small")) > 1
    assert row_files(tmp_path / "small") == row_files(tmp_path / "ample")


def test_other_filters_need_the_memory(tmp_path: Path) -> None:
    matrix = counts(np.random.default_rng(4), 5_000, 1_000, 0.25)
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(matrix).write_h5ad(path)
    store_in_one_chunk(path, "X/data", "X/indices", compression="lzf")
    with pytest.raises(
        ps.ResourceExhausted,
        match=r"memory_budget is too small to pack: 2.0 MiB, needed at least .* MiB to decode "
        r"5000 cells from 0 on, stored as csr, hdf5, chunks of 1250000, lzf",
    ):
        ps.pack(path, tmp_path / "pack", memory_budget="2MiB")
    assert_same(x_of(ps.pack(path, tmp_path / "pack", memory_budget="64MiB")), matrix)


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    matrix = counts(np.random.default_rng(5), 9_000, 1_000, 0.25)
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(matrix).write_h5ad(path)
    store_in_one_chunk(path, "X/data", "X/indices", **R_HDF5)
    with h5py.File(path) as file:
        place = file["X/data"].id.get_chunk_info(0)
    with path.open("r+b") as file:
        file.seek(place.byte_offset + place.size // 2)
        file.write(b"damage")
    with pytest.raises(ps.CorruptData, match=r"chunk 0 of .*cells\.h5ad/X/data"):
        ps.pack(path, tmp_path / "pack", memory_budget="16MiB")
    assert not (tmp_path / "pack" / "pack.json").exists()


@pytest.mark.parametrize(("cells", "genes"), [(12_000, 2_000), (800, 30_000)])
def test_memory_does_not_grow_with_the_chunk(tmp_path: Path, cells: int, genes: int) -> None:
    matrix = counts(np.random.default_rng(6), cells, genes, 0.5)  # 48 MB of each array
    paths = {}
    for name, of_them in (("large", cells), ("small", cells // 20)):
        paths[name] = tmp_path / f"{name}.h5ad"
        anndata.AnnData(matrix[:of_them]).write_h5ad(paths[name])
        store_in_one_chunk(paths[name], "X/data", "X/indices", **R_HDF5)
    used = {}
    for budget in ("16MiB", "1GiB"):
        pack = tmp_path / f"pack-{budget}"
        used[budget] = memory_of_pack(paths["large"], paths["small"], pack, budget) >> 20
        assert_same(x_of(pack), matrix)
    assert used["1GiB"] > 64  # so that the measurement is of the chunks
    assert used["16MiB"] < 16 + 12


READ = """
import sys
import penstock as ps

def read_so_far():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

small, source, pack = sys.argv[1:]
ps.pack(small, pack + "-before")  # Python reads modules
before = read_so_far()
ps.pack(source, pack, layers="X")
print(read_so_far() - before)
"""


def test_a_chunk_of_many_units_is_decoded_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Units have 65,536 rows at most. Each of them decoded the chunk."""
    random = np.random.default_rng(7)
    matrix = counts(random, 600_000, 20, 0.3)
    matrix.data = random.random(matrix.nnz).astype(np.float32)
    usual, one = tmp_path / "usual.h5ad", tmp_path / "one.h5ad"
    for path in (usual, one):
        anndata.AnnData(matrix).write_h5ad(path, compression="gzip", compression_opts=1)
    store_in_one_chunk(one, "X/data", "X/indices", compression="gzip", compression_opts=1)
    with h5py.File(one) as file:
        stored = sum(file[f"X/{name}"].id.get_storage_size() for name in ("data", "indices"))
    small = tmp_path / "small.h5ad"
    anndata.AnnData(matrix[:100]).write_h5ad(small)
    read = []
    for path in (usual, one):
        ran = subprocess.run(
            [sys.executable, "-c", READ, small, path, tmp_path / f"pack-{path.name}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        read.append(int(ran.stdout))
    assert stored > 10 << 20
    with pytest.warns(ps.ReadAgainWarning, match=r"a chunk has the cells of many fetch units.*one"):
        next(iter(ps.Dataset(one, batch_size=1_000, sparse=True)))
    next(iter(ps.Dataset(usual, batch_size=1_000, sparse=True)))  # a warning is an error here
    assert main(["info", str(one)]) == main(["info", str(usual)]) == 0
    assert capsys.readouterr().out.count("a pack (`penstock pack`) decodes it once") == 1
    assert read[1] < read[0] + 2 * stored
    assert_same(x_of(tmp_path / "pack-one.h5ad"), matrix)


def test_a_part_that_is_complete_needs_no_memory(tmp_path: Path) -> None:
    matrix = counts(np.random.default_rng(8), 5_000, 1_000, 0.25)
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(matrix).write_h5ad(path)
    store_in_one_chunk(path, "X/data", "X/indices", compression="lzf")
    assert main(["pack", str(path), str(tmp_path / "pack"), "--part", "1/1"]) == 0
    assert_same(x_of(ps.pack(path, tmp_path / "pack", memory_budget="2MiB")), matrix)
