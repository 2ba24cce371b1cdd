"""Ranks compare what they are about to read; docs/design/0012-ranks-compare.md."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.call_site import call_site
from penstock.errors import InvalidArgument
from penstock.plan.shard import in_worker

if TYPE_CHECKING:
    from .epoch import EpochRun
    from .resume import OrderSettings

#: How long the ranks that come first wait for the last one, to learn whether it agrees. Once it did
#: not come, they do not wait for it again.
WAIT_SECONDS = 5.0
#: An environment variable: 0 switches the comparison off.
SWITCH = "PENSTOCK_COMPARE_RANKS"
_MOST_PAUSE_SECONDS = 0.25
_AGREED = b"agreed"
_YES, _NO = b"yes", b"no"
#: How often in a row a rank that says yes waits for others that do not come.
_PATIENCE = 3

#: What is compared, and its name in a message.
_FIELDS = {
    "world_size": "world_size",
    "epoch": "epoch",
    "batches": "batches of it that were taken before",
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
#: What may differ among ranks, but for those that go on from a state: the order of a rank's own
#: cells depends on it. A rank for which it is what it was goes on in that order; another plans what
#: is left, after the first batches of the order that the state says all ranks had.
_OWN_FIELDS = ("memory_budget", "num_workers", "sparse", "dtype")


class RankCheck:
    """What one dataset of each rank says to those of the other ranks.

    By the key-value store of the default process group, whatever its backend: no collective, so
    that a rank which iterates alone never waits for long, nor keeps another from going on.
    """

    def __init__(self) -> None:
        self.site = call_site()
        self._begun: set[tuple[int, int]] = set()
        self._waits = True
        self._patience = _PATIENCE
        self._has_failed = False

    def check(self, run: EpochRun) -> None:
        """Compare an epoch that is about to be read with what other ranks read.

        Raises
        ------
        InvalidArgument
            Another rank reads another one; the message names what differs. On the rank that is
            found to differ, and on those that wait for it.
        """
        if in_worker() or not run.is_watched or os.environ.get(SWITCH) == "0":
            return
        store = _store() if run.is_compared else None
        if store is None or self._has_failed:
            _warn_of_another_order(run)
            return
        try:
            difference = self._exchange(store, run)
        except (RuntimeError, ValueError, KeyError):
            self._has_failed = True  # the store is gone, or does not compare: not our business
            _warn_of_another_order(run)
            return
        if difference is not None:
            raise InvalidArgument(difference)

    def holds_for_all(self, epoch: int, world_size: int, holds: bool) -> bool:
        """Whether what holds for this rank, at the begin of an epoch, does so for every rank.

        The same on all of them, and the same again later: the first to know decides. A rank for
        which it does not hold knows at once; the others wait for the last one, as in `check`.

        Raises
        ------
        RuntimeError
            The store failed after this rank had said yes: what the others decided is not known.
        """
        store = None if in_worker() else _store()
        if store is None or self._has_failed or os.environ.get(SWITCH) == "0":
            return False
        try:
            key, _ = _entry(store, f"penstock/{self.site}/{epoch}/holds", {})
            if not holds:
                return _decided(store, key, _NO)
        except (RuntimeError, ValueError, KeyError):
            self._has_failed = True
            return False
        if store.add(f"{key}/ranks", 1) == world_size:
            return _decided(store, key, _YES)
        came = _wait(store, [f"{key}/outcome"], WAIT_SECONDS if self._patience else 0)
        self._patience = _PATIENCE if came else max(0, self._patience - 1)
        return _decided(store, key, _NO)  # or as it was decided in the meantime

    def _exchange(self, store: Any, run: EpochRun) -> str | None:
        own = announcement(run)
        place = (own["epoch"], own["batches"])
        # Which epochs ranks begin may differ later, when one looks at a batch of an epoch that the
        # others do not read. The first that each begins is the same.
        keys = [f"penstock/{self.site}/{place[0]}/{place[1]}"]
        if not self._begun:
            keys.insert(0, f"penstock/{self.site}/first")
        was_here = place in self._begun
        self._begun.add(place)
        first: dict[str, Any] = {}
        for number, key in enumerate(keys):
            keys[number], first = _entry(store, key, own)
            difference = differences(first, own)
            if difference is not None:
                for each in keys[: number + 1]:
                    store.set(f"{each}/outcome", difference)
                return difference
        _warn_of_an_epoch_too_many(first, own)
        if was_here:
            return None
        if store.add(f"{keys[-1]}/ranks", 1) == own["world_size"]:
            store.set(f"{keys[-1]}/outcome", _AGREED)
        return self._outcome(store, [f"{key}/outcome" for key in keys])

    def _outcome(self, store: Any, keys: list[str]) -> str | None:
        outcome = _wait(store, keys, WAIT_SECONDS if self._waits else 0)
        self._waits = outcome is not None
        return None if outcome is None or outcome == _AGREED else outcome.decode()


def _wait(store: Any, keys: list[str], seconds: float) -> bytes | None:
    """Value of the first of the keys that is there; None where none comes in time."""
    end = time.monotonic() + seconds
    pause = 0.001
    while True:
        for key in keys:
            if store.check([key]):
                return bytes(store.get(key))
        if time.monotonic() >= end:
            return None
        time.sleep(pause)
        pause = min(1.5 * pause, _MOST_PAUSE_SECONDS)


def _decided(store: Any, key: str, answer: bytes) -> bool:
    """What the first who knew has written; the answer where nobody has."""
    there = bytes(store.compare_set(f"{key}/outcome", "", answer.decode()))
    return there == _YES


def _entry(store: Any, key: str, own: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Key of the entry of this run, and what the first rank wrote there; it may be this one.

    A store that outlives the processes, as that of torchrun's agent when workers are started again,
    has entries of those before. They were written before this process was started, and those of its
    own run after: a process group is there when all of its processes are.
    """
    began, run = _process_start(), 0
    written = json.dumps({**own, "time": time.time()}).encode()
    while True:
        name = f"{key}/{run}"
        there = bytes(store.compare_set(name, "", written.decode()))
        first: dict[str, Any] = json.loads(there)
        if there == written or first["time"] >= began:
            return name, first
        run += 1


