"""ExperimentDataset: batches of (X, obs) from a tiledbsoma query."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from penstock import _core
from penstock.base.validation import checked_int
from penstock.compat.block_dataset import BlockDataset, BlockEpochs, split_seed
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument, Unsupported
from penstock.experiment.axis_query import AxisQuery
from penstock.experiment.experiment import open_stored
from penstock.experiment.storage_options import of_context
from penstock.plan.epoch_size import part_names, warn_of_empty_parts

from .query_ids import QueryIDs, SamplingMethod, split_joinids
from .x_locator import XLocator

DEFAULT_OBS_COLUMN_NAMES = ("soma_joinid",)
DEFAULT_SHUFFLE_CHUNK_SIZE = 64
DEFAULT_IO_BATCH_SIZE = 2**16


class ExperimentDataset(BlockEpochs, IterableDataset[Any]):
    """Mini-batches of a tiledbsoma ExperimentAxisQuery: an iterable of ``(X, obs)``.

    X is an ndarray of the stored dtype, (cells, genes), with one dimension if `batch_size` is 1.
    With `return_sparse_X`, it is a ``scipy.sparse.csr_matrix``. obs is a pandas DataFrame.

    Parameters
    ----------
    query : tiledbsoma.ExperimentAxisQuery
        Selects cells and genes; needs `layer_name`. Or another source of `penstock.Dataset`.
    layer_name : str
        Layer of X.
    x_locator, query_ids : XLocator, QueryIDs
        Layer and joinids, instead of `query` and `layer_name`.
    obs_column_names : sequence of str, default ("soma_joinid",)
        Columns of obs, one or more.
    batch_size : int, default 1
        Cells in a batch.
    io_batch_size : int, default 65,536
        Least number of cells that are mixed at a time; sets the memory budget (docs/guides/compat.md).
    shuffle : bool, default True
        Whether to shuffle cells; if False, they come in ascending joinid order.
    shuffle_chunk_size : int, default 64
        Must divide `io_batch_size`; otherwise without effect, as Penstock shuffles single cells.
    seed : int, optional
        Seed of the shuffle; drawn by default.
    return_sparse_X : bool, default False
    use_eager_fetch : bool, default True
        Without effect: data are always fetched while batches are used.

    Raises
    ------
    InvalidArgument
        An argument is out of range, or not exactly one of `query` and `x_locator` with `query_ids`
        is given. Also a ValueError.
    NotFound
        A layer or column does not exist. Also a KeyError.
    """

    def __init__(
        self,
        query: Any = None,
        layer_name: str | None = None,
        x_locator: Any = None,
        query_ids: Any = None,
        obs_column_names: Sequence[str] = DEFAULT_OBS_COLUMN_NAMES,
        batch_size: int = 1,
        io_batch_size: int = DEFAULT_IO_BATCH_SIZE,
        shuffle: bool = True,
        shuffle_chunk_size: int = DEFAULT_SHUFFLE_CHUNK_SIZE,
        seed: int | None = None,
        return_sparse_X: bool = False,
        use_eager_fetch: bool = True,
    ) -> None:
        by_query = query is not None and bool(layer_name)
        by_ids = x_locator is not None and query_ids is not None
        anything_else = (x_locator, query_ids) if by_query else (query, layer_name)
        if not (by_query or by_ids) or any(given is not None for given in anything_else):
            raise InvalidArgument(
                "an ExperimentDataset takes either query and layer_name, or x_locator and query_ids"
            )
        self.batch_size = checked_int("batch_size", batch_size, least=1)
        self.io_batch_size = checked_int("io_batch_size", io_batch_size, least=1)
        self.shuffle_chunk_size = checked_int("shuffle_chunk_size", shuffle_chunk_size, least=1)
        if shuffle and io_batch_size % shuffle_chunk_size:
            raise InvalidArgument(
                f"io_batch_size must be a multiple of shuffle_chunk_size, got {io_batch_size} "
                f"and {shuffle_chunk_size}"
            )
        self.shuffle = shuffle
        self.obs_column_names = list(obs_column_names)
        if not self.obs_column_names:
            raise InvalidArgument("obs_column_names must name one column or more, got none")
        self.return_sparse_X = return_sparse_X
        self.use_eager_fetch = use_eager_fetch
        selected = (
            _by_ids(x_locator, query_ids, shuffle) if by_ids else _by_query(query, layer_name)
        )
        with missing_names():
            dataset = Dataset(
                **selected,
                obs_columns=self.obs_column_names,
                obs_format="pandas",
                batch_size=batch_size,
                shuffle=shuffle,
                sparse=return_sparse_X,
            )
        self._blocks = BlockDataset(dataset, self.io_batch_size if shuffle else 0, seed)
        self._x_locator = x_locator if by_ids else _locator(query, dataset)

    # Contents

    @property
    def measurement_name(self) -> str:
        """Name of the measurement."""
        return self.penstock_dataset.reader.selection.measurement

    @property
    def layer_name(self) -> str:
        """Name of the X layer."""
        return self.penstock_dataset.reader.selection.layer

    @property
    def x_locator(self) -> Any:
        """Location of the layer: an XLocator, or the object given as `x_locator`."""
        return self._x_locator

    @property
    def query_ids(self) -> QueryIDs:
        """Joinids of all cells and genes, made on each access; 8 bytes a cell."""
        selection = self.penstock_dataset.reader.selection
        return QueryIDs(
            obs_joinids=selection.rows.to_numpy(), var_joinids=selection.genes.to_numpy()
        )

    @property
    def seed(self) -> int:
        """Seed of the shuffle, given or drawn."""
        return self._blocks.seed

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._blocks.rank_and_world_size[0]

    @property
    def world_size(self) -> int:
        """Number of processes that train together."""
        return self._blocks.rank_and_world_size[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(batches, genes) in an epoch of this process: a rank or a DataLoader worker."""
        return self._blocks.batches_here(), self.penstock_dataset.n_vars

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Any:
        raise Unsupported(
            f"batches cannot be read by number, got [{index}]: iterate over the ExperimentDataset"
        )

    # Iteration

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._blocks)
        if self.batch_size == 1 and not self.return_sparse_X:
            return map(_single_row, batches)
        return batches

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next iterator starts."""
        return self.penstock_dataset.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.set_epoch(epoch)

    def random_split(
        self,
        *fracs: float,
        seed: int | None = None,
        method: SamplingMethod = "stochastic_rounding",
    ) -> tuple[ExperimentDataset, ...]:
        """Split the cells into random parts; equal seeds give the same parts as tiledbsoma_ml.

        For parameters and errors, see `split_joinids`. It needs 16 bytes a cell of memory. On
        several ranks, the default seed is 0.
        """
        joinids = self.penstock_dataset.reader.selection.rows.to_numpy()
        parts = split_joinids(joinids, fracs, split_seed(seed), method)
        warn_of_empty_parts(part_names(len(parts)), [len(part) for part in parts])
        return tuple(self._with_rows(_core.RowSelection.from_unsorted(part)) for part in parts)

    def _with_rows(self, rows: _core.RowSelection) -> ExperimentDataset:
        part = copy.copy(self)
        vars(part).update(_blocks=self._blocks.with_rows(rows))
        return part

    def __repr__(self) -> str:
        return f"ExperimentDataset over {self.penstock_dataset!r}"


def _single_row(batch: Any) -> Any:
    X, obs = batch
    return X[0], obs


def _by_query(query: Any, layer_name: str | None) -> dict[str, Any]:
    return {"source": query, "layer": layer_name}


def _by_ids(x_locator: Any, query_ids: Any, shuffle: bool) -> dict[str, Any]:
    obs_joinids = np.asarray(query_ids.obs_joinids)
    var_joinids = np.asarray(query_ids.var_joinids)
    ordered = [("var_joinids", var_joinids)] + ([] if shuffle else [("obs_joinids", obs_joinids)])
    for name, joinids in ordered:
        if np.any(np.diff(joinids) <= 0):
            raise InvalidArgument(
                f"{name} of query_ids must ascend, as Penstock reads in that order"
            )
    storage = of_context(x_locator.uri, x_locator.tiledb_config)
    return {
        "source": open_stored(
            x_locator.uri, x_locator.tiledb_timestamp_ms, storage_options=storage
        ),
        "measurement": x_locator.measurement_name,
        "layer": x_locator.layer_name,
        "obs_query": AxisQuery(coords=(obs_joinids,)),
        "var_query": AxisQuery(coords=(var_joinids,)),
    }


def _locator(query: Any, dataset: Dataset) -> XLocator:
    selection = dataset.reader.selection
    opened = getattr(query, "experiment", None)
    if hasattr(opened, "context"):
        return XLocator.create(opened, selection.measurement, selection.layer)
    return XLocator(
        uri=selection.experiment.uri,
        measurement_name=selection.measurement,
        layer_name=selection.layer,
        tiledb_timestamp_ms=selection.experiment.timestamp_ms,
        tiledb_config={},
    )
