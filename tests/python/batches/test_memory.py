"""Memory estimates against the memory in use."""

from __future__ import annotations

import re

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp

tiledbsoma = pytest.importorskip("tiledbsoma")

N_OBS, N_VAR, STEP = 24_000, 500, 4


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Cells whose joinids are multiples of 4, as after many deletes."""
    path = str(tmp_path_factory.mktemp("gaps") / "experiment")
    rng = np.random.default_rng(3)
    joinids = np.arange(0, N_OBS, STEP)
    counts = sp.random(len(joinids), N_VAR, density=0.6, random_state=rng, dtype=np.float32)
    counts.data = np.floor(1 + 50 * counts.data).astype(np.float32)
    with tiledbsoma.Experiment.create(path) as experiment:
        obs = pa.table({"soma_joinid": joinids, "half": joinids // STEP % 2})
        frame = experiment.add_new_dataframe(
            "obs",
            schema=obs.schema,
            index_column_names=["soma_joinid"],
            domain=[[0, N_OBS - 1]],
        )
        frame.write(obs)
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = pa.table({"soma_joinid": np.arange(N_VAR)})
        frame = rna.add_new_dataframe(
            "var", schema=var.schema, index_column_names=["soma_joinid"], domain=[[0, N_VAR - 1]]
        )
        frame.write(var)
        layer = rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw",
            type=pa.float32(),
            shape=(N_OBS, N_VAR),
            platform_config={
                "tiledb": {
                    "create": {"capacity": 4096, "dims": {"soma_dim_0": {"tile": 1024}}},
                }
            },
        )
        rows = joinids[counts.row]
        whole = sp.coo_matrix((counts.data, (rows, counts.col)), shape=(N_OBS, N_VAR))
        layer.write(pa.SparseCOOTensor.from_scipy(whole))
    return path


def _least_budget(**arguments: object) -> int:
    with pytest.raises(ps.ResourceExhausted) as refusal:
        next(iter(ps.Dataset(memory_budget=10_000, **arguments)))
    found = re.search(r"needed at least (\d+) bytes", str(refusal.value))
    assert found
    return int(found.group(1))


@pytest.mark.parametrize("query", [None, "half == 1"])
def test_gaps_among_joinids_do_not_spill(gaps: str, query: str | None) -> None:
    arguments = {"source": gaps, "obs_query": query, "sparse": True, "batch_size": 32}
    least = _least_budget(**arguments)
    dataset = ps.Dataset(memory_budget=least, **arguments)
    assert sum(X.shape[0] for X, _ in dataset) == dataset.n_obs
    assert dataset.stats.spilled_bytes == 0
    assert dataset.stats.peak_buffered_bytes <= least
    with pytest.raises(ps.ResourceExhausted):
        next(iter(ps.Dataset(memory_budget=least - 1, **arguments)))
