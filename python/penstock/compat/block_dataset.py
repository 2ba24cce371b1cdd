"""A Dataset with the arguments of loaders that shuffle within blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock import _core
from penstock.base.validation import checked_int
from penstock.dataset.dataset import Dataset
from penstock.epochs.epoch import ProcessRun
from penstock.epochs.state import EpochState
from penstock.plan.settings import DTYPES
from penstock.plan.shard import find_rank

#: Memory budget per cell of a block. A packed cell of the Census takes about 6 KB, so about three
#: times as many cells are mixed as the block holds.
BYTES_PER_BLOCK_CELL = 2**14

#: Least memory budget for any block, so that stores are read at full speed.
LEAST_BYTES = 2**29

#: Finished batches in the budget, in addition to the cells of the block.
_BATCHES = 8


class BlockDataset:
    """A Dataset whose memory budget and seed are set when an iterator is made.

    The memory budget depends on the block, the batches and the number of DataLoader workers. If the
    seed is None, it is drawn; several ranks use 0, since each would draw another seed.

    Parameters
    ----------
    dataset : Dataset
        The Dataset; its settings are changed, so it must not be shared.
    block_cells : int
        Cells that the original loader would hold in memory to shuffle.
    seed : int or None
        Seed of the shuffle.
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
        # Not with_settings: its datasets start at epoch 0, but this one counts its epochs.
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

    def begin_with_workers(self, epoch: int, num_workers: int) -> ProcessRun:
        """Begin an epoch that DataLoader workers read; they compute the same settings."""
        self._settle(num_workers)
        return self.dataset.reader.begin_with_workers(epoch, num_workers)

    def __len__(self) -> int:
        """Number of batches of this rank, over all its DataLoader workers."""
        self._settle()
        return len(self.dataset)

    def batches_here(self) -> int:
        """Number of batches of this process, which may be a DataLoader worker."""
        self._settle()
        planner = self.dataset.reader.planner
        shard = planner.settings.find_shard()
        if shard.num_workers == 1:
            return len(self.dataset)
        return planner.loader(shard, 0).size()

    @property
    def epochs(self) -> EpochState:
        """State of the epochs, with the number of the next one."""
        return self.dataset.reader.epochs

    def prepare_for_workers(self, epoch: int, ticket: int, round_number: int) -> None:
        """Do nothing: there are no encoders to fit and no cache that the shuffle depends on."""

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        """Return rank and world size of this process, as of now."""
        return self.dataset.reader.rank_and_world_size

    def with_rows(self, rows: _core.RowSelection) -> BlockDataset:
        """Return a BlockDataset of other cells of the same layer, at epoch 0."""
        part = copy.copy(self)
        part.dataset = self.dataset.with_rows(rows)
        return part


class BlockEpochs:
    """Epochs, saving and resuming of a `penstock.Dataset`, for both datasets of `compat`.

    Attributes
    ----------
    _blocks : BlockDataset
    """

    _blocks: BlockDataset

    @property
    def penstock_dataset(self) -> Dataset:
        """The underlying Dataset, for features that the original lacks."""
        return self._blocks.dataset

    @property
    def reader(self) -> BlockDataset:
        """Epochs for a DataLoader; internal to penstock."""
        return self._blocks

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iterator; otherwise each iterator begins the next epoch."""
        self._blocks.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """See `penstock.Dataset.state_dict`."""
        return self._blocks.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `penstock.Dataset.load_state_dict`."""
        self._blocks.dataset.load_state_dict(state)


def split_seed(seed: int | None) -> int | None:
    """Return the seed of a split; None becomes 0 on several ranks, whose splits must agree."""
    return 0 if seed is None and find_rank()[1] > 1 else seed
