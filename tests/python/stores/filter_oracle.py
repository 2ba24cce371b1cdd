"""tiledbsoma's results of value filters, from a separate process.

A process that ran ten thousand random filters on both libraries aborted twice with a damaged heap.
Separate processes show which library fails.
"""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import tiledbsoma
frames = {}
for line in sys.stdin:
    uri, timestamp, text = json.loads(line)
    if (uri, timestamp) not in frames:
        frames[uri, timestamp] = tiledbsoma.DataFrame.open(uri, tiledb_timestamp=timestamp)
    frame = frames[uri, timestamp]
    try:
        read = frame.read(value_filter=text, column_names=["soma_joinid"]).concat()
        rows = sorted(read["soma_joinid"].to_pylist())
    except Exception:  # it raises whatever comes up
        rows = None
    print(json.dumps(rows), flush=True)
"""


class FilterOracle:
    """Asks tiledbsoma; a process that died is asked for once more in another."""

    def __init__(self) -> None:
        self.deaths = 0
        self._start()

    def rows(self, uri: str, text: str, timestamp: int | None = None) -> list[int] | None:
        """Joinids in ascending order of the rows of a DataFrame that a filter takes; None: refused."""
        for _ in range(3):
            try:
                self._process.stdin.write(json.dumps([uri, timestamp, text]) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass
            answer = self._process.stdout.readline()
            if answer:
                return json.loads(answer)
            self.deaths += 1
            self.close()
            self._start()
        raise RuntimeError(f"tiledbsoma ends at the filter {text!r} of {uri}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
