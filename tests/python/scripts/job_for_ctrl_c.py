"""A job of parts that takes too long: FOLDER gets a file for each part that ran."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.executors.parts import Part, results

FOLDER = Path(sys.argv[1])
PARTS = 30
futures: list[Any] = []


def slow(number: int) -> int:
    (FOLDER / f"ran-{number}-0").touch()
    if number == 0:
        while len(futures) < PARTS:  # the job has handed out all of them
            time.sleep(0.01)
        time.sleep(0.2)
        print("a part ran", flush=True)
    time.sleep(0.5)
    return number


class Pool(ThreadPoolExecutor):
    def submit(self, *call: Any) -> Any:  # type: ignore[override]
        futures.append(super().submit(*call))
        return futures[-1]


with Pool(1) as pool:
    try:
        for _ in results(pool, slow, [Part(f"part {i}", (i,)) for i in range(PARTS)]):
            pass
    except KeyboardInterrupt:
        left = sum(not future.done() and not future.running() for future in futures)
        print(f"interrupted, {left} of {len(futures)} are left to run", flush=True)
