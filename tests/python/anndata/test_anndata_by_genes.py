"""Matrices stored by genes (CSC): packs of them are what scipy's tocsr makes; nobody else reads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import (
    VALUE_TYPES,
    csr_of,
    memory_of_pack,
    random_anndata,
    random_counts,
    write_zarr,
)
from hypothesis import given
from hypothesis import strategies as st
from penstock import _core
from penstock.cli import main
from penstock.dataset.dataset import Dataset

REFUSED = r"stored by genes \(CSC\).*`penstock pack SOURCE PACK`.*, in "


def by_genes(
    random: np.random.Generator, cells: int, genes: int, value_type: str = "float32"
) -> sp.csc_matrix:
    """Columns like the rows of `random_counts`: some unsorted, some with a cell twice."""
    turned = random_counts(random, genes, cells, value_type)
    matrix = sp.csc_matrix((cells, genes), dtype=value_type)
    matrix.data, matrix.indices, matrix.indptr = turned.data, turned.indices, turned.indptr
    return matrix


def anndata_of(random: np.random.Generator, matrix: sp.csc_matrix) -> anndata.AnnData:
    """AnnData with the matrix as X, and CSR counts as a layer."""
    made = random_anndata(random, *matrix.shape)
    made.X = matrix
    assert made.X.format == "csc"
    return made


def packed_csr(
    packed: ps.Experiment, layer: str, value_type: Any, **settings: Any
) -> sp.csr_matrix:
    return csr_of(
        ps.Dataset(
            packed, layer=layer, shuffle=False, sparse=True, dtype=str(value_type), batch_size=50, **settings
        )
    )  # fmt: skip


def expect_same_bits(ours: sp.csr_matrix, stored: sp.csc_matrix) -> None:
    """Our rows are scipy's: entries of a row by gene, duplicates in stored order."""
    theirs = stored.tocsr()
    assert ours.shape == theirs.shape
    assert ours.indptr.tolist() == theirs.indptr.tolist()
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.data.dtype == theirs.data.dtype
    assert ours.data.tobytes() == theirs.data.tobytes()


@given(
    seed=st.integers(0, 2**32),
    version=st.sampled_from([2, 3]),
    cells=st.integers(1, 200),
    genes=st.integers(1, 60),
    value_type=st.sampled_from(VALUE_TYPES),
    chunk=st.one_of(st.none(), st.integers(1, 300)),
    budget=st.integers(40 << 10, 90 << 10),
)
def test_packs_have_the_rows_of_scipy(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    version: int,
    cells: int,
    genes: int,
    value_type: str,
    chunk: int | None,
    budget: int,
) -> None:
    folder = tmp_path_factory.mktemp("by-genes")
    random = np.random.default_rng(seed)
    made = anndata_of(random, by_genes(random, cells, genes, value_type))
    path = write_zarr(made, folder / "cells.zarr", version=version, chunk=chunk)
    seen: list[_core.PackProgress] = []
    if chunk is None:  # then one chunk has everything
        budget = 2 << 20
    packed = ps.pack(path, folder / "pack", memory_budget=budget, progress=seen.append)
    expect_same_bits(packed_csr(packed, "X", value_type), made.X)
    counts = packed_csr(packed, "counts", "int32")
    np.testing.assert_array_equal(counts.toarray(), made.layers["counts"].toarray())
    assert list(seen[-1].passes) == ["RNA/X/X"]
    assert packed.obs.to_pandas()["obs_names"].tolist() == made.obs_names.tolist()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, anndata.AnnData]:
    """2,000 cells with 240,000 non-zeros, and one cell that has nearly all genes."""
    random = np.random.default_rng(4)
    matrix = sp.random(2000, 1200, density=0.1, random_state=random, dtype=np.float32, format="lil")
    matrix[7] = 300
    matrix = sp.csc_matrix(matrix)
    matrix.data = np.ceil(5 * matrix.data)
    made = anndata_of(random, matrix)
    folder = tmp_path_factory.mktemp("large")
    return write_zarr(made, folder / "cells.zarr", version=3, chunk=700, shards=(7000,)), made


