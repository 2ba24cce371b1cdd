"""Classes of scvi-tools' models that can be trained, and the versions that have them."""

from __future__ import annotations

import importlib
import re
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument, Unsupported

#: Supported models: their fields are one matrix of counts and columns of obs.
NAMES = ("SCVI", "LinearSCVI", "SCANVI")

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
        The model is not supported; the message names it.
    InvalidArgument
        `model` is not a model.
    """
    import scvi

    check_versions()
    name = model if isinstance(model, str) else _class_of(model).__name__
    if name not in NAMES:
        known = hasattr(scvi.model, name) or not isinstance(model, str)
        error = Unsupported if known else InvalidArgument
        raise error(
            f"penstock.scvi trains {', '.join(NAMES)}, not {name}: its other inputs (proteins, times, "
            "accessibility, …) are no columns of obs"
            if known
            else f"model must be one of {', '.join(NAMES)}, got {described(model)}"
        )
    return getattr(scvi.model, name) if isinstance(model, str) else _class_of(model)


def _class_of(model: Any) -> Any:
    return model if isinstance(model, type) else type(model)
