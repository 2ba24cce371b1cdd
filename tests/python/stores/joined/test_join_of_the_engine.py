"""join_experiments of C++, against anndata.concat and the join of the Python package."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from joined_experiments import GENES, expected, paths, write_three
from penstock import _core
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment


def engine_join(joined: ps.JoinedExperiment, genes) -> _core.Experiment:
    """The join of the same experiments by the engine."""
    listed = not isinstance(genes, str)
    return _core.join_experiments(
        [
            _core.JoinExperiment(
                each.engine, name, joined._measurements[name], joined._layers[name]
            )
            for name, each in joined.experiments.items()
        ],
        _core.JoinGenes.listed if listed else getattr(_core.JoinGenes, genes),
        list(genes) if listed else [],
        "",
        "source",
    )


def fields(table) -> list[tuple]:
    return [
        (c.name, c.is_index, c.nullable, c.enumerated, c.ordered, c.is_string, c.stored_bytes)
        for c in table.columns
    ]


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """The package has categories of numbers as float64 if an experiment lacks the column."""
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.categories.dtype != object:
            frame[name] = column.cat.rename_categories(column.cat.categories.astype(float))
    return frame


def assert_same_tables(core: _core.Experiment, joined: ps.JoinedExperiment, filters) -> None:
    measurement = joined.measurement
    assert core.measurements() == joined.measurements
    assert core.layers(measurement) == joined.layers(measurement)
    assert core.default_layer(measurement) == joined.default_layer(measurement)
    assert core.uri == joined.uri
    assert fields(core.obs()) == fields(joined.engine.obs())
    obs = DataFrame(core.obs(), "obs")
    assert len(obs) == len(joined.obs)
    for text in filters:
        kept = core.obs().select(text)
        assert kept.to_numpy().tolist() == joined.obs.select(text or None).to_numpy().tolist()
        half = _core.RowSelection.from_unsorted(kept.to_numpy()[::2])
        for ours, theirs, value_filter in [
            (obs, joined.obs, text or None),
            (obs.with_rows(half), joined.obs.with_rows(half), None),
        ]:
            pd.testing.assert_frame_equal(
                comparable(ours.to_pandas(value_filter=value_filter)),
                comparable(theirs.to_pandas(value_filter=value_filter)),
            )
    var = DataFrame(core.var(measurement), "var")
    pd.testing.assert_frame_equal(var.to_pandas(), joined.var(measurement).to_pandas())


def x_of(core: _core.Experiment) -> anndata.AnnData:
    return ps.Dataset(Experiment(core, None, 0), dtype="float64").to_anndata()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory):
    return write_three(tmp_path_factory.mktemp("joined"))


@pytest.mark.parametrize("genes", ["inner", "outer", GENES[140:20:-1]])
def test_soma_experiments(three, genes) -> None:
    joined = ps.join(paths(three), genes=genes)
    core = engine_join(joined, genes)
    filters = [
        "", "source == 'gut'", "source != 'gut' and n < 40", "cell_type in ['NK', 'monocyte']",
        "smoker == True or ok == False", "smoker == None",
    ]  # fmt: skip
    assert_same_tables(core, joined, filters)
    whole = expected(three, "outer", genes) if isinstance(genes, list) else expected(three, genes)
    data = x_of(core)
    np.testing.assert_array_equal(data.X.toarray(), whole[:, data.var_names].X.toarray())
    for text in ["symbol == 'g050'", "symbol != 'g050' and length == 120"]:
        kept = core.var("RNA").select(text).to_numpy()
        assert kept.tolist() == joined.var().select(text).to_numpy().tolist()


def random_part(random: np.random.Generator, all_columns: bool) -> anndata.AnnData:
    """Cells with some of 12 genes, in an order of their own, and some columns."""
    names = random.permutation([f"G{i}" for i in range(1, 12)])[: random.integers(0, 12)]
    names = random.permutation([*names, "G0"])
    made = random_anndata(random, int(random.integers(0, 30)), len(names))
    made.X.sum_duplicates()
    made.var_names = names
    if not all_columns:
        made.obs = made.obs[[name for name in made.obs if random.random() < 0.7]]
    for name in ("n_genes", "small"):
        if name in made.obs and random.random() < 0.5:
            made.obs[name] = made.obs[name].astype(random.choice(["int16", "uint32", "float64"]))
    return made


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["inner", "outer"]))
def test_random_anndata(seed: int, genes: str) -> None:
    random = np.random.default_rng(seed)
    parts = {f"e{i}": random_part(random, i == 0) for i in range(random.integers(1, 5))}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = {
            name: each
            if random.random() < 0.3
            else write_zarr(each, Path(folder) / name, version=int(random.choice([2, 3])))
            for name, each in parts.items()
        }
        joined = ps.join(stored, genes=genes)
        core = engine_join(joined, genes)
        filters = [
            "", "source != 'e0'", "n_genes > 4000 or doublet == True", "category == 'B cell'",
            "text != '' and maybe == None", "small < 0 and score > 0", "ordered == 1",
        ]  # fmt: skip
        assert_same_tables(core, joined, filters)
        whole = anndata.concat(parts, join=genes, fill_value=0)
        if whole.n_obs:
            data = x_of(core)
            np.testing.assert_array_equal(data.X.toarray(), whole[:, data.var_names].X.toarray())
            assert set(data.var_names) == set(whole.var_names)
