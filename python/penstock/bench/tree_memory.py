"""Peak memory of a process and everything below it, by sampling.

USS is what would be free if the tree were gone, counting pages that its processes share with
others as nobody's; PSS counts a page shared by n processes as an n-th of each. Both are sums over
``/proc/PID/smaps_rollup``, which takes the kernel a few milliseconds a GiB: sampling is slowed down
so that it never takes more than `_SHARE` of the time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_SECONDS = 0.02
_SHARE = 0.05


@dataclass
class Peak:
    """Most that was seen, in bytes; each field by itself."""

    uss: int = 0
    pss: int = 0
    rss: int = 0
    processes: int = 0
    samples: int = 0
    shared: int = 0  # RSS less USS of a tree of one process: libraries, mapped files

    def raise_to(self, other: Peak) -> None:
        """Take the larger of each; samples add up."""
        self.uss = max(self.uss, other.uss)
        self.pss = max(self.pss, other.pss)
        self.rss = max(self.rss, other.rss)
        self.processes = max(self.processes, other.processes)
        self.samples += other.samples
        self.shared = max(self.shared, other.shared)

    def raise_to_mark(self, peak_rss: int) -> None:
        """Take the peak of RSS that the kernel marked, where that is more than was sampled.

        Samples are tens of milliseconds apart and miss short peaks; the kernel's mark does not. Of a
        single process all that was never shared in a sample is its own: a bound from below, for USS
        and so for PSS. Of several the mark is that of one, and says nothing of them all.
        """
        if self.processes != 1:
            return
        self.uss = max(self.uss, peak_rss - self.shared)
        self.pss = max(self.pss, self.uss)
        self.rss = max(self.rss, peak_rss)


def tree(pid: int) -> list[int]:
    """The process and all its descendants that are alive."""
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
    """What the tree has at this moment; zeros once it has ended."""
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


class TreeMemory:
    """Samples from a thread until `stop`; `take` gives the peak since the last `take`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = Peak()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> Peak:
        """The peak, which then begins again at what is there now."""
        now = memory_now(self._pid)
        with self._lock:
            self._peak.raise_to(now)
            taken, self._peak = self._peak, now
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
            pause = max(_INTERVAL_SECONDS, (time.thread_time() - begin) / _SHARE)
