"""Columns of obs that only some datasets of an annbatch collection have: missing in the others, as in a join."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from amounts import seeds
from anndata_cases import random_anndata, values_of, write_collection
from collection_cases import collection_of
from penstock.cli import main


def random_datasets(random: np.random.Generator) -> list[anndata.AnnData]:
    datasets = []
    for number in range(random.integers(2, 5)):
        made = random_anndata(random, int(random.integers(1, 9)), 4)
        made.obs_names = [f"{number}-{i}" for i in range(made.n_obs)]
        del made.layers["counts"]
        made.obs = made.obs[random.permutation(list(made.obs.columns))[: random.integers(0, 6)]]
        datasets.append(made)
    return datasets


def expect_columns(path: Path, datasets: list[anndata.AnnData]) -> None:
    got = ps.open(path).obs.to_pandas()
    wanted = pd.concat([made.obs.astype(object) for made in datasets])
    assert got["obs_names"].tolist() == wanted.index.tolist()
    assert set(got.columns) == {"soma_joinid", "obs_names", *wanted.columns}
    for name in wanted.columns:
        assert values_of(got[name]) == values_of(wanted[name]), name


@pytest.mark.parametrize("seed", seeds(5))
def test_columns_are_those_of_any_dataset(tmp_path: Path, seed: int) -> None:
    datasets = random_datasets(np.random.default_rng(seed))
    path = write_collection(tmp_path / "c.zarr", datasets)
    expect_columns(path, datasets)
    joined = ps.join([ps.open(path / f"dataset_{i}") for i in range(len(datasets))], layer="X")
    obs, of_join = ps.open(path).obs.to_pandas(), joined.obs.to_pandas()
    for name in set(obs.columns) - {"soma_joinid"}:
        assert values_of(obs[name]) == values_of(of_join[name]), name


@pytest.fixture
def three(tmp_path: Path) -> tuple[Path, list[anndata.AnnData]]:
    """The second dataset has neither score nor type; the last alone has donor."""
    datasets = []
    for number in range(3):
        made = random_anndata(np.random.default_rng(number), 5, 4)
        made.obs = pd.DataFrame(
            {"score": np.arange(5) + 10 * number, "type": pd.Categorical(list("abbab"))},
            index=[f"{number}-{i}" for i in range(5)],
        )
        datasets.append(made)
    datasets[1].obs = datasets[1].obs[[]]
    datasets[2].obs["donor"] = list("xyxyy")
    return write_collection(tmp_path / "c.zarr", datasets), datasets


def test_filters_and_batches(three: tuple[Path, list[anndata.AnnData]]) -> None:
    path, _ = three
    chosen = {
        "score >= 3": [3, 4, 10, 11, 12, 13, 14],
        "type == 'a'": [0, 3, 10, 13],
        "type != 'a'": [1, 2, 4, 11, 12, 14],
        "donor in ['x']": [10, 12],
    }
    for query, rows in chosen.items():
        dataset = ps.Dataset(path, layer="X", obs_query=query, shuffle=False, batch_size=20)
        ((_, obs),) = list(dataset)
        assert obs["soma_joinid"].tolist() == rows, query
    dataset = ps.Dataset(
        path, layer="X", obs_columns=["soma_joinid", "type", "donor"], shuffle=False, batch_size=20
    )
    ((_, obs),) = list(dataset)
    assert [value if isinstance(value, str) else None for value in obs["donor"]] == [
        *[None] * 10,
        *"xyxyy",
    ]
    some = ps.open(path).obs.with_rows(ps.open(path).obs.select("soma_joinid == 7"))
    assert some.to_pandas()["donor"].isna().tolist() == [True]


def test_filters_are_those_of_a_join(three: tuple[Path, list[anndata.AnnData]]) -> None:
    path, datasets = three
    joined = ps.join([ps.open(path / f"dataset_{i}") for i in range(len(datasets))], layer="X")
    for query in (
        "type not in ['a']",
        "donor == None",
        "donor != None",
        "score < 3",
        "score != 3",
        "donor == 'x' or score > 2",
        "type == None and score == None",
    ):
        found, wanted = (
            obs.read(["obs_names"], value_filter=query)["obs_names"].to_numpy().tolist()
            for obs in (ps.open(path).obs, joined.obs)
        )
        assert found == wanted, query
        assert 0 < len(found) < 15


def test_a_pack_has_the_columns(three: tuple[Path, list[anndata.AnnData]], tmp_path: Path) -> None:
    path, datasets = three
    expect_columns(path, datasets)
    ps.pack(path, tmp_path / "c.pack", layers="X")
    expect_columns(tmp_path / "c.pack", datasets)


def test_numbers_get_a_type_that_holds_all(tmp_path: Path) -> None:
    datasets = []
    for number, kind in enumerate(["int8", "int64", "float32"]):
        made = random_anndata(np.random.default_rng(number), 3, 4)
        made.obs = pd.DataFrame({"n": np.arange(3).astype(kind)}, index=made.obs_names)
        datasets.append(made)
    path = write_collection(tmp_path / "c.zarr", datasets)
    obs = ps.open(path).obs.to_pandas()
    assert obs["n"].dtype == np.float64
    assert obs["n"].tolist() == [0, 1, 2] * 3


def test_values_of_two_kinds_name_the_datasets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, each = collection_of(
        tmp_path / "c.zarr",
        {"n": [1, 2, 3], "other": [1.5, 2.5, 3.5]},
        {"n": ["a", "b", "c"], "other": [4.5, 5.5, 6.5]},
    )
    obs = ps.open(path).obs
    told = r"column 'n' holds int64 in '.*dataset_0/obs', string in '.*dataset_1/obs'"
    for columns in (None, ["n"], ["other", "n"]):
        with pytest.raises(ps.InvalidArgument, match=told):
            obs.to_pandas(columns=columns)
    with pytest.raises(ps.InvalidArgument, match=r"column 'n' holds"):
        next(iter(ps.Dataset(path, obs_columns=["n"])))
    with pytest.raises(ps.InvalidArgument, match=told):
        ps.pack(path, tmp_path / "c.pack")
    assert obs.read(["other"])["other"].to_numpy().tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    dataset = ps.Dataset(path, obs_query="other > 3", obs_columns=["other"], shuffle=False)
    assert [table["other"].tolist() for _, table in dataset] == [[3.5, 4.5, 5.5, 6.5]]
    assert "n" in ps.join(each).obs.columns
    assert "n" in obs.columns
    assert main(["info", str(path)]) == 0
    assert "obs: 6 cells" in capsys.readouterr().out


def test_values_of_x_of_two_types_name_the_datasets(tmp_path: Path) -> None:
    datasets = []
    for number, kind in enumerate(["float32", "float64", "float32"]):
        made = random_anndata(np.random.default_rng(number), 5, 4, value_type=kind)
        made.obs = made.obs[[]]
        datasets.append(made)
    path = write_collection(tmp_path / "c.zarr", datasets)
    told = (
        r"of one type, found float32 in .*/dataset_0, float64 in .*/dataset_1, in the layer 'X'; "
        r"join the datasets with penstock\.join"
    )
    with pytest.raises(ps.InvalidArgument, match=told):
        ps.Dataset(path, layer="X")
    joined = ps.join([path / f"dataset_{i}" for i in range(3)], layer="X")
    assert sum(len(X) for X, _ in ps.Dataset(joined)) == 15
