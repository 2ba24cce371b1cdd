"""Run the parts of a job on an executor, and return their results as they come."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from penstock.base.validation import described
from penstock.errors import InvalidArgument, PenstockError

#: Parts that are handed out at a time: more than most clusters have workers.
AT_ONCE = 64
#: Bytes of those parts, with their arguments and results.
_BYTES = 512 << 20


#: Held by the part of this process that runs.
_running = threading.RLock()


def _renew_lock() -> None:
    global _running
    _running = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)  # a thread of the parent may hold it


def one_in_a_process() -> AbstractContextManager[Any]:
    """Return the lock that a part holds while it runs.

    Each part has threads and memory of its own. Parts share a model, torch's generators and a user's
    function with all threads of the process.
    """
    return _running


class PartFailed(PenstockError, RuntimeError):
    """A part of a job was lost by its executor, for example because its worker was killed.

    The cause is the executor's own error. An error that the part itself raises is raised as it is.
    """


class Executor(Protocol):
    """The part of a `concurrent.futures.Executor` that is used."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Schedule a call."""
        ...


@dataclass(frozen=True)
class Part:
    """A part of a job.

    Attributes
    ----------
    name : str
        What it works on, for messages: ``"cells 0 to 4,095"``.
    arguments : tuple
        Arguments of the function, which pickle.
    """

    name: str
    arguments: tuple[Any, ...]


def checked_executor(executor: Any) -> Executor:
    """Return the executor.

    Raises
    ------
    InvalidArgument
        It has no `submit`, or is a Client of Dask for an event loop.
    """
    if not callable(getattr(executor, "submit", None)):
        raise InvalidArgument(
            "executor must have a submit method, as the executors of concurrent.futures, got "
            f"{described(executor)}; of Dask give the Client, of Ray "
            "penstock.executors.RayExecutor()"
        )
    if getattr(executor, "asynchronous", False):
        raise InvalidArgument(
            "executor is a Client of Dask with asynchronous=True, whose results only an event loop "
            "can wait for; give a Client without it"
        )
    return executor  # type: ignore[no-any-return]


def fitting(part_bytes: int, most: int = AT_ONCE) -> int:
    """Return how many parts to hand out at a time, each with so many bytes of arguments and result."""
    return max(2, min(most, _BYTES // max(1, part_bytes)))


def results(
    executor: Executor,
    function: Callable[..., Any],
    parts: Iterable[Part],
    at_once: int = AT_ONCE,
    *,
    in_order: bool = False,
) -> Iterator[tuple[Part, Any]]:
    """Run ``function(*part.arguments)`` for each part, and yield each part with its result.

    The order is that in which parts end, or that of `parts`. The executor is not shut down. If the
    caller stops, or a part fails, parts that have not begun are cancelled.

    Parameters
    ----------
    executor : Executor
        Any executor of `concurrent.futures`, or a Client of Dask. Only `submit` is used, and `result`,
        `add_done_callback` and `cancel` of futures.
    function : callable
        At the top of a module that workers can import. It may run twice, even at the same time: some
        executors run a part again if its worker dies.
    parts : iterable of Part
        Parts, taken when they are handed out.
    at_once : int, optional
        Most parts that are handed out, or have ended and were not yielded, at a time.

    Raises
    ------
    PartFailed
        The executor lost a part.
    Exception
        A part raised it.
    """
    waiting = iter(parts)
    running: dict[Future[Any], tuple[int, Part]] = {}
    ended: SimpleQueue[Future[Any]] = SimpleQueue()
    handed_out = yielded = 0
    early: dict[int, tuple[Part, Any]] = {}  # by number, if the order is that of the parts
    try:
        while True:
            while handed_out - yielded < at_once and (part := next(waiting, None)) is not None:
                # Dask takes two calls with equal arguments for one.
                token = uuid.uuid4().hex
                with _losing(part, executor):
                    future = executor.submit(run_part, token, function, part.arguments)
                    running[future] = handed_out, part
                    handed_out += 1
                    future.add_done_callback(ended.put)
            if not running:
                return
            future = ended.get()
            number, part = running.pop(future)
            with _losing(part, executor):
                outcome = future.result()
            if isinstance(outcome, _Raised):
                outcome.raise_in(part)
            early[number if in_order else yielded] = part, outcome
            while yielded in early:
                yielded += 1
                yield early.pop(yielded - 1)
    finally:
        for future in running:
            with suppress(Exception):  # Dask's raises where the Client is closed
                future.cancel()


@contextmanager
def _losing(part: Part, executor: Executor) -> Iterator[None]:
    """Raise `PartFailed` in place of an error of the executor."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().splitlines()
        raise PartFailed(
            f"{type(executor).__name__} lost {part.name}: {type(error).__name__}"
            + (f": {said[0].rstrip('.')}" if said else "")
            + ". The same call again runs it again; if the executor broke, with a new one"
        ) from error


class _Raised:
    """An error that a part raised, on its way back."""

    def __init__(self, error: Exception) -> None:
        self._text = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))
            self._error: Exception | None = error
        except Exception:  # errors with arguments of their own do not all pickle
            self._error = None

    def raise_in(self, part: Part) -> None:
        """Raise the error, with a note that names the part."""
        error = self._error
        if error is None:
            error = RuntimeError(f"{part.name} failed:\n{self._text}")
        error.add_note(f"in a part of the job, {part.name}:\n{self._text}")
        raise error


def run_part(_token: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Run a part, on a worker. Its error is a result, so that no executor wraps it or tries again."""
    try:
        with one_in_a_process():
            return function(*arguments)
    except SystemExit as error:
        return _Raised(RuntimeError(f"sys.exit({error.code!r}) was called"))
    except Exception as error:
        return _Raised(error)
