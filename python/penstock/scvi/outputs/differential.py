"""Differential expression and accessibility of stored cells, by scvi-tools' own computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidArgument, Unsupported
from penstock.genes.statistics import Groups

from ..data.data_module import DataModule
from ..registry.modalities import Modalities
from ..registry.model_classes import model_class, name_of
from ..registry.registration import LEAST_ROWS
from .comparison_run import Call, ComparisonOptions, compare
from .count_statistics import CountStatistics, Detection

if TYPE_CHECKING:
    import pandas as pd

#: Models whose comparison is another call, and what to do.
_OF_REGIONS = "call penstock.scvi.differential_accessibility, since it has regions and no genes"
_OTHERS = {
    "PEAKVI": _OF_REGIONS,
    "POISSONVI": _OF_REGIONS,
    "MRVI": (
        "its own differential_expression compares samples, and needs cells in memory: save the model, "
        "and load it with an AnnData of them"
    ),
}

#: Models with regions, and the sign of scvi-tools' empirical effect: 1 for the second group less the first.
_SIGNS = {"PEAKVI": 1, "MULTIVI": 1, "POISSONVI": -1}


def differential_expression(
    model: Any,
    data: Any,
    groupby: str | None = None,
    group1: Any = None,
    group2: Any = None,
    *,
    idx1: Any = None,
    idx2: Any = None,
    all_stats: bool = True,
    cells_per_group: int = 5_000,
    seed: int = 0,
    accelerator: str = "auto",
    dataset: dict[str, Any] | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Compare the expression of groups of cells, by scvi-tools' ``differential_expression``.

    scvi-tools draws samples of each group's cells, 5,000 by default. So it is given a random choice
    of cells of each group, in memory, and not all of them. ``raw_mean1`` and the other statistics of
    counts are of all cells; they take two passes over the cells.

    Parameters
    ----------
    model, data, dataset
        See `latent`.
    groupby : str, optional
        Column of obs with the groups.
    group1 : value or sequence of values, optional
        Groups to compare; by default each value of the column.
    group2 : value, optional
        Group to compare with; by default all other cells.
    idx1, idx2 : array of bool or int, optional
        The two groups, in place of `groupby`: a mask over all cells in stored order, or their
        positions. Without `idx2`, all other cells.
    all_stats : bool, default True
        Whether to compute the statistics of counts.
    cells_per_group : int, default 5,000
        Most cells to choose from each group, and from the cells that it is compared with. Memory holds
        the chosen cells of all comparisons at once, as CSR.
    seed : int, default 0
        Seed of the choice and of scvi-tools' samples.
    accelerator : {"auto", "cpu", "gpu", "cuda"}
        Where the model runs.
    **arguments
        Others of scvi-tools' method, but not ``subset_idx``: ``mode``, ``delta``,
        ``batch_correction``, ….

    Returns
    -------
    pandas.DataFrame
        One row for each comparison and gene, with scvi-tools' columns. A TOTALVI has rows for its
        proteins, too, with names that end in ``_protein``. If `cells_per_group` leaves no cell out, it
        is what scvi-tools computes from an AnnData of all cells and the same seeds. For a TOTALVI the
        draws are the same only for one comparison with all other cells, since scvi-tools also draws
        cells to check their counts.

    Raises
    ------
    InvalidArgument
        Groups are given twice or not at all, are unknown or empty, or an argument is invalid.
    NotFound
        The column does not exist.
    Unsupported
        The model has another comparison: PEAKVI, POISSONVI or MRVI.
    """
    name = name_of(model_class(model))
    if name in _OTHERS:
        raise Unsupported(f"differential_expression takes no {name}: {_OTHERS[name]}")
    _check_layers(model, "rna_layer")
    is_totalvi = name == "TOTALVI"
    options = ComparisonOptions(
        groupby, group1, group2, idx1, idx2, cells_per_group, seed, accelerator, dataset
    )

    def statistics(cells: DataModule, groups: Groups) -> CountStatistics:
        genes = cells.measured("rna_layer")
        if not is_totalvi:
            return CountStatistics.of(genes, groups)
        return CountStatistics.with_proteins(genes, cells.measured("protein_layer"), groups)

    arguments = {**arguments, "all_stats": False}
    call = Call("differential_expression", "rna_layer", arguments, with_proteins=is_totalvi)
    return compare(model, data, options, call, statistics if all_stats else None)


def differential_accessibility(
    model: Any,
    data: Any,
    groupby: str | None = None,
    group1: Any = None,
    group2: Any = None,
    *,
    idx1: Any = None,
    idx2: Any = None,
    cells_per_group: int = 5_000,
    seed: int = 0,
    accelerator: str = "auto",
    dataset: dict[str, Any] | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Compare the accessibility of groups of cells, by scvi-tools' ``differential_accessibility``.

    Like `differential_expression`, for the regions of a PEAKVI, POISSONVI or MULTIVI. The empirical
    probabilities ``emp_prob1`` and ``emp_prob2`` are of all cells; they take one pass over the cells.

    Parameters
    ----------
    model, data, groupby, group1, group2, idx1, idx2, cells_per_group, seed, accelerator, dataset
        See `differential_expression`.
    **arguments
        Others of scvi-tools' method, but not ``subset_idx`` and ``all_stats``: ``mode``, ``delta``,
        ``batch_correction``, ….

    Returns
    -------
    pandas.DataFrame
        One row for each comparison and region, with scvi-tools' columns: for PEAKVI and MULTIVI
        ``prob_da``, ``is_da_fdr``, ``effect_size``, …. With `groupby` also ``comparison``, ``group1``
        and ``group2``, which scvi-tools leaves out. If `cells_per_group` leaves no cell out, the rest is
        what scvi-tools computes from all cells in memory and the same seeds.

    Raises
    ------
    InvalidArgument, NotFound
        As `differential_expression`.
    Unsupported
        The model has no regions, or is a MULTIVI without genes, which scvi-tools does not compare.
    """
    name = name_of(model_class(model))
    if name not in _SIGNS:
        raise Unsupported(
            f"differential_accessibility takes a PEAKVI, POISSONVI or MULTIVI, whose features are "
            f"regions, not a {name}"
        )
    _check_layers(model, "rna_layer", "atac_layer")
    if "all_stats" in arguments:
        raise InvalidArgument(
            "all_stats is not taken: the empirical columns are always of all cells"
        )
    options = ComparisonOptions(
        groupby, group1, group2, idx1, idx2, cells_per_group, seed, accelerator, dataset
    )

    def statistics(cells: DataModule, groups: Groups) -> Detection:
        return Detection.of(cells.measured("atac_layer"), groups, _SIGNS[name])

    least = LEAST_ROWS if name == "POISSONVI" else 0
    call = Call("differential_accessibility", "atac_layer", arguments, least)
    return compare(model, data, options, call, statistics)


def _check_layers(model: Any, *needed: str) -> None:
    """Refuse a MULTIVI without genes, which scvi-tools does not compare, or without the regions.

    scvi-tools takes the first modality of the MuData for the genes, and the second for the regions.
    """
    modalities = Modalities.saved(model_class(model), model.registry, None)
    if modalities is None:
        return
    for layer, told in (
        ("rna_layer", "without genes: train a PEAKVI on its regions"),
        ("atac_layer", "without regions: call penstock.scvi.differential_expression for its genes"),
    ):
        if layer in needed and layer not in modalities.layers:
            raise Unsupported(f"scvi-tools does not compare groups by a MULTIVI {told}")
