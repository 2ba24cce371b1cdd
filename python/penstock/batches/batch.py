"""A batch: X, and obs of the same cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from penstock.base.validation import checked_items
from penstock.errors import InvalidArgument


# No NamedTuple: transformers makes batches again by `type(batch)(parts)`.
class Batch(tuple[Any, Any]):
    """Cells that come together: ``X, obs = batch``, or ``batch.X`` and ``batch.obs``.

    Parameters
    ----------
    parts : iterable of two
        X and obs.

    Raises
    ------
    InvalidArgument
        There are not two parts.
    """

    __slots__ = ()

    def __new__(cls, parts: Iterable[Any]) -> Self:
        """Make the tuple."""
        made = super().__new__(cls, checked_items("a batch", parts, "X and obs"))
        if len(made) != 2:
            raise InvalidArgument(f"a batch has X and obs, got {len(made)} parts")
        return made

    @property
    def X(self) -> Any:  # noqa: N802
        """Array, sparse matrix, tensor or Tokens, shape (cells, genes).

        In the form that the `Dataset` was asked for. With several measurements a dict by name.
        """
        return self[0]

    @property
    def obs(self) -> Any:
        """Columns of obs and output of encoders, a dict or DataFrame with a row for each row of X."""
        return self[1]
