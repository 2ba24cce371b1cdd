"""One array of X in a batch."""

from __future__ import annotations

from typing import NamedTuple

from penstock.transforms.chain import Chain


class XArray(NamedTuple):
    """Layout, dtype and transforms of X, or of X of one measurement."""

    sparse: str | None
    dtype: str
    chain: Chain | None


#: X of a batch: one array, or one for each measurement.
XArrays = XArray | dict[str, XArray]
