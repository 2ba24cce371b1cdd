"""A Dataset under the arguments of loaders that read blocks and shuffle within them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock import _core
from penstock.base.validation import checked_int
from penstock.dataset.dataset import Dataset
from penstock.epochs.epoch import EpochRun
from penstock.epochs.state import EpochState
from penstock.plan.settings import DTYPES
from penstock.plan.shard import find_rank

#: Memory for each cell of the block that the originals hold. Packed, a cell of the Census takes
#: about 6 KB, so that some three times as many cells are mixed as were asked for.
BYTES_PER_BLOCK_CELL = 2**14

#: However small the block, so that any store is read at full speed.
LEAST_BYTES = 2**29

#: Finished batches come on top, as the originals count cells before batches are made of them.
_BATCHES = 8


class BlockDataset:
    """Settles, when an iterator is made, what the originals leave to the moment.

    The memory budget follows the block, the batches and the number of DataLoader workers. A seed
    that is None is drawn; ranks cannot agree on one that each draws, and take 0.

    Parameters
    ----------
    dataset : Dataset
        Not shared with others: its settings are changed.
    block_cells : int
        Cells that the original would hold in memory to shuffle.
    seed : int or None
        Of the shuffle.
    """

    def __init__(self, dataset: Dataset, block_cells: int, seed: int | None) -> None:
        self.dataset = dataset
        self._block_cells = block_cells
        self._is_seeded = seed is not None
        self.seed: int = (
            int(np.random.default_rng().integers(2**32 - 1))
            if seed is None
            else checked_int("seed", seed, least=0, most=2**64 - 1)
        )
        stored = dataset.reader.selection.matrix.value_type
        if stored in DTYPES:
            dataset.reader.change_settings(dtype=stored)

    def _settle(self, num_workers: int | None = None) -> None:
        shard = self.dataset.reader.settings.find_shard()
        self.dataset.reader.change_settings(
            seed=self.seed if self._is_seeded or shard.world_size == 1 else 0,
            memory_budget=self._memory_budget(num_workers or shard.num_workers),
        )

    def _memory_budget(self, num_workers: int) -> int:
        rows = max(self._block_cells * BYTES_PER_BLOCK_CELL, num_workers * LEAST_BYTES)
        return rows + num_workers * _BATCHES * self._batch_bytes()

    def _batch_bytes(self) -> int:
        dataset, reader = self.dataset, self.dataset.reader
        item_bytes = np.dtype(reader.settings.dtype).itemsize
        if reader.settings.sparse:
            stored_cells = reader.selection.matrix.stored_cells()
            mean_nonzeros = stored_cells // max(1, dataset.experiment.n_obs)
            return dataset.batch_size * (mean_nonzeros + 1) * (item_bytes + 4)
        return dataset.batch_size * dataset.n_vars * item_bytes

    def __iter__(self) -> Iterator[Any]:
        self._settle()
        return iter(self.dataset)

    def begin_with_workers(self, epoch: int, num_workers: int) -> EpochRun:
        """Begin an epoch that DataLoader workers read, who settle the same."""
        self._settle(num_workers)
        return self.dataset.reader.begin_with_workers(epoch, num_workers)

    def __len__(self) -> int:
        """Batches that this rank gets, over all of its DataLoader workers."""
        self._settle()
        return len(self.dataset)

    def batches_here(self) -> int:
        """Batches that this process gets: in a DataLoader worker, its own."""
        self._settle()
        planner = self.dataset.reader.planner
        shard = planner.settings.find_shard()
        if shard.num_workers == 1:
            return len(self.dataset)
        return planner.loader(shard, 0).size()

    @property
    def epochs(self) -> EpochState:
        """Which epoch comes next."""
        return self.dataset.reader.epochs

    def prepare_for_workers(self, epoch: int, ticket: int, round_number: int) -> None:
        """Nothing: these have no encoders to fit here, nor a cache that the shuffle depends on."""

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        """Of this process, as things stand now."""
        return self.dataset.reader.rank_and_world_size

    def with_rows(self, rows: _core.RowSelection) -> BlockDataset:
        """Other cells of the same layer, from epoch 0."""
        part = copy.copy(self)
        part.dataset = self.dataset.with_rows(rows)
        return part


class BlockEpochs:
    """What both datasets of `compat` have of a `penstock.Dataset`: its epochs, saved and resumed.

    Attributes
    ----------
    _blocks : BlockDataset
    """

    _blocks: BlockDataset

    @property
    def penstock_dataset(self) -> Dataset:
        """The Dataset underneath, for what the original has no name for."""
        return self._blocks.dataset

    @property
    def reader(self) -> BlockDataset:
        """What a DataLoader asks about epochs; for the modules of penstock."""
        return self._blocks

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iterator begins; without it every iterator begins the next."""
        self._blocks.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """See `penstock.Dataset.state_dict`."""
        return self._blocks.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `penstock.Dataset.load_state_dict`."""
        self._blocks.dataset.load_state_dict(state)


def split_seed(seed: int | None) -> int | None:
    """Seed of a split: ranks that are given none must still make the same one."""
    return 0 if seed is None and find_rank()[1] > 1 else seed