def _process_start() -> float:
    """When this process was started, in seconds since 1970; 0 where that cannot be told.

    proc(5): field 22 of stat, ticks since boot; uptime, seconds since boot.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    now = time.time()
    start = now - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return start if start <= now else 0.0  # containers may tell an uptime of their own


def announcement(run: EpochRun) -> dict[str, Any]:
    """What all ranks must have in common, and the rank."""
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


def _own(order: OrderSettings) -> dict[str, Any]:
    return {name: getattr(order, name) for name in _OWN_FIELDS}


def differences(first: dict[str, Any], own: dict[str, Any]) -> str | None:
    """Message that names what differs; None where nothing does."""
    named = [name for name in _FIELDS if first[name] != own[name]]
    if named != ["plan"]:  # which depends on all others
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
        "and go on from the same state; one of a rank's own takes shard=False "
        "(compare_ranks=False switches this comparison off)"
    )


def _unlike_states(first: dict[str, Any], own: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """What differs where one rank goes on in the order of its state and another in a new one."""
    found = [
        (f"{name} of a run that goes on", first["own"][name], own["own"][name])
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


def _warn_of_another_order(run: EpochRun) -> None:
    """Warn where the order of a state is given up, and no rank can tell whether the others do so.

    It is no error: the run may have been started with other memory or workers on all ranks.
    """
    if run.first or not run.earlier:
        return  # it goes on where it was
    then, now = run.earlier[-1].order, run.order
    if replace(then, **_own(now)) != now:
        return  # what all ranks must have in common has changed
    changed = [
        name for name in ("memory_budget", "num_workers") if _own(then)[name] != _own(now)[name]
    ]
    if changed:
        named = "; ".join(
            f"{name}: {getattr(then, name)} in the state, {getattr(now, name)} now"
            for name in changed
        )
        warnings.warn(
            f"rank {run.shard.rank} goes on from a state in another order than it had ({named}). "
            "All ranks must have changed alike: otherwise cells are left out and repeated, which is "
            "not noticed here, as the ranks could not be compared "
            "(compare_ranks=False switches this warning off)",
            stacklevel=2,
        )


def _warn_of_an_epoch_too_many(first: dict[str, Any], own: dict[str, Any]) -> None:
    """Warn where ranks took unlike numbers of batches of the epoch before, and none was told this one.

    It is no error: ranks that take no steps together may leave an epoch where they like.
    """
    there, here = first["left_before"], own["left_before"]
    if there is None or here is None or there == here:
        return
    warnings.warn(
        f"ranks begin epoch {own['epoch']} after unlike numbers of batches of the epoch before: {there} "
        f"on rank {first['rank']}, {here} on rank {own['rank']}. Each iterator begins another epoch: a "
        "rank that alone looks at a batch by next(iter(…)) reads other epochs than the rest from then "
        "on, so that cells are left out and repeated. Look by head(), or call set_epoch before each "
        "epoch on every rank",
        stacklevel=2,
    )


# A forked process has the connection of its parent, which both would talk over at once.
_inherited: weakref.ref[Any] | None = None


def _store() -> Any:
    """Store of the default process group; None where there is none of this process."""
    store = _default_store()
    return None if _inherited is not None and store is _inherited() else store


def _default_store() -> Any:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    # Not public, but the only way to what init_process_group made; MPI has none.
    find = getattr(distributed.distributed_c10d, "_get_default_store", None)
    try:
        return None if find is None else find()
    except ValueError:  # no default process group after all
        return None


def _after_fork() -> None:
    global _inherited
    store = _default_store()
    _inherited = None if store is None else weakref.ref(store)


os.register_at_fork(after_in_child=_after_fork)
