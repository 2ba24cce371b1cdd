"""The loaders of a data module. Imports torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.batches.device.stream import streams_of
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument

from ..registry.loaders import JOINID, LABELS, ModelLoader, PairLoader, TensorNames, to_device
from ..registry.model_fields import ModelFields
from ..registry.registration import Registration
from .datasets import all_codes, evaluated
from .labelled_cells import LabelledCells


class DataLoaders:
    """Hooks of a LightningDataModule that return loaders of the parts of a Dataset.

    A mixin: the data module sets the parts, and Lightning sets its trainer.
    """

    trainer: Any
    registration: Registration
    dataset: Dataset
    train: Dataset
    val: Dataset | None
    test: Dataset | None
    _keys: ModelFields
    _names: TensorNames
    _sparse: bool | None
    _num_workers: int
    _n_samples_per_label: int | None

    def check_trained_cells(self) -> None:
        """Refuse a single training cell, which BatchNorm cannot handle."""
        if self.train.n_obs < 2:
            raise InvalidArgument(
                f"a model is trained on two cells or more, got {self.train.n_obs} of "
                f"{self.dataset.n_obs}"
            )

    def train_dataloader(self) -> Any:
        """Return shuffled batches of training cells; for SCANVI, pairs with labelled cells."""
        self.check_trained_cells()
        cells = self.train.with_settings(min_batch=2)
        return self._loader(cells, self._n_samples_per_label, num_workers=self._num_workers)

    def val_dataloader(self) -> Any:
        """Return batches of each validation cell once over all ranks."""
        return [] if self.val is None else self._loader(evaluated(self.val))

    def test_dataloader(self) -> Any:
        """Return batches of each test cell once over all ranks."""
        return [] if self.test is None else self._loader(evaluated(self.test))

    def predict_dataloader(self, batch_size: int | None = None) -> ModelLoader:
        """Return all cells in stored order, once over all ranks, with joinids and dense X."""
        return ModelLoader(self._placed(self._stored(batch_size), dense=True), self._names)

    def setup(self, stage: str | None = None) -> None:
        """Do nothing: a data module is ready when it is made."""

    def inference_dataloader(self, batch_size: int | None = None) -> ModelLoader:
        """Return all cells in stored order, on every rank, with joinids and dense X.

        The name is that of scvi-tools' own data modules. It is what ``dataloader=`` of a model's own
        methods takes: like `penstock.scvi.latent`, they give every cell also in a run of several ranks.
        """
        cells = self._stored(batch_size).with_settings(shard=False)
        return ModelLoader(self._placed(cells, dense=True), self._names)

    def stored_batches(self, batch_size: int, first: int, end: int) -> ModelLoader:
        """Return the cells from one place in stored order to another, with sparse X, on every rank."""
        # With "exact" batches would be of about equal sizes, which depend on the number of cells.
        cells = self._stored(batch_size).with_settings(sparse=True, shard=False, uneven="drop")
        if end - first < cells.n_obs:
            places = np.arange(first, end, dtype=np.uint64)
            cells = cells.with_rows(cells.reader.selection.rows.take(places))
        return ModelLoader(cells, self._names)

    def batches_at(self, places: npt.NDArray[np.int64], batch_size: int) -> ModelLoader:
        """Return the cells at some positions, ascending, with sparse X; of all ranks' cells."""
        cells = self._stored(batch_size).with_settings(sparse=True, shard=False)
        rows = cells.reader.selection.rows.take(places.astype(np.uint64))
        return ModelLoader(cells.with_rows(rows), self._names)

    def _stored(self, batch_size: int | None) -> Dataset:
        return evaluated(self.dataset).with_settings(
            obs_columns=[JOINID], batch_size=batch_size or self.dataset.batch_size
        )

    def _loader(self, part: Dataset, per_label: int | None = None, **arguments: Any) -> Any:
        cells = ModelLoader(self._placed(part), self._names, **arguments)
        labelled = self._labelled(part, per_label)
        if labelled is None:
            return cells
        make = partial(self._labelled_loader, labelled, arguments)
        return PairLoader(cells, make(0), None if per_label is None else make)

    def _labelled_loader(
        self, labelled: LabelledCells, arguments: dict[str, Any], number: int
    ) -> ModelLoader:
        return ModelLoader(self._placed(labelled.of_epoch(number)), self._names, **arguments)

    def _placed(self, part: Dataset, dense: bool = False) -> Dataset:
        trainer = self.trainer
        runs = trainer is not None and not trainer.state.stopped
        device = trainer.strategy.root_device if runs else None
        if device is not None and streams_of(device) is not None and not self._num_workers:
            return part.with_settings(device=device, format="torch", obs_format="torch")
        # Only a running trainer calls `transfer_batch_to_device`.
        sparse = runs if self._sparse is None else self._sparse
        return part.with_settings(sparse=bool(sparse) and not dense)

    def _labelled(self, part: Dataset, per_label: int | None) -> LabelledCells | None:
        """Return the labelled cells of a part, or None if the model does not use labels."""
        unlabeled = self._keys.unlabeled_category
        if not self._keys.is_semi_supervised:
            return None
        codes = all_codes(part, LABELS)
        places = np.flatnonzero(self.registration.labels[codes] != unlabeled)
        if not len(places):
            return None
        labelled = LabelledCells(part, places, codes[places], per_label)
        shares = part.reader.settings.find_shard().world_size
        if part.reader.settings.uneven == "exact":
            # If there are too few to shard, every rank has all of them.
            if len(places) < shares:
                labelled = replace(labelled, part=part.with_settings(shard=False))
            return labelled
        if labelled.epoch_cells < 2 * shares:
            raise InvalidArgument(
                f"a rank trains its classifier on two labelled cells or more, got "
                f"{labelled.epoch_cells} for {shares} ranks"
            )
        return labelled

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Move a batch; sparse X becomes dense on the device."""
        return to_device(batch, device)
