"""Summary of an epoch that ranks exchange, and messages about differences."""

from __future__ import annotations

import warnings
from typing import Any

from penstock import _core

from .epoch import ProcessRun

#: Fields that are compared, and their names in messages.
_FIELDS = {
    "world_size": "world_size",
    "epoch": "epoch",
    "batches": "batches taken before",
    "seed": "seed",
    "cells": "selected cells",
    "rows": "fingerprint of the selected cells",
    "batch_size": "batch_size",
    "shuffle": "shuffle",
    "uneven": "uneven",
    "drop_last": "drop_last",
    "min_batch": "min_batch",
    "sampling": "fingerprint of weights, balance, replacement and num_samples",
    "plan": "fingerprint of the stored data",
}


#: Fields that may differ among ranks unless they resume from a state. The order of a rank's own
#: cells depends on them. A rank with the settings of the state resumes in its order. A rank with
#: others plans the cells that are left after the first batches of the order in the state.
_OWN_FIELDS = ("memory_budget", "num_workers", "sparse", "dtype")


def summary(run: ProcessRun) -> dict[str, Any]:
    """Return the values that all ranks must share, and the rank."""
    order = run.order
    shuffle: Any = order.shuffle
    if order.global_shuffle:
        shuffle = "global"
    if order.chunk_size:
        shuffle = f"chunks of {order.chunk_size}, {order.chunks_per_block} to a block"
    return {
        "rank": run.shard.rank,
        "world_size": order.world_size,
        "epoch": run.epoch,
        "batches": sum(each.batches for each in run.earlier) + run.first,
        "seed": order.seed,
        "cells": run.selected[0],
        "rows": run.selected[1],
        "batch_size": order.batch_size,
        "shuffle": shuffle,
        "uneven": order.uneven,
        "drop_last": order.drop_last,
        "min_batch": order.min_batch,
        "sampling": order.sampling,
        "plan": run.rank_plan,
        "left_before": run.left_before,
        "own": _own(order),
        "earlier": [{**_own(each.order), "batches": each.batches} for each in run.earlier],
    }


def _own(order: _core.OrderSettings) -> dict[str, Any]:
    return {name: getattr(order, name) for name in _OWN_FIELDS}


def differences(first: dict[str, Any], own: dict[str, Any]) -> str | None:
    """Return a message that names what differs; None if nothing does."""
    named = [name for name in _FIELDS if first[name] != own[name]]
    if named != ["plan"]:  # it depends on all other fields
        named = [name for name in named if name != "plan"]
    if "cells" in named:
        named = [name for name in named if name != "rows"]
    found = [(_FIELDS[name], first[name], own[name]) for name in named]
    if named in ([], ["plan"]) and first["earlier"] != own["earlier"]:
        found = _unlike_states(first, own)
    if not found:
        return None
    here, there = f"rank {own['rank']}", f"rank {first['rank']}"
    return (
        "ranks do not read the same epoch: "
        + "; ".join(
            f"{name}: {left!r} on {there}, {right!r} on {here}" for name, left, right in found
        )
        + ". A Dataset that is divided among ranks must be made with the same arguments on each, "
        "and resume from the same state. Give a Dataset that only one rank reads shard=False "
        "(compare_ranks=False switches this comparison off)"
    )


def _unlike_states(first: dict[str, Any], own: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what differs if one rank resumes in the order of its state, and another does not."""
    found = [
        (f"{name} of a resumed run", first["own"][name], own["own"][name])
        for name in _OWN_FIELDS
        if first["own"][name] != own["own"][name]
    ]
    if found:
        return found
    pairs = zip(*([*each["earlier"], each["own"]] for each in (first, own)), strict=False)
    found = [
        (f"{name} of the loaded state", left[name], right[name])
        for left, right in pairs
        for name in _OWN_FIELDS
        if left[name] != right[name]
    ]
    return found or [("loaded state", first["earlier"], own["earlier"])]


def warn_of_another_order(run: ProcessRun) -> None:
    """Warn if this rank does not keep the order of a state, and ranks cannot be compared.

    This is not an error, since the memory or workers may have changed on all ranks alike.
    """
    if run.first or not run.earlier:
        return  # it resumes in the order of the state
    then, now = run.earlier[-1].order, run.order
    if not then.same_for_ranks(now):
        return  # settings that all ranks must share have changed
    changed = [
        name for name in ("memory_budget", "num_workers") if _own(then)[name] != _own(now)[name]
    ]
    if changed:
        named = "; ".join(
            f"{name}: {getattr(then, name)} in the state, {getattr(now, name)} now"
            for name in changed
        )
        warnings.warn(
            f"rank {run.shard.rank} resumes from a state in another order than it had ({named}). "
            "All ranks must have changed alike: otherwise cells are left out and repeated. This is not "
            "checked here, since the ranks could not be compared "
            "(compare_ranks=False switches this warning off)",
            stacklevel=2,
        )


def warn_of_an_epoch_too_many(first: dict[str, Any], own: dict[str, Any]) -> None:
    """Warn if ranks took different numbers of batches of the epoch before, without `set_epoch`.

    This is not an error, since ranks that do not step together may leave an epoch at any batch.
    """
    there, here = first["left_before"], own["left_before"]
    if there is None or here is None or there == here:
        return
    warnings.warn(
        f"ranks start epoch {own['epoch']} after different numbers of batches of the previous epoch: "
        f"{there} on rank {first['rank']}, {here} on rank {own['rank']}. Each iterator starts a new "
        "epoch: if only one rank calls next(iter(…)) to look at a batch, it reads other epochs than the "
        "rest from then on, so cells are left out and repeated. Look with head(), or call set_epoch "
        "before each epoch on every rank",
        stacklevel=2,
    )
