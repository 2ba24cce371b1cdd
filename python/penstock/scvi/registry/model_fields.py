"""The fields of a model: arguments of `setup_anndata` and encoders of batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from penstock.base.validation import checked_int, described
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument

from .fields import JOIN_NAMES, Constant, Field
from .loaders import (
    BATCH,
    CATEGORICAL,
    CONTINUOUS,
    FINE_LABELS,
    LABELS,
    PANEL,
    SAMPLE,
    SIZE_FACTOR,
    TensorNames,
)
from .measured_template import least_rows, with_other_layers
from .modalities import Modalities
from .model_classes import is_semi_supervised, name_of
from .registration import Registration, register, setup_method, template

if TYPE_CHECKING:
    from .saved_model import SavedModel

#: Arguments of `setup_anndata` that name one category of a cell, and scvi-tools' names of them.
_CATEGORIES = {
    "batch_key": BATCH,
    "labels_key": LABELS,
    "fine_labels_key": FINE_LABELS,
    "sample_key": SAMPLE,
    "panel_key": PANEL,
}


@dataclass(frozen=True)
class ModelFields:
    """The field for each key of a model; keys that are not given are None or empty.

    Attributes
    ----------
    categories : dict of str to Field
        Fields of one category, by scvi-tools' name: ``batch``, ``labels``, ….
    is_semi_supervised : bool
        Whether a training step takes a batch of all cells and a batch of labelled cells.
    """

    categories: Mapping[str, Field]
    unlabeled_category: Any
    is_semi_supervised: bool
    size_factor: Field | None
    categorical: tuple[Field, ...]
    continuous: tuple[Field, ...]
    setup_arguments: Mapping[str, Any]
    modalities: Modalities | None = None

    @classmethod
    def of(cls, model_class: Any, modalities: Modalities | None = None, **keys: Any) -> ModelFields:
        """Check the keys of a user against the keys that the model accepts.

        Raises
        ------
        InvalidArgument
            The model does not accept a key, or a required key is missing.
        """
        name = name_of(model_class)
        takes = inspect.signature(setup_method(model_class)).parameters
        for argument, key in keys.items():
            # MULTIVI's size factors are two columns in obsm of a MuData.
            is_obsm = argument == "size_factor_key" and name == "MULTIVI"
            if key is not None and (argument not in takes or is_obsm):
                labels = argument == "unlabeled_category" and name == "SCVI"
                hint = '; DataModule(cells, "SCANVI", …) takes it' if labels else ""
                raise InvalidArgument(f"{name} takes no {argument}, got {described(key)}{hint}")
        for argument, taken in takes.items():
            if argument in keys and keys[argument] is None and taken.default is taken.empty:
                raise InvalidArgument(f"{name} needs {argument}=")

        def one(argument: str) -> Field | None:
            given = keys.get(argument)
            return None if given is None else Field.of(argument, given)

        def many(argument: str) -> tuple[Field, ...]:
            given = keys.get(argument)
            if given is None:
                return ()
            if isinstance(given, (str, Encoder)) or not isinstance(given, Iterable):
                raise InvalidArgument(f"{argument} must be a list of keys, got {described(given)}")
            fields = tuple(Field.of(argument, key) for key in given)
            names = [field.name for field in fields]
            for name in names:
                if names.count(name) > 1:
                    raise InvalidArgument(f"{argument} has {name!r} more than once")
            return fields

        made = cls(
            categories=_given(one),
            unlabeled_category=keys.get("unlabeled_category"),
            is_semi_supervised=is_semi_supervised(model_class),
            size_factor=one("size_factor_key"),
            categorical=many("categorical_covariate_keys"),
            continuous=many("continuous_covariate_keys"),
            setup_arguments={},
            modalities=modalities,
        )
        return made.with_setup(takes)

    @classmethod
    def saved(
        cls,
        saved: SavedModel,
        cells: Dataset,
        encoders: Mapping[str, Encoder],
        modalities: Modalities | None = None,
    ) -> ModelFields:
        """Return the fields that a saved model was trained with, found in other cells' obs."""
        setup = saved.setup_arguments
        columns = cells.obs.columns
        told = is_semi_supervised(saved.model_class)
        may_lack = "labels_key" if told else "fine_labels_key"

        def one(argument: str) -> Field | None:
            name = setup.get(argument)
            # scvi-tools replaces missing labels by the unlabelled category.
            if argument == may_lack:
                there = set(str(name).split(JOIN_NAMES)) <= set(columns)
                if name not in columns and name not in encoders and not there:
                    return None
            return None if name is None else Field.saved(name, columns, encoders)

        def many(argument: str) -> tuple[Field, ...]:
            return tuple(Field.saved(name, columns, encoders) for name in setup.get(argument) or ())

        return cls(
            categories=_given(one),
            unlabeled_category=setup.get("unlabeled_category"),
            is_semi_supervised=told,
            size_factor=one("size_factor_key"),
            categorical=many("categorical_covariate_keys"),
            continuous=many("continuous_covariate_keys"),
            setup_arguments=setup,
            modalities=modalities,
        )

    def with_setup(self, takes: Mapping[str, Any]) -> ModelFields:
        """Return a copy with the arguments of `setup_anndata` that the model accepts."""
        setup = {
            **{key: _name(self.categories.get(name)) for key, name in _CATEGORIES.items()},
            "unlabeled_category": self.unlabeled_category,
            "size_factor_key": _name(self.size_factor),
            "categorical_covariate_keys": [each.name for each in self.categorical] or None,
            "continuous_covariate_keys": [each.name for each in self.continuous] or None,
        }
        if self.modalities is not None:
            setup.update(self.modalities.setup_arguments)
        known = {name: each for name, each in setup.items() if name in takes and each is not None}
        return ModelFields(**{**self.__dict__, "setup_arguments": known})

    def check_samples_per_label(self, number: int | None) -> None:
        """Refuse a number of labelled cells that is less than 1, or for a model without labels."""
        if number is None:
            return
        if not self.is_semi_supervised:
            raise InvalidArgument("n_samples_per_label needs SCANVI, which has labelled cells")
        checked_int("n_samples_per_label", number, least=1)

    def _categories(self, cells: Dataset) -> dict[str, npt.NDArray[Any]]:
        fields = (*self.categories.values(), *self.categorical)
        return {field.name: field.categories(cells) for field in fields}

    def _numbers(self, cells: Dataset) -> list[str]:
        fields = [each for each in (self.size_factor, *self.continuous) if each]
        for field in fields:
            field.check_numbers(cells)
        return [field.name for field in fields]

    def register(self, model_class: Any, cells: Dataset) -> Registration:
        """Return the registry of these cells, written by scvi-tools."""
        rows = self._template(cells, True)
        return register(model_class, rows, cells.n_obs, self.setup_arguments)

    def _template(
        self, cells: Dataset, keep_order: bool, var_names: npt.NDArray[Any] | None = None
    ) -> Any:
        """Return the template of these cells; `var_names` are those of a saved model."""
        categories, numbers, modalities = (
            self._categories(cells),
            self._numbers(cells),
            self.modalities,
        )
        if modalities is None:
            names = cells.var_names if var_names is None else var_names
            return template(names, categories, numbers, keep_order)
        by = self.categories.get(PANEL) or self.categories.get(BATCH)
        least = least_rows(modalities, 1 if by is None else len(categories[by.name]))
        names = modalities.names(cells, modalities.first)
        rows = template(names, categories, numbers, keep_order, least)
        return with_other_layers(rows, modalities, cells)

    def transfer(self, saved: SavedModel, cells: Dataset, extend: bool) -> Registration:
        """Return the registry of these cells for an existing model.

        Raises
        ------
        InvalidArgument
            The model does not know a category, and `extend` is False.
        """
        categories = self._categories(cells)
        if not extend:
            _check_known(categories, saved)
        elif is_semi_supervised(saved.model_class):
            _check_no_new_label(categories[self.categories[LABELS].name], saved)
        rows = self._template(cells, False, saved.var_names)
        layer = saved.setup_arguments.get("layer")
        if layer is not None:
            # The model's AnnData had its counts in this layer; here they are X.
            rows.layers[layer] = rows.X.copy()
        return register(
            saved.model_class,
            rows,
            cells.n_obs,
            saved.setup_arguments,
            source_registry=saved.registry,
            extend_categories=extend,
            **({} if self.unlabeled_category is None else {"allow_missing_labels": True}),
        )

    def encoders(self, registration: Registration) -> tuple[list[Encoder], TensorNames]:
        """Return encoders with the codes of a registry, and the tensors that they make."""
        made: list[Encoder] = [
            field.category_encoder(name, registration.categories(name))
            for name, field in self.categories.items()
        ]
        for name in registration.with_unlabeled:
            if name not in self.categories:
                codes = registration.categories(name).tolist()
                made.append(Constant(name, codes.index(self.unlabeled_category)))
        if SAMPLE in registration.fields and SAMPLE not in self.categories:
            made.append(Constant(SAMPLE, 0))
        if self.size_factor is not None:
            made.append(self.size_factor.number_encoder(SIZE_FACTOR))
        categorical, continuous = [], []
        for field in self.categorical:
            categorical.append(f"{CATEGORICAL}.{field.name}")
            mapping = registration.covariates[field.name]
            made.append(field.category_encoder(categorical[-1], mapping))
        for field in self.continuous:
            continuous.append(f"{CONTINUOUS}.{field.name}")
            made.append(field.number_encoder(continuous[-1]))
        names = TensorNames(tuple(categorical), tuple(continuous))
        if self.modalities is not None:
            is_mudata = self.modalities.is_mudata
            names = replace(names, measurements=self.modalities.tensors, has_indices=is_mudata)
        return made, names


