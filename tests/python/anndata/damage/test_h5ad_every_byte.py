"""A small h5ad with each of its bytes changed in turn; the parts of the test have every byte once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp

PARTS = 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "cells.h5ad"
    X = sp.csr_matrix(np.arange(12, dtype=np.float32).reshape(4, 3))
    kinds = pd.Categorical(["a", "b", "a", "b"])
    obs = pd.DataFrame({"n": [1, 2, 3, 4], "kind": kinds}, index=list("wxyz"))
    anndata.AnnData(X, obs).write_h5ad(path, compression="gzip")
    return path.read_bytes()


def read(path: Path) -> tuple[Any, dict[str, list[str]], dict[str, str]]:
    """X, the columns of obs and var, and the columns that are not read with the reason."""
    experiment = ps.open(path, threads=1)
    dataset = ps.Dataset(experiment, shuffle=False, threads=1)
    X = np.concatenate([X for X, _ in dataset]).tolist()
    columns, unread = {}, {}
    for name, table in (("obs", experiment.obs), ("var", experiment.var())):
        for column, values in table.to_pandas().astype(str).to_dict("list").items():
            columns[f"{name}/{column}"] = values
        for column, reason in table.unread_columns.items():
            unread[f"{name}/{column}"] = reason
    return X, columns, unread


def check(path: Path, wanted: Any) -> str:
    """Read a damaged file: the right data, an error, or a column less whose reason is told.

    What a damaged byte says may be another value, such as another order of bytes: what h5py reads, too.
    """
    try:
        X, columns, unread = read(path)
    except ps.PenstockError:
        return "error"
    assert wanted[0] == X
    for name, values in wanted[1].items():
        if name not in columns:
            assert re.search(r"not read|damaged", unread[name]), unread[name]
        elif columns[name] != values:
            with h5py.File(path) as file:
                assert columns[name] == [str(value) for value in file[name][:]]
    return "right" if len(columns) == len(wanted[1]) else "a column less"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_right_data_an_error_or_a_column_less(part: int, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cells.h5ad"
    path.write_bytes(whole)
    wanted = read(path)
    assert not wanted[2]
    found = Counter()
    for at in range(part, len(whole), PARTS):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF  # never another text: no UTF-8 has such a byte beside ASCII
        path.write_bytes(damaged)
        try:
            found[check(path, wanted)] += 1
        except BaseException:
            print(f"byte {at} of {len(whole)}")
            raise
    assert found["right"] > found["error"] > 0
