"""The API of the Census loaders (cellxgene_census.experimental.ml, until 1.17) on Penstock.

    import penstock.compat.census as census_ml

Signatures, defaults and batch types are the Census's; docs/guides/compat.md lists differences.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from penstock.base.missing_package import require
from penstock.base.suggestions import did_you_mean as _did_you_mean

require("torch")

from .encoders import BatchEncoder, Encoder, LabelEncoder  # noqa: E402
from .pytorch import ExperimentDataPipe, Stats, experiment_dataloader  # noqa: E402
from .slices import get_anndata, get_obs, get_var  # noqa: E402

__all__ = [
    "BatchEncoder",
    "Encoder",
    "ExperimentDataPipe",
    "LabelEncoder",
    "Stats",
    "experiment_dataloader",
    "get_anndata",
    "get_obs",
    "get_var",
]

#: Names of cellxgene_census, and what replaces them.
_INSTEAD = {
    "download_source_h5ad": "cellxgene_census.download_source_h5ad, whose file ps.Dataset reads",
    "experimental": "the loaders are here, the genes in penstock.compat.census.pp",
    "get_census_version_directory": "cellxgene_census has it; ps.open_census(version=…) opens one",
    "highly_variable_genes": "penstock.compat.census.pp.highly_variable_genes",
    "mean_variance": "penstock.compat.census.pp.mean_variance",
    "get_presence_matrix": "cellxgene_census.get_presence_matrix; penstock does not read it",
    "open_soma": "ps.open_census(organism, census_version=…), whose result get_anndata takes",
}


def __getattr__(name: str) -> _Any:
    """Import the module of genes; say of a name that does not exist what replaces it."""
    if name == "pp":
        return _import_module(f"{__name__}.pp")
    hint = _INSTEAD.get(name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}"
        + (f": {hint}" if hint else _did_you_mean(name, __all__))
    )
