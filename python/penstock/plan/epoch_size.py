"""Errors and warnings about epochs without batches and batches without genes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.base.call_site import caller_level
from penstock.base.text import plural
from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.experiment.value_hints import hint_of_values

from .settings import LoaderSettings
from .shard import Shard

if TYPE_CHECKING:
    from penstock.experiment.data_frame import DataFrame

    from .selection import Selection


class NoCellsWarning(UserWarning):
    """A `Dataset` or a part of a split has no cells, so its epochs have no batches."""


class NoGenesWarning(UserWarning):
    """A `Dataset` has no genes, so X has no columns."""


def check_some_batch(cells: int, settings: LoaderSettings, shard: Shard) -> None:
    """Refuse settings that leave every rank without a batch although the epoch has cells.

    The check does not depend on the rank, so either all ranks raise or none.

    Raises
    ------
    InvalidArgument
        No rank has a batch; the message names the setting and a value that works.
    """
    if cells == 0:
        return
    ranks, uneven = shard.world_size, settings.uneven
    few = "1 cell is" if cells == 1 else f"{cells} cells are"
    if uneven == "exact":  # the engine refuses a min_batch that is too large
        if cells < ranks:
            raise InvalidArgument(
                f"{few} too few for {ranks} ranks to have one each, as "
                'uneven="exact" wants; use uneven="pad", which repeats cells, or fewer ranks, or '
                "shard=False, which gives every rank all of them"
            )
        return
    each = -(-cells // ranks) if uneven == "pad" else cells // ranks
    of_rank = f"a rank has {each} of {plural(cells, 'cell')}"
    if ranks == 1:
        of_rank = f"there {'is' if cells == 1 else 'are'} {plural(cells, 'cell')}"
    if each == 0:
        raise InvalidArgument(
            f'the epoch has no batch: {few} too few for {ranks} ranks, so uneven="drop" '
            'leaves them out; use uneven="pad", which repeats cells, or fewer ranks, or shard=False, '
            "which gives every rank all of them"
        )
    if settings.drop_last and each < settings.batch_size:
        raise InvalidArgument(
            f"the epoch has no batch: {of_rank}, fewer than batch_size={settings.batch_size}, "
            "which drop_last=True leaves out; use a smaller batch_size or drop_last=False"
        )
    if each < settings.min_batch:
        raise InvalidArgument(
            f"the epoch has no batch: {of_rank}, fewer than min_batch={settings.min_batch}; use "
            f"min_batch={each} or less"
            + (", or fewer ranks" if ranks > 1 else ", or select more cells")
        )


def warn_of_nothing_selected(selection: Selection, obs_query: object, var_query: object) -> None:
    """Warn (`NoCellsWarning`, `NoGenesWarning`) if no cells or genes are selected."""
    experiment = selection.experiment
    if not len(selection.rows):
        warnings.warn(
            "no cell is selected, so an epoch has no batch: "
            f"{_reason('obs_query', obs_query, experiment.n_obs)}, in {experiment.uri}. "
            + (
                hint_of_values(experiment.obs, obs_query)
                or "penstock.open(…).obs.value_counts(column) shows the values of a column"
            ),
            NoCellsWarning,
            stacklevel=caller_level(),
        )
    if not len(selection.genes):
        var = experiment.var(selection.measurement)
        warn_of_no_genes(
            f"{_reason('var_query', var_query, len(var))}, in {experiment.uri}. "
            + (
                hint_of_values(var, var_query)
                or f"penstock.open(…).var({selection.measurement!r}).value_counts(column) shows the "
                "values of a column"
            )
        )


def warn_of_empty_part(cells: int, of: int, obs: DataFrame, key: object) -> None:
    """Warn (`NoCellsWarning`) if ``ds[key]`` has none of the cells."""
    if cells or not of:
        return
    warnings.warn(
        f"ds[{_shown_key(key)}] has none of the {plural(of, 'cell')}, so an epoch of it has no batch. "
        + (hint_of_values(obs, key) or "ds.obs.value_counts(column) shows the values of a column"),
        NoCellsWarning,
        stacklevel=caller_level(),
    )


def _shown_key(key: object) -> str:
    """Return the key of ``ds[key]`` in a line."""
    if isinstance(key, slice):
        parts = [key.start, key.stop] + ([] if key.step is None else [key.step])
        return ":".join("" if part is None else str(part) for part in parts)
    if isinstance(key, str):
        return repr(key)
    shown = " ".join(described(key).split())
    return shown if len(shown) <= 60 else f"a {type(key).__name__}"


def warn_of_no_genes(reason: str) -> None:
    """Warn (`NoGenesWarning`) that X has no columns."""
    warnings.warn(
        f"no gene is selected, so X has no column: {reason}",
        NoGenesWarning,
        stacklevel=caller_level(),
    )


def _reason(name: str, query: object, stored: int) -> str:
    if stored == 0:
        return "the experiment has none"
    if query is None:
        return "the source selects none"
    return f"{name} {described(query)} keeps none of {stored:,}"


def part_names(count: int) -> list[str]:
    """Return the names of the parts of a split: part 1 of 3 and so on."""
    return [f"part {i + 1} of {count}" for i in range(count)]


def warn_of_empty_parts(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Warn (`NoCellsWarning`) of each part of a split without cells."""
    for name, size in zip(names, sizes, strict=True):
        if size == 0:
            warnings.warn(
                f"{name} of the split has none of the {plural(sum(sizes), 'cell')}, so an epoch of it "
                "has no batch; make this part larger, or leave it out",
                NoCellsWarning,
                stacklevel=caller_level(),
            )
