"""The dataset that a model is trained from."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from penstock._core import RowSelection
from penstock.base.validation import checked_int
from penstock.batches.format import BatchFormat
from penstock.encoders import Encoder
from penstock.encoders.encoder import checked_encoders
from penstock.epochs.iterator import EpochIterator, EpochProgress
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment
from penstock.experiment.local_cache import LocalCache
from penstock.plan.epoch_size import warn_of_nothing_selected
from penstock.plan.planner import Planner
from penstock.plan.sampling import Balance
from penstock.plan.settings import LoaderSettings
from penstock.plan.shard import Shard
from penstock.plan.shuffle_report import ShuffleReport, shuffle_report
from penstock.plan.splits.random_split import random_split
from penstock.plan.stats import LoaderStats, from_core
from penstock.transforms import Transform

from .anndata import to_anndata
from .cells import Cells
from .changes import changed
from .reader import Reader
from .reprs import dataset_html, dataset_text
from .source import places_of, resolve_source
from .torch_registration import register_with_torch

if TYPE_CHECKING:
    from penstock.experiment.axis_query import AxisQuery


class Dataset:
    """Shuffled mini-batches of a stored experiment: an iterable of ``(X, obs)``.

    Each ``for`` loop over a dataset reads the next epoch, in another order. So does each loop over
    a DataLoader; its workers agree on the number of the epoch. The order is a function of the
    selection, `seed`, the epoch, the ranks, the workers and `memory_budget`; `threads` never changes
    it. A global shuffle does not depend on `memory_budget` either. A dataset is picklable and may be
    used in processes that fork. Nothing runs between epochs.

    The arguments stand in five groups: what is read, what a batch is, the order, the ranks, and
    memory and cache.

    Parameters
    ----------
    source : path, URI, Experiment, tiledbsoma Experiment or ExperimentAxisQuery
        Where the cells are. A tiledbsoma object gives its URI and timestamp. An axis query also
        gives its rows, genes and measurement. A list or dict of sources is read as one experiment;
        `penstock.join` says how their genes are matched.
    measurement : str, default "RNA"
        Which measurement.
    layer : str, default "raw"
        Which X layer of the measurement.
    obs_query, var_query : str or AxisQuery, optional
        Which cells and genes: a filter in tiledbsoma's language, or an AxisQuery, ours or
        tiledbsoma's. All by default. Columns of X are the chosen genes, ascending by joinid.
    var_names : str, optional
        Column of var with the names of genes, for `Dataset.var_names` and for transforms that take
        names. By default the first of var's usual name columns.
    storage_options : dict, optional
        How to reach a URI that is given as source, or in a list or dict of sources; see
        `penstock.open`.

    batch_size : int, default 128
        Cells in a batch. The last batch may have fewer, or more: see `min_batch` and `uneven`.
    transforms : sequence of Transform or callable, optional
        What is done to X, in this order. Steps of the engine come first (`NormalizeTotal`, `Log1p`,
        `Expm1`, `Clip`, `Binarize`, `Scale`, `SelectGenes`, `RankTokens`); its threads apply them.
        Callables come after them: each takes X of a batch and returns another.
    sparse : bool, "csr" or "coo", default False
        Layout of X. True and "csr" give CSR with int32 indices. "coo" gives COO, in torch with int64
        indices.
    dtype : str, default "float32"
        Type of X: float32, float64, or an integer type that holds every value. With `format`
        "torch" also bfloat16, which rounds counts above 256, and float16, which rounds counts above
        2,048 and refuses counts above 65,504.
    format : {"numpy", "torch"}, optional
        X as ndarray (when `sparse`, scipy.sparse.csr_matrix or coo_matrix) or as tensor. The default
        is "torch" with a `device` or a half `dtype`, otherwise "numpy".
    device : str or torch.device, optional
        Device of X and of obs tensors, with `format` "torch": "cuda", "cuda:1". Counts are copied
        narrow and sparse, then widened on the device. The next batch is copied on a stream of its
        own, beside the training step. Not in DataLoader workers.
    obs_columns : sequence of str, default ["soma_joinid"]
        Columns of obs that come with each batch. For joined experiments the default also has the
        column that says which experiment a cell is from.
    encoders : sequence of Encoder, optional
        Columns of obs that come as numbers, under the name of the encoder, after `obs_columns`.
    obs_format : {"arrays", "pandas", "torch"}, default "arrays"
        obs as a dict of name to ndarray (strings as objects), a DataFrame, or a dict of tensors.
    pad_column : str, optional
        Name of a bool column of obs that is True for cells that ``uneven="pad"`` repeats. A rank or
        worker has at most one such cell in an epoch.
    drop_last : bool, default False
        Leave out a last batch that is not full. Has no effect with ``uneven="exact"``.
    min_batch : int, default 1
        Least cells of a batch. A smaller last batch joins the batch before it. An epoch whose only
        batch is smaller is an error. Use 2 for models with BatchNorm, which cannot be trained on
        one cell.

    shuffle : bool, "scatter", "global" or "chunks", default True
        "scatter" reads everything once and mixes as many cells at a time as memory holds.
        "global" is one uniform permutation of all cells of all ranks, whatever the memory. It is at
        full speed where cells can be read one by one: on a pack, and with a `cache_dir` that has
        every cell. Elsewhere it reads the store several times, and warns.
        "chunks" is the shuffle of the Census's loaders, to compare with: chunks of cells in random
        order, shuffled in blocks of chunks.
        True is "global" on a pack on a disk, and with a `cache_dir` that has every cell when the
        epoch starts; it is "scatter" elsewhere and with `weights` and the like. `Dataset.shuffle`
        says which.
        False gives cells ascending by joinid; each DataLoader worker has a stretch of them.
    seed : int, default 0
        Seed of the shuffle. All ranks need the same.
    weights : str or array of float, optional
        Draw cells at random, in proportion to their weights: a column of obs, or a number for each
        selected cell, in the order of `obs`. docs/sampling.md has more.
    balance : str or Balance, optional
        Draw cells so that the values of a column of obs come equally often, or as often as the
        `Balance` says.
    replacement : bool, optional
        Whether a cell may be drawn several times in an epoch. True by default with `weights` or
        `balance`.
    num_samples : int, optional
        Cells to draw for an epoch, over all ranks. By default as many as are selected, or, without
        replacement, as have a weight above 0.
    chunk_size, chunks_per_block : int, optional
        For ``shuffle="chunks"``: cells in a chunk (64) and chunks in a block (1,024). Two blocks must
        fit in `memory_budget`.

    uneven : {"drop", "pad", "exact"}, default "drop"
        What to do when the cells do not divide among the ranks. "drop" leaves out fewer than
        world_size cells, and "pad" repeats as few. "exact" gives every cell once, for validation,
        test and prediction: ranks differ by one cell, so with `batch_size` 1 some ranks have a
        batch of two cells. Every rank has the same number of batches.
    shard : bool, default True
        Divide the cells among the ranks of a distributed run. Ranks are found in torch.distributed
        or the environment (torchrun, Slurm). False when somebody else divides them.
    rank, world_size : int, optional
        Set the rank by hand.
    compare_ranks : bool, default True
        Compare, at the first batch of each epoch, what the ranks of torch.distributed are about to
        read. Another seed or selection on one rank is an error on all.

    memory_budget : int or str, default "2GiB"
        Memory for cells, reading and finished batches. More memory mixes better. Where all cells
        fit, they are mixed as a whole, and the first batch comes when all are read. DataLoader
        workers of a process share it.
    threads : int, optional
        Threads that read and decode. As many as cores by default.
    cache_dir : str or path, optional
        A folder on a local disk, outside of the source. Cells that are read are kept there with all
        their genes, for later epochs, other ranks and later runs, which may share it: docs/pack.md.
    cache_bytes : int or str, optional
        Most that everything in `cache_dir` may take. The least recently used cells are evicted
        first. Less than one fetch unit is a warning. By default a twentieth of the disk stays free,
        at most 4 GiB.

    Raises
    ------
    NotFound
        No such experiment, measurement, layer or column; the message lists what there is.
    InvalidArgument
        An argument is out of range, a filter does not parse, a source is no experiment.
    Unsupported
        Something stored is not read by this version.

    Notes
    -----
    X has the shape (cells, genes): C-contiguous, or CSR with indices ascending in each row. Arrays
    share the loader's memory until the last of them is gone, so keeping many batches keeps their
    memory.

    A plain DataLoader numbers its epoch when its first worker starts; `penstock.dataloader` does so
    at once. With a plain one, call `set_epoch` before ``iter``, and before each epoch in a rank that
    was forked after the dataset was made.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Experiment | Any,
        *,
        # What is read
        measurement: str | None = None,
        layer: str = "raw",
        obs_query: str | AxisQuery | Any | None = None,
        var_query: str | AxisQuery | Any | None = None,
        var_names: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        # What a batch is
        batch_size: int = 128,
        transforms: Iterable[Transform | Callable[[Any], Any]] = (),
        sparse: bool | str = False,
        dtype: npt.DTypeLike = "float32",
        format: str | None = None,
        device: Any = None,
        obs_columns: Sequence[str] | None = None,
        encoders: Iterable[Encoder] = (),
        obs_format: str = "arrays",
        pad_column: str | None = None,
        drop_last: bool = False,
        min_batch: int = 1,
        # The order
        shuffle: bool | str = True,
        seed: int = 0,
        weights: str | npt.ArrayLike | None = None,
        balance: str | Balance | None = None,
        replacement: bool | None = None,
        num_samples: int | None = None,
        chunk_size: int | None = None,
        chunks_per_block: int | None = None,
        # The ranks
        uneven: str = "drop",
        shard: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        compare_ranks: bool = True,
        # Memory and cache
        memory_budget: int | str = "2GiB",
        threads: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int | str | None = None,
    ) -> None:
        register_with_torch(type(self))
        settings = LoaderSettings.checked(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            memory_budget=memory_budget,
            threads=threads,
            sparse=sparse,
            dtype=dtype,
            device=device,
            drop_last=drop_last,
            min_batch=min_batch,
            uneven=uneven,
            shard=shard,
            rank=rank,
            world_size=world_size,
            compare_ranks=compare_ranks,
            chunk_size=chunk_size,
            chunks_per_block=chunks_per_block,
        )
        checked = checked_encoders(encoders)
        selection = resolve_source(
            source, measurement, layer, obs_query, var_query, settings.threads, storage_options
        ).with_var_names(var_names)
        warn_of_nothing_selected(selection, obs_query, var_query)
        cache = LocalCache.checked(cache_dir, cache_bytes)
        if cache is not None:
            cache.check_outside(places_of(selection))
            selection = replace(selection, cache=cache)
        planner = Planner(selection, settings).with_sampling(
            {
                "weights": weights,
                "balance": balance,
                "replacement": replacement,
                "num_samples": num_samples,
            }
        )
        form = BatchFormat.checked(
            selection.experiment,
            checked,
            planner.settings,
            format=format,
            obs_format=obs_format,
            obs_columns=obs_columns,
            pad_column=pad_column,
        )
        #: What makes the batches; for the modules of this package.
        self.reader = Reader(Cells(planner.with_transforms(transforms), form, checked))

    @property
    def n_obs(self) -> int:
        """Number of cells selected, over all ranks."""
        return len(self.reader.selection.rows)

    @property
    def n_vars(self) -> int:
        """Number of genes selected: the columns of X, those of `SelectGenes` where there is one."""
        return self.reader.selection.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """(cells, genes)."""
        return self.n_obs, self.n_vars

    @property
    def obs(self) -> DataFrame:
        """The selected cells, ascending by joinid, with all stored columns."""
        return self.reader.selection.obs

    @property
    def var(self) -> DataFrame:
        """The selected genes, in the order of the columns of X, with all stored columns."""
        return self.reader.selection.var

    @property
    def var_names(self) -> npt.NDArray[Any]:
        """Names of X's columns: from the argument `var_names`, var's usual ones, else joinids."""
        return self.reader.selection.var_names

    @property
    def transforms(self) -> tuple[Transform | Callable[[Any], Any], ...]:
        """What is done to X, as it was given."""
        chain = self.reader.selection.transforms
        return () if chain is None else chain.steps

    @property
    def experiment(self) -> Experiment:
        """The experiment that it reads."""
        return self.reader.selection.experiment

    @property
    def encoders(self) -> dict[str, Encoder]:
        """Name to encoder, fitted on the selected cells."""
        self.reader.cells.fit()
        return {encoder.name: encoder for encoder in self.reader.cells.encoders}

    @property
    def shuffle(self) -> str | None:
        """How cells are shuffled: "scatter", "global" or "chunks"; None where they are not.

        With `cache_dir` that of the epoch that was begun last, "scatter" before there is one.
        """
        return self.reader.shuffle

    @property
    def batch_size(self) -> int:
        """Cells in a full batch."""
        return self.reader.settings.batch_size

    # Iteration

    def __iter__(self) -> EpochIterator:
        return self.reader.begin()

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next iterator begins."""
        return self.reader.epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iterator begins, also in DataLoader workers; 0 is the first.

        An iterator that was made last and has given no batch yet begins it, too: Lightning makes
        the first one before it says which epoch it is.

        Raises
        ------
        InvalidArgument
            It is negative or no integer.
        """
        self.reader.epochs.set_next(checked_int("epoch", epoch, least=0, most=2**62))

    def state_dict(self) -> dict[str, Any]:
        """Where training is: the epoch, and how many of its batches were handed over.

        Small, of numbers and strings, and the same on every rank, so that one rank's is enough.
        Batches that were made and not taken do not count.

        Raises
        ------
        InvalidArgument
            A plain DataLoader had workers read the epoch, so that it is not known here how far it
            is: use `penstock.dataloader`.
        """
        return self.reader.position().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state: the next iterator gives the batches that were left.

        So does one that was made last and has given no batch yet.

        They are the same, bit for bit, where the world, the workers and the arguments that the
        order depends on are the same. Otherwise every cell that was left comes once, in a new order
        and in the new batches, but for what `uneven` and `drop_last` leave out or repeat. Nothing
        is read to find the place; of fetch units that also hold cells of batches handed over
        before, all is read again: few of them in a large selection, all of them where the memory
        budget holds the whole selection.

        Raises
        ------
        InvalidArgument
            It is no state, or one of other cells, genes, layer, transforms or joined experiments,
            which the message names, or the stored data are not what they were.
        """
        self.reader.load(state)

    @property
    def stats(self) -> LoaderStats:
        """Counts of the epoch that is running, else of the last one.

        Those of DataLoader workers are added up, a quarter of a second late while they read;
        `bytes_needed`, `planned_bytes` and `planned_bytes_read` come when they have ended.
        `units_in_shuffle` is the least of theirs; `bytes_needed` counts a tile once, whoever of them needs it.
        """
        return self.reader.stats

    def __len__(self) -> int:
        """Batches of an epoch for this rank, over all of its DataLoader workers.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small for the epoch.
        """
        return self.reader.batches_of_rank()

    def plan(self) -> LoaderStats:
        """Plan the next epoch without reading cells: `planned_bytes` and `units_in_shuffle`.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small; the message says the least that works.
        """
        planner = self.reader.planner.as_of_now()
        loader = planner.loader(planner.shard_with_cells(), self.epoch)
        return from_core(loader.stats())

    def shuffle_report(
        self, column: str, *, memory_budget: int | str | None = None
    ) -> ShuffleReport:
        """Tell how well the next epoch is mixed, from its plan: no cells are read.

        Parameters
        ----------
        column : str
            A column of obs whose values lie together in the store, ``"dataset_id"`` say.
        memory_budget : int or str, optional
            Another budget than that of this dataset.

        Returns
        -------
        ShuffleReport
            Of the batches of this rank, without DataLoader workers: the entropy of the column in
            them beside that of a uniform shuffle, units in flight, read amplification; it plots
            itself, and finds the budget for a wanted share.

        Raises
        ------
        InvalidArgument
            The epoch has no batch.
        NotFound
            There is no such column.
        ResourceExhausted
            The budget is too small; the message says the least that works.
        """
        return shuffle_report(self.reader.planner, self.epoch, column, memory_budget)

    def head(self, n: int = 5) -> tuple[Any, Any]:
        """Return the first `n` cells by joinid as one batch (X, obs), to look at."""
        count = min(checked_int("n", n, least=1), self.n_obs)
        cells = self.reader.cells
        cells.fit()  # on all cells: their codes are those of an epoch
        first = cells.planner.with_rows(
            self.reader.selection.rows.take(np.arange(count, dtype=np.uint64))
        ).replace_settings(shuffle=False, batch_size=max(1, count), drop_last=False, sampling=None)
        loader = first.loader(Shard(), 0)
        for batch in cells.with_planner(first).batches(loader, EpochProgress()):
            return batch
        raise InvalidArgument("no cell is selected, so there is nothing to show")

    def to_anndata(self, max_size: int | str = "2GiB") -> Any:
        """Read all selected cells into memory, for what is small enough.

        Cells come by joinid, every one once, whatever the rank, the sampling and the shuffle; X is
        CSR in the dtype of the dataset, with its transforms. obs and var have all stored columns;
        encoders are left out.

        Parameters
        ----------
        max_size : int or str, default "2GiB"
            Memory that X may take.

        Returns
        -------
        anndata.AnnData
            Cells named by ``obs_id`` or the like where that tells them apart, else by joinid; genes
            by `var_names`.

        Raises
        ------
        InvalidArgument
            X would be larger; the message says how large, and what can be done. Or the transforms
            do not make a matrix of it.
        """
        return to_anndata(self.reader.cells, max_size)

    # Parts

    def random_split(
        self,
        *parts: float,
        seed: int = 0,
        stratify: str | Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
    ) -> list[Self]:
        """Cut the cells into random parts, each a Dataset with the settings of this one.

        Parameters
        ----------
        *parts : float or int
            Two or more fractions that sum to 1, or sizes that sum to `n_obs`.
        seed : int, default 0
            Of the cut; the same gives the same parts everywhere.
        stratify : str or sequence of str, optional
            A column of obs (or several, whose combinations count): each of its values has in each
            part the part's share of its cells, to within one cell; sizes stay exact. Cells without
            a value are a stratum.
        group : str or sequence of str, optional
            A column (or several): cells of one value are all in one part, and the parts come as
            near to their sizes as whole groups allow (docs/splits.md says how). Cells without a
            value are a group.

        Returns
        -------
        list of Dataset
            A partition: every selected cell is in exactly one. Encoders are fitted on all cells
            before and shared. Each part begins with epoch 0. A part of 0 cells is a
            `NoCellsWarning`.

        Raises
        ------
        InvalidArgument
            The parts do not add up, there are fewer groups than parts, or both `stratify` and
            `group` are given.
        NotFound
            There is no such column.
        """
        cut = random_split(self.obs, self.reader.selection.rows, parts, seed, stratify, group)
        return [self.with_rows(rows) for rows in cut]

    def with_rows(self, rows: RowSelection) -> Self:
        """Return a Dataset of other cells of the layer with the settings of this one, at epoch 0.

        For the modules of this package. Encoders are fitted on the cells of this one.
        """
        return self.with_reader(self.reader.with_rows(rows))

    def with_reader(self, reader: Reader) -> Self:
        """Return a Dataset of what another reader reads; for the modules of this package."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.reader = reader
        return made

    def with_settings(self, **changes: Any) -> Self:
        """Return a Dataset of the same cells and genes with other arguments.

        Parameters
        ----------
        **changes
            Any argument of `Dataset` but those that say what is read, `encoders` and the cache. The
            encoders stay, fitted as they are. The first epoch is 0. ``shuffle=False`` ends `weights`
            and the like: every cell comes. Defaults follow, as in `Dataset`: ``dtype="bfloat16"``
            makes tensors.

        Raises
        ------
        InvalidArgument
            One that makes no sense, or says what is read.
        """
        return self.with_reader(Reader(changed(self.reader.cells, changes)))

    # Python and torch

    # torch's IterableDataset is an ABC: isinstance asks an object for its __class__ first. That is
    # the moment to register with a torch that was imported after penstock.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        register_with_torch(type(self))
        return type(self)

    def __getstate__(self) -> dict[str, Any]:  # a copy numbers its epochs by itself
        return {**self.__dict__, "reader": copy.copy(self.reader)}

    def __repr__(self) -> str:
        return dataset_text(self)

    def _repr_html_(self) -> str:
        return dataset_html(self)
