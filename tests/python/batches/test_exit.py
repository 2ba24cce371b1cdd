"""The interpreter ends cleanly while daemon threads of the user are inside the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    ds = ps.Dataset(path, sparse=True, batch_size=16)
    cells = 0
    for X, _ in ds:
        cells += X.shape[0]
        called.release()
    if cells != ds.n_obs:
        print("an epoch that ended early, in silence")

# torch takes the interpreter's lock to let go of a tensor, and in its operations.
def tensors():
    for X, _ in ps.dataloader(ps.Dataset(path, batch_size=64)):
        X.sum()
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
            continue  # the callback counts
        called.release()

threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(6):
    called.acquire()
print("running:", sum(thread.is_alive() for thread in threads))
"""


@pytest.fixture(autouse=True)
def _keys_by_a_callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine asks the callback at once: only botocore runs a program."""
    config = tmp_path / "config"
    config.write_text("[default]\ncredential_process = none\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "what", ["epochs", "tensors", "opened", "table", "statistics", "credentials"]
)
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


# What is registered before Penstock is imported runs after its own callback.
JOINED = """
import atexit, sys, threading, weakref

stop = False

def say(line):
    sys.stdout.write(line + "\\n")  # in one piece, beside other threads

class Prefetcher:
    def start(self, path):
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(path,), daemon=True)
        self.thread.start()

    def run(self, path):
        try:
            while not stop:
                for batch in ps.Dataset(path, sparse=True, batch_size=16):
                    self.begun.set()
                    if stop:
                        break
        finally:
            say("left")

def close():
    global stop
    stop = True
    say(f"running: {prefetcher.thread.is_alive()}")
    prefetcher.thread.join()
    say("joined")

what, path = sys.argv[1:]
prefetcher = Prefetcher()
if what == "before":
    atexit.register(close)
elif what == "finalizer":
    weakref.finalize(prefetcher, close)
import penstock as ps
if what == "after":
    atexit.register(close)
prefetcher.start(path)
prefetcher.begun.wait()
"""


@pytest.mark.parametrize("what", ["before", "finalizer", "after"])
def test_threads_can_be_joined_at_the_end(pbmc3k: Oracle, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JOINED, what, str(pbmc3k.path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == "joined"
    assert "left" in lines
    if what == "after":
        assert "running: True" in lines


# A program that asks its user for a token, say.
ASKED = """
import pathlib, sys, threading, time
from penstock import _core

begun = threading.Event()

def ask(profile):
    begun.set()
    time.sleep(300)
    pathlib.Path(sys.argv[1]).touch()

def run():
    _core.Experiment.open("s3://bucket/path", None, 1, {}, ask)

threading.Thread(target=run, daemon=True).start()
begun.wait()
print("asked")
"""


def test_a_callback_that_does_not_return_does_not_hold_up_the_end(tmp_path: Path) -> None:
    returned = tmp_path / "returned"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASKED, str(returned)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "asked\n", "")
    assert not returned.exists()
