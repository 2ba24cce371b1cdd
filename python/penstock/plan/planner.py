"""The one way to a loader of the engine: a selection, read with settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import _core
from penstock.errors import InvalidArgument

from .epoch_size import check_some_batch, warn_of_no_genes
from .sampling import Sampling
from .selection import Selection
from .settings import CHUNKS, GLOBAL, SCATTER, LoaderSettings
from .shard import Shard


@dataclass(frozen=True)
class Planner:
    """Plans epochs of a selection; nothing is read but columns of obs that plans depend on.

    Immutable and picklable. What is made of those columns, weights of cells and totals, is made
    once for a selection: planners of the same one with other settings share it.
    """

    selection: Selection
    settings: LoaderSettings
    _made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    # Others

    def with_settings(self, settings: LoaderSettings) -> Planner:
        """The same cells and genes, read with other settings."""
        return Planner(self.selection, settings, self._made)

    def replace_settings(self, **changes: Any) -> Planner:
        """The same cells and genes; some settings are others, which are not checked."""
        return self.with_settings(replace(self.settings, **changes))

    def with_rows(self, rows: _core.RowSelection) -> Planner:
        """Other cells of the same layer."""
        return Planner(self.selection.with_rows(rows), self.settings)

    def with_sampling(
        self, arguments: Mapping[str, Any], *, keeps_balance: bool = False
    ) -> Planner:
        """Check the arguments that say what is drawn.

        Raises
        ------
        InvalidArgument, NotFound
            As `Sampling.checked`; a shuffle that does not draw.
        """
        obs, rows = self.selection.obs, self.selection.rows
        sampling = Sampling.checked(arguments, obs, rows, keeps_balance=keeps_balance)
        made = self.replace_settings(sampling=sampling)
        made.row_sampling()  # what does not fit is an error now
        if sampling is not None and self.settings.shuffle not in (True, SCATTER):
            raise InvalidArgument(
                "cells that are drawn by weights, balance, replacement or num_samples come in random "
                "order, drawn unit by unit: shuffle must be True or 'scatter', got "
                f"{self.settings.shuffle!r}"
            )
        return made

    def with_transforms(self, steps: Any) -> Planner:
        """Do other steps to X.

        Raises
        ------
        InvalidArgument, NotFound
            As `make_chain`; a layout or dtype that cannot hold what results.

        Warns
        -----
        NoGenesWarning
            The steps keep no gene.
        """
        chosen = self.selection.with_transforms(steps)
        if chosen.transforms is not None:
            chosen.transforms.check_batches(self.settings.sparse, self.settings.engine_dtype)
        if self.selection.n_columns and not chosen.n_columns:
            warn_of_no_genes(f"the transforms keep none of {len(chosen.genes):,}")
        return Planner(chosen, self.settings)

    # What an epoch is

    @property
    def shuffle(self) -> str | None:
        """How cells are shuffled: "scatter", "global" or "chunks"; None where they are not.

        A function of the settings and of what the source is, not of what a cache holds at the
        moment: all ranks and workers must find the same. Where that matters the settings come
        from epochs/shuffle_choice.py.
        """
        shuffle = self.settings.shuffle
        if shuffle is not True:
            return shuffle or None
        by_rows = self.selection.matrix.addresses_rows and self.settings.sampling is None
        return GLOBAL if by_rows else SCATTER

    @property
    def depends_on_cache(self) -> bool:
        """Whether the shuffle is global once a cache has every cell, and scatter before."""
        return (
            self.settings.shuffle is True
            and self.settings.sampling is None
            and self.selection.cache is not None
            and not self.selection.matrix.addresses_rows
        )

    @property
    def shuffle_by_cache(self) -> str:
        """The shuffle that the cache allows at this moment."""
        return GLOBAL if self.selection.matrix.keeps(self.selection.rows) else SCATTER

    def as_of_now(self) -> Planner:
        """Plans an epoch as this process, alone, would begin it now."""
        if not self.depends_on_cache:
            return self
        return self.replace_settings(shuffle=self.shuffle_by_cache)

    @property
    def makes_csr(self) -> bool:
        """Whether the engine's batches are CSR: not where transforms make whole rows of them."""
        chain = self.selection.transforms
        return self.settings.engine_makes_csr and not (chain is not None and chain.makes_rows)

    @property
    def epoch_cells(self) -> int:
        """Cells of an epoch over all ranks, before what `uneven` leaves out or repeats."""
        if self.settings.sampling is None:
            return len(self.selection.rows)
        drawn = self.row_sampling()
        return 0 if drawn is None else drawn.samples

    @property
    def sampling_fingerprint(self) -> int:
        """Of what is drawn and how, the same on every machine; 0 where every cell comes once."""
        drawn = self.row_sampling()
        return 0 if drawn is None else drawn.fingerprint()

    def check_some_batch(self, shard: Shard) -> None:
        """Refuse settings that leave every rank without a batch; see `epoch_size`."""
        check_some_batch(self.epoch_cells, self.settings, shard)

    def shard_with_cells(self) -> Shard:
        """What of an epoch this process reads.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        """
        shard = self.settings.find_shard()
        self.check_some_batch(shard)
        return shard

    # The engine's

    def loader(self, shard: Shard, epoch: int, first_batch: int = 0) -> _core.Loader:
        """Plan an epoch from a batch on; nothing is read before its first batch is asked for.

        Raises
        ------
        ResourceExhausted
            The memory budget is too small; the message says the least that works.
        """
        options = self.options(shard, epoch)
        options.first_batch = first_batch
        drawn = self.row_sampling()
        if drawn is not None:
            options.order = drawn
        return _core.Loader(self.selection.matrix, options)

    def options(self, shard: Shard, epoch: int) -> _core.LoaderOptions:
        """Options of the engine for an epoch that has each cell once.

        DataLoader workers divide the cores; the engine divides the memory.
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
        options.threads = settings.threads or max(1, _usable_cores() // shard.num_workers)
        csr = self.makes_csr
        options.layout = _core.BatchLayout.csr if csr else _core.BatchLayout.dense
        options.dtype = settings.engine_dtype
        options.narrow_values = csr and settings.is_placed
        options.drop_last = settings.drop_last
        options.min_batch = settings.min_batch
        options.uneven = getattr(_core.UnevenRows, settings.uneven)
        options.rank, options.world_size = shard.rank, shard.world_size
        options.worker, options.num_workers = shard.worker, shard.num_workers
        options.transforms = self._transform_plan()
        return options

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
        """What is drawn, as the engine takes it; None where each cell comes once, or there are none."""
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

    def _transform_plan(self) -> _core.TransformPlan | None:
        chain = self.selection.transforms
        if chain is None:
            return None
        if "transforms" not in self._made:
            made = chain.engine_plan(self.selection.obs, self.selection.rows)
            self._made["transforms"] = made
        plan: _core.TransformPlan | None = self._made["transforms"]
        return plan

    def _columns(self) -> list[int] | None:
        """Genes to read; None for all that are stored."""
        chain = self.selection.transforms
        genes = self.selection.genes if chain is None else chain.genes
        stored = self.selection.matrix.shape[1]
        if len(genes) == stored and (stored == 0 or genes.at(stored - 1) == stored - 1):
            return None
        joinids: list[int] = genes.to_numpy().tolist()
        return joinids

    def __reduce__(self) -> Any:
        return Planner, (self.selection, self.settings)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0))
