"""Sources of a Dataset: a path, an Experiment, or objects of tiledbsoma."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from penstock import _core
from penstock.base.validation import checked_text
from penstock.errors import InvalidArgument, Unsupported
from penstock.experiment.anndata_source import RAW, AnnDataExperiment, raw_of, warn_of_fractions
from penstock.experiment.axis_query import resolve
from penstock.experiment.experiment import Experiment, open_stored
from penstock.experiment.globs import expanded
from penstock.experiment.joined import JoinedExperiment, join
from penstock.experiment.local_cache import LocalCache
from penstock.experiment.open_source import check_for_uri, open_source, reopen
from penstock.plan.selection import Selection

DEFAULT_MEASUREMENT = "RNA"


def resolve_source(
    source: Any,
    measurement: str | None,
    layer: str | None,
    obs_query: Any,
    var_query: Any,
    threads: int | None,
    storage_options: Mapping[str, Any] | None = None,
) -> Selection:
    """Open a source and select its rows and genes.

    Raises
    ------
    InvalidArgument, NotFound, Unsupported
        See `penstock.Dataset`.
    """
    if measurement is not None:
        checked_text("measurement", measurement)
    if layer is not None:
        checked_text("layer", layer)
    # The source can only be an object of tiledbsoma if tiledbsoma is imported.
    tiledbsoma: Any = sys.modules.get("tiledbsoma")
    if tiledbsoma is not None and isinstance(source, tiledbsoma.ExperimentAxisQuery):
        check_for_uri(source, storage_options)
        return _from_axis_query(source, measurement, layer, obs_query, var_query, threads)
    source = expanded(source)
    name = DEFAULT_MEASUREMENT if measurement is None else measurement
    if isinstance(source, (list, tuple, dict)):
        if storage_options is not None:
            parts = source.values() if isinstance(source, dict) else source
            opened = [_opened(each, threads, storage_options) for each in parts]
            source = dict(zip(source, opened, strict=True)) if isinstance(source, dict) else opened
        joined = join(source, measurement=name, layer=layer)
        experiment: Experiment = joined
        name, layer = joined.measurement, joined.layer
    else:
        experiment = open_source(source, threads, storage_options)
    if isinstance(experiment, JoinedExperiment):
        name, layer = _joined_layer(experiment, measurement, layer)
    elif measurement is None and layer == RAW:
        name, layer = raw_of(experiment)
    if layer is None:
        layer = experiment.default_layer(name)
        warn_of_fractions([(experiment, name, layer)])
    rows = resolve(experiment.obs, obs_query, "obs_query")
    genes = resolve(experiment.var(name), var_query, "var_query")
    return Selection(experiment, name, layer, rows, genes)


def with_cache(selection: Selection, cache: LocalCache) -> Selection:
    """Return the selection, read through a cache.

    Raises
    ------
    Unsupported
        The cache cannot tell whether the source changes.
    """
    experiment = selection.experiment
    if isinstance(experiment, JoinedExperiment):
        parts = experiment.experiments
        in_memory = [name for name, each in parts.items() if isinstance(each, AnnDataExperiment)]
        if in_memory and len(in_memory) < len(parts):
            raise Unsupported(
                f"AnnData objects in memory may change, so a join with them has no cache: leave "
                f"cache_dir out, or write {', '.join(in_memory)} with write_h5ad and join the path"
            )
    return replace(selection, cache=cache)


def places_of(selection: Selection) -> list[str]:
    """Return the URIs that a selection is read from."""
    experiment = selection.experiment
    if isinstance(experiment, JoinedExperiment):
        return [each.uri for each in experiment.experiments.values()]
    return [experiment.uri, selection.matrix.uri]


def _opened(source: Any, threads: int | None, storage_options: Mapping[str, Any]) -> Any:
    """Return a part of a join: open a URI with the options, return anything else as it is."""
    if not isinstance(source, (str, os.PathLike)) or "://" not in os.fspath(source):
        return source
    return open_stored(source, threads=threads, storage_options=storage_options)


def _joined_layer(
    experiment: JoinedExperiment, measurement: str | None, layer: str | None
) -> tuple[str, str]:
    """Return the measurement and layer of a join; refuse others than those of `join`."""
    for what, given, there in (
        ("measurement", measurement, experiment.measurement),
        ("layer", layer, experiment.layer),
    ):
        if given is not None and given != there:
            raise InvalidArgument(
                f"the {what} of joined experiments is chosen in penstock.join, where it was "
                f"{there!r}, got {given!r}"
            )
    return experiment.measurement, experiment.layer


def _from_axis_query(
    query: Any,
    measurement: str | None,
    layer: str | None,
    obs_query: Any,
    var_query: Any,
    threads: int | None,
) -> Selection:
    if obs_query is not None or var_query is not None:
        raise InvalidArgument(
            "an ExperimentAxisQuery already selects rows and genes; obs_query and var_query "
            "cannot be given with it"
        )
    if measurement is not None and measurement != query.measurement_name:
        raise InvalidArgument(
            f"the ExperimentAxisQuery is of measurement {query.measurement_name!r}, "
            f"got measurement {measurement!r}"
        )
    experiment = reopen(query.experiment, threads)
    name = query.measurement_name
    return Selection(
        experiment,
        name,
        experiment.default_layer(name) if layer is None else layer,
        _from_arrow(query.obs_joinids()),
        _from_arrow(query.var_joinids()),
    )


def _from_arrow(joinids: Any) -> _core.RowSelection:
    return _core.RowSelection.from_unsorted(np.unique(joinids.to_numpy()).astype(np.int64))
