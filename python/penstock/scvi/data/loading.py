"""Loading a saved model for stored cells."""

from __future__ import annotations

import os
from typing import Any

from penstock.base.suggestions import suggests
from penstock.base.validation import checked_local_path

from . import models
from .data_module import DataModule


@suggests({"adata": "data, the second argument"})
def load(folder: str | os.PathLike[str], data: Any) -> Any:
    """Load a model that was saved by its `save`, for stored cells.

    Parameters
    ----------
    folder : str or path
        The folder of the model.
    data : DataModule, Dataset, or what a `Dataset` takes
        Cells with the model's genes and categories: those that it was trained on, or others. All but
        a DataModule are aligned to the model with `DataModule.from_model`.

    Returns
    -------
    model of scvi-tools
        The model, trained, for `latent`, `normalized`, `train` and the others. As a model of
        `DataModule.create_model` it has no AnnData: scvi-tools' own methods take ``adata=`` or
        ``dataloader=``.

    Raises
    ------
    NotFound
        There is no model in the folder.
    InvalidArgument
        The cells have unknown categories or other genes.
    """
    path = checked_local_path("folder", folder)
    if not isinstance(data, DataModule):
        data = DataModule.from_model(path, data)
    return models.load(data, path)
