"""Models that scvi-tools' TileDBDataModule trained, with the registry of an AnnData."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.base.validation import described
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument, Unsupported
from penstock.experiment.columns import objects

from ..data.datasets import checked_cells
from ..data.models import without_template
from ..registry.fields import Field
from ..registry.loaders import X
from ..registry.registration import Registration, register, template
from ..registry.saved_model import DATA_MODULE, saved_files
from .model_with_cells import seeded


def convert_model(
    model: Any,
    data: Any,
    *,
    batch_key: str | Sequence[str],
    dataset: Mapping[str, Any] | None = None,
) -> Any:
    """Return a SCVI of scvi-tools' TileDBDataModule with genes and batches by name.

    That data module names genes by joinid, keeps no names of the batch columns, and lists batches in
    another order than that of their codes. The returned model has the same weights and the registry
    that ``setup_anndata`` writes: everything here takes it, and its saved folder loads with an AnnData.

    Parameters
    ----------
    model : path or model
        The folder of the saved model, or the model.
    data : Dataset, or what a `Dataset` takes
        The experiment that it was trained on, with its genes. They are named by `Dataset.var_names`.
        Another experiment would give wrong names without an error, since joinids are numbers.
    batch_key : str or sequence of str
        The columns of obs that were its ``batch_column_names``, in the same order.
    dataset : dict, optional
        Arguments of `Dataset` when `data` is a path.

    Raises
    ------
    InvalidArgument
        The cells lack a gene of the model, or their columns give a batch that it does not have.
    NotFound
        There is no model in the folder.
    Unsupported
        No such data module trained the model, it is no SCVI, or it has labels or categorical
        covariates.
    """
    if isinstance(batch_key, Encoder):
        raise InvalidArgument("batch_key must be a column or a list of columns, not an Encoder")
    saved = _Saved.of(model)
    cells = checked_cells(data, dataset, None)
    field = Field.of("batch_key", batch_key)
    registered = Registration(None, saved.registry)
    batches = _typed(np.sort(registered.batches.astype(str)), field.categories(cells), field.name)
    numbers = registered.continuous
    rows = template(_names(registered, cells), {field.name: batches}, numbers, keep_order=True)
    setup: dict[str, Any] = {"batch_key": field.name}
    if numbers:
        setup["continuous_covariate_keys"] = numbers
    with seeded(0):  # the weights, which are replaced
        registration = register(saved.model_class, rows, saved.n_obs, setup)
        made = saved.model_class(rows, **saved.arguments)
    made.module.load_state_dict(saved.weights)
    made.module.eval()
    for name, value in saved.facts.items():
        setattr(made, name, value)
    without_template(made, registration)
    return made


@dataclass(frozen=True)
class _Saved:
    model_class: Any
    registry: dict[str, Any]
    weights: dict[str, Any]
    arguments: dict[str, Any]
    facts: dict[str, Any]  #: attributes of the model, such as ``history_``

    @property
    def n_obs(self) -> int:
        """Number of cells that it was trained on."""
        return int(self.registry["field_registries"][X]["state_registry"]["n_obs"])

    @classmethod
    def of(cls, model: Any) -> _Saved:
        """Read a model, or a folder; raise if it cannot be converted."""
        import scvi

        if isinstance(model, (str, Path)):
            attributes, _, weights = saved_files(model)
            weights = {name: each for name, each in weights.items() if name != "pyro_param_store"}
        else:
            _check_model(model)
            attributes = {name: getattr(model, name) for name in ("registry_", "init_params_")}
            attributes |= {name: getattr(model, name, None) for name in _FACTS}
            weights = model.module.state_dict()
        registry = dict(attributes["registry_"])
        _check(registry)
        given = attributes["init_params_"]
        arguments = {
            name: each for name, each in given["non_kwargs"].items() if name not in _NOT_GIVEN
        }
        for each in given["kwargs"].values():
            arguments.update(each)
        facts = {
            name: copy.deepcopy(attributes[name])
            for name in _FACTS
            if attributes.get(name) is not None
        }
        return cls(scvi.model.SCVI, registry, weights, arguments, facts)


#: Attributes that scvi-tools saves and that the converted model keeps.
_FACTS = ("is_trained_", "history_", "train_indices_", "validation_indices_", "test_indices_")

#: Arguments of a model that are no settings of it.
_NOT_GIVEN = ("datamodule", "registry", "adata")


def _check_model(model: Any) -> None:
    """Raise `InvalidArgument` if an object is no model of scvi-tools."""
    if not hasattr(model, "registry_") or not hasattr(model, "module"):
        raise InvalidArgument(
            f"model must be a model of scvi-tools or the folder of one, got {described(model)}"
        )


def _check(registry: Mapping[str, Any]) -> None:
    if registry.get("setup_method_name") != DATA_MODULE:
        raise Unsupported(
            "the model was not trained by a data module of scvi-tools: penstock.scvi takes it as it is"
        )
    name = registry.get("model_name")
    if name != "SCVI":
        raise Unsupported(f"only a SCVI of a TileDBDataModule can be converted, got a {name}")
    fields = registry["field_registries"]
    labels = fields.get("labels", {}).get("state_registry", {}).get("categorical_mapping")
    if labels is not None:
        raise Unsupported("a model with label_keys of a TileDBDataModule cannot be converted")
    if (fields.get("extra_categorical_covs") or {}).get("state_registry"):
        raise Unsupported(
            "a model with categorical_covariate_keys of a TileDBDataModule cannot be converted: it joins "
            "them in one"
        )
    genes = fields[X]["state_registry"]["column_names"]
    if not all(str(name).isdigit() for name in genes):
        raise Unsupported(
            f"the model has genes by name, such as {str(genes[0])!r}, not by joinid: another data module "
            "of scvi-tools than TileDBDataModule trained it"
        )


def _names(registered: Registration, cells: Dataset) -> npt.NDArray[Any]:
    """Return the names of the model's genes, which it knows by joinid."""
    selection = cells.reader.selection
    joinids = selection.column_joinids.astype(str)
    names = dict(zip(joinids.tolist(), np.asarray(cells.var_names).tolist(), strict=True))
    wanted = np.asarray(registered.columns(X)).astype(str).tolist()
    lacking = [joinid for joinid in wanted if joinid not in names]
    if lacking:
        raise InvalidArgument(
            f"the cells lack {plural(len(lacking), 'gene')} of the model, such as that of joinid "
            f"{lacking[0]}: give the experiment that it was trained on, with all these genes"
        )
    return objects([names[joinid] for joinid in wanted])


def _typed(batches: npt.NDArray[Any], values: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
    """Return the batches, which are texts, with the type of the values of the column."""
    known = set(batches.tolist())
    unknown = [value for value in values if str(value) not in known]
    if unknown:
        raise InvalidArgument(
            f"{key!r} of obs gives {str(unknown[0])!r}, which is no batch of the model; it has "
            f"{', '.join(map(repr, batches[:5].tolist()))}{', …' if len(batches) > 5 else ''}: give its "
            "batch_column_names in their order, and leave other cells out by obs_query"
        )
    if values.dtype.kind in "OU":
        return batches.astype(object)
    if values.dtype.kind == "b":
        return np.asarray(batches == "True")
    try:
        return batches.astype(values.dtype)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"{key!r} of obs has numbers, but the model's batches not: {error}"
        ) from None
