"""Models of scvi-tools, made without an AnnData of the cells."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.base.suggestions import unknown_arguments
from penstock.base.text import plural
from penstock.base.validation import described
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument, Unsupported

from ..registry.loaders import BATCH, FINE_LABELS, LABELS, PANEL, PROTEINS, REGIONS, SAMPLE, X
from ..registry.modalities import Modalities
from ..registry.model_classes import is_semi_supervised, reads_labels
from ..registry.registration import Registration
from ..registry.saved_model import MEASUREMENTS, check_setup, saved_model
from ..registry.without_anndata import guard
from .data_facts import DataFacts

_CELL_WEIGHTS = "modality_weights='cell' learns a weight for each cell of an AnnData; use 'equal' or 'universal'"
#: scvi-tools' name in uns of what tells AnnData objects apart.
_UUID = "_scvi_uuid"
_LIBRARY = ("library_log_means", "library_log_vars")


def create(data: DataFacts, arguments: dict[str, Any]) -> Any:
    """Make a model with random weights, as ``Model(adata, **arguments)`` would."""
    cls = data.model_class
    if arguments.get("modality_weights") == "cell":
        raise Unsupported(_CELL_WEIGHTS)
    with warnings.catch_warnings():
        # The warning is about the rows of the template, which are not cells.
        warnings.filterwarnings("ignore", message=".*empty cells.*")
        warnings.filterwarnings("ignore", message="You are using the Torch Version of MrVI")
        try:
            model = cls(data.template, **arguments)
        except TypeError:
            _check_names(cls, arguments)
            raise
    return let_go(model, data)


def _check_names(cls: Any, arguments: dict[str, Any]) -> None:
    """Refuse arguments that neither the model nor its module has."""
    classes = [cls, getattr(cls, "_module_cls", None)]
    known = {
        name
        for each in classes
        if each is not None
        for name in inspect.signature(each.__init__).parameters
    } - {"self", "adata", "kwargs", "model_kwargs", "vae_kwargs"}
    if unknown := [name for name in arguments if name not in known]:
        raise TypeError(unknown_arguments("create_model", unknown, known, {})) from None


def let_go(model: Any, data: DataFacts) -> Any:
    """Remove the template from a model, and set what scvi-tools computes from all cells."""
    without_template(model, data.registration)
    if hasattr(model.module, "library_log_means"):
        set_library_priors(model, data)
    if model.init_params_["non_kwargs"].get("weight_obs"):
        set_label_weights(model, data)
    if hasattr(model, "n_obs_per_sample"):
        set_sample_sizes(model, data)
    if data.modalities is not None:
        _set_measurements(model, data.modalities)
    return model


def without_template(model: Any, registration: Registration) -> None:
    """Remove the template from a model, and give it the registry of all cells."""
    model._adata = None
    model._adata_manager = None
    type(model)._per_instance_manager_store.pop(model.id, None)
    model.registry_ = copy.deepcopy(registration.registry)
    model.summary_stats = registration.summary_stats
    guard(model)


def _set_measurements(model: Any, modalities: Modalities) -> None:
    """Set the names of the measurements, and what scvi-tools computes of the template's proteins."""
    setattr(model, MEASUREMENTS, dict(modalities.layers))
    registered = Registration(None, model.registry)
    if modalities.is_mudata:
        model.get_var_names = FeatureNames(
            {
                modalities.called[layer]: np.asarray(registered.columns(tensor)).tolist()
                for layer, tensor in modalities.tensor_of.items()
            }
        )
    elif not model.init_params_["non_kwargs"].get("override_missing_proteins"):
        mask = registered.fields[PROTEINS].get("protein_batch_mask")
        model.module.protein_batch_mask = mask
        model._use_adversarial_classifier = mask is not None


