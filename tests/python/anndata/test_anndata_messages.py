"""Errors of joins and patterns of AnnData say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_h5ad, write_zarr
from penstock.cli import main


def test_a_cache_of_a_join_with_objects_in_memory(tmp_path: Path) -> None:
    made = random_anndata(np.random.default_rng(2), 30, 6)
    made.X.sum_duplicates()
    path = write_zarr(made, tmp_path / "x.zarr")
    own = made.copy()
    told = r"in memory may change.*leave cache_dir out, or write mine with write_h5ad and join the path"
    for measurements in (None, ["RNA"]):
        with pytest.raises(ps.Unsupported, match=told):
            ps.Dataset(
                {"mine": own, "stored": path}, cache_dir=tmp_path / "cache",
                **({} if measurements is None else {"measurements": measurements}),
            )  # fmt: skip
    written = write_h5ad(own, tmp_path / "mine.h5ad", "gzip")
    assert ps.Dataset([written, path], layer="X", cache_dir=tmp_path / "cache").n_obs == 60


def test_objects_in_memory_alone_take_a_cache_and_need_none(tmp_path: Path) -> None:
    made = random_anndata(np.random.default_rng(2), 30, 6)
    made.X.sum_duplicates()
    sources: list[Any] = [made, [made, made.copy()], ps.join([made, made.copy()], layer="X")]
    for source in sources:
        layer = {} if source is sources[2] else {"layer": "X"}
        dataset = ps.Dataset(source, cache_dir=tmp_path / "cache", **layer)
        assert sum(len(X) for X, _ in dataset) == dataset.n_obs
        assert dataset.stats.cached_bytes == 0


def test_genes_are_not_matched_by_row_numbers(tmp_path: Path) -> None:
    made = random_anndata(np.random.default_rng(3), 10, 4)
    path = write_h5ad(made, tmp_path / "x.h5ad")
    for sources in ([made, made.copy()], {"a": path, "b": made}):
        with pytest.raises(ps.InvalidArgument, match=r"matched by names.*soma_joinid.*var_column"):
            ps.join(sources, var_column="soma_joinid", layer="X")


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    folder = tmp_path / "atlas"
    folder.mkdir()
    for number in range(3):
        write_h5ad(random_anndata(np.random.default_rng(number), 7, 4), folder / f"{number}.h5ad")
    return folder


def test_patterns_in_a_list_are_expanded(atlas: Path) -> None:
    other = write_h5ad(random_anndata(np.random.default_rng(9), 5, 4), atlas / "other.h5ad")
    for sources in ([str(atlas / "[0-9].h5ad"), other], (other, atlas / "?.h5ad")):
        assert ps.Dataset(sources, layer="counts").n_obs == 26
        assert ps.join(sources, layer="counts").n_obs == 26
        with pytest.raises(ps.InvalidArgument, match="got 4: pack each"):
            ps.pack(sources, atlas / "x.pack")
    with pytest.raises(ps.NotFound, match=r"nothing matches .*\*\.zarr"):
        ps.Dataset([other, str(atlas / "*.zarr")])
    with pytest.raises(ps.InvalidArgument, match=r"one path is opened, not a pattern: join what"):
        ps.Dataset({"some": str(atlas / "*.h5ad"), "other": other})


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_of_zarr_is_no_anndata(tmp_path: Path, version: int) -> None:
    path = write_zarr(
        random_anndata(np.random.default_rng(3), 10, 4), tmp_path / "x.zarr", version=version
    )
    for array in (path / "X" / "data", path / "obs" / "n_genes"):
        told = "a zarr array, not a group: give the folder of the AnnData that it is part of, "
        with pytest.raises(ps.InvalidArgument) as error:
            ps.open(array)
        assert str(error.value) == f"{told}{array}"


def test_info_of_a_pattern_is_that_of_each(atlas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(atlas / "*.h5ad")]) == 0
    capsys.readouterr()
    (atlas / "broken.h5ad").write_bytes(b"nothing")
    assert main(["info", str(atlas / "*.h5ad")]) == 1
    told, error = capsys.readouterr()
    assert f"cannot be read: {atlas}/broken.h5ad" in error
    for number in range(3):
        assert main(["info", str(atlas / f"{number}.h5ad")]) == 0
        assert capsys.readouterr().out in told
    assert f"{atlas}/broken.h5ad: cannot be read: the file is neither" in told
    assert told.endswith(f"3 experiments, 21 cells, in {atlas}/*.h5ad\n")
    assert main(["info", str(atlas / "*.zarr")]) == 1
    assert "nothing matches" in capsys.readouterr().err


def test_a_pattern_is_packed_path_by_path(
    atlas: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = r"one experiment is packed at a time, got 3.*join the packs with penstock\.join"
    paths = sorted(atlas.glob("*.h5ad"))
    for source in (str(atlas / "*.h5ad"), atlas / "*.h5ad", paths, {"a": paths[0], "b": 1, "c": 2}):
        with pytest.raises(ps.InvalidArgument, match=told):
            ps.pack(source, tmp_path / "x.pack")
    assert main(["pack", str(atlas / "*.h5ad"), str(tmp_path / "x.pack")]) == 1
    assert "one experiment is packed at a time" in capsys.readouterr().err
    with pytest.raises(ps.NotFound, match="nothing matches"):
        ps.pack(str(atlas / "*.zarr"), tmp_path / "x.pack")
    assert not list(tmp_path.glob("x.pack*"))


def test_names_of_genes_in_another_column(tmp_path: Path) -> None:
    """Symbols in a column of any name: the error says how to choose by it."""
    made = anndata.AnnData(np.eye(4, 3, dtype=np.float32))
    made.var_names = ["ENSG1", "ENSG2", "ENSG3"]
    made.var["number"] = [1, 2, 3]
    made.var["hgnc"] = pd.Categorical(["CD3D", "NKG7", "LYZ"])
    path = tmp_path / "cells.h5ad"
    made.write_h5ad(path)
    ds = ps.Dataset(path)
    with pytest.raises(
        ps.NotFound,
        match=r"2 of 2 genes not found, the first is 'NKG7'; the column 'hgnc' of var has it: "
        r"transforms=\[ps\.SelectGenes\(names, column='hgnc'\)\]",
    ):
        _ = ds[:, ["NKG7", "CD3D"]]
    with pytest.raises(
        ps.NotFound, match=r"'hgnc' has it: choose by a filter, hgnc in \['CD3D', …\]"
    ):
        ps.Dataset(path, var_query=["NKG7", "CD3D"])
    assert ps.Dataset(path, var_query="hgnc in ['CD3D', 'NKG7']").n_vars == 2
    chosen = ps.Dataset(path, transforms=[ps.SelectGenes(["NKG7", "CD3D"], column="hgnc")])
    X, _ = next(iter(chosen.with_settings(shuffle=False)))
    np.testing.assert_array_equal(X, np.eye(4, 3)[:, [1, 0]])
    with pytest.raises(ps.NotFound, match="missing='zero'"):
        _ = ds[:, ["neither"]]


def test_a_pattern_of_any_folders(tmp_path: Path) -> None:
    for place in ("a.h5ad", "one/b.h5ad", "one/two/c.h5ad"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        made = anndata.AnnData(np.ones((2, 3), np.float32))
        made.write_h5ad(tmp_path / place)
    assert ps.join(f"{tmp_path}/**/*.h5ad").n_obs == 6
    assert ps.join(f"{tmp_path}/*/*.h5ad").n_obs == 2
