"""Running a worker process, and watching its answers, memory and end."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.base.text import printable

from ..worker.main import is_out_of_memory
from ..worker.request import Request
from .tree_memory import Peak, TreeMemory

# A peer's process imports only the worker: Penstock may not be installed there.
_PEER = """
import sys, types
package = types.ModuleType("penstock")
package.__path__ = [sys.argv[2]]
sys.modules["penstock"] = package
from penstock.bench.worker.main import main
main()
"""
_OURS = "from penstock.bench.worker.main import main; main()"

_Told = Callable[[dict[str, Any]], None]


@dataclass
class Outcome:
    """Answers and end of a worker. `status`: ok, failed, oom, timeout."""

    status: str = "failed"
    error: str | None = None
    imported: dict[str, Any] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    peak: Peak = field(default_factory=Peak)  # of the unfinished epoch
    seconds: float = 0.0


def run(
    request: Request,
    python: str = sys.executable,
    timeout: float = 3_600.0,
    on_epoch: _Told | None = None,
    on_imported: _Told | None = None,
) -> Outcome:
    """Run a worker under the interpreter `python` and wait for it; failures are outcomes.

    The worker imports its loader, then continues when `on_imported` has returned.
    """
    outcome = Outcome()
    begin = time.monotonic()
    kills = _kernel_kills()
    with tempfile.TemporaryFile() as errors:
        reader, writer = os.pipe()
        program = _OURS if request.loader == "penstock" else _PEER
        package = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if request.work.endpoint is not None:  # on loopback: ignore proxy settings
            environment |= {"no_proxy": "*", "NO_PROXY": "*"}
        try:
            worker = subprocess.Popen(
                [python, "-c", program, str(writer), package],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(writer,),
                env=environment,
            )
        except OSError as error:
            os.close(reader)
            outcome.error = f"cannot start {python}: {error.strerror}"
            return outcome
        finally:
            os.close(writer)
        memory = TreeMemory(worker.pid)
        try:
            _send(worker, request)

            def begin_loading(told: dict[str, Any]) -> None:
                if on_imported is not None:
                    on_imported(told)
                memory.take()
                memory.take_samples()
                _let_begin(worker)

            deadline = begin + timeout
            finished = _follow(reader, memory, outcome, deadline, on_epoch, begin_loading)
            if not finished:
                worker.kill()
            worker.wait()
        finally:
            memory.stop()
            worker.kill()
            _let_begin(worker)  # closes the pipe
            worker.wait()
            os.close(reader)
        errors.seek(0, os.SEEK_END)
        errors.seek(max(errors.tell() - 4_000, 0))
        said = errors.read().decode(errors="replace").strip()
    outcome.seconds = time.monotonic() - begin
    if not finished:
        outcome.status, outcome.error = "timeout", f"no end within {timeout:,.0f} s"
    elif outcome.status != "ok" and outcome.error is None:
        limited = request.memory_limit is not None
        _judge_end(outcome, worker.returncode, said, _kernel_kills() > kills, limited)
    if outcome.error is not None:
        outcome.error = printable(outcome.error)
    return outcome


def _send(worker: subprocess.Popen[bytes], request: Request) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(request.to_json().encode() + b"\n")
        worker.stdin.flush()
    except BrokenPipeError:  # it ended at once; see its exit status
        pass


def _let_begin(worker: subprocess.Popen[bytes]) -> None:
    """Let the worker start, by closing its input."""
    assert worker.stdin is not None
    try:
        worker.stdin.close()
    except BrokenPipeError:
        pass


def _follow(
    reader: int,
    memory: TreeMemory,
    outcome: Outcome,
    deadline: float,
    on_epoch: _Told | None,
    on_imported: _Told,
) -> bool:
    """Handle answers until the worker closes its end; return False on a timeout.

    At Ctrl-C, all answers up to then are handled.
    """
    pending = b""
    begun = False

    def take() -> bool:
        nonlocal pending
        part = os.read(reader, 1 << 16)
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            _note(json.loads(line), memory, outcome, on_epoch)
        return bool(part)

    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    outcome.peak = memory.take()
                    return False
                with _interrupts_held_back():
                    more = take()
                if not more:
                    outcome.peak = memory.take()
                    return True
                if outcome.imported and not begun:
                    begun = True
                    on_imported(outcome.imported)
        except KeyboardInterrupt:
            os.set_blocking(reader, False)
            with _interrupts_held_back(), suppress(BlockingIOError):
                while take():
                    pass
            raise


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that rows are written completely."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # Ctrl-C raises nothing here
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *of: came.append(of))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


def _note(
    answer: dict[str, Any], memory: TreeMemory, outcome: Outcome, on_epoch: _Told | None
) -> None:
    event = answer.pop("event")
    if event == "imported":
        outcome.imported = answer
    elif event == "epoch":
        peak = memory.take()
        peak.raise_to_mark(answer.get("peak_rss") or 0)
        answer |= {
            "peak_uss": peak.uss,
            "peak_pss": peak.pss,
            "peak_tree_rss": peak.rss,
            "n_processes": peak.processes,
            "memory_samples": peak.samples,
            "memory_over_time": json.dumps(
                [(round(seconds, 3), uss, rss) for seconds, uss, rss in memory.take_samples()]
            ),
        }
        outcome.epochs.append(answer)
        if on_epoch is not None:
            on_epoch(answer)
    elif event == "failed":
        outcome.status = "oom" if answer["oom"] else "failed"
        outcome.error = answer["error"]
    elif event == "done":
        outcome.status = "ok"


def _judge_end(
    outcome: Outcome, returncode: int, said: str, kernel_killed: bool, limited: bool
) -> None:
    """Set the status of a worker that ended without an answer.

    With `limited` address space, a crash counts as out of memory: libraries use failed allocations,
    or try them without an end.
    """
    last = said.splitlines()[-1] if said else "nothing on standard error"
    crashed = False
    if returncode < 0:
        name = signal.Signals(-returncode).name
        if -returncode == signal.SIGKILL and kernel_killed:
            outcome.status, outcome.error = "oom", "killed by the kernel: out of memory"
            return
        ends = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGXCPU)
        crashed = limited and -returncode in ends
        under = " under --memory-limit" if crashed else ""
        outcome.error = f"ended by {name}{under}: {last[:500]}"
    else:
        outcome.error = f"exit status {returncode}: {last[:500]}"
    oom = crashed or is_out_of_memory(RuntimeError(said), limited)
    outcome.status = "oom" if oom else "failed"


def _kernel_kills() -> int:
    """Return how many processes the kernel has killed for memory since boot."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
