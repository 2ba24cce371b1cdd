"""Packages that only some calls need, and how to install a missing one."""

from __future__ import annotations

import importlib

from penstock.errors import PenstockError

#: Module to the extra of penstock that installs it, for a call that needs nothing else.
_EXTRAS = {
    "anndata": "anndata",
    "botocore": "s3",
    "lightning": "lightning",
    "matplotlib": "plot",
    "obstore": "buckets",
    "pandas": "pandas",
    "scipy": "scipy",
    "skmisc": "genes",
    "tiledb": "bench",
    "tiledbsoma": "bench",
    "torch": "torch",
}
#: Module to package, if their names differ.
_PACKAGES = {"skmisc": "scikit-misc", "sklearn": "scikit-learn", "scvi": "scvi-tools"}


class MissingPackage(PenstockError, ModuleNotFoundError):
    """A call needs a package that is not installed; the message says how to install it."""


def require(
    *modules: str, extra: str | None = None, what: str = "this call", otherwise: str = ""
) -> None:
    """Import the modules that a call needs, at the start of the call.

    Parameters
    ----------
    *modules : str
        Names of modules.
    extra : str, optional
        Extra of penstock that installs all of them. By default, the extra of each module.
    what : str
        Name of the call, for the message.
    otherwise : str
        End of the message: an alternative.

    Raises
    ------
    MissingPackage
        A module is not installed.
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
    """Return a sentence that says which module is missing and how to install it."""
    extra = extra or _EXTRAS.get(module)
    package = _PACKAGES.get(module, module)
    needs = f"{what} needs {package}, which is not installed: "
    if extra is None:
        return needs + f"pip install {package}"
    return needs + (
        f"install penstock with its extra [{extra}], in a clone by pip install '.[{extra}]', from a "
        f"wheel by pip install 'FILE.whl[{extra}]'"
    )
