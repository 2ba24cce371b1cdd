"""Calls of scvi-tools on a model that has no AnnData: their errors name Penstock's calls."""

from __future__ import annotations

import functools
from typing import Any

from penstock.errors import Unsupported

from .model_classes import name_of, takes_data_module

#: Methods that need an AnnData, and the argument that takes the place of the model's own.
_METHODS = {
    "_validate_anndata": "adata",
    "get_local_sample_distances": "adata",  # MRVI's; these two read the AnnData's n_obs first
    "get_local_sample_representation": "adata",
    "view_anndata_setup": "adata",
    "minify_adata": "",  # always of the model's own
    "save": "save_anndata",
    "train": "datamodule",
}


class NeedsCells:
    """A method of a model that runs only if its call or the model has cells.

    An object and not a function, so that models can be sent to processes.
    """

    def __init__(self, model: Any, name: str) -> None:
        functools.update_wrapper(self, getattr(type(model), name))
        self._guarded, self._name = model, name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the method.

        Raises
        ------
        Unsupported
            Neither the call nor the model has cells.
        """
        model = self._guarded
        taken = _METHODS[self._name]
        given = arguments[0] if taken == "adata" and arguments else named.get(taken)
        if taken == "datamodule" and not takes_data_module(type(model)):
            given = None  # scvi-tools would read the AnnData all the same
        needs = bool(given) if taken == "save_anndata" else given is None
        if needs and model.adata is None:
            raise Unsupported(_told(type(model), taken))
        return getattr(type(model), self._name)(model, *arguments, **named)


class Loadings:
    """`LinearSCVI.get_loadings` with the genes of the registry in place of an AnnData's."""

    def __init__(self, model: Any) -> None:
        functools.update_wrapper(self, type(model).get_loadings)
        self._guarded = model

    def __call__(self) -> Any:
        """Return the weights of the linear decoder, a DataFrame of shape (genes, latent variables)."""
        import pandas as pd

        weights = self._guarded.module.get_loadings()
        columns = [f"Z_{i}" for i in range(weights.shape[1])]
        return pd.DataFrame(weights, index=self._guarded.get_var_names(), columns=columns)


def _told(model_class: Any, taken: str) -> str:
    name = name_of(model_class)
    if taken == "datamodule":
        told = "the model has no AnnData: call penstock.scvi.train(model, data)"
        return told + (
            ", or model.train(datamodule=data)" if takes_data_module(model_class) else ""
        )
    if taken == "":
        return (
            "the model has no AnnData to minify: load the saved model with one, "
            f"scvi.model.{name}.load(folder, adata), and put penstock.scvi.latent(model, data, "
            "return_dist=True) into its obsm, as minify_adata says"
        )
    if taken == "save_anndata":
        return "the model has no AnnData to save beside it: leave save_anndata out"
    if name in _OF_SEVERAL:
        return _OF_SEVERAL[name]
    calls = _CALLS.get(name, "differential_expression and differential_abundance")
    return (
        f"the model has no AnnData: call penstock.scvi.latent, normalized, elbo{calls and ', '}{calls} with "
        "its data module. Or give the call adata=, such as Dataset.to_anndata() of a selection, or, if it "
        "takes one, dataloader=data.inference_dataloader()"
    )


#: What models have beside latent, normalized and elbo.
_CALLS = {
    "CondSCVI": "predict, differential_expression and differential_abundance",
    "MRVI": "",
    "PEAKVI": "differential_accessibility and differential_abundance",
    "POISSONVI": "differential_accessibility and differential_abundance",
    "SCANVI": "predict, differential_expression and differential_abundance",
}

_OF_SEVERAL = {
    name: "the model has no AnnData: call penstock.scvi.latent, normalized, elbo and the like with its "
    "data module, or save the model and load it with the cells in memory: "
    f"scvi.model.{name}.load(folder, {cells})"
    for name, cells in (("TOTALVI", "adata"), ("MULTIVI", "mdata"))
}


def guard(model: Any) -> None:
    """Let calls that need an AnnData raise an error that names what to call instead."""
    for name in _METHODS:
        if hasattr(type(model), name):
            setattr(model, name, NeedsCells(model, name))
    if hasattr(type(model), "get_loadings"):
        model.get_loadings = Loadings(model)
