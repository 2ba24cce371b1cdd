"""Under ``--memory-limit``, a lack of memory is status oom with every library's message."""

from __future__ import annotations

from pathlib import Path

import own_loader
import pytest
from conftest import Oracle
from penstock.bench.measuring import worker_process
from penstock.bench.methods import METHODS
from penstock.bench.worker.main import is_out_of_memory
from penstock.bench.worker.request import Request, Work

# Of address space, in MiB; with each of them tiledbsoma's loaders end elsewhere where this was written:
# in imports, in TileDB's context, in its threads, in queries, by a crash, and where there is room enough.
LIMITS = (210, 280, 535, 567, 655, 903, 5_000)

_LOADER = """
import _thread, os, resource, signal, threading
from ..opened import Opened
def imports(variant, work):
    if variant == "spin":  # as OpenBLAS does when it is imported and finds no memory
        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        assert 0 < soft < 200
        resource.setrlimit(resource.RLIMIT_CPU, (1, hard))
        while True:
            pass
def open_loader(variant, work):
    assert resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
    if variant == "threads":
        for _ in range(1_000):
            # Thread.start() would wait for ever for a thread that has no memory to say that it runs.
            _thread.start_new_thread(threading.Event().wait, ())
    if variant == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if variant == "second":
        try:
            raise OSError("libx.so: failed to map segment from shared object")
        except OSError:
            raise OSError("liby.so: cannot open shared object file")
    raise RuntimeError("Resource temporarily unavailable")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has the loader above."""
    own_loader.install(_LOADER, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["np.array", "scipy.csr"])
def test_real_limits_end_in_room_enough_or_out_of_memory(name: str, census_like: Oracle) -> None:
    method = METHODS[name]
    work = Work(
        str(census_like.path), batch_size=128, chunk_size=2_000, chunks_per_block=3,
        py_buffer_size=1 << 22, soma_buffer_size=1 << 22,
    )  # fmt: skip
    ends = set()
    for limit in LIMITS[2::2] if name == "np.array" else LIMITS:
        request = Request(method.loader, method.variant, work, memory_limit=limit << 20)
        outcome = worker_process.run(request)
        assert outcome.status in ("ok", "oom"), (limit, outcome.error)
        ends.add(outcome.status)
    assert ends == {"ok", "oom"}


@pytest.mark.parametrize(
    ("variant", "limit", "status", "words"),
    [
        ("threads", 1 << 30, "oom", "can't start new thread"),
        ("spin", 1 << 38, "oom", "ended by SIGXCPU under --memory-limit"),
        ("crash", 1 << 38, "oom", "ended by SIGSEGV under --memory-limit"),
        ("crash", None, "failed", "ended by SIGSEGV: "),
        ("second", None, "oom", "liby.so: cannot open"),
        ("words", 1 << 38, "oom", "Resource temporarily unavailable"),
        ("words", None, "failed", "Resource temporarily unavailable"),
    ],
)
def test_what_a_limit_makes_of_an_end(
    variant: str, limit: int | None, status: str, words: str, own: None
) -> None:
    outcome = worker_process.run(Request("stubborn", variant, Work("none"), memory_limit=limit))
    assert (outcome.status, words in str(outcome.error)) == (status, True), outcome.error


@pytest.mark.parametrize("text", ["no such column", "libx.so: cannot open shared object file"])
def test_other_errors_under_a_limit_are_failures(text: str) -> None:
    assert not is_out_of_memory(OSError(text), limited=True)
