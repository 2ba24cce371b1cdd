"""X in hundreds of overlapping fragments, with deletes; tiledb is the oracle."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp

tiledb = pytest.importorskip("tiledb")
tiledbsoma = pytest.importorskip("tiledbsoma")

N_OBS, N_VARS, N_FRAGMENTS = 400, 60, 300


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every cell is written some ten times; each thirtieth commit deletes some of what is there."""
    uri = str(tmp_path_factory.mktemp("many") / "e")
    context = tiledbsoma.SOMATileDBContext(timestamp=1)
    with tiledbsoma.Experiment.create(uri, context=context) as experiment:
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        for parent, name, rows in ((experiment, "obs", N_OBS), (rna, "var", N_VARS)):
            joinids = pa.table({"soma_joinid": pa.array(range(rows), pa.int64())})
            frame = parent.add_new_dataframe(name, schema=joinids.schema, domain=[(0, rows - 1)])
            frame.write(joinids).close()
        rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw",
            type=pa.int32(),
            shape=(N_OBS, N_VARS),
            platform_config={"tiledb": {"create": {"capacity": 256, "allows_duplicates": False}}},
        ).close()
    layer = f"{uri}/ms/RNA/X/raw"
    rng = np.random.default_rng(3)
    for number in range(N_FRAGMENTS):
        begin = rng.integers(0, N_OBS - 40)
        cells = rng.choice(40 * N_VARS, 800, replace=False) + begin * N_VARS
        with tiledb.open(layer, "w", timestamp=10 + 2 * number) as array:
            array[cells // N_VARS, cells % N_VARS] = rng.integers(1, 9, 800).astype(np.int32)
        if number % 30 == 29:
            with tiledb.open(layer, "d", timestamp=11 + 2 * number) as array:
                array.query(cond=f"soma_dim_0 < {rng.integers(N_OBS)} and soma_data > 6").submit()
    assert len(tiledb.array_fragments(layer)) == N_FRAGMENTS
    return Path(uri)


def stored(uri: Path, timestamp: int | None) -> np.ndarray:
    with tiledb.open(f"{uri}/ms/RNA/X/raw", timestamp=timestamp) as array:
        read = array[:, :]
    dense = np.zeros((N_OBS, N_VARS), np.int32)
    dense[read["soma_dim_0"], read["soma_dim_1"]] = read["soma_data"]
    return dense


@pytest.mark.parametrize("state", ["fragments", "partly consolidated", "consolidated"])
def test_the_last_write_wins_and_deletes_hold(rewritten: Path, tmp_path: Path, state: str) -> None:
    uri = tmp_path / "e"
    shutil.copytree(rewritten, uri)
    layer = f"{uri}/ms/RNA/X/raw"
    if state != "fragments":
        fragments = tiledb.array_fragments(layer).uri
        some = fragments[:120] if state.startswith("partly") else fragments
        tiledb.consolidate(layer, fragment_uris=[Path(each).name for each in some])
        tiledb.vacuum(layer)
        assert len(tiledb.array_fragments(layer)) == (181 if state.startswith("partly") else 1)
    for timestamp in (None, 150, 400):
        expected = stored(uri, timestamp)
        assert np.count_nonzero(expected) > 0
        for sparse, shuffle in ((True, True), (True, "global"), (False, False)):
            ds = ps.Dataset(
                ps.open(uri, timestamp=timestamp),
                sparse=sparse,
                shuffle=shuffle,
                dtype="int32",
                batch_size=64,
                memory_budget="64MiB",
            )
            batches = list(ds)
            joinids = np.concatenate([obs["soma_joinid"] for _, obs in batches])
            assert sorted(joinids) == list(range(N_OBS))
            got = [X.toarray() if sp.issparse(X) else X for X, _ in batches]
            np.testing.assert_array_equal(np.concatenate(got), expected[joinids])
