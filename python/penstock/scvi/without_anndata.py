"""Calls of scvi-tools on a model that has no AnnData: their errors name Penstock's calls."""

from __future__ import annotations

import functools
from typing import Any

from penstock.errors import Unsupported

from .model_classes import name_of, takes_data_module

#: Methods that need an AnnData, and the argument that takes the place of the model's own.
_METHODS = {"_validate_anndata": "adata", "train": "datamodule"}


class NeedsCells:
    """A method of a model that runs only if its call or the model has cells.

    An object and not a function, so that models can be sent to processes.
    """

    def __init__(self, model: Any, name: str) -> None:
        functools.update_wrapper(self, getattr(type(model), name))
        self._model, self._name = model, name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the method.

        Raises
        ------
        Unsupported
            Neither the call nor the model has cells.
        """
        model = self._model
        taken = _METHODS[self._name]
        given = arguments[0] if taken == "adata" and arguments else named.get(taken)
        if given is None and model.adata is None:
            told = _TOLD[self._name]
            name = name_of(type(model))
            if self._name == "_validate_anndata" and name in _OF_SEVERAL:
                told = _OF_SEVERAL[name]
            if self._name == "train" and takes_data_module(type(model)):
                told += ", or model.train(datamodule=data)"
            raise Unsupported(told)
        return getattr(type(model), self._name)(model, *arguments, **named)


_TOLD = {
    "train": "the model has no AnnData: call penstock.scvi.train(model, data)",
    "_validate_anndata": "the model has no AnnData: call penstock.scvi.latent, normalized, elbo or "
    "predict with its data module, or give the call dataloader=data.predict_dataloader() or adata=, "
    "such as Dataset.to_anndata() of a selection",
}


_OF_SEVERAL = {
    name: "the model has no AnnData: call penstock.scvi.latent or elbo with its data module, or save the "
    f"model and load it with the cells in memory: scvi.model.{name}.load(folder, {cells})"
    for name, cells in (("TOTALVI", "adata"), ("MULTIVI", "mdata"))
}


def guard(model: Any) -> None:
    """Let calls that need an AnnData raise an error that names what to call instead."""
    for name in _METHODS:
        setattr(model, name, NeedsCells(model, name))
