"""Models of scvi-tools trained from stored cells, on one process or many; docs/how-to/training.md."""

from typing import Any as _Any

from penstock.base.missing_package import require
from penstock.base.suggestions import did_you_mean as _did_you_mean

require("cloudpickle", "torch", "lightning", "scvi", extra="scvi")

from penstock.inference.rows import Rows  # noqa: E402

from .data import hints as _hints  # noqa: E402
from .data.data_module import DataModule  # noqa: E402
from .data.loading import load  # noqa: E402
from .outputs.abundance import differential_abundance  # noqa: E402
from .outputs.convert import convert_model  # noqa: E402
from .outputs.differential import differential_accessibility, differential_expression  # noqa: E402
from .outputs.inference import elbo, latent, normalized, predict  # noqa: E402
from .run.launch import RankFailed  # noqa: E402
from .run.trace import Trace, read_trace  # noqa: E402
from .run.train import train  # noqa: E402

__all__ = [
    "DataModule",
    "RankFailed",
    "Rows",
    "Trace",
    "convert_model",
    "differential_abundance",
    "differential_accessibility",
    "differential_expression",
    "elbo",
    "latent",
    "load",
    "normalized",
    "predict",
    "read_trace",
    "train",
]


def __getattr__(name: str) -> _Any:
    """Say of a name that does not exist what replaces it."""
    hint = _hints.OF_MODULE.get(name)
    raise AttributeError(
        f"module 'penstock.scvi' has no attribute {name!r}"
        + (f": {hint}" if hint else _did_you_mean(name, __all__))
    )


def __dir__() -> list[str]:
    return [*__all__]
