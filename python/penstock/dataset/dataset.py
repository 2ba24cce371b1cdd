"""Dataset: the iterable that a model is trained from."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from penstock._core import RowSelection
from penstock.base.suggestions import suggests
from penstock.base.validation import checked_int
from penstock.batches.format import BatchFormat
from penstock.batches.matrix import converter
from penstock.encoders import Encoder
from penstock.encoders.encoder import checked_encoders
from penstock.epochs.iterator import EpochIterator, EpochProgress
from penstock.epochs.resume import to_dict
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment
from penstock.experiment.local_cache import LocalCache
from penstock.plan.epoch_size import warn_of_empty_part, warn_of_nothing_selected
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.planner import Planner
from penstock.plan.sampling import Balance, warn_of_drawn_parts
from penstock.plan.selection import Selection
from penstock.plan.settings import LoaderSettings
from penstock.plan.shard import Shard, check_divided_once
from penstock.plan.shuffle_report import ShuffleReport, shuffle_report
from penstock.plan.splits.random_split import random_split
from penstock.plan.stats import LoaderStats, from_core
from penstock.transforms import Transform

from . import hints
from .anndata import to_anndata
from .cells import Cells
from .changes import changed
from .measurements import resolve_measurements
from .names import as_names
from .reader import Reader
from .reprs import dataset_html, dataset_text
from .slicing import gene_step, rows_at, split_key
from .source import places_of, resolve_source, with_cache
from .torch_registration import register_with_torch

if TYPE_CHECKING:
    from penstock.experiment.axis_query import AxisQuery


class Dataset:
    """Shuffled mini-batches of a stored experiment: an iterable of ``(X, obs)``.

    Each ``for`` loop over a dataset reads the next epoch, in another order. So does each loop over
    a DataLoader; its workers agree on the number of the epoch. The order is a function of the
    selection, `seed`, the epoch, the ranks, the workers, `memory_budget` and `keep`; `threads` never
    changes it. A global shuffle does not depend on `memory_budget` either. A dataset is picklable and may be
    used in processes that fork. Nothing runs between epochs.

    The arguments stand in five groups: what is read, what a batch is, the order, the ranks, and
    memory and cache.

    Parameters
    ----------
    source : path, URI, AnnData, Experiment, tiledbsoma Experiment or ExperimentAxisQuery
        Source of the cells. An AnnData object is read in place. A tiledbsoma object gives its URI
        and timestamp. An axis query also gives its rows, genes and measurement. A list or dict of
        sources, or a pattern such as ``"atlas/*.zarr"``, is read as one experiment; `penstock.join`
        says how their genes are matched.
    measurement : str, default "RNA"
        Name of the measurement.
    measurements : sequence of str, or dict of str to dict, optional
        Several measurements of the same cells, instead of one. X is then a dict of arrays by name,
        and obs has a bool column ``missing_<name>`` for each, True for cells without a stored value
        in its selected genes. A dict gives a measurement its own ``layer``, ``var_query``,
        ``var_names``, ``transforms``, ``sparse`` and ``dtype``, and ``measurement`` if its name is
        another. docs/guides/measurements.md has more.
    layer : str, optional
        Name of the X layer. By default "raw" of a SOMA experiment, "X" of an AnnData, or the only
        layer of the measurement. "raw" of an AnnData is its ``raw``.
    obs_query, var_query : str, AxisQuery or sequence, optional
        Selection of cells and genes: a filter in tiledbsoma's language, an AxisQuery, ours or
        tiledbsoma's, a bool for each row, or names. All by default. Columns of X are the chosen genes, ascending by joinid.
    var_names : str, optional
        Column of var with the names of genes, for `Dataset.var_names` and for transforms that take
        names. By default the first of var's usual name columns.
    storage_options : dict, optional
        How to reach a URI that is given as source, or in a list or dict of sources; see
        `penstock.open`.

    batch_size : int, default 128
        Cells in a batch. The last batch may have fewer, or more: see `min_batch` and `uneven`.
    transforms : sequence of Transform or callable, optional
        Transforms of X, in this order. Steps of the engine come first (`NormalizeTotal`, `Log1p`,
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
        "global" is one uniform permutation of all cells of all ranks, whatever the memory. It is
        fast where cells can be read one by one: on a pack, with a `cache_dir` that has every cell,
        and from an uncompressed h5ad file or zarr store on a disk. Elsewhere it reads the store
        several times, and warns.
        "chunks" is the shuffle of the Census's loaders, to compare with: chunks of cells in random
        order, shuffled in blocks of chunks.
        True is "global" on a pack on a disk, if `cache_dir` has every cell when the epoch starts,
        and from the second epoch on if every cell stays in memory (`keep`). It is "scatter"
        elsewhere and with `weights` and the like. `Dataset.shuffle` says which.
        False yields cells ascending by joinid; each DataLoader worker has a contiguous part.
    seed : int, default 0
        Seed of the shuffle. All ranks need the same.
    weights : str or array of float, optional
        Draw cells at random, in proportion to their weights: a column of obs, or a number for each
        selected cell, in the order of `obs`. docs/guides/sampling.md has more.
    balance : str or Balance, optional
        Draw cells so that the values of a column of obs come equally often, or with the frequencies
        of a `Balance`.
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
        or the environment (torchrun, Slurm). Use False if other code divides them.
    rank, world_size : int, optional
        Rank and number of ranks, instead of those that are found.
    compare_ranks : bool, default True
        Compare, at the first batch of each epoch, what the ranks of torch.distributed are about to
        read. Another seed or selection on one rank is an error on all.

    memory_budget : int or str, default "2GiB"
        Memory for cells, reading and finished batches, in bytes or as text. More memory mixes
        better. DataLoader workers of a process share the budget.
    keep : bool, default True
        Keep the cells in memory after an epoch. If all of them fit in `memory_budget`, later epochs
        read nothing, and ``shuffle=True`` is then "global". Else half or three quarters of it is
        for cells that are kept. Splits and copies by `with_settings` share what is kept. With several ranks
        or DataLoader workers nothing is kept; `cache_dir` serves them. `close` gives the memory
        back.
    threads : int, optional
        Threads that read and decode. As many as cores by default.
    cache_dir : str or path, optional
        A folder on a local disk, outside of the source. Cells that are read are kept there with all
        their genes, for later epochs, other ranks and later runs, which may share it: docs/guides/pack.md.
    cache_bytes : int or str, optional
        Limit of everything in `cache_dir`, in bytes or as text. The least recently used cells are
        evicted first. A limit below one fetch unit causes a warning. By default a twentieth of the
        disk stays free, at most 4 GiB.

    Raises
    ------
    NotFound
        An experiment, measurement, layer or column does not exist; the message lists what exists.
    InvalidArgument
        An argument is out of range, a filter does not parse, or a source is not an experiment.
    Unsupported
        This version cannot read the stored data.
    MissingPackage
        torch or scipy, which the batches are made of, is not installed.

    Notes
    -----
    X has the shape (cells, genes): C-contiguous, or CSR with indices ascending in each row. Arrays
    share the loader's memory until the last of them is gone, so keeping many batches keeps their
    memory.

    A plain DataLoader numbers its epoch when its first worker starts; `penstock.dataloader` does so
    at once. With a plain one, call `set_epoch` before ``iter``, and before each epoch in a rank that
    was forked after the dataset was made.
    """

    @suggests(hints.ARGUMENTS)
    def __init__(
        self,
        source: str | os.PathLike[str] | Experiment | Any,
        *,
        # What is read
        measurement: str | None = None,
        measurements: Mapping[str, Mapping[str, Any]] | Sequence[str] | None = None,
        layer: str | None = None,
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
        keep: bool = True,
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
            keep=keep,
            chunk_size=chunk_size,
            chunks_per_block=chunks_per_block,
        )
        checked = checked_encoders(encoders)
        cache = LocalCache.checked(cache_dir, cache_bytes)
        selection: Selection
        if measurements is None:
            selection = resolve_source(
                source, measurement, layer, obs_query, var_query, settings.threads, storage_options
            ).with_var_names(var_names)
            warn_of_nothing_selected(selection, obs_query, var_query)
            if cache is not None:
                selection = with_cache(selection, cache)
        else:
            if measurement is not None:
                raise InvalidArgument("measurement and measurements exclude each other; give one")
            common = {"layer": layer, "var_query": var_query, "var_names": var_names}
            selection = resolve_measurements(
                source, measurements, {**common, "transforms": transforms}, obs_query,
                settings.threads, storage_options, cache,
            )  # fmt: skip
            transforms = ()
        if cache is not None:
            cache.check_outside(places_of(selection))
        planner = Planner(selection, settings).with_sampling(
            {
                "weights": weights,
                "balance": balance,
                "replacement": replacement,
                "num_samples": num_samples,
            }
        )
        form = BatchFormat.checked(
            checked,
            planner,
            format=format,
            obs_format=obs_format,
            obs_columns=obs_columns,
            pad_column=pad_column,
        )
        # A missing package is told here, and its import does not delay the first batch.
        for each in planner.array_settings:
            converter(form.format, each.sparse)
        #: Makes the batches; for the modules of this package.
        self.reader = Reader(Cells(planner.with_transforms(transforms), form, checked))

    @property
    def n_obs(self) -> int:
        """Number of selected cells, over all ranks."""
        return len(self.reader.selection.rows)

    @property
    def n_vars(self) -> int:
        """Number of columns of X: the selected genes, or those of `SelectGenes`."""
        return self.reader.selection.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """(cells, genes)."""
        return self.n_obs, self.n_vars

    @property
    def obs(self) -> DataFrame:
        """Table of the selected cells, ascending by joinid, with all stored columns."""
        return self.reader.selection.obs

    @property
    def var(self) -> Any:
        """Table of the selected genes, a `DataFrame` in the order of X's columns, with all columns.

        With `measurements`, a dict of tables by name.
        """
        return self.reader.selection.var

    @property
    def obs_names(self) -> npt.NDArray[Any]:
        """Names of the cells, an ndarray of str: a usual name column of obs, or joinids.

        In the order of `obs`, as `to_anndata` has them. The column is read at each call. For the
        methods of pandas: ``pd.Index(ds.obs_names)``.
        """
        return as_names(self.obs.row_names())

    @property
    def var_names(self) -> Any:
        """Names of X's columns: from the column `var_names`, a usual name column, or joinids.

        An ndarray; with `measurements`, a dict of such by name.
        """
        names = self.reader.selection.var_names
        if isinstance(names, dict):
            return {name: as_names(each) for name, each in names.items()}
        return as_names(names)

    @property
    def transforms(self) -> Any:
        """Transforms of X, as given: a tuple, or with `measurements` a dict of tuples by name."""
        return self.reader.selection.steps

    @property
    def experiment(self) -> Experiment:
        """Experiment that the cells are from."""
        return self.reader.selection.experiment

    @property
    def encoders(self) -> dict[str, Encoder]:
        """Encoders by name, fitted on the selected cells."""
        self.reader.cells.fit()
        return _ByName({encoder.name: encoder for encoder in self.reader.cells.encoders})

    @property
    def shuffle(self) -> str | None:
        """Kind of shuffle: "scatter", "global" or "chunks"; None without a shuffle.

        If it differs between epochs (`cache_dir`, `keep`), it is that of the most recent epoch, or
        "scatter" before the first.
        """
        return self.reader.shuffle

    @property
    def batch_size(self) -> int:
        """Cells in a full batch."""
        return self.reader.settings.batch_size

    @property
    def seed(self) -> int:
        """Seed of the shuffle."""
        return self.reader.settings.seed

    @property
    def memory_budget(self) -> int:
        """Memory for cells, reading and finished batches, in bytes."""
        return self.reader.settings.memory_budget

    @property
    def threads(self) -> int | None:
        """Threads that read and decode; None for as many as cores."""
        return self.reader.settings.threads

    # Iteration

    def __iter__(self) -> EpochIterator:
        register_with_torch(type(self))  # in a process that has started with torch
        return self.reader.begin()

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next iterator reads."""
        return self.reader.epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iterator reads, also in DataLoader workers.

        The most recent iterator reads this epoch, too, if it has yielded no batch yet. Lightning
        makes the first iterator before it sets the epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch; the first is 0.

        Raises
        ------
        InvalidArgument
            `epoch` is negative or not an integer.
        """
        self.reader.epochs.set_next(checked_int("epoch", epoch, least=0, most=2**62))

    def state_dict(self) -> dict[str, Any]:
        """Return the position of training: the epoch, and how many of its batches were yielded.

        Batches that were made but not taken do not count.

        Returns
        -------
        dict
            State for `load_state_dict`. It is small and holds numbers and strings. It is equal on
            every rank, so saving that of one rank is enough.

        Raises
        ------
        InvalidArgument
            Workers of a plain DataLoader read the epoch, so the position is not known in this
            process: use `penstock.dataloader`.
        """
        return to_dict(self.reader.position())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state dict: the next iterator yields the batches that were left.

        The most recent iterator resumes, too, if it has yielded no batch yet.

        The batches are equal, bit for bit, if the ranks, the workers and the arguments that the
        order depends on are the same. Otherwise every cell that was left comes once, in a new order
        and in new batches, except for cells that `uneven` and `drop_last` leave out or repeat.

        Finding the position reads nothing. Fetch units that also hold cells of earlier batches are
        read again: few units of a large selection, but all units if the memory budget holds the
        whole selection.

        Parameters
        ----------
        state : dict
            Return value of `state_dict`.

        Raises
        ------
        InvalidArgument
            `state` is not a state, the stored data have changed, or the state is of other cells,
            genes, layer, transforms or joined experiments. The message names what differs.
        """
        self.reader.load(state)

    @property
    def stats(self) -> LoaderStats:
        """Counts of the running epoch, or of the last one.

        Counts of DataLoader workers are added up, with a delay of 0.25 s while workers read.
        `bytes_needed`, `planned_bytes` and `planned_bytes_read` are known when workers have ended.
        `units_in_shuffle` is the least of all workers. `bytes_needed` counts a tile once, even if
        several workers need it.
        """
        return self.reader.stats

    def __len__(self) -> int:
        """Return the batches of an epoch for this rank, over all its DataLoader workers.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small for the epoch.
        """
        return self.reader.batches_of_rank()

    def plan(self) -> LoaderStats:
        """Plan the next epoch without reading cells.

        Returns
        -------
        LoaderStats
            Plan for this process: `planned_bytes` (bytes of memory), `units_in_shuffle`,
            `planned_units`, `planned_bytes_read` and `bytes_needed`. Counts of work done are 0.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small; the message says the least budget that works.
        """
        planner = self.reader.planner.as_of_now(self.epoch)
        loader = planner.loader(planner.shard_with_cells(), self.epoch)
        return from_core(loader.stats())

    def shuffle_report(
        self, column: str, *, memory_budget: int | str | None = None
    ) -> ShuffleReport:
        """Report how well the next epoch is mixed, from its plan; reads no cells.

        Parameters
        ----------
        column : str
            Column of obs whose values are contiguous in the store, such as ``"dataset_id"``.
        memory_budget : int or str, optional
            Budget in bytes or as text, instead of that of this dataset.

        Returns
        -------
        ShuffleReport
            Report on the batches of this rank, without DataLoader workers: entropy of the column in
            each batch and in a uniform shuffle, units in the shuffle, read amplification. It can
            plot itself, and find the budget for a wanted share.

        Raises
        ------
        InvalidArgument
            The epoch has no batches.
        NotFound
            The column does not exist.
        ResourceExhausted
            The budget is too small; the message says the least budget that works.
        """
        return shuffle_report(self.reader.planner, self.epoch, column, memory_budget)

    def head(self, n: int = 5) -> tuple[Any, Any]:
        """Return the first `n` cells by joinid as one batch, without starting an epoch.

        Parameters
        ----------
        n : int, default 5
            Number of cells, 1 or more. All cells if fewer are selected.

        Returns
        -------
        X : ndarray, sparse matrix, tensor or Tokens
            Shape (n, genes), in the layout, dtype, format and device of the dataset's batches.
        obs : dict or DataFrame
            Columns of obs and output of encoders, with n rows in the order of X.

        Raises
        ------
        InvalidArgument
            `n` is less than 1 or not an integer, no cells are selected, or an encoder refuses a
            value.
        ResourceExhausted
            The memory budget is too small; the message says the least budget that works.
        """
        count = min(checked_int("n", n, least=1), self.n_obs)
        cells = self.reader.cells
        cells.fit()  # on all cells, so that codes are those of an epoch
        first = cells.planner.with_rows(
            self.reader.selection.rows.take(np.arange(count, dtype=np.uint64))
        ).replace_settings(shuffle=False, batch_size=max(1, count), drop_last=False, sampling=None)
        loader = first.loader(Shard(), 0)
        for batch in cells.with_planner(first).batches(loader, EpochProgress()):
            return batch
        raise InvalidArgument("no cell is selected, so there is nothing to show")

    @suggests(hints.TO_ANNDATA)
    def to_anndata(
        self, max_size: int | str = "2GiB", obs_columns: Sequence[str] | None = None
    ) -> Any:
        """Read all selected cells into memory as an AnnData.

        Each cell comes once, ascending by joinid, regardless of rank, sampling and shuffle. X is
        CSR in the dtype of the dataset (float32 for half dtypes), after its transforms. var has all
        stored columns. Encoders, and the columns that come with batches, are ignored.

        Parameters
        ----------
        max_size : int or str, default "2GiB"
            Memory that X may take, in bytes or as text.
        obs_columns : sequence of str, optional
            Columns of obs, in this order; by default all that are stored.

        Returns
        -------
        anndata.AnnData
            Cells have their names in an AnnData, which may repeat. In SOMA they are named by
            ``obs_id`` or a similar column if its values are unique, else by joinid. Genes are named
            by `var_names`.

        Raises
        ------
        InvalidArgument
            X would exceed `max_size` (the message says its size), or the transforms do not make a
            sparse matrix.
        NotFound
            A column does not exist.
        MissingPackage
            anndata, pandas or scipy is not installed.
        """
        return to_anndata(self.reader.cells, max_size, obs_columns)

    # Parts

    def __getitem__(self, key: Any) -> Self:
        """Return a Dataset of some cells, and of some genes, with the settings of this one.

        Parameters
        ----------
        key : cells, or tuple of cells and genes
            Cells: a slice or array of places (as of an AnnData, not joinids), a bool for each cell,
            names, a filter such as ``"sex == 'female'"``, or another selection. Genes: the same, a
            bool for each column of X, or the table of `highly_variable_genes`. A pandas Series goes by
            its index, as in pandas, and a table by the names or joinids of its rows.

        Returns
        -------
        Dataset
            At epoch 0, with the encoders of this dataset, fitted on its cells. Cells stay in stored
            order. ``ds[:, genes]`` adds `SelectGenes` to the transforms, so the columns of X are in the
            order of `genes`.

        Raises
        ------
        InvalidArgument
            The key is one cell, has a place past the end, or is of another kind.
        NotFound
            A name or a column does not exist.
        """
        cells, genes = split_key(key)
        part = self
        if genes is not None:
            if isinstance(self.reader.selection, SeveralMeasurements):
                self.reader.selection.refuse("ds[cells, genes]")
            columns = self.reader.selection.column_joinids
            step = gene_step(self.transforms, self.var, columns, lambda: self.var_names, genes)
            part = self.with_settings(transforms=[*self.transforms, step])
        if cells is None:
            return part
        rows = rows_at(self.obs, cells)
        warn_of_empty_part(len(rows), self.n_obs, self.obs, cells)
        return part.with_rows(rows)

    @suggests(hints.SPLIT_ARGUMENTS)
    def random_split(
        self,
        *parts: float,
        seed: int = 0,
        stratify: str | Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
    ) -> list[Self]:
        """Split the cells into random parts, each a Dataset with the settings of this one.

        Parameters
        ----------
        *parts : float or int
            Two or more fractions that sum to 1, or sizes that sum to `n_obs`.
        seed : int, default 0
            Seed of the split. A seed gives the same parts on every machine.
        stratify : str or sequence of str, optional
            Column of obs, or several to combine. Each value's cells are divided among the parts in
            proportion, to within one cell. Sizes stay exact. Cells without a value form a stratum.
        group : str or sequence of str, optional
            Column of obs, or several to combine. Cells of one value are all in one part, and sizes
            are as near as whole groups allow (docs/guides/splits.md). Cells without a value form a group.

        Returns
        -------
        list of Dataset
            Parts, in the order of `parts`. Every selected cell is in exactly one part. Each part
            starts with epoch 0. Encoders are fitted on all cells before the split, and shared.

        Raises
        ------
        InvalidArgument
            The parts do not add up, there are fewer groups than parts, or both `stratify` and
            `group` are given.
        NotFound
            A column does not exist.

        Warns
        -----
        NoCellsWarning
            A part has no cells.
        UserWarning
            The dataset draws its cells by `weights` or `balance`, so all parts do, also those that
            are held out.
        """
        warn_of_drawn_parts(self.reader.planner.settings.sampling)
        cut = random_split(self.obs, self.reader.selection.rows, parts, seed, stratify, group)
        return [self.with_rows(rows) for rows in cut]

    def with_rows(self, rows: RowSelection) -> Self:
        """Return a Dataset of other cells of the layer with the settings of this one, at epoch 0.

        For the modules of this package. Encoders are fitted on the cells of this dataset.

        Parameters
        ----------
        rows : RowSelection
            Row ids of the cells.

        Returns
        -------
        Dataset
        """
        return self.with_reader(self.reader.with_rows(rows))

    def with_reader(self, reader: Reader) -> Self:
        """Return a Dataset with another reader; for the modules of this package."""
        # copy.copy would copy this dataset's reader and its counts, too.
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.reader = reader
        return made

    def with_settings(self, **changes: Any) -> Self:
        """Return a Dataset of the same cells and genes with other arguments.

        Parameters
        ----------
        **changes
            Any argument of `Dataset`, except `encoders`, the cache and arguments that say what is
            read. ``shuffle=False`` ends sampling, so every cell comes. Defaults follow from other
            arguments as in `Dataset`: ``dtype="bfloat16"`` makes tensors.

        Returns
        -------
        Dataset
            At epoch 0, with the encoders of this dataset, fitted on its cells.

        Raises
        ------
        InvalidArgument
            An argument is not valid, or cannot be changed.
        """
        return self.with_reader(Reader(changed(self.reader.cells, changes)))

    def close(self) -> None:
        """Give back the memory of cells that are kept between epochs.

        Datasets that share them lose them, too. A later epoch reads the store again. A dataset that
        nothing refers to does the same.
        """
        self.reader.selection.kept.clear()

    # Python and torch

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes. Copying asks for names with underscores.
        if name.startswith("_") or name == "reader":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        there = [each for each in dir(type(self)) if not each.startswith("_")]
        raise AttributeError(hints.attribute_message(name, there, ARGUMENTS))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ARGUMENTS:
            raise AttributeError(hints.setting_message(name))
        super().__setattr__(name, value)

    # torch's IterableDataset is an ABC, and isinstance reads the __class__ of an object first. So
    # this property registers with a torch that was imported after penstock.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        register_with_torch(type(self))
        return type(self)

    def __getstate__(self) -> dict[str, Any]:  # a copy counts its own epochs
        # A worker that is spawned does not see who started it.
        check_divided_once(lambda: self.reader.rank_and_world_size[1])
        return {**self.__dict__, "reader": copy.copy(self.reader)}

    def __repr__(self) -> str:
        return dataset_text(self.reader)

    def _repr_html_(self) -> str:
        return dataset_html(self.reader)


#: Arguments of a Dataset.
ARGUMENTS = list(inspect.signature(Dataset).parameters)


class _ByName(dict[str, Encoder]):
    def __missing__(self, key: object) -> Encoder:
        if not self:
            raise KeyError(
                f"no encoder {key!r}: give the Dataset encoders=[penstock.LabelEncoder({key!r})]"
            )
        raise KeyError(f"no encoder {key!r}; encoders go by name: {', '.join(map(repr, self))}")
