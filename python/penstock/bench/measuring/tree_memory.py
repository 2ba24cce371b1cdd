"""Peak memory of a process and its descendants, by sampling.

USS is the memory of pages that no other process shares. PSS counts a page shared by n processes as
an n-th for each. Both are sums over ``/proc/PID/smaps_rollup``, which takes the kernel a few
milliseconds per GiB. Samples are spaced so that they never take more than `_SHARE` of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_SECONDS = 0.02
_SHARE = 0.05
#: Most samples that are kept of an epoch; if there are more, every other one is dropped.
_MOST_POINTS = 500


@dataclass
class Peak:
    """Largest sample in bytes, separately for each field."""

    uss: int = 0
    pss: int = 0
    rss: int = 0
    processes: int = 0
    samples: int = 0
    shared: int = 0  # RSS less USS of a tree of one process: libraries, mapped files

    def raise_to(self, other: Peak) -> None:
        """Set each field to the larger value, and add the numbers of samples."""
        self.uss = max(self.uss, other.uss)
        self.pss = max(self.pss, other.pss)
        self.rss = max(self.rss, other.rss)
        self.processes = max(self.processes, other.processes)
        self.samples += other.samples
        self.shared = max(self.shared, other.shared)

    def raise_to_mark(self, peak_rss: int) -> None:
        """Use the kernel's peak of RSS if it exceeds the samples.

        Samples are tens of milliseconds apart and miss short peaks, but the kernel does not. For a
        single process, the peak less the shared memory of samples is a lower bound for USS and thus
        PSS. For several processes, the kernel's peak covers only one and is not used.
        """
        if self.processes != 1:
            return
        self.uss = max(self.uss, peak_rss - self.shared)
        self.pss = max(self.pss, self.uss)
        self.rss = max(self.rss, peak_rss)


def tree(pid: int) -> list[int]:
    """Return the process and all its living descendants."""
    found, waiting = [], [pid]
    while waiting:
        process = waiting.pop()
        found.append(process)
        try:
            threads = list(Path(f"/proc/{process}/task").glob("*/children"))
        except OSError:  # it has ended since
            continue
        for children in threads:
            try:
                waiting += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return found


def memory_now(pid: int) -> Peak:
    """Return the current memory of the tree; zeros after its end."""
    total = Peak(samples=1)
    for process in tree(pid):
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        sizes: dict[str, int] = {}
        for line in text.splitlines()[1:]:
            name, _, rest = line.partition(":")
            sizes[name] = int(rest.split()[0]) * 1024
        private = ("Private_Clean", "Private_Dirty", "Private_Hugetlb")
        total.uss += sum(sizes.get(name, 0) for name in private)
        total.pss += sizes.get("Pss", 0)
        total.rss += sizes.get("Rss", 0)
        total.processes += 1
    if total.processes == 1:
        total.shared = total.rss - total.uss
    return total


class _Samples:
    """Memory over time: (seconds, USS, RSS) of samples, thinned evenly."""

    def __init__(self, first: Sequence[tuple[float, int, int]] = ()) -> None:
        self._begin = time.monotonic()
        self._step = 1
        self._seen = len(first)
        self.points = [(0.0, uss, rss) for _, uss, rss in first]

    def add(self, sample: Peak) -> None:
        if sample.processes == 0:  # it has ended
            return
        if self._seen % self._step == 0:
            self.points.append((time.monotonic() - self._begin, sample.uss, sample.rss))
        self._seen += 1
        if len(self.points) > _MOST_POINTS:
            self.points = self.points[::2]
            self._step *= 2


class TreeMemory:
    """Sample in a thread until `stop`; `take` returns the peak since the last `take`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = Peak()
        self._samples = _Samples()
        self._samples.add(memory_now(pid))
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> Peak:
        """Return the peak, and restart it at the current memory."""
        now = memory_now(self._pid)
        with self._lock:
            self._peak.raise_to(now)
            taken, self._peak = self._peak, now
            self._samples.add(now)
        return taken

    def take_samples(self) -> list[tuple[float, int, int]]:
        """Return (seconds, USS, RSS) of samples since the last call, and restart the seconds.

        The last sample is also the first of those that follow.
        """
        with self._lock:
            taken = self._samples.points
            self._samples = _Samples(taken[-1:])
        return taken

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _INTERVAL_SECONDS
        while not self._stopped.wait(pause):
            begin = time.thread_time()
            now = memory_now(self._pid)
            with self._lock:
                self._peak.raise_to(now)
                self._samples.add(now)
            pause = max(_INTERVAL_SECONDS, (time.thread_time() - begin) / _SHARE)
