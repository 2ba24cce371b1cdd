"""Experiments with several measurements of the same cells, as tiledbsoma writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp


class Layer(NamedTuple):
    """Values of a measurement, and how they are stored."""

    X: sp.csr_matrix
    tile: tuple[int, int] = (16, 64)
    capacity: int = 128
    dense: bool = False


def random_layer(
    rng: np.random.Generator,
    n_obs: int,
    n_vars: int,
    *,
    dtype: Any = np.float32,
    missing: float = 0.0,
    dense: bool = False,
) -> Layer:
    """Counts in random tiles; a share of the cells has none."""
    X = sp.random(n_obs, n_vars, min(1.0, 8 / n_vars), "csr", np.float64, rng)
    X.data = rng.integers(1, 400, X.nnz).astype(dtype)
    X = X.astype(dtype)
    X = X.multiply(rng.random((n_obs, 1)) >= missing).tocsr().astype(dtype)
    X.eliminate_zeros()
    tile = int(rng.integers(5, 40)), int(rng.integers(8, 80))
    return Layer(X, tile, int(rng.integers(60, 300)), dense)


def write_measurements(
    path: Path, layers: Mapping[str, Layer], obs: pd.DataFrame | None = None
) -> Path:
    """Write an experiment with a layer "raw" for each measurement."""
    import pyarrow as pa
    import tiledbsoma

    n_obs = next(iter(layers.values())).X.shape[0]
    if obs is None:
        obs = pd.DataFrame({"obs_id": [f"cell{i}" for i in range(n_obs)]})
    obs = obs.assign(soma_joinid=np.arange(n_obs))
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        _write_table(experiment, "obs", obs)
        measurements = experiment.add_new_collection("ms")
        for name, layer in layers.items():
            measurement = measurements.add_new_collection(name, tiledbsoma.Measurement)
            n_vars = layer.X.shape[1]
            numbers = np.arange(n_vars)
            names = [f"{name}{i}" for i in numbers]
            var = pd.DataFrame(
                {"soma_joinid": numbers, "var_id": names, "highly_variable": numbers % 2 == 0}
            )
            _write_table(measurement, "var", var)
            chunk = {f"soma_dim_{i}": {"tile": size} for i, size in enumerate(layer.tile)}
            create = {"capacity": layer.capacity, "dims": chunk}
            add = measurement.add_new_collection("X")
            kind = add.add_new_dense_ndarray if layer.dense else add.add_new_sparse_ndarray
            array = kind(
                "raw",
                type=pa.from_numpy_dtype(layer.X.dtype),
                shape=layer.X.shape,
                platform_config={"tiledb": {"create": create}},
            )
            if layer.dense:
                everything = (slice(0, n_obs - 1), slice(0, n_vars - 1))
                array.write(everything, pa.Tensor.from_numpy(layer.X.toarray()))
            else:
                coo = layer.X.tocoo()
                rows, columns = coo.row.astype(np.int64), coo.col.astype(np.int64)
                cells = {"soma_dim_0": rows, "soma_dim_1": columns, "soma_data": coo.data}
                array.write(pa.table(cells))
    return path


def _write_table(collection: Any, name: str, frame: pd.DataFrame) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    written = collection.add_new_dataframe(
        name, schema=table.schema, domain=[(0, max(len(frame) - 1, 0))]
    )
    written.write(table)
