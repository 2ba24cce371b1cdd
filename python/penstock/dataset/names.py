"""Names of cells and genes: an array that says what replaces the methods of a pandas Index."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

_SCVI = (
    ". scvi-tools' load and load_query_data need an AnnData: for stored cells write "
    "penstock.scvi.load(folder, data) and penstock.scvi.DataModule.from_model(folder, ds)"
)
#: Methods that scvi-tools calls on the names of what it takes for an AnnData.
_OF_SCVI = frozenset(["intersection", "to_numpy"])


class Names(np.ndarray[Any, np.dtype[Any]]):
    """Names of cells or genes, an ndarray. AnnData has a pandas Index in its place."""

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes.
        text = f"ds.obs_names and ds.var_names are NumPy arrays, which have no {name!r}"
        pandas: Any = sys.modules.get("pandas")
        if name.startswith("_") or (pandas is not None and not hasattr(pandas.Index, name)):
            raise AttributeError(text)
        raise AttributeError(
            f"{text}: pd.Index(ds.obs_names).{name} has it" + (_SCVI if name in _OF_SCVI else "")
        )


def as_names(values: npt.NDArray[Any]) -> Names:
    """Return the array as names, without a copy."""
    return values.view(Names)
