"""Compare what ranks are about to read; docs/design/0012-ranks-compare.md."""

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

from .epoch import ProcessRun
from .rank_summary import differences, summary, warn_of_an_epoch_too_many, warn_of_another_order

#: How long early ranks wait for the last rank, to learn whether it agrees. After a timeout they do
#: not wait again.
WAIT_SECONDS = 5.0
#: Environment variable; 0 switches the comparison off.
SWITCH = "PENSTOCK_COMPARE_RANKS"
_MOST_PAUSE_SECONDS = 0.25
_AGREED = b"agreed"
_YES, _NO = b"yes", b"no"
#: Consecutive timeouts after which a rank that says yes stops waiting for others.
_PATIENCE = 3


class RankCheck:
    """Compares a dataset with the same dataset on other ranks.

    It uses the key-value store of the default process group, with any backend. It uses no
    collective, so a rank that iterates alone does not wait for long and does not block others.
    """

    def __init__(self) -> None:
        self.site = call_site()
        self._begun: set[tuple[int, int]] = set()
        self._waits = True
        self._patience = _PATIENCE
        self._has_failed = False

    def check(self, run: ProcessRun) -> None:
        """Compare an epoch that is about to be read with what other ranks read.

        Raises
        ------
        InvalidArgument
            Another rank reads another epoch; the message names what differs. Raised on the rank
            that differs, and on ranks that wait for it.
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
            self._has_failed = True  # the store is gone or cannot compare: not an error
            warn_of_another_order(run)
            return
        if difference is not None:
            raise InvalidArgument(difference)

    def holds_for_all(self, epoch: int, world_size: int, holds: bool) -> bool:
        """Return whether a condition that `holds` here at the start of an epoch holds on all ranks.

        The result is equal on all ranks and in later calls: the first rank that knows it decides.
        A rank where the condition fails knows at once. The others wait for the last rank, as in
        `check`.

        Raises
        ------
        RuntimeError
            The store failed after this rank had said yes, so the decision is not known.
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
        return _decided(store, key, _NO)  # or the decision that was made in the meantime

    def _exchange(self, store: Any, run: ProcessRun) -> str | None:
        own = summary(run)
        place = (own["epoch"], own["batches"])
        # Later, ranks may start different epochs, if one looks at a batch of an epoch that others
        # do not read. The first epoch of each rank is the same.
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
    """Return the value of the first key that exists; None after a timeout."""
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
    """Return the decision in the store; write `answer` if there is none."""
    there = bytes(store.compare_set(f"{key}/outcome", "", answer.decode()))
    return there == _YES


def _entry(store: Any, key: str, own: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the key of this run's entry, and what its first rank (perhaps this one) wrote.

    A store can outlive the processes, such as that of torchrun's agent when workers restart, and
    then has entries of earlier runs. Those were written before this process started. Entries of
    this run are later, since a process group exists only when all of its processes do.
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
    """Return the start time of this process, in seconds since 1970; 0 if it is not known.

    proc(5): field 22 of stat, ticks since boot; uptime, seconds since boot.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    now = time.time()
    start = now - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return start if start <= now else 0.0  # containers may report their own uptime


# Store of the parent: a forked process must not use its connection, which the parent uses, too.
_inherited: weakref.ref[Any] | None = None


def _store() -> Any:
    """Return the store of the default process group; None if this process has none."""
    store = _default_store()
    return None if _inherited is not None and store is _inherited() else store


def _default_store() -> Any:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    # Not public, but the only access to the store of init_process_group; MPI has none.
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
