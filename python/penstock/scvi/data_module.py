"""The data module of a scvi-tools model. Imports lightning, torch and, when made, scvi-tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from lightning.pytorch import LightningDataModule

from penstock.base.text import plural
from penstock.base.validation import checked_int
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument

from . import models, saved_model
from .data_facts import DataFacts
from .data_loaders import DataLoaders
from .datasets import checked_cells, encoded, part_sizes
from .model_fields import ModelFields
from .registration import Registration


class DataModule(DataFacts, DataLoaders, LightningDataModule):
    """Cells of a store for `SCVI`, `LinearSCVI` or `SCANVI` of scvi-tools.

    Takes the place of an AnnData and ``setup_anndata``: the registry is the one that scvi-tools
    would write for an AnnData of all the cells, so that models are saved, loaded and mapped as if
    they were trained from one. Nothing of the matrix is held in memory but what the loader's
    budget allows.

    Parameters
    ----------
    data : Dataset, or what a `Dataset` takes
        The cells and genes. X must hold counts. A Dataset brings its settings along (batch size,
        memory budget, seed, weights); a path or an experiment takes them in `dataset`.
    model : str or class, default "SCVI"
        The model: "SCVI", "LinearSCVI", "SCANVI", or its class.
    batch_key : str, sequence of str or Encoder, optional
        The batch: a column of obs, several whose values are joined by ``//``, or an encoder whose
        output is the batch.
    labels_key : str, sequence of str or Encoder, optional
        The label; SCANVI needs one.
    unlabeled_category : str, optional
        The label of cells that have none, for SCANVI. It need not occur.
    size_factor_key : str or Encoder, optional
        The size factor of a cell, in place of its count of molecules.
    categorical_covariate_keys, continuous_covariate_keys : sequence, optional
        Further covariates, each a key as above.
    train_size : float, default 0.9
        Share of the cells to train on, rounded up.
    validation_size : float, optional
        Share to validate on, rounded down; the rest by default. What is left is for tests.
    stratify, group : str or sequence of str, optional
        As of `Dataset.random_split`: keep proportions, or keep groups (donors) whole.
    split_seed : int, default 0
        Of the split, which is the same on all ranks.
    batch_size : int, optional
        Cells in a batch of a rank; 128 by default.
    sparse : bool, optional
        Whether batches are sparse until they are on the device. By default where Lightning trains,
        which has this make them dense, and for a callback that loops over them itself; in a loop of
        your own outside of training they are dense unless you say so. `transfer_batch_to_device`
        makes sparse ones dense; ``predict_dataloader()`` gives dense ones.
    num_workers : int, default 0
        DataLoader workers for training; the loader has threads of its own.
    n_samples_per_label : int, optional
        Labelled cells of each label that an epoch trains SCANVI's classifier on, drawn again for
        each; all cells of rarer labels, and all labelled cells by default.
    dataset : mapping, optional
        Arguments of `Dataset` when `data` is none: ``{"obs_query": "…"}``.

    Raises
    ------
    Unsupported
        Another model.
    NotFound
        No such column.
    InvalidArgument
        An argument that makes no sense; cells without a category.

    Notes
    -----
    A training batch never has one cell, which BatchNorm cannot take: it would join the one before.
    Attributes that scvi-tools asks for: ``n_obs``, ``n_vars``, ``n_batch``, ``n_labels``,
    ``n_train``, ``n_val``, ``train_idx``, ``val_idx``, ``test_idx`` (places among the cells in
    stored order, int64), ``registry``.
    """

    def __init__(
        self,
        data: Any,
        model: Any = "SCVI",
        *,
        batch_key: Any = None,
        labels_key: Any = None,
        unlabeled_category: str | None = None,
        size_factor_key: Any = None,
        categorical_covariate_keys: Iterable[Any] | None = None,
        continuous_covariate_keys: Iterable[Any] | None = None,
        train_size: float = 0.9,
        validation_size: float | None = None,
        stratify: str | Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
        split_seed: int = 0,
        batch_size: int | None = None,
        sparse: bool | None = None,
        num_workers: int = 0,
        n_samples_per_label: int | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model_class = models.model_class(model)
        keys = ModelFields.of(
            self.model_class,
            batch_key=batch_key,
            labels_key=labels_key,
            unlabeled_category=unlabeled_category,
            size_factor_key=size_factor_key,
            categorical_covariate_keys=categorical_covariate_keys,
            continuous_covariate_keys=continuous_covariate_keys,
        )
        cells = checked_cells(data, dataset, batch_size)
        self._prepare(cells, keys, keys.register(self.model_class, cells), sparse, num_workers)
        self._sample_labels(n_samples_per_label)
        self._split(train_size, validation_size, stratify, group, split_seed)
        #: Genes of a saved model that the cells do not have.
        self.missing_genes: npt.NDArray[Any] = np.empty(0, object)

    @classmethod
    def from_model(
        cls,
        model: Any,
        data: Any,
        *,
        extend_categories: bool = False,
        encoders: Iterable[Encoder] = (),
        var_names: str | None = None,
        train_size: float = 0.9,
        validation_size: float | None = None,
        stratify: str | Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
        split_seed: int = 0,
        batch_size: int | None = None,
        sparse: bool | None = None,
        num_workers: int = 0,
        n_samples_per_label: int | None = None,
        dataset: Mapping[str, Any] | None = None,
    ) -> DataModule:
        """Cells for a model that there is, aligned with the genes and categories that it knows.

        Parameters
        ----------
        model : path or model
            A folder that a model was saved to, or a model.
        data : Dataset, or what a `Dataset` takes
            The cells. Genes are put in the model's order; those that the cells lack are zeros, with
            a warning, and are named in `missing_genes`.
        extend_categories : bool, default False
            Take batches and covariates that the model does not know, as new ones after its own: for
            ``load_query_data(data.template, model)``. Otherwise they are an error.
        encoders : sequence of Encoder
            Those that made a key of the model, by name.
        var_names : str, optional
            Column of var that has the model's names of genes.
        **others
            As of `DataModule`.

        Raises
        ------
        InvalidArgument
            Categories that the model does not know, or none of its genes.
        NotFound
            A column that the model was trained with is not there.
        """
        saved = saved_model.saved_model(model)
        made = cls.__new__(cls)
        LightningDataModule.__init__(made)
        made.model_class = saved.model_class
        cells = checked_cells(data, dataset, batch_size)
        cells, made.missing_genes = saved_model.with_genes_of(cells, saved.var_names, var_names)
        keys = ModelFields.saved(saved, cells, {each.name: each for each in encoders})
        registration = keys.transfer(saved, cells, extend_categories)
        cls._prepare(made, cells, keys, registration, sparse, num_workers)
        cls._sample_labels(made, n_samples_per_label)
        cls._split(made, train_size, validation_size, stratify, group, split_seed)
        return made

    def _prepare(
        self,
        cells: Dataset,
        keys: ModelFields,
        registration: Registration,
        sparse: bool | None,
        num_workers: int,
    ) -> None:
        self.registration = registration
        self._keys = keys
        encoders, self._names = keys.encoders(registration)
        self._sparse = sparse
        self._num_workers = checked_int("num_workers", num_workers, least=0)
        #: All cells, with the codes of the registry as obs.
        self.dataset = encoded(cells, encoders)

    def _sample_labels(self, n_samples_per_label: int | None) -> None:
        if n_samples_per_label is not None:
            if not self._keys.is_semi_supervised:
                raise InvalidArgument("n_samples_per_label is of SCANVI, which has labelled cells")
            checked_int("n_samples_per_label", n_samples_per_label, least=1)
        self._n_samples_per_label = n_samples_per_label

    def _split(
        self,
        train_size: float,
        validation_size: float | None,
        stratify: Any,
        group: Any,
        seed: int,
    ) -> None:
        sizes = part_sizes(self.dataset.n_obs, train_size, validation_size)
        wanted = [size for size in sizes if size]
        parts: list[Dataset | None] = [self.dataset]
        if len(wanted) > 1:
            parts = list(
                self.dataset.random_split(*wanted, seed=seed, stratify=stratify, group=group)
            )
        train, self.val, self.test = (parts.pop(0) if size else None for size in sizes)
        assert train is not None
        self.train = train

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.model_class.__name__}, {plural(self.n_obs, 'cell')} x "
            f"{plural(self.n_vars, 'gene')}, {plural(self.n_batch, 'batch')}: "
            f"{plural(self.n_train, 'cell')} to train on, "
            f"{self.n_val:,} to validate on)"
        )

    __str__ = __repr__  # Lightning's takes every dataloader for a torch DataLoader

    def create_model(self, from_scvi: Any = None, **arguments: Any) -> Any:
        """Make a model for these cells, with random weights.

        Parameters
        ----------
        from_scvi : SCVI, optional
            Begin a `SCANVI` with the weights of this one.
        **arguments
            Of the model.

        Returns
        -------
        SCVI, LinearSCVI or SCANVI
            As scvi-tools makes it from an AnnData, without one.
        """
        if from_scvi is None:
            return models.create(self, arguments)
        return models.from_scvi(self, from_scvi, arguments)

    def load_query_model(self, reference: Any, **arguments: Any) -> Any:
        """Map these cells on a reference: scvi-tools' ``load_query_data``, without an AnnData.

        Parameters
        ----------
        reference : path or model
            What `from_model` was given, with ``extend_categories=True``.
        **arguments
            Of ``load_query_data``.

        Returns
        -------
        The model with weights for the new categories, to be trained on these cells. What it saves
        has the registry of both.
        """
        return models.load_query(self, reference, arguments)
