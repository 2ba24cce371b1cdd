"""Functions of parts that workers import, for the tests of executors."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def square(number: int) -> int:
    return number * number


def noted(folder: str, number: int) -> int:
    """The number, with a file that says that the part ran."""
    note(folder, number)
    return number


def note(folder: str, number: int) -> None:
    Path(folder, f"ran-{number}-{time.monotonic_ns()}").touch()


def ran(folder: Path) -> list[int]:
    """Numbers of the parts that ran, as often as they ran."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("ran-*"))


def killing(folder: str, number: int, victim: int) -> int:
    """Kill the worker that runs the part of the victim for the first time."""
    note(folder, number)
    marker = Path(folder, "killed")
    if number == victim and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow(folder: str, number: int) -> int:
    """Take a second."""
    time.sleep(1)
    return noted(folder, number)


def raising(folder: str, number: int, error: Any) -> int:
    """Raise on the first part; the others take some time."""
    note(folder, number)
    if number == 0:
        raise error
    time.sleep(0.05)
    return number


class Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def raising_unpicklable(number: int) -> int:
    raise Unpicklable("no", "pickle")


def always_killing(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_while_writing(
    marker: str, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Call the function; the first worker that has a half written file in the folder is killed."""

    def watch() -> None:
        while not Path(marker).exists():
            if any(Path(folder).rglob("*.tmp")):
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    return function(*arguments)


def killed_once(marker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call the function; the first worker to do so is killed."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments)


def after_a_while(seconds: float, number: int) -> int:
    time.sleep(seconds)
    return number


def raising_once(marker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Raise the first time, as a part would."""
    if Path(marker).exists():
        return function(*arguments)
    Path(marker).touch()
    token, _, _ = arguments
    return function(token, not_found, ())


def not_found() -> None:
    from penstock.errors import NotFound

    raise NotFound("there is nothing")