@dataclass(frozen=True)
class FeatureNames:
    """Names of the features of a model of a MuData, which scvi-tools saves: an object for pickling."""

    names: dict[str, list[str]]

    def __call__(self, legacy_mudata_format: bool = False) -> Any:
        """Return the names by modality, or in one array."""
        arrays = {name: np.asarray(each) for name, each in self.names.items()}
        return np.concatenate(list(arrays.values())) if legacy_mudata_format else arrays


def set_library_priors(model: Any, data: DataFacts) -> None:
    """Set the mean and variance of the log counts of each batch, as scvi-tools computes them.

    It takes one pass over all cells of the data module.
    """
    import torch

    means, variances = library_priors(data.dataset, data.registration, data.modalities)
    module = model.module
    for buffer, values in ((module.library_log_means, means), (module.library_log_vars, variances)):
        buffer.copy_(torch.from_numpy(values.reshape(1, -1)).to(buffer))


def set_label_weights(model: Any, data: DataFacts) -> None:
    """Set the weights of a CondSCVI's labels: the inverse of their shares of the cells.

    Shares below 5 % count as 5 %, and all are then divided by their sum, as in scvi-tools.
    """
    import torch

    weights = model.module.ct_weight
    cells = data.cells_of_each(LABELS)
    shares = np.maximum(cells / cells.sum(), 0.05)
    weights.copy_(torch.from_numpy(shares.sum() / shares).to(weights))


def set_sample_sizes(model: Any, data: DataFacts) -> None:
    """Set the number of cells of each sample of a MRVI, and remove facts of the template's rows."""
    import torch

    sizes = torch.from_numpy(data.cells_of_each(SAMPLE)).to(model.n_obs_per_sample)
    model.n_obs_per_sample = model.module.n_obs_per_sample = sizes
    del model.sample_info


