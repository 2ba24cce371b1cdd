"""Ctrl-C while local stores are opened and read, outside of iterators."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import tiledb
from conftest import Oracle

FRAGMENTS = 1500

# The last fragment is damaged: a read that nothing stops ends in an error of ours. The signal comes
# while the engine reads: the thread that sends it waits for the interpreter's lock, which only the
# engine gives up. The engine looks for a signal every 50 ms, and a read may be over before the next
# look: then once more, after another pause.
SCRIPT = """
import os, signal, sys, threading, time
import penstock as ps
from penstock import _core

what, path = sys.argv[1:]

def opened():
    if what == "table":
        return lambda: _core.read_array(path, [], None, None, 2)
    return ps.open(path).x("RNA", "raw").units

def send(gate):
    with gate:
        os.kill(os.getpid(), signal.SIGINT)

def outcome(pause):
    read = opened()
    gate = threading.Lock()
    gate.acquire()
    sender = threading.Thread(target=send, args=(gate,))
    sender.start()
    time.sleep(pause)
    try:
        gate.release()
        read()
        result = "read all"
    except ps.PenstockError as error:
        result = f"read to the damaged end: {error}"
    except KeyboardInterrupt:
        return "interrupted"
    sender.join()
    return result

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.setswitchinterval(1000)
for attempt in range(100):
    try:
        result = outcome(attempt % 10 * 0.005)
    except KeyboardInterrupt:
        result = "interrupted after the end"
    if result == "interrupted":
        break
print(result)
"""


def multiply_fragments(array: Path) -> Path:
    """Give an array many copies of a fragment; returns the newest, a copy with files of its own."""
    first = max((array / "__fragments").iterdir())
    version = first.name.rsplit("_", 1)[1]
    begin = int(first.name.split("_")[3])
    for time in range(begin + 1, begin + 1 + FRAGMENTS):
        copy = first.with_name(f"__{time}_{time}_{uuid.uuid4().hex}_{version}")
        copy.mkdir()
        for file in first.iterdir():
            os.link(file, copy / file.name)
        (array / "__commits" / f"{copy.name}.wrt").touch()
    shutil.rmtree(copy)
    return Path(shutil.copytree(first, copy))


def interrupted(what: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_reading_a_table(tmp_path: Path) -> None:
    uri = tmp_path / "a"
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 999), tile=100, dtype=np.int64)),
        attrs=[tiledb.Attr("v", dtype=np.int32)],
        sparse=True,
        allows_duplicates=True,
    )
    tiledb.Array.create(str(uri), schema)
    with tiledb.open(str(uri), "w", timestamp=1) as array:
        array[np.arange(10)] = np.arange(10, dtype=np.int32)
    last = multiply_fragments(uri)
    (last / "a0.tdb").write_bytes(b"")
    assert interrupted("table", uri) == "interrupted"


def test_opening_a_matrix(tmp_path: Path, soma_small: Oracle) -> None:
    path = tmp_path / "experiment"
    shutil.copytree(soma_small.path, path)
    last = multiply_fragments(path / "ms/RNA/X/raw")
    metadata = last / "__fragment_metadata.tdb"
    stored = bytearray(metadata.read_bytes())
    stored[60:90] = bytes(30)  # of the R-tree, which is read after all footers
    metadata.write_bytes(stored)
    assert interrupted("matrix", path) == "interrupted"
