"""A batch: X, and obs of the same cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from penstock.base.suggestions import did_you_mean
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

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            known = (
                f"batch.{key}" if key in ("X", "obs") else f"obs[{key!r}], after `X, obs = batch`"
            )
            raise TypeError(f"a batch is the tuple (X, obs), not a dict: write {known}")
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes.
        text = f"a batch is the tuple (X, obs), which has no {name!r}"
        if name in ("to", "cuda", "cpu"):
            text += (
                ": batch.X.to(device) moves X, if it is a tensor (format='torch'); device= of the "
                "Dataset puts batches there while the loop runs"
            )
        raise AttributeError(text)

    @property
    def X(self) -> Any:  # noqa: N802
        """Array, sparse matrix, tensor or Tokens, shape (cells, genes).

        In the form that the `Dataset` was asked for. With several measurements a dict by name.
        """
        return tuple.__getitem__(self, 0)

    @property
    def obs(self) -> Any:
        """Columns of obs and output of encoders, a dict or DataFrame with a row for each row of X."""
        return tuple.__getitem__(self, 1)


class BatchObs(dict[str, Any]):
    """obs of a batch: a dict that says how a column comes with the batches."""

    def __missing__(self, name: object) -> Any:
        raise KeyError(self._no_column(name))

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes. Copying asks for names with underscores.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in self:
            raise AttributeError(f"obs of a batch is a dict: write obs[{name!r}]")
        raise AttributeError(
            f"obs of a batch is a dict, which has no attribute {name!r}; obs_format='pandas' of the "
            f"Dataset makes a DataFrame. For a column: {self._no_column(name)}"
        )

    def _no_column(self, name: object) -> str:
        texts = [each for each in self if isinstance(each, str)]
        meant = did_you_mean(name, texts) if isinstance(name, str) else ""
        there = ", ".join(texts) or "nothing"
        give = f"{meant} Give" if meant else "; give"
        return (
            f"obs of a batch has no {name!r}, only {there}{give} the Dataset "
            f"obs_columns=[{name!r}] for the values, or encoders=[penstock.LabelEncoder({name!r})] for codes"
        )
