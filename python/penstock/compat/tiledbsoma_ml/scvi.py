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

#: tiledbsoma_ml's default has workers; Penstock's threads make them unnecessary.
DEFAULT_DATALOADER_KWARGS: dict[str, Any] = {"pin_memory": torch.cuda.is_available()}

_BATCH_COLUMNS = ("dataset_id", "assay", "suspension_type", "donor_id")


class SCVIDataModule(LightningDataModule):
    """A data module for ``scvi.model.SCVI().train(datamodule=…)``: counts and batch labels.

    A batch label joins several obs columns. New code should use `penstock.scvi.DataModule`, which
    has validation, checkpoints and models that can be saved.

    Parameters
    ----------
    query : tiledbsoma.ExperimentAxisQuery
        Selects cells and genes.
    *args, **kwargs
        Arguments of `ExperimentDataset`: ``layer_name``, ``batch_size``, ….
    batch_column_names : sequence of str, optional
        Columns of the label; by default ``dataset_id``, ``assay``, ``suspension_type`` and
        ``donor_id``.
    batch_labels : sequence of str, optional
        All labels (values joined by ``//``), for example of the module that a model was trained
        with; by default the labels of the query.
    dataloader_kwargs : dict, optional
        Arguments of `experiment_dataloader`.

    Attributes
    ----------
    batch_labels : sequence of str
        All labels; keep them with the model.
    batch_encoder : sklearn.preprocessing.LabelEncoder
        Encoder of the labels.
    train_dataset : ExperimentDataset
        Set by `setup`.

    Raises
    ------
    ValueError
        A batch has a label that is not in `batch_labels`; raised when the batch is made.
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
        """Return batches of `train_dataset`: pairs of an ndarray and a DataFrame."""
        return experiment_dataloader(self.train_dataset, **self.dataloader_kwargs)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> dict[str, Any]:
        """Return tensors for scVI: X float32 (cells, genes), batch int64 (cells, 1), no labels."""
        X, obs = batch
        codes = self.batch_encoder.transform(self._labels(obs))
        return {
            "X": torch.from_numpy(X).float(),
            "batch": torch.from_numpy(codes).unsqueeze(1),
            "labels": torch.empty(0),
        }

    def _labels(self, obs: Any) -> Any:
        """Return a Series of the joined values of the columns."""
        first, *others = (obs[name].astype(str) for name in self.batch_column_names)
        return first.str.cat(others, sep=self.batch_colsep)

    @property
    def n_obs(self) -> int:
        """Number of cells in the query."""
        return len(self.query.obs_joinids())

    @property
    def n_vars(self) -> int:
        """Number of genes in the query."""
        return len(self.query.var_joinids())

    @property
    def n_batch(self) -> int:
        """Number of labels."""
        return len(self.batch_encoder.classes_)
