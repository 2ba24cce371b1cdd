"""Batches of a Dataset as dicts of tensors for scvi-tools' modules. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from penstock.batches.matrix import as_tensor
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument
from penstock.pytorch.dataloader import dataloader
from penstock.pytorch.epoch_dataloader import EpochSampler

X, BATCH, LABELS, SIZE_FACTOR = "X", "batch", "labels", "size_factor"
FINE_LABELS, SAMPLE = "fine_labels", "sample"
PANEL, PROTEINS, REGIONS = "panel", "proteins", "atac"
#: Positions of the cells in the AnnData, which MULTIVI reads and uses only for a weight of each cell.
INDICES = "ind_x"
#: Fields of one category of a cell.
CATEGORIES = (BATCH, LABELS, FINE_LABELS, SAMPLE, PANEL)
CATEGORICAL, CONTINUOUS = "extra_categorical_covs", "extra_continuous_covs"
JOINID = "soma_joinid"

#: Between the numbers of the first of the labelled epochs that belong to an epoch.
_LABELLED_EPOCHS = 2**20


@dataclass(frozen=True)
class TensorNames:
    """Encoders and measurements of a Dataset for each tensor; without measurements, X is X."""

    categorical: Sequence[str] = ()
    continuous: Sequence[str] = ()
    measurements: Mapping[str, str] = field(default_factory=dict)
    has_indices: bool = False  #: of a MULTIVI

    def tensors(self, batch: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
        """Return a batch for scvi-tools: X of shape (cells, genes), the others (cells, columns).

        Keys and types are those of scvi-tools' AnnDataLoader, but a sparse X stays a scipy CSR
        matrix until it is on the device. Batches and labels without a key are zeros.
        """
        given, obs = batch
        arrays = {name: given[each] for name, each in self.measurements.items()} or {X: given}
        matrix = next(iter(arrays.values()))
        made: dict[str, Any] = {
            name: as_tensor(each) if isinstance(each, np.ndarray) else each
            for name, each in arrays.items()
        }
        zeros = None
        for name in (BATCH, LABELS):
            if name in obs:
                made[name] = _column(obs[name])
            else:
                if zeros is None:
                    zeros = torch.zeros((matrix.shape[0], 1), dtype=torch.int64)
                    if isinstance(matrix, torch.Tensor):
                        zeros = zeros.to(matrix.device)
                made[name] = zeros
        for name in (FINE_LABELS, SAMPLE, SIZE_FACTOR):
            if name in obs:
                made[name] = _column(obs[name])
        if PANEL in obs:
            made[PANEL] = _column(obs[PANEL]).float()
        if self.has_indices:
            made[INDICES] = made[LABELS].new_zeros(made[LABELS].shape)
        if self.categorical:
            made[CATEGORICAL] = torch.cat([_column(obs[name]) for name in self.categorical], 1)
        if self.continuous:
            made[CONTINUOUS] = torch.cat([_column(obs[name]) for name in self.continuous], 1)
        if JOINID in obs:
            made[JOINID] = _column(obs[JOINID])[:, 0]
        return made


class ModelLoader:
    """Batches of a Dataset for a model; each iteration is the next epoch.

    It has what Lightning needs: a length, a `sampler` with ``set_epoch`` and ``state_dict``.
    """

    def __init__(self, dataset: Dataset, names: TensorNames, **arguments: Any) -> None:
        self.dataset = dataset
        self._names = names
        # Without workers, a DataLoader only costs time.
        has_workers = bool(arguments.get("num_workers"))
        self._batches = dataloader(dataset, **arguments) if has_workers else dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._names.tensors, self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def sampler(self) -> EpochSampler:
        """Sampler whose ``set_epoch`` sets the epoch."""
        return EpochSampler(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """See `Dataset.state_dict`."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Dataset.load_state_dict`."""
        self.dataset.load_state_dict(state)


