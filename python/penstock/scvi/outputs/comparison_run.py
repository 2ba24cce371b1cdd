"""A comparison of groups of stored cells by scvi-tools, with a choice of the cells in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.base.missing_package import require
from penstock.base.validation import checked_int
from penstock.errors import InvalidArgument
from penstock.genes.statistics import Groups

from ..data.data_module import DataModule
from .comparisons import chosen_cells, of_masks, of_values, with_others
from .count_statistics import Statistics
from .inference_rows import aligned_cells, check_trained, device_of
from .model_with_cells import model_with_cells, seeded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ComparisonOptions:
    """Arguments that comparisons share; see `penstock.scvi.differential_expression`."""

    groupby: str | None
    group1: Any
    group2: Any
    idx1: Any
    idx2: Any
    cells_per_group: int
    seed: int
    accelerator: str
    dataset: dict[str, Any] | None


@dataclass(frozen=True)
class Call:
    """A call of scvi-tools that compares features of two groups.

    Attributes
    ----------
    method : str
        Name of the method.
    layer : str
        scvi-tools' name of the layer of the features, of a model that reads several.
    arguments : dict
        Arguments, but not those that say which cells.
    least_cells : int
        Fewest cells in memory, also of other groups.
    with_proteins : bool
        Whether proteins are compared beside these features.
    """

    method: str
    layer: str
    arguments: dict[str, Any]
    least_cells: int = 0
    with_proteins: bool = False

    def names(self, cells: DataModule) -> tuple[pd.Index, pd.Index]:
        """Return the names of the features, and those that they have in scvi-tools' table."""
        import pandas as pd

        names = pd.Index(cells.names_of(self.layer))
        called = pd.Index(np.arange(len(names)).astype(str))
        if not self.with_proteins:
            return names, called
        proteins = pd.Index([f"{name}_protein" for name in cells.names_of("protein_layer")])
        return names.append(proteins), called.append(proteins)


def compare(
    model: Any,
    data: Any,
    options: ComparisonOptions,
    call: Call,
    statistics: Callable[[DataModule, Groups], Statistics] | None,
) -> pd.DataFrame:
    """Return scvi-tools' table of each comparison, with statistics of all cells.

    Raises
    ------
    InvalidArgument
        Groups are given twice or not at all, are unknown or empty, or an argument is invalid.
    NotFound
        The column does not exist.
    """
    require("pandas", "anndata")
    import pandas as pd

    if "subset_idx" in call.arguments:
        raise InvalidArgument(
            "subset_idx is not taken: choose cells by obs_query, or by idx1 and idx2"
        )
    check_trained(model)
    device = device_of(options.accelerator)
    size = checked_int("cells_per_group", options.cells_per_group, least=1)
    seed = checked_int("seed", options.seed, least=0, most=2**32 - 1)
    cells = aligned_cells(model, data, options.dataset)
    groupby, group1, group2 = options.groupby, options.group1, options.group2
    if groupby is not None:
        if options.idx1 is not None or options.idx2 is not None:
            raise InvalidArgument("give groupby or idx1 and idx2, not both")
        groups, comparisons = of_values(cells.dataset, groupby, group1, group2)
    else:
        groups, comparisons = of_masks(options.idx1, options.idx2, group1, group2, cells.n_obs)
    chosen = chosen_cells(groups.codes, comparisons, size, np.random.default_rng(seed))
    union = np.unique(np.concatenate([places for pair in chosen for places in pair]))
    union = with_others(union, call.least_cells, cells.n_obs)
    added = None if statistics is None else statistics(cells, groups)
    names, called = call.names(cells)
    tables = []
    with (
        seeded(seed),
        model_with_cells(model, cells, union, device) as (small, adata),
        seeded(seed),
    ):
        for comparison, pair in zip(comparisons, chosen, strict=True):
            masks = (np.isin(union, places, assume_unique=True) for places in pair)
            table = getattr(small, call.method)(
                adata, idx1=next(masks), idx2=next(masks), **{"silent": True, **call.arguments}
            )
            table.index = called.get_indexer(table.index)
            if added is not None:
                table = added.added_to(table, comparison)
            table.index = names[table.index]
            if groupby is not None:
                table["comparison"] = f"{comparison.name1} vs {comparison.name2}"
                table["group1"], table["group2"] = comparison.name1, comparison.name2
            tables.append(table)
    return pd.concat(tables)
