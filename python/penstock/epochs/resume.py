"""Save and resume the position in an epoch; the engine does the arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.plan.fingerprint import fingerprint_of
from penstock.plan.planner import Planner
from penstock.plan.sampling import Sampling
from penstock.plan.selection import Selection
from penstock.plan.shard import Shard

_FIELDS = ("version", "epoch", "selection", "segments", "worker", "lane")


def to_dict(state: _core.ResumeState) -> dict[str, Any]:
    """Return a state as a dict of numbers, strings, lists and dicts."""
    saved: dict[str, Any] = json.loads(state.to_json())
    return saved


def from_dict(saved: Any) -> _core.ResumeState:
    """Return the state of a dict that `to_dict` returned.

    Raises
    ------
    InvalidArgument
        `saved` is not such a dict, or is of a newer version.
    """
    if not isinstance(saved, Mapping) or "version" not in saved:
        raise InvalidArgument(
            f"a state is what Dataset.state_dict returned, got {described(saved)}"
        )
    try:
        known = {name: saved[name] for name in _FIELDS if name in saved}
        text = json.dumps(known, allow_nan=False, default=_as_dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the state is damaged: {error}") from None
    return _core.ResumeState.from_json(text)


def _as_dict(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"it holds {described(value)}, but only numbers, strings, lists and dicts are allowed; load "
        "what Dataset.state_dict returned"
    )


def check_selection(state: _core.ResumeState, selection: Selection) -> None:
    """Check that a state is of these cells, genes and values.

    Raises
    ------
    InvalidArgument
        The selection of the state differs; the message says how.
    """
    found = state.selection.differences(fingerprint_of(selection))
    if found:
        raise InvalidArgument(
            f"the state is of another selection than this dataset's: {found}; load it into a dataset "
            "with the same arguments as the one that was saved"
        )


def what_is_left(
    planner: Planner, epoch: int, segments: Sequence[_core.ResumeSegment]
) -> tuple[_core.RowSelection, Sampling | None]:
    """Return the cells that no rank has yielded in the segments, and the draws that are left.

    The segments are planned again; no cell is read. The engine's `what_is_left` keeps the given
    weights and totals; this function computes them again from obs.

    Raises
    ------
    InvalidArgument
        The sampling arguments or the stored data have changed since.
    """
    selection, sampling = planner.selection, planner.settings.sampling
    rows, drawn = selection.rows, planner.sampling_fingerprint
    for segment in segments:
        if segment.order.sampling != drawn:
            raise InvalidArgument(
                "the state was saved in an epoch that draws other cells: weights, balance, "
                "replacement and num_samples must be those of the saved dataset"
            )
        now = planner.with_rows(rows).replace_settings(sampling=sampling)
        options = now.epoch_options(Shard(), epoch)
        taken, count = _core.rows_taken(selection.matrix, options, epoch, segment)
        if sampling is not None:
            left = max(0, now.epoch_cells - count)
            sampling = sampling.for_the_rest(selection.obs, selection.rows, left)
        if sampling is None or not sampling.replacement:
            rows = rows - taken
    return rows, sampling
