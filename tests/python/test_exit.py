"""The interpreter ends while daemon threads of the user are inside the engine."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import Oracle

# Each thread says when it has called the engine a few times, and never stops.
SCRIPT = """
import sys, threading, time
import penstock as ps
from penstock import _core

what, path = sys.argv[1:]
called = threading.Semaphore(0)

def epochs():
    for batch in ps.Dataset(path, sparse=True, batch_size=16):
        called.release()

def opened():
    ps.open(path)

def table():
    ps.open(path).obs.to_pandas()

def statistics():
    ps.gene_statistics(ps.Dataset(path))

def credentials():
    def wait(profile):
        called.release()
        time.sleep(0.01)
        raise RuntimeError("no keys")
    _core.Experiment.open("s3://bucket/path", None, 1, {}, wait)

def run():
    while True:
        try:
            globals()[what]()
        except ps.PenstockError as error:
            assert what == "credentials", error
        called.release()

threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(6):
    called.acquire()
print("running:", sum(thread.is_alive() for thread in threads))
"""


@pytest.mark.parametrize("what", ["epochs", "opened", "table", "statistics", "credentials"])
def test_daemon_threads_in_the_engine_do_not_abort_the_process(pbmc3k: Oracle, what: str) -> None:
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, what, str(pbmc3k.path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "running: 3\n", "")
