"""SCVIDataModule: batches for scVI from a tiledbsoma query. Imports lightning and scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.preprocessing import LabelEncoder

from penstock.base.missing_package import require

from .dataloader import experiment_dataloader
from .dataset import ExperimentDataset

try:
    from lightning.pytorch import LightningDataModule
except ImportError:  # the package's other name
    try:
        from pytorch_lightning import LightningDataModule  # type: ignore[assignment]
    except ImportError:
        require("lightning", extra="scvi")
        raise

#: Theirs has workers, which Penstock's threads do without.
DEFAULT_DATALOADER_KWARGS: dict[str, Any] = {"pin_memory": torch.cuda.is_available()}

_BATCH_COLUMNS = ("dataset_id", "assay", "suspension_type", "donor_id")


class SCVIDataModule(LightningDataModule):
    """What ``scvi.model.SCVI().train(datamodule=…)`` takes: counts, and a batch label a cell.

    The label is that of several obs columns together. New code is better off with
    `penstock.scvi.DataModule`, which has validation, checkpoints and models that can be saved.

    Parameters
    ----------
    query : tiledbsoma.ExperimentAxisQuery
        Which cells and genes.
    *args, **kwargs
        Of `ExperimentDataset`: ``layer_name``, ``batch_size``, ….
    batch_column_names : sequence of str, optional
        The columns; by default ``dataset_id``, ``assay``, ``suspension_type`` and ``donor_id``.
    batch_labels : sequence of str, optional
        The labels that there are (values joined by ``//``), those of another module say, whose model
        is used; by default those of the query.
    dataloader_kwargs : dict, optional
        Of `experiment_dataloader`.

    Attributes
    ----------
    batch_labels : sequence of str
        To be kept with a model.
    batch_encoder : sklearn.preprocessing.LabelEncoder
        Their codes.
    train_dataset : ExperimentDataset
        After `setup`.

    Raises
    ------
    ValueError
        With the batch: a cell's label is not among `batch_labels`.
    """

    def __init__(
        self,
        query: Any,
        *args: Any,
        batch_column_names: Sequence[str] | None = None,
        batch_labels: Sequence[str] | None = None,
        dataloader_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.query = query
        self.dataset_args = args
        self.dataset_kwargs = kwargs
        self.dataloader_kwargs = {**DEFAULT_DATALOADER_KWARGS, **(dataloader_kwargs or {})}
        self.batch_column_names = list(
            _BATCH_COLUMNS if batch_column_names is None else batch_column_names
        )
        self.batch_colsep = "//"
        self.batch_colname = "scvi_batch"
        if batch_labels is None:
            obs = query.obs(column_names=self.batch_column_names).concat().to_pandas()
            batch_labels = self._labels(obs).unique()
        self.batch_labels = batch_labels
        self.batch_encoder = LabelEncoder().fit(batch_labels)

    def setup(self, stage: str | None = None) -> None:
        """Make `train_dataset`."""
        self.train_dataset = ExperimentDataset(
            self.query,
            *self.dataset_args,
            obs_column_names=self.batch_column_names,  # type: ignore[misc]
            **self.dataset_kwargs,
        )

    def train_dataloader(self) -> Any:
        """Batches of `train_dataset`, an ndarray and a DataFrame each."""
        return experiment_dataloader(self.train_dataset, **self.dataloader_kwargs)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> dict[str, Any]:
        """Tensors of a batch for scVI: X float32 (cells, genes), batch int64 (cells, 1), no labels."""
        X, obs = batch
        codes = self.batch_encoder.transform(self._labels(obs))
        return {
            "X": torch.from_numpy(X).float(),
            "batch": torch.from_numpy(codes).unsqueeze(1),
            "labels": torch.empty(0),
        }

    def _labels(self, obs: Any) -> Any:
        """Series of the columns' values, joined."""
        first, *others = (obs[name].astype(str) for name in self.batch_column_names)
        return first.str.cat(others, sep=self.batch_colsep)

    @property
    def n_obs(self) -> int:
        """Cells of the query."""
        return len(self.query.obs_joinids())

    @property
    def n_vars(self) -> int:
        """Genes of the query."""
        return len(self.query.var_joinids())

    @property
    def n_batch(self) -> int:
        """Number of labels."""
        return len(self.batch_encoder.classes_)
