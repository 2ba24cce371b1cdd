"""Transforms of datasets that are pickled, resumed, joined, on a device; random chains of them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from conftest import Oracle, collect
from hypothesis import given
from hypothesis import strategies as st
from transform_cases import all_cells

# --- callables, workers, pickles, states


def halve(X):
    return X * 0.5


def test_python_callables_come_last(soma_small: Oracle) -> None:
    expected = np.log1p(soma_small.X.toarray()) / 2 - 1
    got = all_cells(soma_small, [ps.Log1p(), halve, lambda X: X - 1])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    ds = ps.Dataset(soma_small.path, transforms=[halve], format="torch", sparse=True)
    X, obs = next(iter(ds))
    np.testing.assert_array_equal(
        X.to_dense().numpy(), soma_small.X[np.asarray(obs["soma_joinid"])].toarray() / 2
    )
    with pytest.raises(ps.InvalidArgument, match="must come before Python callables"):
        ps.Dataset(soma_small.path, transforms=[halve, ps.Log1p()])


def test_workers_pickles_and_settings(census_like: Oracle) -> None:
    steps = [ps.NormalizeTotal(totals="raw_sum"), ps.Log1p(), ps.SelectGenes([9, 4, 2]), halve]
    ds = ps.Dataset(census_like.path, transforms=steps, batch_size=500)
    joinids, X = collect(ds)
    ds.set_epoch(0)
    copied = pickle.loads(pickle.dumps(ds))
    again = collect(copied)
    np.testing.assert_array_equal(again[0], joinids)
    np.testing.assert_array_equal(again[1], X)
    cells = dict(zip(joinids.tolist(), X, strict=True))
    for context in ("fork", "spawn"):
        loader = ps.dataloader(ds, num_workers=2, multiprocessing_context=context)
        count = 0
        for batch, obs in loader:
            for row, cell in zip(batch.numpy(), obs["soma_joinid"].tolist(), strict=True):
                np.testing.assert_array_equal(row, cells[cell])
                count += 1
        assert count == len(cells)
    plain = ds.with_settings(transforms=[])
    assert plain.transforms == ()
    assert plain.n_vars == census_like.X.shape[1]
    assert ds.with_settings(batch_size=7).transforms == ds.transforms
    assert "transforms  NormalizeTotal, Log1p, SelectGenes, halve" in repr(ds)
    assert X.shape[1] == ds.head(3)[0].shape[1] == 3


@pytest.mark.parametrize("layout", [False, "csr", "coo"])
def test_on_a_device_and_in_half_dtypes(soma_small: Oracle, layout) -> None:
    steps = [ps.NormalizeTotal(100), ps.Log1p(), ps.SelectGenes(range(300, 100, -1)), halve]
    plain = all_cells(soma_small, steps)
    for arguments in ({"device": "cpu"}, {"device": "cpu", "dtype": "bfloat16"}):
        ds = ps.Dataset(
            soma_small.path, transforms=steps, sparse=layout, format="torch", **arguments
        )
        for X, obs in ds:
            dense = (X.to_dense() if layout else X).float().numpy()
            tolerance = 1e-6 if len(arguments) == 1 else 1e-2
            np.testing.assert_allclose(dense, plain[np.asarray(obs["soma_joinid"])], rtol=tolerance)


def test_of_cells_that_are_drawn(census_like: Oracle) -> None:
    steps = [ps.NormalizeTotal(totals="raw_sum"), ps.Log1p()]
    expected = all_cells(census_like, steps)
    ds = ps.Dataset(
        census_like.path, transforms=steps, balance="cell_type", num_samples=3_000, batch_size=500
    )
    joinids, X = collect(ds)
    assert len(joinids) == 3_000 > len(np.unique(joinids))
    np.testing.assert_array_equal(X, expected[joinids])
    same = ps.gene_statistics(ds)  # of the cells selected, each once
    pd.testing.assert_frame_equal(same, ps.gene_statistics(ds.with_settings(shuffle=False)))


def test_of_joined_experiments(census_like: Oracle) -> None:
    names = census_like.var["feature_id"].tolist()
    wanted = names[700:100:-3]
    both = ps.join({"a": census_like.path, "b": census_like.path}, var_column="feature_id")
    steps = [ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes(wanted)]
    ds = ps.Dataset(both, transforms=steps, shuffle=False, obs_columns=["soma_joinid", "source"])
    expected = all_cells(census_like, [*steps[:2], ps.SelectGenes(wanted, column="feature_id")])
    assert ds.var_names.tolist() == wanted
    assert ds.var.to_pandas(columns=["feature_id"])["feature_id"].tolist() == wanted
    seen = set()
    for X, obs in ds:
        np.testing.assert_array_equal(X, expected[np.asarray(obs["soma_joinid"])])
        seen |= set(zip(obs["source"], obs["soma_joinid"], strict=True))
    assert len(seen) == 2 * len(expected)
    counts = ps.gene_statistics(ps.Dataset(both), group_by="source")["total"]
    totals = np.asarray(census_like.X.sum(axis=0)).ravel()
    np.testing.assert_array_equal(counts.loc["a"], totals)
    np.testing.assert_array_equal(counts.loc["b"], totals)


def test_a_state_resumes_with_the_same_transforms_alone(census_like: Oracle) -> None:
    def dataset(*steps):
        return ps.Dataset(census_like.path, transforms=steps, batch_size=500, memory_budget="64MiB")

    first = dataset(ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes([9, 4, 2]))
    batches = [np.array(X) for X, _ in first]
    first.set_epoch(0)
    epoch = iter(first)
    for _ in range(3):
        next(epoch)
    state = first.state_dict()
    epoch.close()
    second = dataset(ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes([9, 4, 2]))
    second.load_state_dict(state)
    rest = [np.array(X) for X, _ in second]
    assert len(rest) == len(batches) - 3
    for got, expected in zip(rest, batches[3:], strict=True):
        np.testing.assert_array_equal(got, expected)
    for steps in (
        [],
        [ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes([9, 4])],
        [ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes([4, 9, 2])],
        [ps.NormalizeTotal(1e3), ps.Log1p(), ps.SelectGenes([9, 4, 2])],
        [ps.NormalizeTotal(), ps.Log1p(), ps.SelectGenes([9, 4, 2]), halve],
        [ps.NormalizeTotal(totals="raw_sum"), ps.Log1p(), ps.SelectGenes([9, 4, 2])],
        [ps.NormalizeTotal(), ps.Log1p(2), ps.SelectGenes([9, 4, 2])],
    ):
        with pytest.raises(ps.InvalidArgument, match="transforms"):
            dataset(*steps).load_state_dict(state)


def test_the_order_does_not_depend_on_steps_that_keep_the_shape(census_like: Oracle) -> None:
    plain, _ = collect(ps.Dataset(census_like.path, memory_budget="64MiB"))
    logged, _ = collect(
        ps.Dataset(census_like.path, memory_budget="64MiB", transforms=[ps.Log1p()])
    )
    np.testing.assert_array_equal(plain, logged)


# --- random chains


STEPS = st.one_of(
    st.builds(ps.NormalizeTotal, st.sampled_from([1.0, 100.0, 1e4])),
    st.builds(ps.Log1p, st.sampled_from([None, 2.0, 10.0])),
    st.builds(ps.Binarize, st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(ps.Clip, st.sampled_from([None, 0.0, -1.0]), st.sampled_from([None, 1.0, 7.5])),
    st.builds(ps.SelectGenes, st.permutations(range(12)).map(lambda p: p[:9])),
)


def reference(X: np.ndarray, genes: np.ndarray, step) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(step, ps.NormalizeTotal):
        totals = X.sum(axis=1, keepdims=True)
        return X / np.where(totals == 0, 1, totals / step.target_sum), genes
    if isinstance(step, ps.Log1p):
        return np.log1p(X) / (1 if step.base is None else np.log(step.base)), genes
    if isinstance(step, ps.Binarize):
        return (step.threshold < X).astype(X.dtype), genes
    if isinstance(step, ps.Clip):
        low = -np.inf if step.low is None else step.low
        return np.clip(X, low, np.inf if step.high is None else step.high), genes
    places = [int(np.flatnonzero(genes == each)[0]) for each in step.genes]
    return X[:, places], genes[places]


@given(chain=st.lists(STEPS, max_size=4), sparse=st.booleans(), shuffle=st.booleans())
def test_random_chains(soma_small: Oracle, chain, sparse, shuffle) -> None:
    selecting = [step for step in chain if isinstance(step, ps.SelectGenes)]
    if len(selecting) > 1:  # later ones choose among what is there
        chain = [step for step in chain if step not in selecting[1:]]
    X, genes = soma_small.X.toarray().astype(np.float64), np.arange(soma_small.X.shape[1])
    for step in chain:
        X, genes = reference(X, genes, step)
    ds = ps.Dataset(
        soma_small.path, transforms=chain, sparse=sparse, shuffle=shuffle, dtype="float64"
    )
    joinids, got = collect(ds)
    np.testing.assert_allclose(got, X[joinids], rtol=1e-12, atol=1e-12)
    assert ds.n_vars == len(genes)
