"""The registry of scvi-tools, written by scvi-tools from a few rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: scvi-tools warns of categories of fewer cells, which the template's rows are not.
_ROWS_OF_A_CATEGORY = 3


@dataclass(frozen=True)
class Registration:
    """What `setup_anndata` made of a template.

    Attributes
    ----------
    template : anndata.AnnData
        A few rows with every category, one count each; set up for the model.
    registry : dict
        As of an AnnData of all selected cells.
    """

    template: Any
    registry: dict[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """Registry key to the state of the field."""
        return {
            key: field["state_registry"] for key, field in self.registry["field_registries"].items()
        }

    @property
    def summary_stats(self) -> Any:
        """Counts of cells, genes, batches, … as scvi-tools has them."""
        from scvi.data import AnnDataManager

        return AnnDataManager._get_summary_stats_from_registry(self.registry)

    @property
    def batches(self) -> Array:
        """Code to batch."""
        return np.asarray(self.fields["batch"]["categorical_mapping"])

    @property
    def labels(self) -> Array:
        """Code to label."""
        return np.asarray(self.fields["labels"]["categorical_mapping"])

    @property
    def covariates(self) -> dict[str, Array]:
        """Name to categories of each categorical covariate."""
        state = self.fields.get("extra_categorical_covs") or {}
        return {name: np.asarray(values) for name, values in state.get("mappings", {}).items()}

    @property
    def continuous(self) -> list[str]:
        """Continuous covariates, in their order."""
        state = self.fields.get("extra_continuous_covs") or {}
        return [str(name) for name in state.get("columns", ())]

    @property
    def size_factor(self) -> str | None:
        """Column of the size factor, if the model is told one."""
        name: str | None = self.registry["setup_args"].get("size_factor_key")
        return name

    @property
    def unlabeled(self) -> Any:
        """Label of cells without one, if the model is told which."""
        return self.registry["setup_args"].get("unlabeled_category")


def template(
    var_names: Array,
    categories: Mapping[str, Array],
    numbers: Sequence[str],
    keep_order: bool = False,
) -> Any:
    """Make an AnnData in which each category occurs, and each number is 1.

    With `keep_order` scvi-tools numbers categories as they are given. It is not for the registry
    of another model: there scvi-tools takes a Categorical of the same categories in another order
    for one in the model's order (the codes of covariates are then wrong).
    """
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    rows = _ROWS_OF_A_CATEGORY * max([1, *map(len, categories.values())])
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
    model_class.setup_anndata(rows, **setup, **transfer)
    manager = model_class._setup_adata_manager_store[rows.uns["_scvi_uuid"]]
    registry = copy.deepcopy(manager.registry)
    X = registry["field_registries"]["X"]
    X["state_registry"]["n_obs"] = n_obs
    X["summary_stats"]["n_cells"] = n_obs
    return Registration(rows, registry)
