"""Packages that only some calls need: what to install where one is missing."""

from __future__ import annotations

import importlib

from penstock.errors import PenstockError

#: Extras of penstock by the module that they bring, for a call that needs nothing else.
_EXTRAS = {
    "anndata": "anndata",
    "botocore": "s3",
    "lightning": "lightning",
    "matplotlib": "plot",
    "pandas": "pandas",
    "scipy": "scipy",
    "skmisc": "genes",
    "tiledb": "bench",
    "tiledbsoma": "bench",
    "torch": "torch",
}
#: Where a package has another name than its module.
_PACKAGES = {"skmisc": "scikit-misc", "sklearn": "scikit-learn", "scvi": "scvi-tools"}


class MissingPackage(PenstockError, ModuleNotFoundError):
    """A call needs a package that is not installed; the message says how to install it."""


def require(
    *modules: str, extra: str | None = None, what: str = "this call", otherwise: str = ""
) -> None:
    """Import modules that a call needs, before it does anything.

    Parameters
    ----------
    *modules : str
        Names of modules.
    extra : str, optional
        Extra of penstock that brings them all; that of each module by default.
    what : str
        What needs them, as the message says it.
    otherwise : str
        What can be done instead, as the message ends.

    Raises
    ------
    MissingPackage
        One is not installed.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            top = module.partition(".")[0]
            if error.name is None or error.name.partition(".")[0] != top:
                raise  # installed, but something that it needs is not
            text = missing_text(what, top, extra) + otherwise
            raise MissingPackage(text, name=top) from None


def missing_text(what: str, module: str, extra: str | None = None) -> str:
    """Sentence about a missing module and how to install it."""
    extra = extra or _EXTRAS.get(module)
    package = _PACKAGES.get(module, module)
    needs = f"{what} needs {package}, which is not installed: "
    if extra is None:
        return needs + f"pip install {package}"
    return needs + (
        f"install penstock with its extra [{extra}], in a clone by pip install '.[{extra}]', from a "
        f"wheel by pip install 'FILE.whl[{extra}]'"
    )
