"""What scvi-tools and its users ask a data module for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.dataset.dataset import Dataset

from .datasets import all_codes
from .loaders import LABELS
from .model_fields import ModelFields
from .registration import Registration


class DataFacts:
    """Counts, places and names, of a registration and the parts of a Dataset."""

    registration: Registration
    dataset: Dataset
    train: Dataset
    val: Dataset | None
    test: Dataset | None
    _keys: ModelFields

    @property
    def registry(self) -> dict[str, Any]:
        """The registry that ``setup_anndata`` writes for an AnnData of these cells."""
        return self.registration.registry

    @property
    def template(self) -> Any:
        """A few made-up rows with this registration, for functions that ask for an AnnData.

        ``SCANVI.from_scvi_model(model, "Unknown", adata=data.template)``,
        ``SCVI.load_query_data(data.template, folder)``.
        """
        return self.registration.template

    @property
    def n_obs(self) -> int:
        """Cells."""
        return self.dataset.n_obs

    @property
    def n_vars(self) -> int:
        """Genes."""
        return self.dataset.n_vars

    @property
    def n_batch(self) -> int:
        """Batches of the model."""
        return int(self.registration.summary_stats.n_batch)

    @property
    def n_labels(self) -> int:
        """Labels of the model, that of cells without one among them."""
        return int(self.registration.summary_stats.n_labels)

    @property
    def is_semi_supervised(self) -> bool:
        """Whether training has pairs of batches, of all and of labelled cells."""
        return self._keys.is_semi_supervised

    @property
    def n_train(self) -> int:
        """Cells to train on, over all ranks."""
        return self.train.n_obs

    @property
    def n_val(self) -> int:
        """Cells to validate on, over all ranks."""
        return 0 if self.val is None else self.val.n_obs

    @property
    def train_idx(self) -> npt.NDArray[np.int64]:
        """Places of the training cells."""
        return self._places(self.train)

    @property
    def val_idx(self) -> npt.NDArray[np.int64]:
        """Places of the validation cells."""
        return self._places(self.val)

    @property
    def test_idx(self) -> npt.NDArray[np.int64]:
        """Places of the test cells."""
        return self._places(self.test)

    @property
    def joinids(self) -> npt.NDArray[np.int64]:
        """``soma_joinid`` of all cells, in stored order."""
        # The engine's are C's long long, which zarr does not know.
        rows = self.dataset.reader.selection.rows.to_numpy().view(np.int64)
        return self.dataset.obs.own_joinids(rows).view(np.int64)

    def joinid_at(self, place: int) -> int:
        """``soma_joinid`` of the cell at a place in stored order."""
        row = np.array([self.dataset.reader.selection.rows.at(place)], np.int64)
        return int(self.dataset.obs.own_joinids(row)[0])

    def _places(self, part: Dataset | None) -> npt.NDArray[np.int64]:
        if part is None:
            return np.empty(0, np.int64)
        rows = part.reader.selection.rows.to_numpy()
        return np.searchsorted(self.dataset.reader.selection.rows.to_numpy(), rows).astype(np.int64)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Label of every cell, in stored order: scvi-tools' SCANVI asks for them."""
        return self.registration.labels[all_codes(self.dataset, LABELS)]
