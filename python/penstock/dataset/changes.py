"""Change the arguments of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from penstock.base.suggestions import nearest
from penstock.batches import format as batch_format
from penstock.batches.format import BatchFormat
from penstock.errors import InvalidArgument
from penstock.plan import sampling
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.settings import LoaderSettings
from penstock.transforms.chain import Chain
from penstock.transforms.steps import ChosenGenes

from . import hints
from .cells import Cells

_LOADING = [each.name for each in fields(LoaderSettings)]
_TAKEN = {*_LOADING, *batch_format.ARGUMENTS, *sampling.ARGUMENTS, "transforms"} - {
    "sampling",
    "kept_memory",
}
_OF_THE_DATASET = (
    "cache_dir",
    "encoders",
    "join",
    "layer",
    "measurement",
    "measurements",
    "rank",
    "var_names",
    "world_size",
)


def changed(cells: Cells, changes: Mapping[str, Any]) -> Cells:
    """See `Dataset.with_settings`."""
    for name in changes:
        if name not in _TAKEN:
            raise InvalidArgument(
                f"with_settings does not take {name!r}{_instead(name)}, only "
                f"{', '.join(sorted(_TAKEN))}"
            )
    if "transforms" in changes and isinstance(cells.planner.selection, SeveralMeasurements):
        raise InvalidArgument(
            "with_settings does not change transforms of several measurements: make another Dataset, "
            "with measurements={name: {'transforms': […]}, …}"
        )
    planner = cells.planner.with_settings(_settings(cells.planner.settings, changes))
    planner = planner.with_transforms(_steps(planner.selection.transforms, changes))
    if _changes_sampling(changes):
        planner = planner.with_sampling(
            sampling.changed(cells.planner.settings.sampling, changes),
            keeps_balance="balance" not in changes,
        )
    form = BatchFormat.checked(
        cells.encoders,
        planner,
        **{name: changes.get(name, given) for name, given in cells.format.given.items()},
    )
    cells.fit()
    return cells.with_planner(planner).with_format(form)


def _steps(chain: Chain | None, changes: Mapping[str, Any]) -> Any:
    """Return the steps of X: those of the changes, after the genes of ``ds[:, genes]``."""
    before = () if chain is None else chain.steps
    if "transforms" not in changes:
        return before
    steps = changes["transforms"]
    if not isinstance(steps, Sequence):
        return steps  # an error says what it must be
    chosen = [step for step in before if isinstance(step, ChosenGenes)]
    return [*(step for step in chosen if not any(step is each for each in steps)), *steps]


def _instead(name: str) -> str:
    if name in ("obs_query", "var_query"):
        return " (ds[cells] and ds[:, genes] choose others)"
    if name in hints.ARGUMENTS:
        instead = hints.ARGUMENTS[name]
        return f" (use {instead}{' of the Dataset' if instead.startswith('encoders=') else ''})"
    if name in _OF_THE_DATASET:
        return f" (give it to the Dataset: ps.Dataset(source, {name}=…))"
    meant = nearest(name, _TAKEN)
    return "" if meant is None else f" (did you mean {meant!r}?)"


def _settings(settings: LoaderSettings, changes: Mapping[str, Any]) -> LoaderSettings:
    arguments = {name: changes.get(name, getattr(settings, name)) for name in _LOADING}
    for name in ("chunk_size", "chunks_per_block"):
        # Sizes of chunks are kept only with the shuffle that they were given for; 0 is none.
        if "shuffle" in changes or not settings.chunk_size:
            arguments[name] = changes.get(name)
    if _changes_sampling(changes):
        arguments["sampling"] = None
    return LoaderSettings.checked(**arguments)


def _changes_sampling(changes: Mapping[str, Any]) -> bool:
    return any(name in changes for name in sampling.ARGUMENTS)
