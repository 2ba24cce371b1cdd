"""The API of tiledbsoma_ml 0.1 on Penstock, and SCVIDataModule of later versions.

    from penstock.compat.tiledbsoma_ml import ExperimentDataset, experiment_dataloader

Signatures, defaults and batch types are tiledbsoma_ml's; docs/guides/compat.md lists differences.
"""

from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import require
from penstock.base.suggestions import did_you_mean as _did_you_mean

require("torch")

from .dataloader import experiment_dataloader  # noqa: E402
from .dataset import ExperimentDataset  # noqa: E402
from .query_ids import SamplingMethod  # noqa: E402

if TYPE_CHECKING:
    from .scvi import SCVIDataModule

__all__ = ["ExperimentDataset", "SCVIDataModule", "SamplingMethod", "experiment_dataloader"]

_NEW_NAME = "ExperimentDataset, whose layer_name was X_name"
#: Names of earlier and later versions, and what replaces them.
_INSTEAD = {
    "ExperimentAxisQueryDataPipe": _NEW_NAME,
    "ExperimentAxisQueryIterDataPipe": _NEW_NAME,
    "ExperimentAxisQueryIterableDataset": _NEW_NAME,
    "hvg": "ps.highly_variable_genes(ds)",
}


def __getattr__(name: str) -> Any:
    if name == "SCVIDataModule":  # which needs lightning
        require("sklearn", extra="scvi")
        from .scvi import SCVIDataModule

        return SCVIDataModule
    hint = _INSTEAD.get(name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}"
        + (f": {hint}" if hint else _did_you_mean(name, __all__))
    )