def passes_of(path: Path, pack: Path, **settings: Any) -> int:
    seen: list[_core.PackProgress] = []
    ps.pack(path, pack, progress=seen.append, **settings)
    assert seen[-1].rows_done == seen[-1].rows_total
    return seen[-1].passes["RNA/X/X"]


def row_file_bytes(pack: Path) -> dict[str, bytes]:
    return {str(file.relative_to(pack)): file.read_bytes() for file in pack.rglob("*.rows")}


def test_a_small_budget_takes_more_passes_to_the_same_files(
    large: tuple[Path, anndata.AnnData], tmp_path: Path
) -> None:
    path, made = large
    assert passes_of(path, tmp_path / "ample", layers="X") == 2
    # 6 bytes a non-zero; a quarter of the budget or less is for windows and counts.
    budget = 300 << 10
    least, most = (1 + np.ceil(6 * made.X.nnz / (budget * share)) for share in (1, 0.75))
    passes = passes_of(path, tmp_path / "small", layers="X", memory_budget=budget)
    assert 4 < least <= passes <= most + 1
    assert row_file_bytes(tmp_path / "small") == row_file_bytes(tmp_path / "ample")
    expect_same_bits(packed_csr(ps.open(tmp_path / "small"), "X", "float32"), made.X)


def test_too_small_a_budget_names_the_least(
    large: tuple[Path, anndata.AnnData], tmp_path: Path
) -> None:
    path, _ = large
    with pytest.raises(
        ps.ResourceExhausted,
        match=r"memory_budget .*20.0 KiB, needed at least .* KiB for 2000 cells",
    ):
        ps.pack(path, tmp_path / "pack", memory_budget="20KiB")
    assert ps.pack(path, tmp_path / "X", layers="X", memory_budget="256KiB").n_obs == 2000
    with pytest.raises(
        ps.ResourceExhausted, match=r"256.0 KiB, needed at least .* KiB to decode"
    ):  # of the layer, which is stored by cells
        ps.pack(path, tmp_path / "pack", memory_budget="256KiB")
    assert ps.pack(path, tmp_path / "pack", memory_budget="1MiB").n_obs == 2000
    with pytest.raises(ps.InvalidArgument, match="memory_budget must be"):
        ps.pack(path, tmp_path / "other", memory_budget="much")


