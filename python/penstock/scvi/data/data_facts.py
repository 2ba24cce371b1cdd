"""Attributes of a data module that scvi-tools and its users read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.dataset.dataset import Dataset
from penstock.inference.rows import joinids_of

from ..registry.loaders import LABELS
from ..registry.modalities import FEATURES, Modalities
from ..registry.model_fields import ModelFields
from ..registry.registration import Registration
from .datasets import all_codes


class DataFacts:
    """Counts, positions and names from a registration and the parts of a Dataset."""

    model_class: Any
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
        """AnnData of a few made-up rows with this registration, for functions that need one.

        A MuData for MULTIVI.

        ``SCANVI.from_scvi_model(model, "Unknown", adata=data.template)``,
        ``SCVI.load_query_data(data.template, folder)``.
        """
        return self.registration.template

    @property
    def modalities(self) -> Modalities | None:
        """Measurements of a model that reads several, else None."""
        return self._keys.modalities

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return self.dataset.n_obs

    @property
    def n_vars(self) -> int:
        """Number of genes; 0 for a MULTIVI that reads none."""
        modalities = self._keys.modalities
        return self.dataset.n_vars if modalities is None else len(modalities.names(self.dataset))

    @property
    def features(self) -> str:
        """Numbers of features, such as "40 genes and 60 regions"."""
        modalities = self._keys.modalities
        if modalities is None:
            return plural(self.n_vars, "gene")
        return " and ".join(
            plural(len(self.names_of(layer)), FEATURES[layer]) for layer in modalities.layers
        )

    @property
    def gene_names(self) -> npt.NDArray[Any]:
        """Names of the genes, as the model has them."""
        modalities = self._keys.modalities
        if modalities is not None:
            return modalities.names(self.dataset)
        return np.asarray(self.template.var_names).astype(str)

    def names_of(self, layer: str) -> npt.NDArray[Any]:
        """Return the names of the features of a layer, or of the only measurement."""
        modalities = self._keys.modalities
        return self.gene_names if modalities is None else modalities.names(self.dataset, layer)

    def measured(self, layer: str) -> Dataset:
        """Return all cells with the counts of one layer, or of the only measurement."""
        modalities = self._keys.modalities
        return self.dataset if modalities is None else modalities.alone(self.dataset, layer)

    @property
    def n_batch(self) -> int:
        """Number of batches in the model."""
        return int(self.registration.summary_stats.n_batch)

    @property
    def n_labels(self) -> int:
        """Number of labels in the model, with the label of unlabelled cells."""
        return int(self.registration.summary_stats.n_labels)

    @property
    def is_semi_supervised(self) -> bool:
        """Whether a training step takes a batch of all cells and a batch of labelled cells."""
        return self._keys.is_semi_supervised

    @property
    def n_train(self) -> int:
        """Number of training cells over all ranks."""
        return self.train.n_obs

    @property
    def n_val(self) -> int:
        """Number of validation cells over all ranks."""
        return 0 if self.val is None else self.val.n_obs

    @property
    def train_idx(self) -> npt.NDArray[np.int64]:
        """Positions of the training cells in stored order."""
        return self._places(self.train)

    @property
    def val_idx(self) -> npt.NDArray[np.int64]:
        """Positions of the validation cells in stored order."""
        return self._places(self.val)

    @property
    def test_idx(self) -> npt.NDArray[np.int64]:
        """Positions of the test cells in stored order."""
        return self._places(self.test)

    @property
    def joinids(self) -> npt.NDArray[np.int64]:
        """``soma_joinid`` of all cells, in stored order."""
        return joinids_of(self.dataset)

    def joinid_at(self, place: int) -> int:
        """Return the ``soma_joinid`` of the cell at a position in stored order."""
        row = np.array([self.dataset.reader.selection.rows.at(place)], np.int64)
        return int(self.dataset.obs.own_joinids(row)[0])

    def cells_of_each(self, name: str) -> npt.NDArray[np.int64]:
        """Return the number of cells of each category of ``labels`` or ``sample``."""
        number = len(self.registration.categories(name))
        if name not in self._keys.categories:  # all are of one category
            return np.array([self.n_obs], np.int64)
        return np.bincount(all_codes(self.dataset, name), minlength=number)

    def _places(self, part: Dataset | None) -> npt.NDArray[np.int64]:
        if part is None:
            return np.empty(0, np.int64)
        rows = part.reader.selection.rows.to_numpy()
        return np.searchsorted(self.dataset.reader.selection.rows.to_numpy(), rows).astype(np.int64)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Return the label of every cell in stored order, which scvi-tools' SCANVI needs."""
        if LABELS not in self._keys.categories:
            raise AttributeError  # `__getattr__` of the data module says why
        return self.registration.labels[all_codes(self.dataset, LABELS)]
