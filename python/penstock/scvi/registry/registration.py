"""The registry of scvi-tools, written by scvi-tools from a few rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .model_classes import name_of

Array = npt.NDArray[Any]

#: scvi-tools warns about categories with fewer cells; rows of the template are not cells.
_ROWS_OF_A_CATEGORY = 3

#: scvi-tools looks at so many rows to see whether POISSONVI's counts are of fragments.
LEAST_ROWS = 100


@dataclass(frozen=True)
class Registration:
    """Result of `setup_anndata` for a template.

    Attributes
    ----------
    template : anndata.AnnData
        A few rows with every category, one count each; set up for the model.
    registry : dict
        The registry for an AnnData of all selected cells.
    """

    template: Any
    registry: dict[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        # A MuData cannot be pickled; its parts can.
        state = dict(self.__dict__)
        if hasattr(self.template, "mod"):
            state["template"] = Parts(dict(self.template.mod), self.template.obs)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        made = state["template"]
        self.__dict__.update(state, template=made.to_mudata() if isinstance(made, Parts) else made)

    @property
    def fields(self) -> dict[str, Any]:
        """State of the field for each registry key."""
        return {
            key: field["state_registry"] for key, field in self.registry["field_registries"].items()
        }

    @property
    def summary_stats(self) -> Any:
        """Numbers of cells, genes, batches, …, as in scvi-tools."""
        from scvi.data import AnnDataManager

        return AnnDataManager._get_summary_stats_from_registry(self.registry)

    def categories(self, name: str) -> Array:
        """Categories by code of ``batch``, ``labels``, …; none if the model has no such field."""
        return np.asarray(self.fields.get(name, {}).get("categorical_mapping", ()))

    def columns(self, name: str) -> Any:
        """Names of the columns of ``X``, ``proteins``, …; none if the model has no such field."""
        return self.fields.get(name, {}).get("column_names", ())

    @property
    def batches(self) -> Array:
        """Batches by code."""
        return self.categories("batch")

    @property
    def labels(self) -> Array:
        """Labels by code."""
        return self.categories("labels")

    @property
    def with_unlabeled(self) -> list[str]:
        """Names of the fields that have a category for unlabelled cells."""
        return [name for name, state in self.fields.items() if "unlabeled_category" in state]

    @property
    def covariates(self) -> dict[str, Array]:
        """Categories of each categorical covariate, by name."""
        state = self.fields.get("extra_categorical_covs") or {}
        return {name: np.asarray(values) for name, values in state.get("mappings", {}).items()}

    @property
    def continuous(self) -> list[str]:
        """Names of the continuous covariates, in order."""
        state = self.fields.get("extra_continuous_covs") or {}
        return [str(name) for name in state.get("columns", ())]

    @property
    def size_factor(self) -> str | None:
        """Column of the size factor, or None."""
        name: str | None = self.registry["setup_args"].get("size_factor_key")
        return name

    @property
    def unlabeled(self) -> Any:
        """Label of unlabelled cells, or None."""
        return self.fields["labels"].get("unlabeled_category")


class Parts(NamedTuple):
    """Parts of a MuData, and its obs."""

    mod: dict[str, Any]
    obs: Any

    def to_mudata(self) -> Any:
        """Return the MuData."""
        import mudata

        # Before 0.4 of mudata the default warns, and copies columns of the parts.
        options = getattr(mudata, "set_options", None)
        with nullcontext() if options is None else options(pull_on_update=False):
            made = mudata.MuData(self.mod)
            made.obs = self.obs
        return made


def template(
    var_names: Array,
    categories: Mapping[str, Array],
    numbers: Sequence[str],
    keep_order: bool = False,
    least_rows: int = 0,
) -> Any:
    """Make an AnnData in which each category occurs, and each number is 1.

    With `keep_order`, scvi-tools numbers categories in the given order. Do not use it with the
    registry of another model: scvi-tools assumes that a Categorical with the same categories has
    the model's order, and the codes of covariates would be wrong.
    """
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    rows = max(
        [
            LEAST_ROWS,
            least_rows,
            *(_ROWS_OF_A_CATEGORY * len(each) for each in categories.values()),
        ]
    )
    obs: dict[str, Any] = {}
    for name, values in categories.items():
        column = pd.Series(np.resize(values, rows), dtype=values.dtype)
        obs[name] = pd.Categorical(column, categories=values) if keep_order else column
    obs.update({name: np.ones(rows, np.float32) for name in numbers if name not in obs})
    frame = pd.DataFrame(obs, index=pd.RangeIndex(rows))
    frame.index = frame.index.astype(str)
    X = sp.csr_matrix(
        (np.ones(rows, np.float32), np.zeros(rows, np.int32), np.arange(rows + 1)),
        shape=(rows, len(var_names)),
    )
    return anndata.AnnData(X, frame, pd.DataFrame(index=pd.Index(var_names.astype(str))))


def register(
    model_class: Any, rows: Any, n_obs: int, setup: Mapping[str, Any], **transfer: Any
) -> Registration:
    """Set up a template; `transfer` (``source_registry``, …) goes to `setup_anndata`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="We recommend using setup_mudata")
        setup_method(model_class)(rows, **setup, **transfer)
    manager = model_class._setup_adata_manager_store[rows.uns["_scvi_uuid"]]
    registry = copy.deepcopy(manager.registry)
    for field in registry["field_registries"].values():
        for state, name in (("state_registry", "n_obs"), ("summary_stats", "n_cells")):
            if name in field[state]:
                field[state][name] = n_obs
    return Registration(rows, registry)


def setup_method(model_class: Any) -> Any:
    """Return the method that registers data: `setup_mudata` for MULTIVI, else `setup_anndata`."""
    is_mudata = name_of(model_class) == "MULTIVI"
    return model_class.setup_mudata if is_mudata else model_class.setup_anndata
