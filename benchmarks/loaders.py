"""The loaders that are compared, behind one function: open, iterate an epoch, hand batches on.

Heavy imports happen in `imports`, so that their time and memory are told apart from the loader's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Method:
    """A loader with its settings."""

    loader: str  # "penstock" or "tiledbsoma_ml"
    io_batch_size: int | None = None  # tiledbsoma_ml; None is its default
    memory_budget: str | None = None  # penstock; None is its default
    torch: bool = False  # penstock: import torch and yield tensors

    @property
    def label(self) -> str:
        parts = [self.loader]
        if self.io_batch_size is not None:
            parts.append(f"io {self.io_batch_size:,}")
        if self.memory_budget is not None:
            parts.append(self.memory_budget)
        if self.torch:
            parts.append("torch")
        return ", ".join(parts)


@dataclass(frozen=True)
class Work:
    """What is asked of a loader."""

    path: str
    sparse: bool
    batch_size: int = 128
    genes_path: str | None = None  # .npy of the var joinids to select; None is all
    seed: int = 0


@dataclass
class Opened:
    """A loader at work: iterate `batches` for pairs of X and the soma_joinids of its rows."""

    batches: Iterator[tuple[Any, np.ndarray[Any, Any]]]
    epochs: Any = None  # called for the iterator of another epoch
    statistics: Any = dict
    n_batches: int = 0


def imports(method: Method) -> None:
    """Import what the method needs."""
    if method.loader == "tiledbsoma_ml":
        import tiledbsoma  # noqa: F401
        import tiledbsoma_ml  # noqa: F401
    else:
        if method.torch:
            import torch  # noqa: F401
        import penstock
        import scipy.sparse  # noqa: F401

        _ = penstock.Dataset  # what `import penstock` puts off


def versions() -> dict[str, str]:
    """Installed versions of everything that matters here."""
    from importlib import metadata

    names = ("penstock", "tiledbsoma", "tiledbsoma_ml", "torch", "numpy", "scipy", "pandas")
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def open_loader(method: Method, work: Work) -> Opened:
    """Open the experiment with the method's loader; the first epoch's iterator is made lazily."""
    genes = None if work.genes_path is None else np.load(work.genes_path)
    if method.loader == "tiledbsoma_ml":
        return _open_tiledbsoma_ml(method, work, genes)
    return _open_penstock(method, work, genes)


def _open_tiledbsoma_ml(method: Method, work: Work, genes: np.ndarray[Any, Any] | None) -> Opened:
    import tiledbsoma
    from tiledbsoma_ml import ExperimentDataset

    experiment = tiledbsoma.Experiment.open(work.path)
    var_query = None if genes is None else tiledbsoma.AxisQuery(coords=(genes,))
    query = experiment.axis_query(measurement_name="RNA", var_query=var_query)
    settings = {} if method.io_batch_size is None else {"io_batch_size": method.io_batch_size}
    dataset = ExperimentDataset(
        query,
        layer_name="raw",
        obs_column_names=["soma_joinid"],
        batch_size=work.batch_size,
        shuffle=True,
        seed=work.seed,
        return_sparse_X=work.sparse,
        **settings,
    )

    def epoch() -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
        for x, obs in dataset:
            yield x, obs["soma_joinid"].to_numpy()

    return Opened(epoch(), epoch, dict, len(dataset))


def _open_penstock(method: Method, work: Work, genes: np.ndarray[Any, Any] | None) -> Opened:
    import penstock

    settings: dict[str, Any] = {}
    if method.memory_budget is not None:
        settings["memory_budget"] = method.memory_budget
    if genes is not None:
        settings["var_query"] = penstock.AxisQuery(coords=(genes,))
    if method.torch:
        settings["format"] = "torch"
    dataset = penstock.Dataset(
        work.path,
        measurement="RNA",
        layer="raw",
        obs_columns=["soma_joinid"],
        batch_size=work.batch_size,
        shuffle=True,
        seed=work.seed,
        sparse=work.sparse,
        **settings,
    )

    def epoch() -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
        for x, obs in dataset:
            yield x, np.asarray(obs["soma_joinid"])

    return Opened(epoch(), epoch, lambda: _as_dict(dataset.stats), len(dataset))


def _as_dict(statistics: Any) -> dict[str, Any]:
    """The numbers of a statistics object, whatever kind of record it is."""
    if isinstance(statistics, Mapping):
        return dict(statistics)
    names = [name for name in dir(statistics) if not name.startswith("_")]
    values = {name: getattr(statistics, name) for name in names}
    return {k: v for k, v in values.items() if isinstance(v, (int, float, str, bool))}


def n_nonzeros(x: Any) -> int | None:
    """Non-zeros of a sparse batch; None for a dense one, where counting would cost as much as
    loading. torch's CSR tensors have `_nnz`."""
    if hasattr(x, "_nnz") and getattr(x, "layout", None) is not None and "sparse" in str(x.layout):
        return int(x._nnz())
    return int(x.nnz) if hasattr(x, "nnz") else None