def library_priors(
    dataset: Dataset, registration: Registration, modalities: Modalities | None = None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return (means, variances), float64, for each batch; 0 and 1 for a batch without cells.

    The log of a cell without counts is 0, as in scvi-tools, with a warning.
    """
    count = len(registration.batches)
    cells, sums, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    empty = 0
    whole = dataset.with_settings(
        sparse=True, shuffle=False, batch_size=1024, drop_last=False, min_batch=1, shard=False,
        rank=None, world_size=None, device=None, format="numpy", obs_format="arrays",
    )  # fmt: skip
    genes = None if modalities is None else modalities.layers["rna_layer"]
    for arrays, obs in whole:
        counts = arrays if genes is None else arrays[genes]
        totals = np.asarray(counts.sum(axis=1), np.float32).ravel()
        empty += int((totals == 0).sum())
        logs = np.log(np.where(totals == 0, 1, totals)).astype(np.float64)
        codes = obs["batch"] if "batch" in obs else np.zeros(len(logs), np.int64)
        cells += np.bincount(codes, minlength=count)
        sums += np.bincount(codes, logs, minlength=count)
        squares += np.bincount(codes, logs**2, minlength=count)
    if empty:
        warnings.warn(
            f"{plural(empty, 'cell')} without a count might fail inference: leave such cells out by "
            "obs_query",
            UserWarning,
            stacklevel=2,
        )
    there = np.maximum(cells, 1)
    means = sums / there
    variances = np.maximum(squares / there - means**2, 0)
    return means, np.where(cells > 0, variances, 1.0)


def check_weights(model: Any) -> None:
    """Refuse a MULTIVI with a weight for each cell of an AnnData.

    Raises
    ------
    Unsupported
        It has ``modality_weights="cell"``.
    """
    if getattr(getattr(model, "module", None), "modality_weights", None) == "cell":
        raise Unsupported(_CELL_WEIGHTS)


def from_scvi(data: DataFacts, trained: Any, arguments: dict[str, Any]) -> Any:
    """Make a SCANVI with the weights of a SCVI; see `DataModule.create_model`.

    Raises
    ------
    InvalidArgument
        The model or the data module has another class, other genes or other batches.
    """
    if data.model_class.__name__ != "SCANVI" or type(trained).__name__ != "SCVI":
        raise InvalidArgument(
            f"from_scvi makes a SCANVI of a SCVI, got {type(trained).__name__} and a data module of "
            f"{data.model_class.__name__}"
        )
    check_same_data(trained, data)
    setup = data.registry["setup_args"]
    known = trained.registry["setup_args"]
    before = trained.registry_, trained.summary_stats
    cells = trained._adata, trained._adata_manager
    managers = type(trained)._per_instance_manager_store
    manager = managers.get(trained.id)
    try:
        model = data.model_class.from_scvi_model(
            trained,
            setup["unlabeled_category"],
            labels_key=setup["labels_key"],
            adata=_template_for(data, known),
            **arguments,
        )
    finally:
        # scvi-tools also sets the template in the trained model.
        trained._adata, trained._adata_manager = cells
        trained.registry_, trained.summary_stats = before
        if manager is None:
            managers.pop(trained.id, None)
        else:
            managers[trained.id] = manager
    return let_go(model, data)


def load(data: DataFacts, folder: str) -> Any:
    """Return a saved model with its weights, and without the AnnData that scvi-tools asks for."""
    check_registration(Registration(None, saved_model(folder).registry), data)
    model = data.model_class.load(folder, adata=data.template)
    check_same_data(model, data)
    without_template(model, data.registration)
    if hasattr(model, "n_obs_per_sample"):
        set_sample_sizes(model, data)
    if data.modalities is not None:
        _set_measurements(model, data.modalities)
    return model


def load_query(data: DataFacts, reference: Any, arguments: dict[str, Any]) -> Any:
    """Return the model of a query; see `DataModule.load_query_data`."""
    if not hasattr(data.model_class, "load_query_data"):
        raise Unsupported(f"scvi-tools maps no query onto a {data.model_class.__name__}")
    if not hasattr(reference, "module"):
        if not isinstance(reference, (str, os.PathLike)):
            raise InvalidArgument(
                "reference must be the model that is mapped onto, or its folder, got "
                f"{described(reference)}; the cells of the query are this data module's"
            )
        reference = str(reference)
    check_weights(reference)
    model = data.model_class.load_query_data(_own_template(data), reference, **arguments)
    known = {
        name: getattr(model.module, name).clone()
        for name in _LIBRARY
        if hasattr(model.module, name)
    }
    model = let_go(model, data)
    # Batches of the reference keep its own, as in scvi-tools.
    batches = len(saved_model(reference).categories(BATCH))
    for name, values in known.items():
        getattr(model.module, name)[:, :batches] = values[:, :batches]
    return model


def _own_template(data: DataFacts) -> Any:
    """Return a copy of the template that scvi-tools does not take for the template itself."""
    rows = data.template.copy()
    rows.uns.pop(_UUID, None)
    return rows


def _template_for(data: DataFacts, known: dict[str, Any]) -> Any:
    """Return the template, with the labels column that the trained model uses."""
    rows = _own_template(data)
    labels = known.get("labels_key")
    if labels is not None and labels not in rows.obs:
        raise InvalidArgument(
            f"the SCVI was trained with labels_key={labels!r}; give the SCANVI the same"
        )
    return rows


#: Advice at the end of an error message.
_FROM_MODEL = ": use DataModule.from_model(model, …)"


def check_same_data(model: Any, data: DataFacts) -> None:
    """Refuse a model whose genes, batches, covariates or size factors differ from the data.

    Labels must be equal, too, if outputs for a cell depend on its label.

    Raises
    ------
    InvalidArgument
        The message says what is different.
    Unsupported
        A data module of scvi-tools trained the model, which is not converted.
    """
    check_weights(model)
    check_setup(model.registry)
    check_registration(Registration(None, model.registry), data)
    if reads_labels(model):
        theirs, ours = Registration(None, model.registry), data.registration
        _check_labels(theirs.labels.tolist() == ours.labels.tolist(), theirs, ours)


def check_registration(theirs: Registration, data: DataFacts) -> None:
    """Refuse a registration whose genes, batches, covariates or size factors differ from the data.

    Raises
    ------
    InvalidArgument
        The message says what is different.
    """
    ours = data.registration
    names = np.asarray(theirs.columns(X)).astype(str)
    if len(names) != data.n_vars or (names != data.gene_names).any():
        raise InvalidArgument(
            f"the model has {len(names)} genes and the data {data.n_vars}, or others{_FROM_MODEL}"
        )
    if theirs.batches.tolist() != ours.batches.tolist():
        raise InvalidArgument(
            f"the model has {len(theirs.batches)} batches and the data {data.n_batch}, or others"
            f"{_FROM_MODEL}"
        )
    mappings, others = (
        [(name, values.tolist()) for name, values in each.covariates.items()]
        for each in (theirs, ours)
    )
    if mappings != others:
        raise InvalidArgument(
            f"the model has the categorical covariates {[name for name, _ in mappings]}, in this "
            f"order, but the data has {[name for name, _ in others]}, or other categories{_FROM_MODEL}"
        )
    if theirs.continuous != ours.continuous:
        raise InvalidArgument(
            f"the model has the continuous covariates {theirs.continuous}, in this order, but the "
            f"data has {ours.continuous}{_FROM_MODEL}"
        )
    if (theirs.size_factor is None) != (ours.size_factor is None):
        has, lacks = ("model", "data") if ours.size_factor is None else ("data", "model")
        name = theirs.size_factor or ours.size_factor
        raise InvalidArgument(
            f"the {has} has the size factor {name!r} but the {lacks} has none{_FROM_MODEL}"
        )
    _check_categories(SAMPLE, "samples", theirs, ours)
    _check_categories(PANEL, "panels", theirs, ours)
    _check_features(PROTEINS, "proteins", theirs, ours)
    _check_features(REGIONS, "regions", theirs, ours)


def _check_labels(are_same: bool, theirs: Registration, ours: Registration) -> None:
    if are_same:
        return
    had, has = (
        f"{each.labels.tolist()[:5]}, {len(each.labels)} in all"
        + ("" if each.unlabeled is None else f", with {each.unlabeled!r} for none")
        for each in (theirs, ours)
    )
    raise InvalidArgument(f"the model has the labels {had}, but the data has {has}{_FROM_MODEL}")


def _check_categories(name: str, called: str, theirs: Registration, ours: Registration) -> None:
    had, has = (each.categories(name).tolist() for each in (theirs, ours))
    if had != has:
        raise InvalidArgument(
            f"the model has the {called} {had[:5]}, {len(had)} in all, but the data has {has[:5]}, "
            f"{len(has)} in all{_FROM_MODEL}"
        )


def _check_features(name: str, called: str, theirs: Registration, ours: Registration) -> None:
    had, has = (np.asarray(each.columns(name)).tolist() for each in (theirs, ours))
    if had != has:
        raise InvalidArgument(
            f"the model has the {called} {had[:5]}, {len(had)} in all, but the data has {has[:5]}, "
            f"{len(has)} in all: choose the same, in the same order, by the var_query of the measurement"
        )


def check_same_training(model: Any, data: DataFacts) -> None:
    """Check the same data, the kind of the data module, and the labels that are predicted.

    Raises
    ------
    InvalidArgument
        The message says what is different.
    """
    is_told = is_semi_supervised(type(model))
    if is_told != data.is_semi_supervised:
        raise InvalidArgument(
            f"the model is a {type(model).__name__} and the data module one of "
            f"{data.model_class.__name__}: give DataModule model={type(model).__name__!r}"
        )
    check_same_data(model, data)
    theirs, ours = Registration(None, model.registry), data.registration
    _check_categories(FINE_LABELS, "fine labels", theirs, ours)
    if not is_told:
        return
    are_same = (theirs.labels.tolist(), theirs.unlabeled) == (ours.labels.tolist(), ours.unlabeled)
    _check_labels(are_same, theirs, ours)
