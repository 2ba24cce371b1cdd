"""Making one experiment of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.validation import check_no_secrets, checked_items, checked_names, checked_text
from penstock.errors import InvalidArgument
from penstock.experiment.experiment import Experiment
from penstock.experiment.open_source import open_source

from .experiment import JoinedExperiment, join_opened


def join(
    experiments: Mapping[str, Any] | Sequence[Any],
    *,
    genes: str | Sequence[str] = "inner",
    var_column: str | None = None,
    measurement: str | Sequence[str] = "RNA",
    layer: str | Sequence[str] = "raw",
    source_column: str = "source",
) -> JoinedExperiment:
    """Take several experiments for one: the cells of all, the genes matched.

    Parameters
    ----------
    experiments : dict or sequence
        What `Dataset` takes as a source: paths, Experiments, tiledbsoma Experiments. A dict names
        them; else they are named by the last part of their paths.
    genes : {"inner", "outer"} or sequence of str
        Genes that all experiments have, in the order of the first; genes that any has; or these, in
        this order. A gene that an experiment lacks is zero in its cells; `missing_genes` of the
        result tells which, and a warning when a gene of the list is in none.
    var_column : str, optional
        The column of var that genes are matched by; by default the first of the usual ones that all
        have.
    measurement, layer : str or sequence of str
        One for all experiments, or one for each.
    source_column : str, default "source"
        Name of the obs column that says which experiment a cell is from.

    Returns
    -------
    JoinedExperiment
        To make a `Dataset` of.

    Raises
    ------
    InvalidArgument
        Experiments without a common gene, names that are not unique, arguments that do not fit.
    NotFound
        An experiment, measurement, layer or column that is not there.
    """
    named = _opened(experiments)
    each = len(named)
    return join_opened(
        named,
        genes if isinstance(genes, str) else checked_names("genes", genes),
        None if var_column is None else checked_text("var_column", var_column),
        _one_for_each("measurement", measurement, each),
        _one_for_each("layer", layer, each),
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
        names = _names_of([each.uri for each in opened])
    if not opened:
        raise InvalidArgument("there is no experiment to join")
    return dict(zip(names, opened, strict=True))


def _names_of(uris: Sequence[str]) -> list[str]:
    """The last parts of paths, with as many before them as it takes to tell them apart."""
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
