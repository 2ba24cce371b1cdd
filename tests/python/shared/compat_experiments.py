"""Small experiments for tests of the compat modules, with the expected batches."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import tiledbsoma
from soma_tables import write_piece


def counts(joinids, n_vars: int = 3) -> np.ndarray:
    """Rows of X: half of the values are 0, the others tell their row and column."""
    rows = np.asarray(joinids, np.float64)[:, None] % 10_000
    columns = np.arange(n_vars)[None, :]
    return np.where((rows + columns) % 2, rows + (columns + 1) / 64, 0).astype(np.float32)


def write_cells(
    path: Path, joinids, n_vars: int = 3, value_type: pa.DataType | None = None
) -> tiledbsoma.Experiment:
    """Write an experiment; obs has the columns label (the joinid as text), kind, score; opened."""
    joinids = np.asarray(joinids)
    obs = pa.table(
        {
            "soma_joinid": joinids,
            "label": pa.array([str(joinid) for joinid in joinids], pa.large_string()),
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(joinids % 2, pa.int8()), pa.array(["even", "odd", "unused"])
            ),
            "score": joinids / 8,
        }
    )
    var = pa.table(
        {
            "soma_joinid": np.arange(n_vars),
            "var_id": pa.array([f"gene{i}" for i in range(n_vars)], pa.large_string()),
        }
    )
    last = int(joinids.max())
    X = sp.coo_matrix(counts(joinids, n_vars))
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        _add_table(experiment, "obs", obs, last)
        ms = experiment.add_new_collection("ms")
        rna = ms.add_new_collection("RNA", tiledbsoma.Measurement)
        _add_table(rna, "var", var, n_vars - 1)
        layers = rna.add_new_collection("X", tiledbsoma.Collection)
        type_ = value_type or pa.float32()
        layer = layers.add_new_sparse_ndarray("raw", type=type_, shape=(last + 1, n_vars))
        data = X.data.astype(type_.to_pandas_dtype())
        layer.write(
            pa.SparseCOOTensor.from_scipy(
                sp.coo_matrix((data, (joinids[X.row], X.col)), (last + 1, n_vars))
            )
        )
    return tiledbsoma.Experiment.open(str(path))


def _add_table(collection, name: str, table: pa.Table, last: int) -> None:
    frame = collection.add_new_dataframe(
        name, schema=table.schema, index_column_names=["soma_joinid"], domain=[(0, last)]
    )
    frame.close()
    write_piece(frame.uri, table)


@contextmanager
def as_process(rank: int = 0, world_size: int = 1, worker: int = 0, num_workers: int = 1):
    """Let this process pass for a rank of torch.distributed, or a DataLoader worker of one."""
    with ExitStack() as stack:
        for name, value in (
            ("is_initialized", True),
            ("get_rank", rank),
            ("get_world_size", world_size),
        ):
            stack.enter_context(patch(f"torch.distributed.{name}", return_value=value))
        if num_workers > 1:
            info = SimpleNamespace(id=worker, num_workers=num_workers, seed=worker + 1)
            stack.enter_context(patch("torch.utils.data.get_worker_info", return_value=info))
        yield
