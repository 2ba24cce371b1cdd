"""The fields of a model: arguments of `setup_anndata` and encoders of batches."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from penstock.base.validation import checked_int, described
from penstock.dataset.dataset import Dataset
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument

from .fields import JOIN_NAMES, Constant, Field
from .loaders import BATCH, CATEGORICAL, CONTINUOUS, LABELS, SIZE_FACTOR, TensorNames
from .registration import Registration, register, template

if TYPE_CHECKING:
    from .saved_model import SavedModel


@dataclass(frozen=True)
class ModelFields:
    """The field for each key of a model; keys that are not given are None or empty."""

    batch: Field | None
    labels: Field | None
    unlabeled_category: Any
    size_factor: Field | None
    categorical: tuple[Field, ...]
    continuous: tuple[Field, ...]
    setup_arguments: Mapping[str, Any]

    @classmethod
    def of(cls, model_class: Any, **keys: Any) -> ModelFields:
        """Check the keys of a user against the keys that the model accepts.

        Raises
        ------
        InvalidArgument
            The model does not accept a key, or a required key is missing.
        """
        name = model_class.__name__
        takes = inspect.signature(model_class.setup_anndata).parameters
        for argument, key in keys.items():
            if key is not None and argument not in takes:
                raise InvalidArgument(f"{name} takes no {argument}, got {described(key)}")
        if "unlabeled_category" in takes:
            for argument in ("labels_key", "unlabeled_category"):
                if keys[argument] is None:
                    raise InvalidArgument(f"{name} needs {argument}=")

        def one(argument: str) -> Field | None:
            return None if keys[argument] is None else Field.of(argument, keys[argument])

        def many(argument: str) -> tuple[Field, ...]:
            given = keys[argument]
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
            batch=one("batch_key"),
            labels=one("labels_key"),
            unlabeled_category=keys["unlabeled_category"],
            size_factor=one("size_factor_key"),
            categorical=many("categorical_covariate_keys"),
            continuous=many("continuous_covariate_keys"),
            setup_arguments={},
        )
        return made.with_setup(takes)

    @classmethod
    def saved(
        cls, saved: SavedModel, cells: Dataset, encoders: Mapping[str, Encoder]
    ) -> ModelFields:
        """Return the fields that a saved model was trained with, found in other cells' obs."""
        setup = saved.setup_arguments
        columns = cells.obs.columns

        def one(argument: str) -> Field | None:
            name = setup.get(argument)
            # scvi-tools replaces missing labels by the unlabelled category.
            if argument == "labels_key" and "unlabeled_category" in setup:
                there = set(str(name).split(JOIN_NAMES)) <= set(columns)
                if name not in columns and name not in encoders and not there:
                    return None
            return None if name is None else Field.saved(name, columns, encoders)

        def many(argument: str) -> tuple[Field, ...]:
            return tuple(Field.saved(name, columns, encoders) for name in setup.get(argument) or ())

        return cls(
            batch=one("batch_key"),
            labels=one("labels_key"),
            unlabeled_category=setup.get("unlabeled_category"),
            size_factor=one("size_factor_key"),
            categorical=many("categorical_covariate_keys"),
            continuous=many("continuous_covariate_keys"),
            setup_arguments=setup,
        )

    def with_setup(self, takes: Mapping[str, Any]) -> ModelFields:
        """Return a copy with the arguments of `setup_anndata` that the model accepts."""
        setup = {
            "batch_key": _name(self.batch),
            "labels_key": _name(self.labels),
            "unlabeled_category": self.unlabeled_category,
            "size_factor_key": _name(self.size_factor),
            "categorical_covariate_keys": [each.name for each in self.categorical] or None,
            "continuous_covariate_keys": [each.name for each in self.continuous] or None,
        }
        known = {name: value for name, value in setup.items() if name in takes}
        return ModelFields(**{**self.__dict__, "setup_arguments": known})

    @property
    def is_semi_supervised(self) -> bool:
        """Whether the model distinguishes labelled and unlabelled cells."""
        return self.unlabeled_category is not None

    def check_samples_per_label(self, number: int | None) -> None:
        """Refuse a number of labelled cells that is less than 1, or for a model without labels."""
        if number is None:
            return
        if not self.is_semi_supervised:
            raise InvalidArgument("n_samples_per_label needs SCANVI, which has labelled cells")
        checked_int("n_samples_per_label", number, least=1)

    def _categories(self, cells: Dataset) -> dict[str, npt.NDArray[Any]]:
        fields = [each for each in (self.batch, self.labels, *self.categorical) if each]
        return {field.name: field.categories(cells) for field in fields}

    def _numbers(self, cells: Dataset) -> list[str]:
        fields = [each for each in (self.size_factor, *self.continuous) if each]
        for field in fields:
            field.check_numbers(cells)
        return [field.name for field in fields]

    def register(self, model_class: Any, cells: Dataset) -> Registration:
        """Return the registry of these cells, written by scvi-tools."""
        rows = template(cells.var_names, self._categories(cells), self._numbers(cells), True)
        return register(model_class, rows, cells.n_obs, self.setup_arguments)

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
        rows = template(saved.var_names, categories, self._numbers(cells))
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
            **({"allow_missing_labels": True} if self.is_semi_supervised else {}),
        )

    def encoders(self, registration: Registration) -> tuple[list[Encoder], TensorNames]:
        """Return encoders with the codes of a registry, and the tensors that they make."""
        made: list[Encoder] = []
        if self.batch is not None:
            made.append(self.batch.category_encoder(BATCH, registration.batches))
        if self.labels is not None:
            made.append(self.labels.category_encoder(LABELS, registration.labels))
        elif self.is_semi_supervised:
            code = registration.labels.tolist().index(self.unlabeled_category)
            made.append(Constant(LABELS, code))
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
        return made, TensorNames(tuple(categorical), tuple(continuous))


def _name(field: Field | None) -> str | None:
    return None if field is None else field.name


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
                "out by obs_query, or map them: from_model(…, extend_categories=True), then load_query_model"
            )
