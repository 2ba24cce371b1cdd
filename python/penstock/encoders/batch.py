"""Encode combinations of obs columns as integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .classes import Classes
from .encoder import Array
from .label import LabelEncoder


class BatchEncoder(LabelEncoder):
    """Encode combinations of columns as integers from 0, such as the batch covariate of a model.

    Parameters
    ----------
    columns : str or sequence of str
        Columns whose values are joined by ``//`` into one label.
    name : str, default "batch"
        Key of the output in obs.
    classes : sequence or dict, optional
        Labels in the order of their codes, or a dict of label to code. By default the combinations
        that occur in the cells of the `Dataset`, sorted column by column. (A `LabelEncoder` of
        several columns takes all possible combinations.)
    unseen, missing : int or "error"
        As for `LabelEncoder`. A cell is missing if one of its values is missing.

    Notes
    -----
    The output is int64, shape (cells,). It is stored in 1 or 2 bytes a cell, or in 4 with more than
    65,536 combinations.
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
        self.is_elementwise = False  # labels are text, also for one column

    def fit(self, values: Mapping[str, Array]) -> None:
        """Learn the combinations as classes, unless classes were given."""
        if self.needs_fit:
            self._classes = Classes(list(dict.fromkeys(self._joined(values))))

    def _labels(self, obs: Mapping[str, Array]) -> list[Any]:
        return self._joined(obs)