class PairLoader:
    """(cells, labelled cells) for a semi-supervised model, as in scvi-tools' loader.

    There are as many pairs as batches of cells. When the labelled cells run out, and in each epoch,
    they start again in another order. If `draw` is given, it chooses the labelled cells of an
    epoch.
    """

    def __init__(
        self,
        cells: ModelLoader,
        labelled: ModelLoader,
        draw: Callable[[int], ModelLoader] | None = None,
    ) -> None:
        self._cells = cells
        self._labelled = labelled
        self._draw = draw
        self._number = 0
        self._is_loaded = False

    def __iter__(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        labelled = self._labelled_batches()
        for batch in self._cells:
            yield batch, next(labelled)

    def _labelled_batches(self) -> Iterator[dict[str, Any]]:
        number = (
            self._cells.dataset.epoch
        )  # the epoch after the one whose first batch was just made
        if not self._is_loaded or number != self._number:
            self._choose(number)
            self._labelled.dataset.set_epoch(number * _LABELLED_EPOCHS)
        self._is_loaded = False
        while True:
            given = 0
            for batch in self._labelled:
                given += 1
                yield batch
            if not given and not len(self._labelled):
                raise RuntimeError("no labelled cell for this rank")

    def _choose(self, number: int) -> None:
        self._number = number
        if self._draw is not None:
            self._labelled = self._draw(number)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def dataset(self) -> Dataset:
        """Dataset of the cells."""
        return self._cells.dataset

    @property
    def sampler(self) -> EpochSampler:
        """Sampler whose ``set_epoch`` sets the epoch."""
        return self._cells.sampler

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both loaders and the epoch of the labelled cells."""
        return {
            "cells": self._cells.state_dict(),
            "labelled": self._labelled.state_dict(),
            "labelled_epoch": self._number,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state.

        Raises
        ------
        InvalidArgument
            The state is not from a PairLoader, or from a Penstock without labelled epochs.
        """
        missing = {"cells", "labelled", "labelled_epoch"} - set(state)
        if missing:
            raise InvalidArgument(
                f"the state of a semi-supervised loader must have {', '.join(sorted(missing))}; this "
                "state is of another loader or an older Penstock: resume at the end of an epoch"
            )
        self._cells.load_state_dict(state["cells"])
        self._choose(int(state["labelled_epoch"]))
        self._labelled.load_state_dict(state["labelled"])
        self._is_loaded = True


def to_device(batch: Any, device: torch.device) -> Any:
    """Move a batch or a pair of batches; X becomes dense on the device."""
    if isinstance(batch, (tuple, list)):
        return tuple(to_device(each, device) for each in batch)
    return {
        name: _dense(values, device)
        if name in (X, REGIONS)
        else values.to(device, non_blocking=True)
        for name, values in batch.items()
    }


def _dense(matrix: Any, device: torch.device) -> torch.Tensor:
    if hasattr(matrix, "indptr"):
        if device.type == "cpu":
            dense: torch.Tensor = as_tensor(matrix.toarray())
            return dense
        # Made dense on the device: three small copies in place of a large one with zeros.
        arrays = (as_tensor(each) for each in (matrix.indptr, matrix.indices, matrix.data))
        indptr, indices, data = (each.to(device, non_blocking=True) for each in arrays)
        return _scattered((indptr, indices, data), matrix.shape)
    if matrix.layout == torch.sparse_csr:
        indptr, indices, data = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        moved = [each.to(device, non_blocking=True) for each in (indptr, indices, data)]
        return _scattered(moved, matrix.shape)
    moved_matrix: torch.Tensor = matrix.to(device, non_blocking=True)
    return moved_matrix


def _scattered(csr: Sequence[torch.Tensor], shape: Sequence[int]) -> torch.Tensor:
    """Return a dense tensor from CSR; duplicate entries are added."""
    indptr, indices, data = csr
    counts = (indptr[1:] - indptr[:-1]).long()
    rows = torch.repeat_interleave(
        torch.arange(shape[0], device=data.device), counts, output_size=len(data)
    )
    flat = torch.zeros(shape[0] * shape[1], dtype=data.dtype, device=data.device)
    return flat.index_add_(0, rows * shape[1] + indices.long(), data).view(shape[0], shape[1])


def _column(values: Any) -> torch.Tensor:
    tensor = values if isinstance(values, torch.Tensor) else as_tensor(values)
    return tensor.reshape(-1, 1)
