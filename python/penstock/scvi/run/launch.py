"""Running a function on several processes of this machine, as ranks of one run. Imports torch.

torch's elastic agent starts each process as a new program, so no code of a notebook or script runs
again. Arguments are sent with cloudpickle; functions and classes of ``__main__`` go by value. The
output of rank 0 is shown as it is printed. If a rank fails, the others are ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError

from .worker import BOOTSTRAP, error_path, output_path, result_path

_SECONDS_BETWEEN_LOOKS = 0.1
#: Seconds between SIGTERM and SIGKILL of a rank.
_SECONDS_TO_END = 5


class RankFailed(PenstockError, RuntimeError):
    """A process of a run failed; the message has its traceback."""


def launch(function: Callable[..., Any], arguments: dict[str, Any], processes: int) -> list[Any]:
    """Run ``function(**arguments)`` on each rank, and return the results by rank.

    Parameters
    ----------
    function : callable
        It finds its rank in the environment, as under torchrun (``RANK``, ``WORLD_SIZE``, …).
    arguments : dict
        Objects that cloudpickle supports; tensors must be on the CPU.
    processes : int
        Number of ranks.

    Raises
    ------
    RankFailed
        A rank raised or was killed; the others are ended.
    KeyboardInterrupt
        The user interrupted the run; all ranks are ended.
    """
    import cloudpickle
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with tempfile.TemporaryDirectory(prefix="penstock-run-") as name:
        folder = Path(name)
        threads = max(1, _cores() // processes)
        header = {"path": sys.path, "threads": threads, "parent": os.getpid()}
        (folder / "header.json").write_text(json.dumps(header))
        (folder / "call.pkl").write_bytes(cloudpickle.dumps((function, arguments)))
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=str(folder / "agent")),
            local_addr="localhost",
            **_shutdown_timeout(LaunchConfig),
        )
        start = elastic_launch(config, sys.executable)
        with _signals_kept(), _quiet_agent(), _soon_ended(), _shown(output_path(folder, 0)):
            try:
                start("-c", BOOTSTRAP, str(folder))
            except ChildFailedError as error:
                raise RankFailed(_cause(folder, error)) from None
            except SignalException as error:
                if error.sigval == signal.SIGINT:
                    raise KeyboardInterrupt from None
                raise
        return [pickle.loads(result_path(folder, rank).read_bytes()) for rank in range(processes)]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _shutdown_timeout(config: type) -> dict[str, Any]:
    """Return an argument that older versions of torch lack, if it exists."""
    fields = getattr(config, "__dataclass_fields__", {})
    return {"shutdown_timeout": _SECONDS_TO_END} if "shutdown_timeout" in fields else {}


def _cause(folder: Path, error: Any) -> str:
    """Return the error of the rank that failed first: it makes the others fail or be ended."""
    ends = [
        (float(each["time"]), int(each["rank"]), each)
        for each in (
            json.loads(path.read_text()) for path in folder.glob(error_path(folder, "*").name)
        )
    ]
    for rank, failure in error.failures.items():
        # A rank that is ended by SIGTERM writes this to its error file.
        is_silent = not error_path(folder, rank).exists()
        if is_silent and failure.exitcode != -signal.SIGTERM:
            ends.append((_silent_end(folder, rank, failure), rank, {}))
    if not ends:
        rank, failure = error.get_first_failure()
        return f"rank {rank} ended with {failure.exitcode}:\n{_tail(folder, rank)}"
    ends.sort(key=lambda end: end[:2])
    _, rank, told = ends[0]
    if "traceback" in told:
        return f"rank {rank} failed, so the other ranks were ended:\n\n{told['traceback']}"
    # The end time of a silent rank is not exact to the second.
    return _without_traceback(folder, rank, told, error) + _next_traceback(ends[1:])


def _without_traceback(folder: Path, rank: int, told: dict[str, Any], error: Any) -> str:
    if not told and error.failures[rank].exitcode >= 0:
        return f"rank {rank} ended with {error.failures[rank].exitcode}:\n{_tail(folder, rank)}"
    name = told.get("signal") or signal.Signals(-error.failures[rank].exitcode).name
    hint = "A kill by the system for want of memory looks like this."
    return (
        f"rank {rank} of {len(list(folder.glob('output-*')))} was killed by {name}; the "
        f"others were ended. {hint if name == 'SIGKILL' else ''}\n{_tail(folder, rank)}"
    )


def _next_traceback(ends: list[tuple[float, int, Any]]) -> str:
    """Return the first traceback of these, which may be an effect or the cause of the first end."""
    for _, rank, told in ends:
        if "traceback" in told:
            return f"\n\nrank {rank} failed at about that time:\n\n{told['traceback']}"
    return ""


def _silent_end(folder: Path, rank: int, failure: Any) -> float:
    """Return the time at which a rank ended that wrote no error file."""
    output = output_path(folder, rank)
    if failure.exitcode == -signal.SIGABRT and output.exists():
        # A rank that aborts prints why, for example because a peer is gone.
        return output.stat().st_mtime
    # The agent polls ten times a second, records whole seconds, and kills a rank that does not end
    # only after `_SECONDS_TO_END`.
    return float(failure.timestamp) - _SECONDS_TO_END / 2


def _tail(folder: Path, rank: int) -> str:
    path = output_path(folder, rank)
    text = path.read_text(errors="replace") if path.exists() else ""
    return f"The last that it wrote:\n{text[-2000:]}" if text else "It had written nothing."


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore signal handlers, which the agent replaces and does not restore."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {name: signal.getsignal(name) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextlib.contextmanager
def _quiet_agent() -> Iterator[None]:
    """Silence the agent's log, which repeats the error that is raised."""
    import logging

    log = logging.getLogger("torch.distributed.elastic")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@contextlib.contextmanager
def _soon_ended() -> Iterator[None]:
    """Shorten the 30 s that the agent, without a setting, gives other ranks after a failure."""
    from torch.distributed.elastic.multiprocessing.api import SubprocessContext

    def close_soon(self: Any, death_sig: Any = None, timeout: int = _SECONDS_TO_END) -> None:
        _closing.original(self, death_sig, timeout)

    with _closing.lock:
        _closing.launches += 1
        if _closing.launches == 1:
            _closing.original = SubprocessContext.close
            SubprocessContext.close = close_soon  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _closing.lock:
            _closing.launches -= 1
            if _closing.launches == 0:
                SubprocessContext.close = _closing.original  # type: ignore[method-assign]


class _Closing:
    """The agent's own way to end ranks, kept while launches run in any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.launches = 0
        self.original: Any = None


_closing = _Closing()


@contextlib.contextmanager
def _shown(path: Path) -> Iterator[None]:
    """Copy what is written to a file to this process's stdout, also in a notebook."""
    done = threading.Event()
    out = sys.stdout

    def follow() -> None:
        place = 0
        while True:
            last = done.wait(_SECONDS_BETWEEN_LOOKS)
            if path.exists():
                with path.open(errors="replace", newline="") as file:
                    file.seek(place)
                    text = file.read()
                    place = file.tell()
                if text:
                    out.write(text)
                    out.flush()
            if last:
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
