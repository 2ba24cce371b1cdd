"""A function over all batches of a Dataset, in stored order, to one row for each cell."""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.forked_child import keep_torch_from_waiting
from penstock.base.missing_package import require
from penstock.base.validation import described
from penstock.batches.matrix import Tokens
from penstock.dataset.dataset import Dataset
from penstock.dataset.functions import as_dataset
from penstock.errors import InvalidArgument
from penstock.executors.parts import Part, checked_executor, results

from .parts import Parts
from .rows import Rows, check_writer, checked_out, create, finished, joinids_of, rows_file


def map_batches(
    function: Callable[..., Any], ds: Dataset | Any, *, out: Any = None, executor: Any = None
) -> Rows:
    """Call a function with each batch of cells, in stored order, and return a row for each cell.

    Parameters
    ----------
    function : callable or torch.nn.Module
        Takes X and obs of a batch, as ``for X, obs in ds`` gives them, and returns an array or tensor
        of shape (cells,) or (cells, columns). A module takes X alone, as a tensor on its own device,
        in eval mode and without gradients.
    ds : Dataset or source of one
        Cells of all ranks. Shuffle and sampling are left out, so that each cell comes once.
    out : None, "memory" or path
        Destination, as for `penstock.scvi.latent`: an array, a ``.npy`` or a ``.zarr``, also in a
        bucket.
    executor : concurrent.futures.Executor, optional
        Where parts of the cells are mapped; docs/how-to/executors.md. The function and what it holds is sent
        by cloudpickle. Each worker opens the cells by their path. By default this process maps all.

    Returns
    -------
    Rows
        ``values``, (cells,) or (cells, columns), in stored order, and ``joinids``.

    Raises
    ------
    InvalidArgument
        The function does not return one row of one shape and dtype for each cell, no cell is
        selected, or `out` exists and holds something else.
    penstock.executors.PartFailed
        The executor lost a part of the cells, for example because a worker was killed.
    Exception
        What the function raised.

    Examples
    --------
    >>> scores = ps.map_batches(model, ds.with_settings(format="torch"))
    >>> sums = ps.map_batches(lambda X, obs: X.sum(axis=1), ds)
    """
    if not callable(function):
        raise InvalidArgument(f"function must be callable, got {described(function)}")
    path = checked_out(out)
    check_writer(path)
    cells = _each_once(as_dataset(ds))
    if _is_module(function):
        cells = cells.with_settings(format="torch")
    if not cells.n_obs:
        raise InvalidArgument("no cell is selected, so there is nothing to map")
    with rows_file(path) as file:
        values = _Values(cells.n_obs, file if path is not None else None)
        if executor is None:
            for first, rows in _mapped(function, cells, 0):
                values.write(first, rows)
        else:
            require("cloudpickle")
            import cloudpickle

            call = (cloudpickle.dumps((function, cells)),)
            first = min(cells.batch_size, cells.n_obs)
            parts: Iterable[Part] = [Part(f"cells 0 to {first - 1:,}", (0, first, *call))]
            try:
                for _, rows in results(checked_executor(executor), _map_part, parts):
                    values.write(0, rows)
                # Now that a row is known, the others are cut by its size.
                parts = Parts(call, cells.n_obs, cells.batch_size, rows[:1].nbytes, first)
                for part, rows in results(executor, _map_part, parts, parts.at_once):
                    values.write(part.arguments[0], rows)
            finally:
                _loaded.cache_clear()  # of an executor that has threads
        joinids = joinids_of(cells)
        made = values.all
        if path is not None:
            made.flush()
            made = finished(file, joinids, path)
        return Rows(made, joinids, _index_name=cells.obs.index_name)


class _Values:
    """The rows of all cells, made with the first that come."""

    def __init__(self, cells: int, file: Path | None) -> None:
        self._cells = cells
        self._file = file
        self.all: Any = None

    def write(self, first: int, rows: npt.NDArray[Any]) -> None:
        """Write rows from a place on."""
        if self.all is None:
            shape = (self._cells, *rows.shape[1:])
            self.all = (
                np.empty(shape, rows.dtype)
                if self._file is None
                else create(self._file, shape, rows.dtype.str)
            )
        _check_alike(self.all, rows)
        self.all[first : first + len(rows)] = rows


def _check_alike(before: Any, rows: npt.NDArray[Any]) -> None:
    if (rows.shape[1:], rows.dtype) != (before.shape[1:], before.dtype):
        raise InvalidArgument(
            f"function must return rows of one shape and dtype, got {before.shape[1:]} of "
            f"{before.dtype} and {rows.shape[1:]} of {rows.dtype}"
        )


def _each_once(ds: Dataset) -> Dataset:
    # With "exact" batches would be of about equal sizes, which depend on the number of cells.
    return ds.with_settings(shuffle=False, uneven="drop", drop_last=False, min_batch=1, shard=False)


def _mapped(
    function: Callable[..., Any], cells: Dataset, first: int
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield the rows of each batch with the place of its first cell."""
    before = None
    for X, obs in cells:
        rows = _as_rows(_called(function, X, obs), _count(X))
        before = rows if before is None else before
        _check_alike(before, rows)
        yield first, rows
        first += len(rows)


def _count(X: Any) -> int:
    """Return the number of cells of a batch; X of several measurements is a dict."""
    one = next(iter(X.values())) if isinstance(X, dict) else X
    return int((one[0] if isinstance(one, Tokens) else one).shape[0])


def _is_module(function: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _called(function: Callable[..., Any], X: Any, obs: Any) -> Any:
    if not _is_module(function):
        return function(X, obs)
    import torch

    module: Any = function
    device = next((each.device for each in module.parameters()), torch.device("cpu"))

    def moved(x: Any) -> Any:
        return (
            {name: moved(each) for name, each in x.items()} if isinstance(x, dict) else x.to(device)
        )

    with torch.inference_mode(), evaluating(module):
        return module(moved(X))


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a torch module into eval mode, and each of its parts back into its own mode."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, was in modes:
            each.training = was


def _as_rows(made: Any, count: int) -> npt.NDArray[Any]:
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.Tensor):
        made = made.detach().cpu().numpy()
    try:
        rows = np.asarray(made)
    except ValueError:  # rows of several lengths, or (X, obs)
        raise InvalidArgument(
            f"function must return an array with a row for each of the {count:,} cells of a batch, "
            f"got {described(made)}"
        ) from None
    if rows.ndim == 0 or len(rows) != count or rows.dtype.kind not in "biufc":
        raise InvalidArgument(
            f"function must return numbers, a row for each of the {count:,} cells of a batch, got "
            f"{described(made)} of shape {rows.shape}"
        )
    return rows


def _map_part(first: int, end: int, call: bytes) -> npt.NDArray[Any]:
    """Return the rows of a range of cells, on a worker of an executor."""
    keep_torch_from_waiting()
    function, cells = _loaded(call)
    places = np.arange(first, end, dtype=np.uint64)
    part = cells.with_rows(cells.reader.selection.rows.take(places))
    return np.concatenate([rows for _, rows in _mapped(function, part, first)])


@lru_cache(maxsize=1)
def _loaded(call: bytes) -> tuple[Callable[..., Any], Dataset]:
    return pickle.loads(call)  # type: ignore[no-any-return]
