"""Categories that come twice, and codes without a category: damage, with file, array and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import zarr
from anndata_cases import random_anndata, write_zarr


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = random_anndata(np.random.default_rng(3), 12, 4)
    made.obs = pd.DataFrame(
        {
            "text": pd.Categorical(list("abca") * 3),
            "number": pd.Categorical([5, 7, 9, 5] * 3),
            "whole": np.arange(12),
        },
        index=made.obs_names,
    )
    return write_zarr(made, tmp_path / "x.zarr")


def uses(path: Path, column: str) -> list[Callable[[], Any]]:
    wanted = "'b'" if column == "text" else "7"
    return [
        lambda: ps.open(path).obs.to_pandas(),
        lambda: ps.open(path).obs.read([column]),
        lambda: list(ps.Dataset(path, layer="X", obs_columns=[column])),
        lambda: ps.Dataset(path, layer="X", obs_query=f"{column} == {wanted}"),
        lambda: list(ps.Dataset(path, layer="X", encoders=[ps.LabelEncoder(column)])),
        lambda: ps.pack(path, path.with_suffix(".pack"), layers="X"),
    ]


@pytest.mark.parametrize("column", ["text", "number"])
@pytest.mark.parametrize("lost", [True, False])
def test_categories_that_come_twice(path: Path, column: str, lost: bool) -> None:
    place = path / "obs" / column / "categories"
    if lost:  # the chunk is the fill value, "" or 0
        (place / "0").unlink()
    else:
        categories = zarr.open_group(str(path), mode="r+")[f"obs/{column}/categories"]
        values = categories[:]
        values[2] = values[0]
        categories[:] = values
    number = 1 if lost else 2
    told = (
        rf"categories must differ, number {number} came before, in .*x.zarr/obs/{column}/categories"
    )
    for use in uses(path, column):
        with pytest.raises(ps.CorruptData, match=told):
            use()
    assert ps.open(path).obs.read(["whole"])["whole"].to_numpy().tolist() == list(range(12))


@pytest.mark.parametrize("column", ["text", "number"])
@pytest.mark.parametrize("code", [3, -2])
def test_codes_without_a_category_name_the_column(path: Path, column: str, code: int) -> None:
    group = zarr.open_group(str(path), mode="r+")
    group[f"obs/{column}/codes"][4] = code
    for use in uses(path, column):
        with pytest.raises(ps.CorruptData, match=rf"'?{column}'?.*x.zarr/obs/{column}"):
            use()
