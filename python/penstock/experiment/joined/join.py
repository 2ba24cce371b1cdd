"""Join several experiments into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.validation import check_no_secrets, checked_items, checked_names, checked_text
from penstock.errors import InvalidArgument
from penstock.experiment.anndata_source import (
    MAIN,
    RAW,
    AnnDataExperiment,
    raw_of,
    warn_of_fractions,
)
from penstock.experiment.experiment import Experiment
from penstock.experiment.globs import expanded
from penstock.experiment.open_source import open_source

from .experiment import JoinedExperiment, join_opened


def join(
    experiments: Mapping[str, Any] | Sequence[Any],
    *,
    genes: str | Sequence[str] = "inner",
    var_column: str | None = None,
    measurement: str | Sequence[str] = "RNA",
    layer: str | Sequence[str] | None = None,
    source_column: str = "source",
) -> JoinedExperiment:
    """Join several experiments into one: the cells of all, with matched genes.

    Parameters
    ----------
    experiments : dict or sequence
        Paths, AnnData objects, Experiments or tiledbsoma Experiments, or a pattern of paths. A dict
        gives their names. Otherwise the last part of the path is the name; an AnnData object is
        ``anndata-0`` by its place.
    genes : {"inner", "outer"} or sequence of str
        "inner" takes the genes of all experiments, in the order of the first. "outer" takes the
        genes of any experiment. A list takes its genes, in its order. X is zero for genes that an
        experiment lacks (see `JoinedExperiment.missing_genes`). A listed gene that no experiment
        has causes a warning.
    var_column : str, optional
        Column of var to match genes by. By default the first usual name column that all
        experiments have.
    measurement : str or sequence of str, default "RNA"
        One name for all experiments, or one for each.
    layer : str or sequence of str, optional
        One name for all experiments, or one for each. By default "raw" of a SOMA experiment, "X" of
        an AnnData, or the only layer. "raw" of an AnnData is its ``raw``.
    source_column : str, default "source"
        Name of the added obs column, with the name of the experiment of each cell.

    Returns
    -------
    JoinedExperiment
        A source for `Dataset`.

    Raises
    ------
    InvalidArgument
        Experiments share no gene, gene names are not unique, or an argument is not valid.
    NotFound
        An experiment, measurement, layer or column does not exist.
    """
    named = _opened(expanded(experiments))
    each = len(named)
    measurements = _one_for_each("measurement", measurement, each)
    if layer is None:
        layers = [
            opened.default_layer(name)
            for opened, name in zip(named.values(), measurements, strict=True)
        ]
        warn_of_fractions(list(zip(named.values(), measurements, layers, strict=True)))
    else:
        layers = _one_for_each("layer", layer, each)
    for number, opened in enumerate(named.values()):
        if layers[number] == RAW and measurements[number] == MAIN:
            measurements[number], layers[number] = raw_of(opened)
    return join_opened(
        named,
        genes if isinstance(genes, str) else checked_names("genes", genes),
        None if var_column is None else checked_text("var_column", var_column),
        measurements,
        layers,
        checked_text("source_column", source_column),
    )


def _opened(experiments: Any) -> dict[str, Experiment]:
    by_name = isinstance(experiments, Mapping)
    sources = checked_items(
        "experiments to join",
        experiments.values() if by_name else experiments,
        "a list of sources or a dict of name to source",
    )
    if any(type(source).__name__ == "ExperimentAxisQuery" for source in sources):
        raise InvalidArgument(
            "an ExperimentAxisQuery cannot be joined: join its experiment, and give the Dataset the "
            "obs_query"
        )
    opened = [open_source(source, None) for source in sources]
    if any(isinstance(each, JoinedExperiment) for each in opened):
        raise InvalidArgument(
            "an experiment to join is a join itself: give all experiments to one penstock.join"
        )
    if by_name:
        names = checked_names("names of experiments", list(experiments))
        for name in names:
            check_no_secrets("the name of an experiment", name)
    else:
        names = _names_of(
            [
                f"anndata-{place}" if isinstance(each, AnnDataExperiment) else each.uri
                for place, each in enumerate(opened)
            ]
        )
    if not opened:
        raise InvalidArgument("there is no experiment to join")
    return dict(zip(names, opened, strict=True))


def _names_of(uris: Sequence[str]) -> list[str]:
    """Return the last parts of paths, as many as it takes to tell them apart."""
    parts = [uri.rstrip("/").split("/") for uri in uris]
    longest = max((len(each) for each in parts), default=1)
    for count in range(1, longest + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    raise InvalidArgument(f"an experiment comes twice, {list(uris)}; name them with a dict")


def _one_for_each(name: str, value: Any, count: int) -> list[str]:
    if isinstance(value, str):
        return [checked_text(name, value)] * count
    names = checked_names(name, value)
    if len(names) != count:
        raise InvalidArgument(
            f"{name} must be one name, or one for each of the {count} experiments, got {names}"
        )
    return names
