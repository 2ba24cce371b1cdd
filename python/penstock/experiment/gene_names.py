"""Gene names of an experiment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock import _core
from penstock.base.validation import checked_text, described
from penstock.errors import InvalidArgument

from .data_frame import JOINID, DataFrame
from .labels import VAR_NAME_COLUMNS


@dataclass(frozen=True)
class GeneNames:
    """Gene names from a column of var.

    Attributes
    ----------
    var : DataFrame
        All genes of the measurement.
    chosen : str, optional
        Column that the user chose.
    """

    var: DataFrame
    chosen: str | None = None

    def column(self, column: str | None = None) -> str:
        """Return the name of the column: `column`, else the chosen one, else the first usual one.

        Of a join the usual one is that by which it matched the genes.

        Raises
        ------
        InvalidArgument, NotFound
            The column does not exist.
        """
        wanted: object = self.chosen if column is None else column
        if wanted is not None:
            if not isinstance(wanted, str) and isinstance(wanted, Iterable):
                raise InvalidArgument(
                    f"var_names is the column of var that names genes, got {described(wanted)}; "
                    "var_query=[names] or ds[:, names] choose genes"
                )
            name = checked_text("the column of gene names", wanted)
            return self.var.checked_columns([name], "the column of gene names")[0]
        return self.var.matched_by or next(iter(self.usual()), JOINID)

    def usual(self) -> list[str]:
        """Return the usual name columns that exist, the first one first."""
        there = self.var.columns
        return [name for name in VAR_NAME_COLUMNS if name in there]

    def of(self, genes: _core.RowSelection, column: str | None = None) -> npt.NDArray[Any]:
        """Return the names of some genes, by ascending joinid."""
        name = self.column(column)
        return self.var.with_rows(genes).read([name])[name].to_numpy()
