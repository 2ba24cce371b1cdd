"""Planner: makes loaders of the engine from a selection and settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import _core
from penstock.errors import InvalidArgument

from .epoch_size import check_some_batch, warn_of_no_genes
from .measurements import SeveralMeasurements, naming
from .sampling import Sampling
from .selection import Selection
from .settings import CHUNKS, GLOBAL, SCATTER, LoaderSettings, check_placed, engine_dtype
from .shard import Shard, in_worker
from .x_array import XArray, XArrays


@dataclass(frozen=True)
class Planner:
    """Plans epochs of a selection. Planning reads only the columns of obs that it depends on.

    Immutable and picklable. Weights and totals from these columns are computed once for a
    selection: planners of the same selection with other settings share them.
    """

    selection: Selection
    settings: LoaderSettings
    _made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    # Copies

    def with_settings(self, settings: LoaderSettings) -> Planner:
        """Return a planner of the same cells and genes with other settings."""
        return Planner(self.selection, settings, self._made)

    def replace_settings(self, **changes: Any) -> Planner:
        """Return a planner of the same cells and genes with changed, unchecked settings."""
        return self.with_settings(replace(self.settings, **changes))

    def with_rows(self, rows: _core.RowSelection) -> Planner:
        """Return a planner of other cells of the same layer."""
        return Planner(self.selection.with_rows(rows), self.settings)

    def with_sampling(
        self, arguments: Mapping[str, Any], *, keeps_balance: bool = False
    ) -> Planner:
        """Return a planner that draws cells as the arguments say.

        Raises
        ------
        InvalidArgument, NotFound
            As `Sampling.checked`; `InvalidArgument` also for a shuffle that cannot draw.
        """
        obs, rows = self.selection.obs, self.selection.rows
        sampling = Sampling.checked(arguments, obs, rows, keeps_balance=keeps_balance)
        made = self.replace_settings(sampling=sampling)
        made.row_sampling()  # raises here, not at the first epoch
        if sampling is not None and self.settings.shuffle not in (True, SCATTER):
            raise InvalidArgument(
                "cells that are drawn by weights, balance, replacement or num_samples come in random "
                "order, drawn unit by unit: shuffle must be True or 'scatter', got "
                f"{self.settings.shuffle!r}"
            )
        return made

    def with_transforms(self, steps: Any) -> Planner:
        """Return a planner with other transforms of X.

        Raises
        ------
        InvalidArgument, NotFound
            As `make_chain`; `InvalidArgument` also if the layout or dtype cannot hold the result.

        Warns
        -----
        NoGenesWarning
            The steps keep no genes.
        """
        chosen = self.selection.with_transforms(steps)
        if isinstance(chosen, SeveralMeasurements):
            made = Planner(chosen, self.settings)
            for name, part in chosen.parts.items():
                with naming(name):
                    settings = part.settings(self.settings)
                    if made.is_placed:
                        check_placed(settings.dtype)
                    _check_batches(part.selection, settings)
            return made
        _check_batches(chosen, self.settings)
        if self.selection.n_columns and not chosen.n_columns:
            warn_of_no_genes(f"the transforms keep none of {len(chosen.genes):,}")
        return Planner(chosen, self.settings)

    # Properties of an epoch

    @property
    def shuffle(self) -> str | None:
        """Kind of shuffle: "scatter", "global" or "chunks"; None without a shuffle.

        It depends on the settings and the source, but not on the content of a cache, since all
        ranks and workers must agree. epochs/shuffle_choice.py sets the shuffle that depends on a
        cache.
        """
        shuffle = self.settings.shuffle
        if shuffle is not True:
            return shuffle or None
        by_rows = self.selection.matrix.addresses_rows and self.settings.sampling is None
        return GLOBAL if by_rows else SCATTER

    @property
    def depends_on_cache(self) -> bool:
        """Whether the shuffle is global if a cache has every cell, and scatter otherwise."""
        return (
            self.settings.shuffle is True
            and self.settings.sampling is None
            and self.selection.cache is not None
            and not self.selection.matrix.addresses_rows
        )

    def shuffle_of_epoch(self, epoch: int) -> str:
        """Return the shuffle if it depends on the cache or on memory (`order_depends_on_kept`).

        Cells that stay in memory are there from the second epoch on. A process that begins with a
        later epoch reads them, but has the same order.
        """
        matrix, shard = self.selection.matrix, self.settings.find_shard()
        if self.selection.cache is not None and matrix.is_cached(self.selection.rows):
            return GLOBAL
        stays = epoch > 0 and self.keeps_cells(shard)
        return GLOBAL if stays and self._keeps_all(shard) else SCATTER

    def _keeps_all(self, shard: Shard) -> bool:
        scattered = self.replace_settings(shuffle=SCATTER)
        return _core.keeps_all_rows(self.selection.matrix, scattered.options(shard, 0))

    def keeps_cells(self, shard: Shard) -> bool:
        """Whether cells stay in memory between epochs: in one process, without workers."""
        return self.settings.keep and shard.world_size == 1 and not in_worker()

    def divided(self, shard: Shard, begun: _core.ResumeState | None = None) -> Planner:
        """Return a planner that keeps as many cells in memory as fit.

        If only a part of them fits, its `memory_budget` is less, and `kept_memory` is the rest. If
        all of them fit only in a smaller `memory_budget`, it has that one. An epoch that has
        `begun` with another `keep`, and no other difference, continues in its order.
        """
        if begun is not None and begun.segments and shard.world_size == shard.num_workers == 1:
            keep = self.settings.keep
            for before in (keep, not keep):
                divided = self.replace_settings(keep=before).divided(shard)
                planner = divided.replace_settings(keep=keep)
                if planner.continues(begun, shard):
                    return planner
        if not self.keeps_cells(shard) or self.settings.kept_memory:
            return self
        options = _core.divide_memory(self.selection.matrix, self.epoch_options(shard, 0))
        if options.memory_budget == self.settings.memory_budget:
            return self
        return self.replace_settings(
            memory_budget=options.memory_budget, kept_memory=options.kept_memory
        )

    def continues(self, begun: _core.ResumeState, shard: Shard) -> bool:
        """Whether an epoch that has begun continues in the order of this planner."""
        run = _core.EpochRun(begun, self.epoch_options(shard, begun.epoch), False)
        return len(run.earlier) < len(begun.segments)

    def order_depends_on_kept(self, shard: Shard) -> bool:
        """Whether the shuffle is global if a cache or memory has every cell, and scatter else."""
        if self.depends_on_cache:
            return True
        return (
            self.settings.shuffle is True
            and self.settings.sampling is None
            and not self.selection.matrix.addresses_rows
            and self.keeps_cells(shard)
        )

    def as_of_now(self, epoch: int) -> Planner:
        """Return a planner with the shuffle and memory that this process alone would choose now."""
        shard, planner = self.settings.find_shard(), self
        if self.order_depends_on_kept(shard):
            planner = self.replace_settings(shuffle=self.shuffle_of_epoch(epoch))
        return planner.divided(shard)

    @property
    def array_settings(self) -> list[LoaderSettings]:
        """Settings of each array of X: the `sparse` and `dtype` of a measurement are its own."""
        if not isinstance(self.selection, SeveralMeasurements):
            return [self.settings]
        return [part.settings(self.settings) for part in self.selection.parts.values()]

    @property
    def arrays(self) -> XArrays:
        """Layout, dtype and transforms of X, or of X of each measurement by name."""
        selection, settings = self.selection, self.array_settings
        if not isinstance(selection, SeveralMeasurements):
            return XArray(settings[0].sparse, settings[0].dtype, selection.transforms)
        return {
            name: XArray(own.sparse, own.dtype, part.chain)
            for (name, part), own in zip(selection.parts.items(), settings, strict=True)
        }

    @property
    def is_placed(self) -> bool:
        """Whether torch makes X from the engine's arrays; see `LoaderSettings.is_placed`."""
        return any(settings.is_placed for settings in self.array_settings)

    def _makes_csr(self, array: XArray) -> bool:
        """Whether the engine's array is CSR; it is not if transforms make X dense."""
        sparse = array.sparse is not None or self.is_placed
        return sparse and not (array.chain is not None and array.chain.makes_rows)

    @property
    def epoch_cells(self) -> int:
        """Cells of an epoch over all ranks, before `uneven` leaves out or repeats cells."""
        if self.settings.sampling is None:
            return len(self.selection.rows)
        drawn = self.row_sampling()
        return 0 if drawn is None else drawn.samples

    @property
    def sampling_fingerprint(self) -> int:
        """Fingerprint of the sampling, equal on every machine; 0 without sampling."""
        drawn = self.row_sampling()
        return 0 if drawn is None else drawn.fingerprint()

    def check_some_batch(self, shard: Shard) -> None:
        """Refuse settings that leave every rank without a batch; see `epoch_size`."""
        check_some_batch(self.epoch_cells, self.settings, shard)

    def shard_with_cells(self) -> Shard:
        """Return the shard of this process, after a check that epochs have batches.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        """
        shard = self.settings.find_shard()
        self.check_some_batch(shard)
        return shard

    # Objects of the engine

    def loader(self, shard: Shard, epoch: int, run: _core.EpochRun | None = None) -> _core.Loader:
        """Plan an epoch, or what is left of a run; reading starts with the first batch.

        All loaders of the package are made here.

        Raises
        ------
        ResourceExhausted
            The memory budget is too small; the message says the least budget that works.
        InvalidArgument
            `run` resumes from a state, but the stored data have changed since.
        """
        options = self.epoch_options(shard, epoch)
        if run is not None:
            options = run.loader_options(options)
        return _core.Loader(self.selection.matrix, options)

    def epoch_options(self, shard: Shard, epoch: int) -> _core.LoaderOptions:
        """Return the engine's options for an epoch, with sampling if cells are drawn."""
        options = self.options(shard, epoch)
        drawn = self.row_sampling()
        if drawn is not None:
            options.order = drawn
        return options

    def options(self, shard: Shard, epoch: int) -> _core.LoaderOptions:
        """Return the engine's options for an epoch that has each cell once.

        DataLoader workers divide the cores here. The engine divides the memory.
        """
        settings = self.settings
        options = _core.LoaderOptions()
        options.rows = self.selection.rows
        options.columns = self._columns()
        options.batch_size = settings.batch_size
        options.order = self._order()
        options.seed = settings.seed
        options.epoch = epoch
        options.memory_budget = settings.memory_budget
        if self.keeps_cells(shard):
            options.kept = self.selection.kept
        options.kept_memory = settings.kept_memory
        options.threads = settings.threads or max(1, _usable_cores() // shard.num_workers)
        options.narrow_values = self.is_placed
        options.drop_last = settings.drop_last
        options.min_batch = settings.min_batch
        options.uneven = getattr(_core.UnevenRows, settings.uneven)
        options.rank, options.world_size = shard.rank, shard.world_size
        options.worker, options.num_workers = shard.worker, shard.num_workers
        arrays, selection = self.arrays, self.selection
        if isinstance(arrays, XArray):
            options.layout = self._layout(arrays)
            options.dtype = engine_dtype(arrays.dtype)
            options.transforms = self._transform_plan("transforms", selection)
        elif isinstance(selection, SeveralMeasurements):
            options.parts = self._parts(selection, arrays)
        return options

    def _parts(
        self, selection: SeveralMeasurements, arrays: dict[str, XArray]
    ) -> list[_core.BatchPart]:
        """Return the engine's options for the array of each measurement."""
        parts, end = [], 0
        for name, part in selection.parts.items():
            end += part.selection.matrix.shape[1]
            plan = self._transform_plan(("transforms", name), part.selection)
            array = arrays[name]
            parts.append(
                _core.BatchPart(end, self._layout(array), engine_dtype(array.dtype), plan, name)
            )
        return parts

    def _layout(self, array: XArray) -> _core.BatchLayout:
        return _core.BatchLayout.csr if self._makes_csr(array) else _core.BatchLayout.dense

    @property
    def missing_columns(self) -> dict[str, int]:
        """Column of obs that says which cells lack a measurement, and its part of a batch."""
        if not isinstance(self.selection, SeveralMeasurements):
            return {}
        return {f"missing_{name}": i for i, name in enumerate(self.selection.parts)}

    def _order(
        self,
    ) -> _core.StoredOrder | _core.ScatterShuffle | _core.GlobalShuffle | _core.ChunkShuffle:
        shuffle = self.shuffle
        if shuffle is None:
            return _core.StoredOrder()
        if shuffle == CHUNKS:
            return _core.ChunkShuffle(self.settings.chunk_size, self.settings.chunks_per_block)
        return _core.GlobalShuffle() if shuffle == GLOBAL else _core.ScatterShuffle()

    def row_sampling(self) -> _core.RowSampling | None:
        """Return the sampling for the engine; None without sampling or without cells."""
        sampling = self.settings.sampling
        if sampling is None:
            return None
        return sampling.for_cells(len(self.selection.rows), lambda: self._row_weights(sampling))

    def _row_weights(self, sampling: Sampling) -> _core.RowWeights | None:
        key = sampling.weights, sampling.balance
        if key not in self._made:
            self._made[key] = sampling.row_weights(self.selection.obs, self.selection.rows)
        weights: _core.RowWeights | None = self._made[key]
        return weights

    def _transform_plan(self, key: Any, selection: Selection) -> _core.TransformPlan | None:
        chain = selection.transforms
        if chain is None:
            return None
        if key not in self._made:
            self._made[key] = chain.engine_plan(selection.obs, selection.rows)
        plan: _core.TransformPlan | None = self._made[key]
        return plan

    def _columns(self) -> list[int] | None:
        """Return the joinids of the genes to read; None for all."""
        if isinstance(self.selection, SeveralMeasurements):
            return self.selection.columns()
        chain = self.selection.transforms
        genes = self.selection.genes if chain is None else chain.genes
        stored = self.selection.matrix.shape[1]
        if len(genes) == stored and (stored == 0 or genes.at(stored - 1) == stored - 1):
            return None
        joinids: list[int] = genes.to_numpy().tolist()
        return joinids

    def __reduce__(self) -> Any:
        return Planner, (self.selection, self.settings)


def _check_batches(selection: Selection, settings: LoaderSettings) -> None:
    if selection.transforms is not None:
        selection.transforms.check_batches(settings.sparse, settings.engine_dtype)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0))
