"""The argument `measurements` of a Dataset."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.base.validation import checked_names, checked_text, described
from penstock.errors import InvalidArgument
from penstock.experiment.joined import JoinedExperiment
from penstock.experiment.local_cache import LocalCache
from penstock.experiment.open_source import open_source
from penstock.plan.epoch_size import warn_of_nothing_selected
from penstock.plan.measurements import Measurement, SeveralMeasurements, naming
from penstock.plan.settings import checked_dtype, checked_sparse

from .source import resolve_source, with_cache

_SETTINGS = {"sparse": checked_sparse, "dtype": checked_dtype}
_ARGUMENTS = ("measurement", "layer", "var_query", "var_names", "transforms", *_SETTINGS)


def resolve_measurements(
    source: Any,
    measurements: Any,
    common: Mapping[str, Any],
    obs_query: Any,
    threads: int | None,
    storage_options: Mapping[str, Any] | None,
    cache: LocalCache | None,
) -> SeveralMeasurements:
    """Open a source and select the cells, and the genes of each measurement.

    Parameters
    ----------
    measurements : sequence of str, or dict of str to dict
        Names of measurements, with their own arguments.
    common : mapping
        Arguments that hold for each measurement that does not have its own: layer, var_query,
        var_names and transforms.

    Raises
    ------
    InvalidArgument, NotFound, Unsupported
        See `penstock.Dataset`.
    """
    tiledbsoma: Any = sys.modules.get("tiledbsoma")
    if tiledbsoma is not None and isinstance(source, tiledbsoma.ExperimentAxisQuery):
        raise InvalidArgument(
            "an ExperimentAxisQuery is of one measurement: give its experiment, and its filter as "
            "obs_query"
        )
    source = _opened(source, threads, storage_options)
    if isinstance(source, JoinedExperiment):
        raise InvalidArgument(
            "a joined experiment has one measurement: give Dataset the list or dict of experiments, "
            "which joins each of its measurements"
        )
    if isinstance(common["transforms"], Iterator):
        common = {**common, "transforms": tuple(common["transforms"])}
    parts: dict[str, Measurement] = {}
    cells = obs_query
    for name, own in _checked(measurements).items():
        arguments = {"measurement": name, **common, **own}
        with naming(name):
            selection = resolve_source(
                source,
                arguments["measurement"],
                arguments["layer"],
                cells,
                arguments["var_query"],
                threads,
            ).with_var_names(arguments["var_names"])
            if len(selection.rows) or not parts:
                warn_of_nothing_selected(selection, obs_query, arguments["var_query"])
            cells = selection.rows  # the filter is evaluated once
            settings = {key: check(own[key]) for key, check in _SETTINGS.items() if key in own}
            if cache is not None:
                selection = with_cache(selection, cache)
            parts[name] = Measurement(selection.with_transforms(arguments["transforms"]), settings)
    return SeveralMeasurements.of(parts)


def _opened(source: Any, threads: int | None, storage_options: Mapping[str, Any] | None) -> Any:
    """Open a source, or each of several, once for all measurements."""
    if isinstance(source, dict):
        return {
            name: open_source(each, threads, _options_of(each, storage_options))
            for name, each in source.items()
        }
    if isinstance(source, (list, tuple)):
        return [open_source(each, threads, _options_of(each, storage_options)) for each in source]
    return open_source(source, threads, storage_options)


def _options_of(source: Any, options: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the options for an item of a list: none for one that is open, or on a disk."""
    is_uri = isinstance(source, (str, os.PathLike)) and "://" in os.fspath(source)
    return options if is_uri else None


def _checked(measurements: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(measurements, Mapping):
        names = checked_names("measurements", measurements)
        measurements = {name: {} for name in names}
        if len(measurements) < len(names):
            raise InvalidArgument(f"measurements has a name twice: {', '.join(names)}")
    if not measurements:
        raise InvalidArgument("measurements must have one name or more, got none")
    for name, own in measurements.items():
        checked_text("measurements", name)
        if not isinstance(own, Mapping):
            raise InvalidArgument(
                f"measurements[{name!r}] must be a dict of arguments, got {described(own)}"
            )
        for key in own:
            if key not in _ARGUMENTS:
                raise InvalidArgument(
                    f"measurements[{name!r}] takes {', '.join(_ARGUMENTS)}, got {described(key)}; "
                    "other arguments are those of the Dataset"
                )
    return dict(measurements)
