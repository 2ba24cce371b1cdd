"""The APIs of other loaders on top of Penstock: `penstock.compat.census` and `.tiledbsoma_ml`.

Code written for those loaders runs after a change of its import. docs/guides/compat.md lists differences.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

#: The modules, which import torch, and names of theirs that people look for here.
_MODULES = {
    "census": ("ExperimentDataPipe", "experiment_dataloader", "get_anndata", "get_obs", "get_var"),
    "tiledbsoma_ml": ("ExperimentDataset", "SCVIDataModule"),
}


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    text = f"module {__name__!r} has no attribute {name!r}"
    for module, names in _MODULES.items():
        if name in names:
            raise AttributeError(f"{text}: it is in {__name__}.{module}")
    raise AttributeError(f"{text}; it has {' and '.join(_MODULES)}, named after the loaders")


def __dir__() -> list[str]:
    return [*_MODULES]