def test_a_cell_larger_than_the_budget_is_packed(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    matrix = sp.csc_matrix(np.ones((3, 60_000), np.float64))
    path = write_zarr(anndata_of(random, matrix), tmp_path / "cells.zarr", version=2, chunk=500)
    # A cell takes 600 kB.
    assert passes_of(path, tmp_path / "pack", layers="X", memory_budget="256KiB") == 4
    expect_same_bits(packed_csr(ps.open(tmp_path / "pack"), "X", "float64"), matrix)


def test_chosen_cells_are_packed(large: tuple[Path, anndata.AnnData], tmp_path: Path) -> None:
    path, made = large
    some = np.random.default_rng(6).random(2000) < 0.1
    seen: list[_core.PackProgress] = []
    packed = ps.pack(
        path, tmp_path / "pack", obs_query=some, layers="X", memory_budget="256KiB", progress=seen.append
    )  # fmt: skip
    assert seen[-1].passes["RNA/X/X"] < 4  # entries of other cells take no memory
    ours = csr_of(ps.Dataset(packed, shuffle=False, sparse=True))
    theirs = made.X.tocsr()[some]
    assert (ours.indices.tolist(), ours.data.tolist()) == (
        theirs.indices.tolist(),
        theirs.data.tolist(),
    )


def test_packing_resumes_with_another_budget(
    large: tuple[Path, anndata.AnnData], tmp_path: Path
) -> None:
    path, made = large
    source = ps.open(path)

    def packer(budget: int) -> _core.Packer:
        return _core.Packer(
            source.engine, str(tmp_path / "pack"), None, [], ["X"], False, 2, 300, budget
        )

    first = packer(256 << 10)
    while first.progress().rows_done < 900:
        assert first.advance(0)
    assert first.progress().pass_number > 2
    assert 0 < first.progress().pass_share <= 1
    del first
    second = packer(1 << 30)
    while second.advance(0):
        pass
    assert second.progress().rows_kept >= 600
    assert second.progress().passes == {"RNA/X/X": 2}
    expect_same_bits(packed_csr(ps.open(tmp_path / "pack"), "X", "float32"), made.X)
    # Nothing is read where all is there.
    third = packer(1 << 30)
    assert not third.advance(0)
    assert third.progress().passes == {}


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    random = np.random.default_rng(9)
    counts = sp.random(
        30_000, 2_000, density=0.2, random_state=random, dtype=np.float32, format="csc"
    )
    counts.data = np.ceil(5 * counts.data)
    made = anndata.AnnData(counts)
    path = write_zarr(made, tmp_path / "cells.zarr", version=3, chunk=50_000)
    small = write_zarr(
        anndata.AnnData(counts[:1000]), tmp_path / "small.zarr", version=3, chunk=50_000
    )
    # All bands would take 72 MB. What comes beside the budget is the tables and the writer's buffers.
    for budget, most in (("16MiB", (16 + 12) << 20), ("200MiB", (200 + 12) << 20)):
        used = memory_of_pack(path, small, tmp_path / f"pack-{budget}", budget)
        assert 0 < used < most, budget
    assert used > 60 << 20  # so that the measurement is of the bands
    expect_same_bits(packed_csr(ps.open(tmp_path / "pack-16MiB"), "X", "float32"), counts)


def test_training_is_refused_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(10)
    made = random_anndata(random, 80, 30)
    made.layers["by genes"] = by_genes(random, 80, 30, "int32")
    path = write_zarr(made, tmp_path / "cells.zarr", version=2)
    experiment = ps.open(path)
    assert experiment.layers() == ["X", "by genes", "counts"]
    assert len(experiment.obs.to_pandas()) == 80
    assert sum(X.shape[0] for X, _ in ps.Dataset(path, layer="counts")) == 80
    for source in (path, {"a": path, "b": path}):
        with pytest.raises(ps.Unsupported, match=REFUSED + r".*cells\.zarr/layers/by genes"):
            Dataset(source, layer="by genes")
    with pytest.raises(ps.Unsupported, match=REFUSED):
        Dataset(path, layer="by genes", cache_dir=tmp_path / "cache")
    assert main(["info", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "csc (stored by genes), zarr v2" in shown
    assert "a loader cannot read this layer: the matrix is stored by genes" in shown
    layer = shown.partition("layer RNA/X/by genes")[2].partition("\n\n")[0]
    assert "an epoch reads" not in layer  # there is none
    assert shown.count("a loader with default settings takes") == 2
    # As the message says.
    assert main(["pack", str(path), str(tmp_path / "cells.pack")]) == 0
    shown = capsys.readouterr().out
    assert "RNA/X/by genes is stored by genes: read in 2 passes with --memory-budget 2GiB" in shown
    packed = ps.open(tmp_path / "cells.pack")
    expect_same_bits(packed_csr(packed, "by genes", "int32"), made.layers["by genes"])
    assert main(["pack", str(path), str(tmp_path / "b.pack"), "--memory-budget", "1KiB"]) == 1
    assert "--memory-budget is too small" in capsys.readouterr().err
    assert main(["pack", str(path), str(tmp_path / "b.pack"), "--memory-budget", "some"]) == 1
    assert "--memory-budget must be" in capsys.readouterr().err


def test_x_by_genes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    for value_type in ("float32", "int32"):
        made = anndata_of(random, by_genes(random, 40, 20, value_type))
        path = write_zarr(made, tmp_path / f"{value_type}.zarr", version=3)
        shutil.rmtree(path / "X" / "data" / "c")
        with pytest.raises(ps.Unsupported, match=REFUSED + rf".*{value_type}\.zarr/X"):
            Dataset(path)


def test_a_collection_by_genes_names_the_dataset(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    random = np.random.default_rng(13)
    root = zarr.open_group(str(tmp_path / "collection.zarr"), mode="w", zarr_format=3)
    root.attrs["encoding-type"] = "annbatch-preshuffled"
    parts = [anndata.AnnData(by_genes(random, 30, 10)) for _ in range(2)]
    parts[0].X = parts[0].X.tocsr()
    with anndata.settings.override(zarr_write_format=3):
        for number, part in enumerate(parts):
            anndata.io.write_elem(root, f"dataset_{number}", part)
    with pytest.raises(ps.Unsupported, match=REFUSED + r".*collection\.zarr/dataset_1/X"):
        Dataset(tmp_path / "collection.zarr")
    packed = ps.pack(tmp_path / "collection.zarr" / "dataset_1", tmp_path / "pack")
    expect_same_bits(packed_csr(packed, "X", "float32"), parts[1].X)


def test_no_cells_are_no_pack(tmp_path: Path) -> None:
    made = anndata.AnnData(sp.csc_matrix((0, 5), dtype=np.float32))
    path = write_zarr(made, tmp_path / "cells.zarr", version=2)
    assert ps.open(path).x("RNA", "X").shape == (0, 5)
    with pytest.raises(ps.InvalidArgument, match="no cell is selected to pack"):
        ps.pack(path, tmp_path / "pack")
    empty = anndata.AnnData(sp.csc_matrix((5, 4), dtype=np.float32))
    path = write_zarr(empty, tmp_path / "empty.zarr", version=2)
    assert packed_csr(ps.pack(path, tmp_path / "pack"), "X", "float32").nnz == 0


def test_damage_is_an_error_with_its_place(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    random = np.random.default_rng(12)
    matrix = sp.csc_matrix(sp.random(50, 20, density=0.3, random_state=random, dtype=np.float32))
    made = anndata.AnnData(matrix)
    path = write_zarr(made, tmp_path / "whole.zarr", version=2, chunk=64)

    def damaged(name: str) -> Any:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        shutil.copytree(path, tmp_path / name)
        return zarr.open_group(str(tmp_path / name), mode="r+", use_consolidated=False)

    def expect(name: str, message: str) -> None:
        with pytest.raises(ps.CorruptData, match=message):
            ps.pack(tmp_path / name, tmp_path / "pack")

    damaged("ids.zarr")["X/indices"][70] = 50
    expect("ids.zarr", r"row ids must be in 0 … 49, but columns .*/ids\.zarr/X/indices")
    damaged("negative.zarr")["X/indices"][70] = -1
    expect("negative.zarr", r"row ids must be in 0 … 49, but columns .*/negative\.zarr/X/indices")
    damaged("falls.zarr")["X/indptr"][3] = 0
    expect("falls.zarr", r"indptr falls from .* to 0 after column 2, in .*falls\.zarr/X/indptr")
    damaged("ends.zarr")["X/indptr"][20] = matrix.nnz + 1
    expect("ends.zarr", r"indptr ends at .*, but data and indices have .*, in .*ends\.zarr/X")
    damaged("short.zarr")["X/data"].resize((matrix.nnz - 1,))
    shutil.rmtree(tmp_path / "short.zarr" / ".zmetadata", ignore_errors=True)
    (tmp_path / "short.zarr" / ".zmetadata").unlink(missing_ok=True)
    expect("short.zarr", r"data and indices must be of one length, .*short\.zarr/X")
    for array in ("data", "indices"):
        damaged("cut.zarr")
        chunk = tmp_path / "cut.zarr" / "X" / array / "1"
        chunk.write_bytes(chunk.read_bytes()[:-9])
        expect("cut.zarr", rf"cut\.zarr/X/{array}/1")
