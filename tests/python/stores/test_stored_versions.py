"""Experiments written by tiledbsoma 1.2 to 2.3, against stored results of those versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import GENERATED, collect
from soma_tables import as_objects

FORMATS = dict(zip(GENERATED, [{18}, {19}, {20}, {21}, {22}, {22}, {18, 22}], strict=True))


def beside(experiment: Path, suffix: str) -> Path:
    return experiment.with_name(f"{experiment.name}.{suffix}")


def read_npz(path: Path) -> sp.csr_matrix:
    with np.load(path) as arrays:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        return sp.csr_matrix(parts, shape=arrays["shape"])


@pytest.mark.parametrize("archive", GENERATED)
def test_fragments_and_schemas_are_of_the_version(
    archive: str, unpacked: Callable[[str], Path]
) -> None:
    path = unpacked(archive)
    fragments = [f.name for f in path.rglob("__fragments/__*")]
    assert {int(name.rsplit("_", 1)[1]) for name in fragments} == FORMATS[archive]
    schemas = [f for f in path.rglob("__schema/__*") if f.is_file()]
    assert {int.from_bytes(f.read_bytes()[:4], "little") for f in schemas} == FORMATS[archive]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("archive", GENERATED)
def test_cells_are_those_that_the_writer_read(
    archive: str, shuffle: bool, unpacked: Callable[[str], Path]
) -> None:
    path = unpacked(archive)
    expected = read_npz(beside(path, "expected.npz"))
    for sparse in (False, True):
        ds = ps.Dataset(path, sparse=sparse, shuffle=shuffle, batch_size=64)
        joinids, rows = collect(ds)
        assert len(set(joinids.tolist())) == ds.n_obs > 250
        np.testing.assert_array_equal(rows, expected[joinids].toarray())


@pytest.mark.parametrize("archive", GENERATED)
def test_obs_is_what_the_writer_read(archive: str, unpacked: Callable[[str], Path]) -> None:
    path = unpacked(archive)
    frame = ps.open(path).obs.to_pandas()
    expected = pd.read_csv(beside(path, "obs.csv"), float_precision="round_trip")
    assert set(frame.columns) == set(expected.columns)
    for name in expected.columns:
        column = expected[name]
        if frame[name].dtype == np.float32:
            column = column.astype(np.float32)
        assert as_objects(frame[name]) == as_objects(column), name


def answers(path: Path) -> dict:
    return json.loads(beside(path, "answers.json").read_text())


def test_what_tiledbsoma_2_deleted_and_wrote_at_every_time(
    unpacked: Callable[[str], Path],
) -> None:
    """Deletes of rows by filter and joinid, of cells of X by ranges, and cells written again."""
    path = unpacked("soma-2.3.0-small")
    assert len(list(path.rglob("*.del"))) == 6
    states = answers(path)["states"]
    assert len({(len(state["rows"]), sum(state["cells"])) for state in states}) == len(states)
    for state in states:
        experiment = ps.open(path, timestamp=state["timestamp"])
        rows = state["rows"]
        assert experiment.obs.to_pandas()["soma_joinid"].tolist() == rows
        assert experiment.obs.select().to_numpy().tolist() == rows
        joinids, x = collect(ps.Dataset(experiment, sparse=True, batch_size=50, shuffle=False))
        assert joinids.tolist() == rows
        assert np.count_nonzero(x, axis=1).tolist() == [state["cells"][i] for i in rows]
        assert x.sum(axis=1).tolist() == [state["sums"][i] for i in rows]


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_filters_keep_what_tiledbsoma_2_keeps(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("soma-2.3.0-small")
    obs = ps.open(path).obs
    filters = answers(path)["filters"]
    assert len(filters) > 30
    for entry in filters:
        text, rows = entry["filter"], entry["rows"]
        if rows is None:
            with pytest.raises(ps.InvalidArgument):
                obs.select(text)
            continue
        assert obs.select(text).to_numpy().tolist() == rows, text
        assert obs.to_pandas(["soma_joinid"], text)["soma_joinid"].tolist() == rows, text
        ds = ps.Dataset(path, obs_query=text, sparse=True, shuffle=False)
        assert collect(ds)[0].tolist() == rows, text