def _given(one: Callable[[str], Field | None]) -> dict[str, Field]:
    """Return the fields of one category, by scvi-tools' name."""
    found = {name: one(key) for key, name in _CATEGORIES.items()}
    return {name: field for name, field in found.items() if field is not None}


def _name(field: Field | None) -> str | None:
    return None if field is None else field.name


def _check_no_new_label(labels: npt.NDArray[Any], saved: SavedModel) -> None:
    """Refuse labels that are new to the model, which scvi-tools does not add to it."""
    name = saved.setup_arguments["labels_key"]
    known = saved.known_categories().get(name, labels)
    new = [value for value in labels.tolist() if value not in known]
    if new:
        raise InvalidArgument(
            f"scvi-tools adds no label to a {name_of(saved.model_class)}, and it knows none of "
            f"{', '.join(map(repr, new[:5]))}: leave their cells out by obs_query, or give them the "
            f"label {saved.setup_arguments['unlabeled_category']!r}"
        )


def _check_known(categories: Mapping[str, Any], saved: SavedModel) -> None:
    """Refuse categories that are new to the model; scvi-tools' error names only the first."""
    known = saved.known_categories()
    for name, values in categories.items():
        new = [value for value in values.tolist() if value not in known.get(name, values)]
        if new:
            listed = ", ".join(map(repr, new[:5])) + (
                f" and {len(new) - 5} more" if new[5:] else ""
            )
            raise InvalidArgument(
                f"the model knows no {name} of {listed}; it has {len(known[name])}: leave their cells "
                "out by obs_query, or map them: from_model(…, extend_categories=True), then load_query_data"
            )
