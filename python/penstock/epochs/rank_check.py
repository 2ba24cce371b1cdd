"""Ranks compare what they are about to read; docs/design/0012-ranks-compare.md."""

from __future__ import annotations

import json
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from penstock.base.call_site import call_site
from penstock.errors import InvalidArgument
from penstock.plan.shard import in_worker

from .epoch import EpochRun
from .rank_summary import differences, summary, warn_of_an_epoch_too_many, warn_of_another_order

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
            warn_of_another_order(run)
            return
        try:
            difference = self._exchange(store, run)
        except (RuntimeError, ValueError, KeyError):
            self._has_failed = True  # the store is gone, or does not compare: not our business
            warn_of_another_order(run)
            return
        if difference is not None:
            raise InvalidArgument(difference)

    def holds_for_all(self, epoch: int, world_size: int, holds: bool) -> bool:
        """Whether what holds for this rank, at the start of an epoch, does so for every rank.

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
        own = summary(run)
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
        warn_of_an_epoch_too_many(first, own)
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
