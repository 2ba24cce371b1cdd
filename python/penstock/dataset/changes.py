"""A dataset of the same cells with other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from penstock.batches import format as batch_format
from penstock.batches.format import BatchFormat
from penstock.errors import InvalidArgument
from penstock.plan import sampling
from penstock.plan.settings import LoaderSettings

if TYPE_CHECKING:
    from .dataset import Dataset

_LOADING = [each.name for each in fields(LoaderSettings)]
_TAKEN = {*_LOADING, *batch_format.ARGUMENTS, *sampling.ARGUMENTS, "transforms"} - {"sampling"}


def with_settings(dataset: Dataset, changes: Mapping[str, Any]) -> Dataset:
    """See `Dataset.with_settings`."""
    for name in changes:
        if name not in _TAKEN:
            raise InvalidArgument(
                f"with_settings does not take {name!r}, only {', '.join(sorted(_TAKEN))}"
            )
    if dataset._encoders:
        dataset._fitted_obs()
    other = dataset._part(dataset._selection)
    other._settings = _settings(dataset._settings, changes)
    other._selection = dataset._selection.with_transforms(
        changes.get("transforms", dataset.transforms), other._settings
    )
    if _draws_anew(changes):
        other._settings = other._settings.with_sampling(
            sampling.changed(dataset._settings.sampling, changes),
            dataset._selection,
            keeps_balance="balance" not in changes,
        )
    other._batch_format = BatchFormat.checked(
        dataset.experiment,
        dataset._encoders,
        other._settings,
        **{name: changes.get(name, given) for name, given in dataset._batch_format.given.items()},
    )
    return other


def _settings(settings: LoaderSettings, changes: Mapping[str, Any]) -> LoaderSettings:
    arguments = {name: changes.get(name, getattr(settings, name)) for name in _LOADING}
    for name in ("chunk_size", "chunks_per_block"):
        # Sizes of chunks go with the shuffle that they were given for; 0 stands for none.
        if "shuffle" in changes or not settings.chunk_size:
            arguments[name] = changes.get(name)
    if _draws_anew(changes):
        arguments["sampling"] = None
    return LoaderSettings.checked(**arguments)


def _draws_anew(changes: Mapping[str, Any]) -> bool:
    return any(name in changes for name in sampling.ARGUMENTS)
