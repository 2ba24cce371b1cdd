"""The data module of a scvi-tools model.

Imports lightning and torch; a DataModule imports scvi-tools when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from lightning.pytorch import LightningDataModule

from penstock.base.suggestions import did_you_mean, suggests
from penstock.base.text import plural
from penstock.base.validation import checked_int
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument
from penstock.plan.splits.random_split import random_split

from ..registry import saved_model
from ..registry.measured_template import batch_field, fill
from ..registry.modalities import Modalities
from ..registry.model_classes import model_class, training_default
from ..registry.model_fields import ModelFields
from ..registry.registration import Registration
from . import hints, models
from .data_facts import DataFacts
from .data_loaders import DataLoaders
from .datasets import all_codes, checked_cells, encoded, part_sizes


class DataModule(DataFacts, DataLoaders, LightningDataModule):
    """Cells of a store for a model of scvi-tools.

    Replaces an AnnData and ``setup_anndata``. The registry is the one that scvi-tools would write
    for an AnnData of all the cells: models are saved, loaded and mapped as if trained from one.
    Memory use is bounded by the memory budget of the loader.

    Parameters
    ----------
    data : Dataset, or what a `Dataset` takes
        The cells and genes; X must hold counts. A Dataset keeps its settings (batch size, memory
        budget, seed, weights). For a path or an experiment, give them in `dataset`.
    model : str or class, default "SCVI"
        "SCVI", "LinearSCVI", "SCANVI", "CondSCVI", "PEAKVI", "POISSONVI", "AUTOZI", "MRVI",
        "TOTALVI", "MULTIVI", or the class of the model.
    modalities : dict of str to str, optional
        Measurements of a TOTALVI or MULTIVI, by scvi-tools' names of their layers:
        ``{"rna_layer": "RNA", "protein_layer": "protein"}``, ``{"rna_layer": "RNA", "atac_layer":
        "ATAC"}``. MULTIVI also takes one of these two alone, and proteins. The proteins of all
        cells are read once when the data module is made, to see which batches lack some.
    batch_key : str, sequence of str or Encoder, optional
        The batch: an obs column, several columns whose values are joined by ``//``, or an encoder
        whose output is the batch.
    labels_key : str, sequence of str or Encoder, optional
        The label, in the same forms; SCANVI needs one.
    fine_labels_key : str, sequence of str or Encoder, optional
        A finer label, in the same forms, for CondSCVI.
    sample_key : str, sequence of str or Encoder, optional
        The sample, in the same forms, for MRVI.
    panel_key : str, sequence of str or Encoder, optional
        The panel of antibodies, in the same forms, for TOTALVI.
    unlabeled_category : str, optional
        Label of unlabelled cells for SCANVI, or fine label of such cells for CondSCVI ("unlabeled"
        by default). It need not occur.
    size_factor_key : str or Encoder, optional
        Size factor of a cell; by default its total count.
    categorical_covariate_keys, continuous_covariate_keys : sequence, optional
        Further covariates, each a key as above.
    train_size : float, optional
        Fraction of cells for training, rounded up; by default 0.9, or 1 for CondSCVI, as in
        scvi-tools.
    validation_size : float, optional
        Fraction of cells for validation, rounded down; by default all the others. Cells in neither
        part are test cells.
    stratify, group : str or sequence of str, optional
        Columns whose proportions are kept, or whose groups (donors) stay whole; see
        `Dataset.random_split`.
    split_seed : int, default 0
        Seed of the split, which is the same on all ranks.
    batch_size : int, optional
        Cells in a batch of one rank; by default as in scvi-tools: 128, or 256 for TOTALVI.
    sparse : bool, optional
        Whether batches stay sparse until they are on the device, where `transfer_batch_to_device`
        makes them dense. By default they are sparse while Lightning trains and dense in a loop of
        your own. Batches of ``predict_dataloader()`` are always dense.
    num_workers : int, default 0
        DataLoader workers for training; the loader has its own threads.
    n_samples_per_label : int, optional
        Labelled cells of each label in a training epoch of SCANVI's classifier, drawn again for
        each epoch; a rarer label uses all its cells. By default all labelled cells.
    dataset : mapping, optional
        Arguments of `Dataset` if `data` is not a Dataset: ``{"obs_query": "…"}``.

    Raises
    ------
    Unsupported
        The model is another one.
    NotFound
        A column does not exist.
    InvalidArgument
        An argument is invalid, or a cell has no value for a category.

    Notes
    -----
    A training batch never has a single cell, which BatchNorm cannot handle: that cell joins the
    batch before. scvi-tools reads the attributes ``n_obs``, ``n_vars``, ``n_batch``, ``n_labels``,
    ``n_train``, ``n_val``, ``train_idx``, ``val_idx``, ``test_idx`` (positions in stored order,
    int64) and ``registry``.
    """

    @suggests(hints.ARGUMENTS)
    def __init__(
        self,
        data: Any,
        model: Any = "SCVI",
        *,
        modalities: Mapping[str, str] | None = None,
        batch_key: Any = None,
        labels_key: Any = None,
        fine_labels_key: Any = None,
        sample_key: Any = None,
        panel_key: Any = None,
        unlabeled_category: str | None = None,
        size_factor_key: Any = None,
        categorical_covariate_keys: Iterable[Any] | None = None,
        continuous_covariate_keys: Iterable[Any] | None = None,
        train_size: float | None = None,
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
        if hasattr(model, "module"):
            raise InvalidArgument(
                f"model must be the name or class of a model, got a {type(model).__name__}: "
                "DataModule.from_model(model, data) puts cells in the form of a model"
            )
        self.model_class = model_class(model)
        measured = Modalities.of(self.model_class, modalities)
        keys = ModelFields.of(
            self.model_class,
            measured,
            batch_key=batch_key,
            labels_key=labels_key,
            fine_labels_key=fine_labels_key,
            sample_key=sample_key,
            panel_key=panel_key,
            unlabeled_category=unlabeled_category,
            size_factor_key=size_factor_key,
            categorical_covariate_keys=categorical_covariate_keys,
            continuous_covariate_keys=continuous_covariate_keys,
        )
        default = training_default(self.model_class, "batch_size", 128)
        cells = checked_cells(data, dataset, batch_size, measured, default)
        self._prepare(cells, keys, keys.register(self.model_class, cells), sparse, num_workers)
        self._sample_labels(n_samples_per_label)
        self._split(train_size, validation_size, stratify, group, split_seed)
        #: Genes of a saved model that the cells lack.
        self.missing_genes: npt.NDArray[Any] = np.empty(0, object)

    @classmethod
    @suggests(hints.ARGUMENTS)
    def from_model(
        cls,
        model: Any,
        data: Any,
        *,
        modalities: Mapping[str, str] | None = None,
        extend_categories: bool = False,
        encoders: Iterable[Encoder] = (),
        var_names: str | None = None,
        train_size: float | None = None,
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
        """Return cells for an existing model, aligned with its genes and categories.

        Parameters
        ----------
        model : path or model
            The folder of a saved model, or a model.
        data : Dataset, or what a `Dataset` takes
            The cells. Genes are put in the model's order. Genes that the cells lack are zeros, with
            a warning; `missing_genes` names them.
        modalities : dict of str to str, optional
            Measurements of these cells for a TOTALVI or MULTIVI, as for a `DataModule`; by default
            those that it was trained with here, else the names that scvi-tools knows and "RNA".
        extend_categories : bool, default False
            Whether to add unknown batches and covariates after the model's own, for
            ``load_query_data(data.template, model)``. If False, they are an error.
        encoders : sequence of Encoder
            Encoders that made keys of the model; they are found by name.
        var_names : str, optional
            Column of var with the gene names that the model uses.
        **others
            See `DataModule`.

        Raises
        ------
        InvalidArgument
            The cells have unknown categories, or none of the model's genes.
        NotFound
            A column that the model was trained with does not exist.
        """
        saved = saved_model.saved_model(model)
        made = cls.__new__(cls)
        LightningDataModule.__init__(made)
        made.model_class = saved.model_class
        measured = Modalities.saved(
            saved.model_class, saved.registry, saved.measurements, modalities
        )
        cells = checked_cells(data, dataset, batch_size, measured)
        if measured is None:
            cells, lacks = saved_model.with_genes_of(cells, saved.var_names, var_names)
        else:
            cells, lacks = saved_model.with_features_of(cells, saved, measured, var_names)
        made.missing_genes = lacks
        keys = ModelFields.saved(saved, cells, {each.name: each for each in encoders}, measured)
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
        #: All cells; their obs are the codes of the registry.
        self.dataset = encoded(cells, encoders)
        measured = keys.modalities
        if measured is not None:
            field = batch_field(registration)
            codes = np.zeros(cells.n_obs, np.int64)
            if field in keys.categories:
                codes = all_codes(self.dataset, field)
            fill(measured, self.model_class, registration, self.dataset, codes)

    def _sample_labels(self, n_samples_per_label: int | None) -> None:
        self._keys.check_samples_per_label(n_samples_per_label)
        self._n_samples_per_label = n_samples_per_label

    def _split(
        self,
        train_size: float | None,
        validation_size: float | None,
        stratify: Any,
        group: Any,
        seed: int,
    ) -> None:
        if train_size is None:
            train_size = training_default(self.model_class, "train_size", 0.9)
        sizes = part_sizes(self.dataset.n_obs, train_size, validation_size)
        wanted = [size for size in sizes if size]
        parts: list[Dataset | None] = [self.dataset]
        if len(wanted) > 1:
            rows = self.dataset.reader.selection.rows
            cut = random_split(self.dataset.obs, rows, wanted, seed, stratify, group)
            parts = [self.dataset.with_rows(part) for part in cut]
        train, self.val, self.test = (parts.pop(0) if size else None for size in sizes)
        assert train is not None
        self.train = train

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.model_class.__name__}, {plural(self.n_obs, 'cell')} x "
            f"{self.features}, {plural(self.n_batch, 'batch')}: "
            f"{plural(self.n_train, 'cell')} to train on, "
            f"{self.n_val:,} to validate on)"
        )

    __str__ = __repr__  # Lightning's expects torch DataLoaders

    def create_model(self, from_scvi: Any = None, **arguments: Any) -> Any:
        """Make a model for these cells, with random weights.

        Parameters
        ----------
        from_scvi : SCVI, optional
            Model whose weights a `SCANVI` starts with.
        **arguments
            Arguments of the model class.

        Returns
        -------
        model of scvi-tools
            The model that scvi-tools would make from an AnnData, but without one.
        """
        for name in {"scvi_model", "from_scvi_model", "model"} & arguments.keys():
            raise TypeError(f"create_model() has no argument {name!r}; use from_scvi=")
        if from_scvi is None:
            return models.create(self, arguments)
        return models.from_scvi(self, from_scvi, arguments)

    def load_query_data(self, reference: Any, **arguments: Any) -> Any:
        """Map these cells onto a reference: scvi-tools' ``load_query_data`` without an AnnData.

        Parameters
        ----------
        reference : path or model
            The model given to `from_model` with ``extend_categories=True``.
        **arguments
            Arguments of ``load_query_data``.

        Returns
        -------
        The model with weights for the new categories, to be trained on these cells. Its saved
        registry covers the reference and these cells.
        """
        return models.load_query(self, reference, arguments)

    #: Earlier name of `load_query_data`.
    load_query_model = load_query_data

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes. Lightning and pickle ask for others.
        there = [each for each in dir(type(self)) if not each.startswith("_")]
        hint = hints.ATTRIBUTES.get(name)
        raise AttributeError(
            f"a DataModule has no attribute {name!r}"
            + (f": {hint}" if hint else "" if name.startswith("_") else did_you_mean(name, there))
        )
