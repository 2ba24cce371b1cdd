"""ExperimentDataPipe and experiment_dataloader."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import torch.utils.data
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from penstock import _core
from penstock.base.validation import checked_int, checked_names, described
from penstock.compat.block_dataset import BlockDataset, BlockEpochs
from penstock.compat.block_loader import block_loader
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder as NativeEncoder
from penstock.errors import InvalidArgument, Unsupported
from penstock.plan.splits.random_split import random_split
from penstock.plan.stats import LoaderStats

from .encoders import Encoder, LabelEncoder
from .obs_tensors import ObsTensors, coo_tensor

ObsAndXDatum: TypeAlias = tuple[Tensor, Tensor]
"""(X, obs); each of rank 1 when the batch size is 1, else of rank 2."""

Encoders: TypeAlias = dict[str, Encoder]
"""Name to encoder."""

_NOT_SUPPORTED = ("shuffle", "batch_size", "sampler", "batch_sampler", "collate_fn")


@dataclass
class Stats:
    """Statistics of a pipe over all epochs.

    Attributes
    ----------
    n_obs, nnz : int
        Cells and non-zeros in the yielded batches.
    elapsed : float
        Seconds that the consumer waited for batches.
    n_soma_chunks : int
        Fetch units read; they are Penstock's chunks.
    """

    n_obs: int = 0
    nnz: int = 0
    elapsed: float = 0
    n_soma_chunks: int = 0

    def __str__(self) -> str:
        return (
            f"n_soma_chunks={self.n_soma_chunks}, n_obs={self.n_obs}, nnz={self.nnz}, "
            f"elapsed={timedelta(seconds=self.elapsed)}"
        )

    def __add__(self, other: Stats) -> Stats:
        """Add to this object in place, as in the Census."""
        self.n_obs += other.n_obs
        self.nnz += other.nnz
        self.elapsed += other.elapsed
        self.n_soma_chunks += other.n_soma_chunks
        return self

    def plus(self, epoch: LoaderStats) -> Stats:
        """Return the sum of these counts and the counts of an epoch."""
        return Stats(
            self.n_obs + epoch.cells,
            self.nnz + epoch.nonzeros,
            self.elapsed + epoch.consumer_wait_seconds,
            self.n_soma_chunks + epoch.units,
        )


class ExperimentDataPipe(BlockEpochs, IterableDataset[ObsAndXDatum]):
    """Mini-batches of a SOMA experiment: an iterable of tensors ``(X, obs)``.

    X is (cells, genes) in the stored dtype, as a sparse COO tensor with `return_sparse_X`. obs is
    (cells, encoders) in a dtype for all columns (int64 for labels). If `batch_size` is 1, both are
    a single row, with one dimension.

    Parameters
    ----------
    experiment : tiledbsoma.Experiment
        The experiment, open for reading, or another source of `penstock.Dataset`.
    measurement_name, X_name : str, default "RNA", "raw"
        Measurement and layer of X.
    obs_query, var_query : tiledbsoma.AxisQuery, optional
        Cells and genes to select; all by default.
    obs_column_names : sequence of str
        Columns of obs, each encoded by a `LabelEncoder`.
    batch_size : int, default 1
        Cells in a batch.
    shuffle : bool, default True
        Whether to shuffle cells; if False, they come in ascending joinid order.
    seed : int, optional
        Seed of the shuffle; drawn by default.
    return_sparse_X : bool, default False
    soma_chunk_size, shuffle_chunk_count : int, optional, default 64 and 2000
        Their product is the least number of cells that are mixed at a time. It sets the memory
        budget (docs/guides/compat.md).
    use_eager_fetch : bool, default True
        Without effect: data are always fetched while batches are used.
    encoders : list of Encoder, optional
        Encoders with distinct names, instead of `obs_column_names`.
    max_batches : int, optional
        Batches after which an epoch ends; None or 0: all. Only without DataLoader workers.
    uneven : {"drop", "pad", "exact"}, default "drop"
        What happens to cells that do not divide among ranks, as for `penstock.Dataset`.
    shard : bool, default True
        Whether a rank has a part of the cells. With False each process has all of them: give False
        if something else divides the batches, such as Accelerate's ``prepare``.

    Raises
    ------
    InvalidArgument
        An argument is out of range, `obs_column_names` is given with `encoders`, or two encoders
        have one name. Also a ValueError.
    NotFound
        A layer or column does not exist. Also a KeyError.
    """

    def __init__(
        self,
        experiment: Any,
        measurement_name: str = "RNA",
        X_name: str = "raw",
        obs_query: Any = None,
        var_query: Any = None,
        obs_column_names: Sequence[str] = (),
        batch_size: int = 1,
        shuffle: bool = True,
        seed: int | None = None,
        return_sparse_X: bool = False,
        soma_chunk_size: int | None = 64,
        use_eager_fetch: bool = True,
        shuffle_chunk_count: int | None = 2000,
        encoders: list[Encoder] | None = None,
        *,
        max_batches: int | None = None,
        uneven: str = "drop",
        shard: bool = True,
    ) -> None:
        if obs_column_names and encoders:
            raise InvalidArgument(
                "Cannot specify both `obs_column_names` and `encoders`: "
                "encoders name the columns that they read"
            )
        names = checked_names("obs_column_names", obs_column_names)
        self._encoders = _checked_encoders(encoders or [LabelEncoder(name) for name in names])
        columns = [column for encoder in self._encoders for column in encoder.columns]
        self.obs_column_names = list(dict.fromkeys(columns))
        self.measurement_name = measurement_name
        self.layer_name = X_name
        self.obs_query = obs_query
        self.var_query = var_query
        self.batch_size = batch_size
        self.return_sparse_X = return_sparse_X
        self.soma_chunk_size = soma_chunk_size
        self.use_eager_fetch = use_eager_fetch
        self.max_batches = (
            None
            if max_batches is None
            else checked_int("max_batches", max_batches, least=0) or None
        )
        block_cells = _block_cells(soma_chunk_size, shuffle_chunk_count) if shuffle else 0
        self._obs = ObsTensors(self._encoders)
        with missing_names():
            dataset = Dataset(
                experiment,
                measurement=measurement_name,
                layer=X_name,
                obs_query=obs_query,
                var_query=var_query,
                obs_columns=self._obs.dataset_columns,
                encoders=self._obs.dataset_encoders,
                obs_format="pandas" if self._obs.dataset_columns else "arrays",
                format="numpy" if return_sparse_X else "torch",
                batch_size=batch_size,
                shuffle=shuffle,
                sparse=return_sparse_X,
                uneven=uneven,
                shard=shard,
            )
            dataset.obs.checked_columns(self.obs_column_names, "columns of encoders")
        self.exp_uri = dataset.experiment.uri
        self._blocks = BlockDataset(dataset, block_cells, seed)
        self._obs.fit(dataset.obs)
        self._past = Stats()
        self._parts: list[ExperimentDataPipe] = []

    # Contents

    @property
    def shape(self) -> tuple[int, int]:
        """(cells, genes) of the selection, over all ranks."""
        return self.penstock_dataset.shape

    @property
    def obs_encoders(self) -> Encoders:
        """Encoders by name, fitted on the selected cells."""
        return {encoder.name: encoder for encoder in self._encoders}

    def __len__(self) -> int:
        """Number of batches in an epoch of this rank."""
        batches = len(self._blocks)
        return batches if self.max_batches is None else min(batches, self.max_batches)

    def __getitem__(self, index: int) -> ObsAndXDatum:
        raise Unsupported(f"batches cannot be read by number, got [{index}]: iterate over the pipe")

    # Iteration

    def __iter__(self) -> Iterator[ObsAndXDatum]:
        self._past = self._own_stats()
        if self.max_batches is not None and torch.utils.data.get_worker_info() is not None:
            raise InvalidArgument(
                "max_batches counts the batches of one process, and DataLoader workers are several: "
                "leave it out, and end the loop over the loader after so many batches"
            )
        return map(self._tensors, islice(iter(self._blocks), self.max_batches))

    def _tensors(self, batch: Any) -> ObsAndXDatum:
        matrix, obs = batch
        X = coo_tensor(matrix) if self.return_sparse_X else matrix
        labels = self._obs.tensor(obs, matrix.shape[0])
        return (X[0], labels[0]) if self.batch_size == 1 else (X, labels)

    def stats(self) -> Stats:
        """Return counts of all epochs, those of the parts of a `random_split` included.

        With DataLoader workers, they are of the last epoch only.
        """
        counts = self._own_stats()
        for part in self._parts:
            counts += part.stats()
        return counts

    def _own_stats(self) -> Stats:
        return self._past.plus(self.penstock_dataset.stats)

    def __getstate__(self) -> dict[str, Any]:
        # A process that iterates over the pipe needs no part of it.
        return {**self.__dict__, "_parts": []}

    # Parts

    def random_split(
        self,
        weights: Mapping[Any, float],
        seed: int | None = None,
        total_length: int | None = None,
        target: Any = None,
    ) -> Any:
        """Split the cells into random parts, as torchdata's pipes split their batches.

        Parameters
        ----------
        weights : mapping
            Weight of each key: numbers of 0 or more with any sum.
        seed : int, optional
            Seed of the split; 0 by default, so that ranks agree.
        total_length : int, optional
            Without effect: the length is known.
        target : optional
            Key of the only part to return.

        Returns
        -------
        list of ExperimentDataPipe, or ExperimentDataPipe
            Parts in the order of the keys; they share the fitted encoders.

        Raises
        ------
        KeyError
            The target is not a key.
        InvalidArgument
            The weights are invalid.
        """
        shares = dict(weights)
        if target is not None and target not in shares:
            raise KeyError(f"target {target!r} is not among the keys of weights: {list(shares)}")
        parts = dict(zip(shares, self._split(shares, seed), strict=True))
        return list(parts.values()) if target is None else parts[target]

    def _split(self, weights: Mapping[Any, float], seed: int | None) -> list[ExperimentDataPipe]:
        shares = list(weights.values())
        if not shares or any(not share >= 0 for share in shares) or not 0 < sum(shares) < 2**63:
            raise InvalidArgument(
                f"weights must be numbers of 0 or more, not all of them 0, got {shares}"
            )
        whole = self.penstock_dataset
        rows = whole.reader.selection.rows
        if len(shares) == 1:
            return [self._with_rows(rows)]
        fractions = [share / sum(shares) for share in shares]
        names = [f"part {key!r}" for key in weights]
        parts = random_split(whole.obs, rows, fractions, seed or 0, names=names)
        return [self._with_rows(part) for part in parts]

    def _with_rows(self, rows: _core.RowSelection) -> ExperimentDataPipe:
        part = copy.copy(self)
        vars(part).update(_blocks=self._blocks.with_rows(rows), _past=Stats(), _parts=[])
        self._parts.append(part)
        return part

    def __getattr__(self, name: str) -> Any:
        # torch's functional form of its own pipes: pipe.map(f), pipe.filter(f), …
        pipes = getattr(torch.utils.data, "IterDataPipe", None)
        function = getattr(pipes, "functions", {}).get(name)
        if function is None:
            raise AttributeError(f"ExperimentDataPipe has no attribute {name!r}")
        return partial(function, self)

    def __repr__(self) -> str:
        return f"ExperimentDataPipe over {self.penstock_dataset!r}"


def experiment_dataloader(
    datapipe: Any, num_workers: int = 0, **dataloader_kwargs: Any
) -> DataLoader[Any]:
    """Return a torch DataLoader that yields the batches of an ExperimentDataPipe.

    Parameters
    ----------
    datapipe : ExperimentDataPipe
        The pipe, or a torch pipe that wraps one.
    num_workers : int, default 0
        Worker processes. 0 is usually fastest, because the engine has its own threads.
    **dataloader_kwargs
        Further arguments of the DataLoader.

    Raises
    ------
    InvalidArgument
        ``shuffle``, ``batch_size``, ``sampler``, ``batch_sampler`` or ``collate_fn`` is given.
    """
    return block_loader(datapipe, _NOT_SUPPORTED, {"num_workers": num_workers, **dataloader_kwargs})


def _checked_encoders(encoders: Any) -> list[Encoder]:
    checked = list(encoders)
    for encoder in checked:
        if isinstance(encoder, NativeEncoder):
            raise InvalidArgument(
                f"encoders must be those of penstock.compat.census, got {described(encoder)}. A pipe "
                "takes one number a cell: LabelEncoder or BatchEncoder. penstock.Dataset takes the others"
            )
    names = [encoder.name for encoder in checked]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"encoders must have names of their own, got {names}")
    return checked


def _block_cells(soma_chunk_size: int | None, shuffle_chunk_count: int | None) -> int:
    sizes = [("soma_chunk_size", soma_chunk_size), ("shuffle_chunk_count", shuffle_chunk_count)]
    cells = 1
    for name, size in sizes:
        cells *= 1 if size is None else checked_int(name, size, least=1)
    return cells
