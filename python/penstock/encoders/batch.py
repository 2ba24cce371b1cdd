"""Combinations of obs columns as integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .classes import Classes
from .encoder import Array
from .label import LabelEncoder


class BatchEncoder(LabelEncoder):
    """Combinations of several columns as integers from 0: the batch covariate of a model.

    Parameters
    ----------
    columns : str or sequence of str
        The columns whose values are joined by ``//`` into one label.
    name : str, default "batch"
        The key of its output in obs.
    classes : sequence or dict, optional
        The labels, in the order of their codes, or a dict of label to code; by default the
        combinations that occur in the cells of the `Dataset` (a `LabelEncoder` of several columns
        takes all that could), sorted column by column.
    unseen, missing : int or "error"
        As of `LabelEncoder`; a cell that misses one of the values is missing.

    Notes
    -----
    The output is int64, kept as 1 or 2 bytes a cell (4 with more than 65,536 combinations).
    """

    fits_combinations = True

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = "batch",
        classes: Sequence[Any] | Mapping[Any, int] | None = None,
        *,
        unseen: int | str = "error",
        missing: int | str = -1,
    ) -> None:
        super().__init__(columns, name, classes, unseen=unseen, missing=missing)
        self.is_elementwise = False  # labels are text, also those of one column

    def fit(self, values: Mapping[str, Array]) -> None:
        """Take the combinations as classes, unless they were given."""
        if self.needs_fit:
            self._classes = Classes(list(dict.fromkeys(self._joined(values))))

    def _labels(self, obs: Mapping[str, Array]) -> list[Any]:
        return self._joined(obs)
