"""ExperimentDataPipe and experiment_dataloader."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import torch.utils.data
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from penstock import _core
from penstock.base.validation import checked_int, checked_names
from penstock.compat.block_dataset import BlockDataset, BlockEpochs
from penstock.compat.block_loader import block_loader
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
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
    """Counts of what a pipe has read, over all epochs.

    Attributes
    ----------
    n_obs, nnz : int
        Cells and non-zeros handed over.
    elapsed : float
        Seconds that the consumer waited for batches.
    n_soma_chunks : int
        Fetch units read, Penstock's chunks.
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
        """Add to this one, as the Census's does."""
        self.n_obs += other.n_obs
        self.nnz += other.nnz
        self.elapsed += other.elapsed
        self.n_soma_chunks += other.n_soma_chunks
        return self

    def plus(self, epoch: LoaderStats) -> Stats:
        """These and the counts of an epoch."""
        return Stats(
            self.n_obs + epoch.cells,
            self.nnz + epoch.nonzeros,
            self.elapsed + epoch.consumer_wait_seconds,
            self.n_soma_chunks + epoch.units,
        )


class ExperimentDataPipe(BlockEpochs, IterableDataset[ObsAndXDatum]):
    """Mini-batches of a SOMA experiment: an iterable of tensors ``(X, obs)``.

    X has the stored dtype and is (cells, genes), a sparse COO tensor when `return_sparse_X`. obs is
    (cells, encoders), of the dtype that all columns fit (int64 for labels). With a `batch_size` of 1
    both are a single row, of rank 1.

    Parameters
    ----------
    experiment : tiledbsoma.Experiment
        Open for reading. (Whatever else `penstock.Dataset` takes, too.)
    measurement_name, X_name : str, default "RNA", "raw"
        Which X layer.
    obs_query, var_query : tiledbsoma.AxisQuery, optional
        Which cells and genes; all by default.
    obs_column_names : sequence of str
        Columns of obs; each comes encoded by a `LabelEncoder`.
    batch_size : int, default 1
        Cells in a batch.
    shuffle : bool, default True
        False gives cells in ascending joinid order.
    seed : int, optional
        Of the shuffle; drawn when absent.
    return_sparse_X : bool, default False
    soma_chunk_size, shuffle_chunk_count : int, optional, default 64 and 2000
        Their product is how many cells are mixed at a time, at least: it sets the memory budget
        (docs/compat.md).
    use_eager_fetch : bool, default True
        Without effect: reading continues while batches are used.
    encoders : list of Encoder, optional
        In place of `obs_column_names`, each with a name of its own.

    Raises
    ------
    InvalidArgument
        A ValueError: an argument out of range; `obs_column_names` beside `encoders`; two encoders
        of one name.
    NotFound
        No such layer or column; here also a KeyError.
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
            )
            dataset.obs.checked_columns(self.obs_column_names, "columns of encoders")
        self.exp_uri = dataset.experiment.uri
        self._blocks = BlockDataset(dataset, block_cells, seed)
        self._obs.fit(dataset.obs)
        self._past = Stats()

    # What it holds

    @property
    def shape(self) -> tuple[int, int]:
        """(cells, genes) of the selection, over all ranks."""
        return self.penstock_dataset.shape

    @property
    def obs_encoders(self) -> Encoders:
        """Name to encoder, fitted on the selected cells."""
        return {encoder.name: encoder for encoder in self._encoders}

    def __len__(self) -> int:
        """Batches of an epoch of this rank."""
        return len(self._blocks)

    def __getitem__(self, index: int) -> ObsAndXDatum:
        raise Unsupported(f"a pipe is iterated, it has no batch by number, got {index}")

    # Iteration

    def __iter__(self) -> Iterator[ObsAndXDatum]:
        self._past = self.stats()
        return map(self._tensors, iter(self._blocks))

    def _tensors(self, batch: Any) -> ObsAndXDatum:
        matrix, obs = batch
        X = coo_tensor(matrix) if self.return_sparse_X else matrix
        labels = self._obs.tensor(obs, matrix.shape[0])
        return (X[0], labels[0]) if self.batch_size == 1 else (X, labels)

    def stats(self) -> Stats:
        """Counts of all epochs of this process; of DataLoader workers, those of the last epoch."""
        return self._past.plus(self.penstock_dataset.stats)

    # Parts

    def random_split(
        self,
        weights: Mapping[Any, float],
        seed: int | None = None,
        total_length: int | None = None,
        target: Any = None,
    ) -> Any:
        """Cut the cells into random parts, as torchdata's pipes cut their batches.

        Parameters
        ----------
        weights : mapping
            Key to share: numbers of 0 or more, of any sum.
        seed : int, optional
            Of the cut; the same gives the same parts. 0 when absent, so that ranks agree.
        total_length : int, optional
            Without effect: the length is known.
        target : optional
            A key, to get the part of this one alone.

        Returns
        -------
        list of ExperimentDataPipe, or ExperimentDataPipe
            In the order of the keys; they share the fitted encoders.

        Raises
        ------
        KeyError
            The target is no key.
        InvalidArgument
            Weights that are no shares.
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
        vars(part).update(_blocks=self._blocks.with_rows(rows), _past=Stats())
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
    """Make a torch DataLoader of an ExperimentDataPipe; batches come as the pipe makes them.

    Parameters
    ----------
    datapipe : ExperimentDataPipe
        Or a pipe of torch's that was made from one.
    num_workers : int, default 0
        Worker processes. The engine has threads of its own, so that none is the fastest as a rule.
    **dataloader_kwargs
        Of the DataLoader.

    Raises
    ------
    InvalidArgument
        ``shuffle``, ``batch_size``, ``sampler``, ``batch_sampler`` or ``collate_fn`` is given.
    """
    return block_loader(datapipe, _NOT_SUPPORTED, {"num_workers": num_workers, **dataloader_kwargs})


def _checked_encoders(encoders: Any) -> list[Encoder]:
    checked = list(encoders)
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
