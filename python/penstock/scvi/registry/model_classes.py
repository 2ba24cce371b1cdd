"""Classes of scvi-tools' models that can be trained, and the versions that have them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument, Unsupported

#: Supported models: their fields are matrices of counts and columns of obs.
NAMES = (
    "SCVI", "LinearSCVI", "SCANVI", "CondSCVI", "PEAKVI", "POISSONVI", "AUTOZI", "MRVI", "TOTALVI", "MULTIVI",
)  # fmt: skip

#: Refused models: what they need that a data module does not have.
REASONS = {
    "TOTALANVI": "its training step takes proteins and labelled cells, which no data module gives",
    **dict.fromkeys(
        ("METHYLVI", "METHYLANVI"), "it takes a MuData with two layers for each context"
    ),
    **dict.fromkeys(("GIMVI", "DIAGVI", "Tangram"), "it takes several data sets at once"),
    **dict.fromkeys(
        ("DestVI", "SpatialStereoscope"),
        "it takes a trained model, and has parameters for each spot by its position",
    ),
    "RNAStereoscope": "it has no latent variables for a cell",
    **dict.fromkeys(
        ("AmortizedLDA", "Decipher"), "Pyro trains it, and that training takes no data module"
    ),
    "CellAssign": "its training takes no data module, and it takes a table of marker genes",
    "ContrastiveVI": "a batch has two groups of cells, background and target",
    "SCAR": "it computes the profile of ambient counts from an AnnData",
    "SysVI": "it takes normalised expression, not counts",
    "CYTOVI": "it takes intensities of proteins, not counts",
    **dict.fromkeys(("RESOLVI", "SCVIVA"), "the neighbours of a cell are in obsm"),
    "SCBASSET": "the DNA sequences of its regions are in obsm",
    "VELOVI": "it takes two layers, spliced and unspliced counts",
    "SOLO": "it takes latent variables of cells and of doublets that it simulates",
    "VIVS": "its responses are in obsm",
    **dict.fromkeys(("JaxSCVI", "JaxMRVI", "mlxSCVI"), "it is no model of PyTorch"),
}

#: scvi-tools 1.4 has `MRVI` for a function that makes one of these.
_TORCH_MRVI = "TorchMRVI"

#: The metric that `train` of a model watches for early stopping, if it is not the ELBO.
_WATCHED = dict.fromkeys(("PEAKVI", "POISSONVI", "MULTIVI"), "reconstruction_loss_validation")

#: Models whose `train` makes its data splitter from the model's AnnData, whatever its arguments.
_OF_AN_ANNDATA = ("TOTALVI", "MULTIVI")

#: Minimum versions: module to package and version.
LEAST = {"scvi": ("scvi-tools", (1, 4, 1)), "lightning": ("lightning", (2, 5))}


def check_versions() -> None:
    """Refuse versions that are too old.

    Raises
    ------
    Unsupported
        The message names the version that is needed.
    """
    for module, (package, least) in LEAST.items():
        there = importlib.import_module(module).__version__
        found = tuple(int(part) for part in re.findall(r"\d+", there)[: len(least)])
        if found < least:
            needed = ".".join(map(str, least))
            raise Unsupported(
                f"penstock.scvi needs {package} {needed} or newer, but {there} is installed: "
                f"pip install '{package}>={needed}'"
            )


def model_class(model: Any) -> Any:
    """Return the class of a model that is given by name, as a class, or as a model.

    Raises
    ------
    Unsupported
        The model is not supported; the message names it, and the reason if it is one of scvi-tools.
    InvalidArgument
        `model` is not a model.
    """
    import scvi

    check_versions()
    name = _known_name(model if isinstance(model, str) else _class_of(model).__name__)
    if name == "MRVI":
        return getattr(scvi.external, _TORCH_MRVI, scvi.external.MRVI)
    if name in NAMES:
        place = scvi.model if hasattr(scvi.model, name) else scvi.external
        return getattr(place, name) if isinstance(model, str) else _class_of(model)
    known = ", ".join(NAMES)
    if isinstance(model, str) and name not in {
        *REASONS,
        *scvi.model.__all__,
        *scvi.external.__all__,
    }:
        raise InvalidArgument(f"model must be one of {known}, got {described(model)}")
    reason = f": {REASONS[name]}" if name in REASONS else ""
    raise Unsupported(f"penstock.scvi trains {known}, not {name}{reason}")


def name_of(model_class: Any) -> str:
    """Return the name of a model's class, which is the same in all versions of scvi-tools."""
    return _known_name(model_class.__name__)


def _known_name(name: str) -> str:
    if name == _TORCH_MRVI:
        return "MRVI"
    return next((each for each in NAMES if each.lower() == name.lower()), name)


def is_semi_supervised(model_class: Any) -> bool:
    """Whether a training step of the model takes a batch of all cells and one of labelled cells."""
    from scvi.model.base import SemisupervisedTrainingMixin

    return issubclass(model_class, SemisupervisedTrainingMixin)


def reads_labels(model: Any) -> bool:
    """Whether outputs for a cell depend on its label."""
    per_label = getattr(model.module, "dispersion", None) == "gene-label"
    return per_label or name_of(type(model)) in ("CondSCVI", "MRVI")


def takes_data_module(model_class: Any) -> bool:
    """Whether scvi-tools' `train` of the model takes ``datamodule``, or passes it on in its ``**kwargs``."""
    return name_of(model_class) not in _OF_AN_ANNDATA


def training_default(model_class: Any, argument: str, otherwise: Any) -> Any:
    """Return the default of an argument of scvi-tools' `train`, or `otherwise` if it has none."""
    taken = inspect.signature(model_class.train).parameters.get(argument)
    has = taken is not None and taken.default not in (None, taken.empty)
    return taken.default if taken is not None and has else otherwise


def early_stopping_defaults(model_class: Any) -> Mapping[str, Any]:
    """Return the metric, patience, least change and mode of scvi-tools' own early stopping."""
    return {
        "monitor": _WATCHED.get(name_of(model_class), "elbo_validation"),
        "patience": training_default(
            model_class, "early_stopping_patience", 50 if name_of(model_class) == "MULTIVI" else 45
        ),
        "min_delta": 0.0,
        "mode": "min",
    }


def _class_of(model: Any) -> Any:
    return model if isinstance(model, type) else type(model)
