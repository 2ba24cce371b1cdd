"""Saved models, and cells with genes in the order of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.dataset.dataset import Dataset
from penstock.dataset.reader import Reader
from penstock.errors import InvalidArgument, NotFound, Unsupported
from penstock.plan.selection import Selection
from penstock.transforms.steps import SelectGenes

from .loaders import CATEGORIES, X
from .modalities import FEATURES, Modalities
from .model_classes import model_class
from .registration import Registration

_NAMED = 5

#: How scvi-tools says in a registry that one of its data modules wrote it.
DATA_MODULE = "setup_datamodule"

#: Attribute of a model of several measurements: their names. scvi-tools saves what ends with "_".
MEASUREMENTS = "measurements_"


@dataclass(frozen=True)
class SavedModel:
    """Facts of a model about the data that it was trained on."""

    model_class: Any
    registry: dict[str, Any]
    var_names: npt.NDArray[Any]
    measurements: Mapping[str, str] | None = None  #: of a model of several, trained here

    @property
    def setup_arguments(self) -> dict[str, Any]:
        """Return the arguments of `setup_anndata`."""
        return dict(self.registry["setup_args"])

    def categories(self, name: str) -> npt.NDArray[Any]:
        """Return the categories of ``batch``, ``labels``, … by code."""
        return Registration(None, self.registry).categories(name)

    def known_categories(self) -> dict[str, set[Any]]:
        """Return the categories of each key, by name."""
        fields = self.registry["field_registries"]
        known: dict[str, set[Any]] = {}
        for key in CATEGORIES:
            state = fields.get(key, {}).get("state_registry")
            if state:
                names = np.asarray(state["categorical_mapping"]).tolist()
                known[state["original_key"]] = set(names)
        mappings = (fields.get("extra_categorical_covs") or {}).get("state_registry", {})
        for name, values in mappings.get("mappings", {}).items():
            known[name] = set(np.asarray(values).tolist())
        return known


def saved_model(model: Any) -> SavedModel:
    """Read these facts from a model or from the folder of a saved one.

    Raises
    ------
    NotFound
        There is no model in the folder.
    Unsupported
        The model is not supported.
    """
    if not isinstance(model, (str, Path)):
        cls = model_class(model)
        check_setup(model.registry)
        names = np.asarray(Registration(None, model.registry).columns(X))
        measurements = getattr(model, MEASUREMENTS, None)
        return SavedModel(cls, dict(model.registry), names.astype(str), measurements)
    attributes, var_names, _ = saved_files(model)
    registry = attributes["registry_"]
    check_setup(registry)
    cls = model_class(registry["model_name"])
    if isinstance(var_names, dict):  # of a MuData
        var_names = Registration(None, registry).columns(X)
    measurements = attributes.get(MEASUREMENTS)
    return SavedModel(cls, registry, np.asarray(var_names).astype(str), measurements)


def saved_files(folder: str | Path) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Return the attributes, names of genes and weights of a saved model.

    Raises
    ------
    NotFound
        There is no model in the folder.
    """
    from scvi.model.base._save_load import _load_saved_files

    if not (Path(folder) / "model.pt").exists():
        raise NotFound(f"no model of scvi-tools is saved in {folder}: it has no model.pt")
    attributes, var_names, weights, _ = _load_saved_files(str(folder), False, map_location="cpu")
    return attributes, var_names, weights


def check_setup(registry: Mapping[str, Any]) -> None:
    """Raise `Unsupported` for a registry that a data module of scvi-tools wrote."""
    if registry.get("setup_method_name") == DATA_MODULE:
        raise Unsupported(
            "a data module of scvi-tools trained the model, and saved no names of columns and genes: "
            "convert it first, by penstock.scvi.convert_model(model, data, batch_key=[…])"
        )


def with_features_of(
    cells: Dataset, saved: SavedModel, modalities: Modalities, column: str | None
) -> tuple[Dataset, npt.NDArray[Any]]:
    """Return the cells with the model's features of each measurement, and the genes that they lack.

    `column` names the genes.

    Raises
    ------
    InvalidArgument
        The cells have none of the features of a measurement, or have two of one name.
    """
    lacks: npt.NDArray[Any] = np.empty(0, object)
    registered = Registration(None, saved.registry)
    for layer, tensor in modalities.tensor_of.items():
        wanted = np.asarray(registered.columns(tensor)).astype(str)
        selection = modalities.selection(cells, layer)
        named_by = column if tensor == X else None
        name, lacking = _matched(selection, wanted, named_by, FEATURES[layer])
        if name is not None:
            cells = modalities.with_features(cells, layer, wanted, name)
        if tensor == X:
            lacks = lacking
    return cells, lacks


def with_genes_of(
    cells: Dataset, wanted: npt.NDArray[Any], column: str | None
) -> tuple[Dataset, npt.NDArray[Any]]:
    """Return the cells with the wanted genes as columns of X, and the names that they lack.

    Raises
    ------
    InvalidArgument
        The cells have none of the genes, or have two genes of one name.
    """
    if cells.transforms:  # genes that were chosen for another model
        cells = _with_steps(cells, [])
    name, lacking = _matched(cells.reader.selection, wanted, column)
    if name is None:
        return cells, lacking
    genes = SelectGenes(wanted.tolist(), column=name, missing="zero")
    return _with_steps(cells, [genes]), lacking


def _with_steps(cells: Dataset, steps: list[SelectGenes]) -> Dataset:
    """Return the cells with these steps in place of their own, and of the genes of ``ds[:, genes]``."""
    kept = cells.reader.cells
    return cells.with_reader(Reader(kept.with_planner(kept.planner.with_transforms(steps))))


def _matched(
    selection: Selection, wanted: npt.NDArray[Any], column: str | None, kind: str = "gene"
) -> tuple[str | None, npt.NDArray[Any]]:
    """Return the column of var that has the wanted names, None if they are the genes, and the others."""
    names = selection.gene_names.of(selection.genes, column).astype(str)
    if len(names) == len(wanted) and (names == wanted).all():
        return None, np.empty(0, object)
    lacking = wanted[~np.isin(wanted, names)]
    name = selection.gene_names.column(column)
    if len(lacking) == len(wanted):
        way_out = (
            f"choose another column by var_names=, one of {', '.join(selection.var.columns)}"
            if kind == "gene"
            else f"set the model up with the names of the {kind}s, such as a DataFrame in obsm"
        )
        raise InvalidArgument(
            f"the cells have none of the model's {plural(len(wanted), kind)}: the model has names such as "
            f"{str(wanted[0])!r}, but {name!r} of var has {str(names[0]) if len(names) else None!r}; {way_out}"
        )
    if len(lacking):
        listed = ", ".join(map(str, lacking[:_NAMED]))
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        warnings.warn(
            f"the cells lack {len(lacking)} of the model's {plural(len(wanted), kind)}, which are zero: "
            f"{listed}{more}",
            UserWarning,
            stacklevel=4,
        )
    return name, lacking
