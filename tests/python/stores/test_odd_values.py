"""Every public argument accepts an odd value or raises a Penstock error."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
from conftest import Oracle
from odd_values import DATASET, VALUES, calls


@pytest.fixture(scope="module")
def ds(soma_small: Oracle) -> ps.Dataset:
    return ps.Dataset(soma_small.path, sparse=True, obs_columns=["cell_type"])


def refused(call: Any, name: str) -> str | None:
    """What is wrong with how a call takes the odd value of that name; None for nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(VALUES[name]())
        except ps.PenstockError:
            return None
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("argument", DATASET)
def test_arguments_of_a_dataset(
    soma_small: Oracle, tmp_path: Path, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # cache_dir makes folders
    more: list[dict[str, Any]] = [{}]
    if argument in ("rank", "world_size"):
        more.append({"rank": 0} if argument == "world_size" else {"world_size": 2})
    if argument in ("chunk_size", "chunks_per_block"):
        more.append({"shuffle": "chunks"})
    wrong = []
    for name in VALUES:
        for given in more:

            def call(value: Any, given: dict[str, Any] = given) -> Any:
                return ps.Dataset(soma_small.path, **given, **{argument: value})

            wrong.append(refused(call, name))
    assert not [each for each in wrong if each]


@pytest.mark.parametrize("argument", ["chunk_size", "chunks_per_block"])
@pytest.mark.parametrize("size", [0, False, "", []])
def test_sizes_of_chunks_are_refused_elsewhere(ds: ps.Dataset, argument: str, size: Any) -> None:
    for make in (lambda **given: ps.Dataset(ds.experiment, **given), ds.with_settings):
        with pytest.raises(ps.InvalidArgument, match=f"{argument} needs shuffle='chunks'"):
            make(**{argument: size})
    assert ds.with_settings(batch_size=2).with_settings(shuffle="chunks", chunk_size=3)


def test_other_calls(ds: ps.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = [
        f"{what}, {problem}"
        for what, call in calls(ds, tmp_path / "pack").items()
        for name in VALUES
        if (problem := refused(call, name))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_public_call_is_tried(ds: ps.Dataset, tmp_path: Path) -> None:
    """One that is added later is missing here."""
    tried = {each.partition("(")[0] for each in calls(ds, tmp_path)}
    untried = {
        "AxisQuery",  # "coords", "value_filter"
        "ColumnValues", "DataFrame", "Encoder", "Experiment", "JoinedExperiment", "LoaderStats", "RankTokens",
        "ShuffleReport", "Tokens", "Transform", "census_releases", "find_rank",
        "open_census",
    }  # fmt: skip
    public = {
        name
        for name in ps.__all__
        if callable(value := getattr(ps, name))
        and not (inspect.isclass(value) and issubclass(value, Exception))
    }
    assert public - tried - untried == set()
