"""Names of the genes of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock import _core
from penstock.base.validation import checked_text

from .data_frame import JOINID, DataFrame

#: Columns of var that hold names, best first.
NAME_COLUMNS = ("var_id", "feature_id", "gene_id", "feature_name", "gene_name", "index")


@dataclass(frozen=True)
class GeneNames:
    """Names of genes, as a column of var has them.

    Attributes
    ----------
    var : DataFrame
        All genes of the measurement.
    chosen : str, optional
        The column that the user chose.
    """

    var: DataFrame
    chosen: str | None = None

    def column(self, column: str | None = None) -> str:
        """Name of the column: the given one, the chosen one, else the first of var's usual ones.

        Raises
        ------
        InvalidArgument, NotFound
            There is no such column.
        """
        wanted = self.chosen if column is None else column
        if wanted is not None:
            name = checked_text("the column of gene names", wanted)
            return self.var.checked_columns([name], "the column of gene names")[0]
        there = self.var.columns
        return next((name for name in NAME_COLUMNS if name in there), JOINID)

    def of(self, genes: _core.RowSelection, column: str | None = None) -> npt.NDArray[Any]:
        """Names of some genes, by ascending joinid."""
        name = self.column(column)
        return self.var.with_rows(genes).read([name])[name].to_numpy()
