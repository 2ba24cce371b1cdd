"""Random stores in the form of anndata 0.5 and 0.6: tables are arrays of records, categories lie in uns."""

from __future__ import annotations

import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import zarr
from anndata_cases import dense, rows_of
from hypothesis import given
from hypothesis import strategies as st

LABELS = np.array(["B cell", "T cell", "a long label"], object)


def put(group: zarr.Group, name: str, values: np.ndarray, chunk: int) -> None:
    array = group.create_array(
        name, shape=values.shape, dtype=values.dtype, chunks=(chunk, *values.shape[1:])
    )
    array[...] = values


def write_records(
    group: zarr.Group, name: str, table: dict[str, np.ndarray], rows: int, chunk: int
) -> None:
    kinds = [(column, values.dtype) for column, values in table.items()]
    records = np.zeros(rows, kinds)
    for column, values in table.items():
        records[column] = values
    put(group, name, records, chunk)


def random_table(random: np.random.Generator, rows: int, prefix: str) -> dict[str, np.ndarray]:
    order = str(random.choice(["<", ">"]))
    text = LABELS[random.integers(0, 3, rows)].astype("U")
    return {
        "index": np.array([f"{prefix}-{i}".encode() for i in range(rows)] or [b""], "S9")[:rows],
        "label": random.integers(-1, 3, rows).astype(str(random.choice(["i1", f"{order}i2"]))),
        "count": random.integers(0, 9, rows).astype(f"{order}i8"),
        "score": random.normal(size=rows).astype(f"{order}f{random.choice([4, 8])}"),
        "flag": random.random(rows) < 0.5,
        "text": np.char.encode(text, "utf-8").astype("S12"),
    }


def write_old(path: Path, random: np.random.Generator, rows: int, columns: int, chunk: int) -> None:
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    put(group, "X", random.poisson(1, (rows, columns)).astype(np.float32), chunk)
    put(group, "raw.X", random.poisson(1, (rows, columns + 1)).astype(np.float32), chunk)
    write_records(group, "obs", random_table(random, rows, "cell"), rows, chunk)
    write_records(group, "var", random_table(random, columns, "gene"), columns, chunk)
    wider = random_table(random, columns + 1, "gene")
    write_records(group, "raw.var", wider, columns + 1, chunk)
    uns = group.create_group("uns")
    put(uns, "label_categories", np.char.encode(LABELS.astype("U"), "utf-8"), 3)
    # Too few for all values, so that they are plain numbers (anndata.compat._clean_uns).
    put(uns, "count_categories", np.array([b"only"]), 1)


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(2, 40),
    columns=st.integers(2, 20),
    chunk=st.integers(1, 50),
)
def test_tables_of_records_are_those_of_anndata(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rows: int, columns: int, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("old") / "cells.zarr"
    random = np.random.default_rng(seed)
    write_old(path, random, rows, columns, chunk)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = anndata.read_zarr(path)
    experiment = ps.open(path)
    assert experiment.measurements == ["RNA", "raw"]
    obs, var = experiment.obs.to_pandas(), experiment.var().to_pandas()
    assert isinstance(obs["label"].dtype, pd.CategoricalDtype)
    assert obs["label"].cat.categories.tolist() == wanted.obs["label"].cat.categories.tolist()
    for got, table, names in ((obs, wanted.obs, "obs_names"), (var, wanted.var, "var_names")):
        assert list(got.columns) == ["soma_joinid", names, *table.columns]
        assert got[names].tolist() == table.index.tolist()
        for name in table.columns:
            values = table[name].to_numpy()  # big-endian ones, which pandas does not slice
            missing = table[name].isna().to_numpy()
            assert got[name].isna().to_numpy().tolist() == missing.tolist(), name
            assert got[name].to_numpy()[~missing].tolist() == values[~missing].tolist(), name
    np.testing.assert_array_equal(rows_of(path, layer="X"), dense(wanted.X))
    np.testing.assert_array_equal(rows_of(path, measurement="raw"), dense(wanted.raw.X))
    assert experiment.var("raw").to_pandas()["var_names"].tolist() == list(wanted.raw.var_names)
    some = rows // 2
    plain = ps.Dataset(path, layer="X", obs_query=f"soma_joinid == {some}", shuffle=False)
    ((X, found),) = list(plain)
    assert found["soma_joinid"].tolist() == [some]
    np.testing.assert_array_equal(X, dense(wanted.X)[[some]])


def test_an_array_of_records_is_no_matrix(tmp_path: Path) -> None:
    write_old(tmp_path / "cells.zarr", np.random.default_rng(1), 9, 4, 5)
    group = zarr.open_group(str(tmp_path / "cells.zarr"), mode="r+")
    del group["X"]
    write_records(group, "X", random_table(np.random.default_rng(1), 9, "cell"), 9, 5)
    with pytest.raises(ps.PenstockError, match="X"):
        list(ps.Dataset(tmp_path / "cells.zarr", layer="X"))


def test_a_table_that_is_an_array_of_numbers_is_refused(tmp_path: Path) -> None:
    write_old(tmp_path / "cells.zarr", np.random.default_rng(1), 9, 4, 5)
    group = zarr.open_group(str(tmp_path / "cells.zarr"), mode="r+")
    del group["obs"]
    put(group, "obs", np.arange(9), 5)
    with pytest.raises(ps.CorruptData, match="a group of columns or an array of records"):
        ps.open(tmp_path / "cells.zarr").obs.to_pandas()
