"""Parts of a job on executors: process pools, threads, loky and Dask."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import part_functions as functions
import penstock as ps
import pytest
from conftest import SCRIPTS
from engines import KINDS, made
from penstock.executors import PartFailed
from penstock.executors.parts import Part, results


def parts(count: int, *before: Any, after: tuple[Any, ...] = ()) -> list[Part]:
    return [Part(f"part {i}", (*before, i, *after)) for i in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_once_and_the_executor_stays_open(kind: str, tmp_path: Path) -> None:
    with made(kind) as executor:
        got = {p.name: r for p, r in results(executor, functions.square, parts(150))}
        assert got == {f"part {i}": i * i for i in range(150)}
        # Equal calls are calls of their own: Dask runs equal ones once.
        both = [Part(f"call {i}", (str(tmp_path), 7)) for i in range(2)]
        assert [r for _, r in results(executor, functions.noted, both)] == [7, 7]
        assert functions.ran(tmp_path) == [7, 7]
        assert executor.submit(functions.square, 3).result() == 9


@pytest.mark.parametrize("kind", ["processes", "loky", "dask"])
def test_a_worker_is_killed(kind: str, tmp_path: Path) -> None:
    """Dask runs the part again; the others lose it, and the same call completes on a new pool."""
    given = parts(6, str(tmp_path), after=(3,))
    with made(kind) as executor:
        if kind == "dask":
            got = [r for _, r in results(executor, functions.killing, given)]
            assert functions.ran(tmp_path).count(3) == 2
        else:
            with pytest.raises(PartFailed, match=r"lost part \d: \w+.*new one") as failed:
                list(results(executor, functions.killing, given))
            assert isinstance(failed.value.__cause__, BrokenProcessPool) or kind == "loky"
    assert (tmp_path / "killed").exists()
    if kind != "dask":
        with made(kind) as executor:
            got = [r for _, r in results(executor, functions.killing, given)]
    assert sorted(got) == list(range(6))


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_error_is_raised_as_itself(kind: str, tmp_path: Path) -> None:
    error = ps.NotFound("there is no cell")
    given = parts(200, str(tmp_path), after=(error,))
    with made(kind) as executor:
        with pytest.raises(ps.NotFound) as raised:
            list(results(executor, functions.raising, given, at_once=20))
        assert str(raised.value) == "there is no cell"
        assert any("in a part of the job, part 0" in note for note in raised.value.__notes__)
        # The same call again runs again, and does not get the error of before.
        with pytest.raises(ps.NotFound):
            list(results(executor, functions.raising, given, at_once=20))
    assert functions.ran(tmp_path).count(0) == 2
    assert len(functions.ran(tmp_path)) < 100, "parts that had not begun are cancelled"


def test_a_part_that_ends_its_process_fails() -> None:
    with (
        made("processes") as executor,
        pytest.raises(RuntimeError, match=r"sys\.exit\(3\) was called"),
    ):
        list(results(executor, sys.exit, [Part("cells 0 to 9", (3,))]))


def test_an_executor_that_returns_no_future() -> None:
    class Returning:
        def submit(self, *call: Any) -> Any:
            return None

    with pytest.raises(PartFailed, match="Returning lost part 0: AttributeError"):
        list(results(Returning(), functions.square, parts(1)))


def test_parts_of_a_process_run_one_after_the_other() -> None:
    """Each has the memory that it was given, however many threads its worker has."""
    running, most = 0, 0

    def counted(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.01)
        running -= 1
        return number

    with ThreadPoolExecutor(4) as pool:
        assert len(list(results(pool, counted, parts(12)))) == 12
    assert most == 1


def test_an_error_that_does_not_pickle() -> None:
    with (
        made("processes") as executor,
        pytest.raises(RuntimeError, match=r"part 0 failed:(?s:.*)Unpicklable: no pickle"),
    ):
        list(results(executor, functions.raising_unpicklable, parts(1)))


def test_dask_loses_results_that_lie_on_a_worker(tmp_path: Path) -> None:
    """The worker is killed before they are fetched. Their parts run again."""
    with made("dask") as client:
        found = results(client, functions.noted, parts(20, str(tmp_path)))
        got = [next(found)[1]]
        while sum(len(keys) for keys in client.has_what().values()) < 19:
            time.sleep(0.05)  # the results of all other parts lie on the two workers
        held = client.has_what()
        victim = max(held, key=lambda worker: len(held[worker]))
        os.kill(client.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
        while victim in client.scheduler_info()["workers"]:
            time.sleep(0.05)
        got += [number for _, number in found]
    assert sorted(got) == list(range(20))
    assert len(functions.ran(tmp_path)) > 20, "results were lost"


def test_the_client_of_dask_is_closed(tmp_path: Path) -> None:
    with made("dask") as client:
        found = results(client, functions.slow, parts(6, str(tmp_path)))
        next(found)
        client.close()
        with pytest.raises(PartFailed, match="Client lost part"):
            list(found)


class Counting:
    """Counts the futures that have not been asked for their result."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.futures: list[Future[Any]] = []

    def submit(self, *call: Any) -> Future[Any]:
        self.futures.append(self.executor.submit(*call))
        return self.futures[-1]


def test_so_many_parts_are_handed_out_at_a_time() -> None:
    with ThreadPoolExecutor(2) as pool:
        counting = Counting(pool)
        yielded = 0
        for _ in results(counting, functions.square, iter(parts(50)), at_once=5):
            yielded += 1
            assert len(counting.futures) - yielded <= 4
        assert yielded == 50


def test_a_caller_that_stops_cancels_the_rest(tmp_path: Path) -> None:
    given = parts(100, str(tmp_path), after=(ValueError(),))[1:]
    with ThreadPoolExecutor(1) as pool:
        counting = Counting(pool)
        for _ in results(counting, functions.raising, given, at_once=50):
            break
        assert sum(future.cancelled() for future in counting.futures) > 30


@pytest.mark.parametrize("given", [2, "dask", None, ThreadPoolExecutor])
def test_what_is_no_executor(given: Any) -> None:
    from penstock.executors.parts import checked_executor

    if given is ThreadPoolExecutor:
        given = given.submit
    with pytest.raises(ps.InvalidArgument, match=r"submit method.*give the Client"):
        checked_executor(given)


def test_an_asynchronous_client_of_dask_is_refused() -> None:
    import distributed
    from penstock.executors.parts import checked_executor

    async def refused(address: str) -> None:
        async with distributed.Client(address, asynchronous=True) as client:
            with pytest.raises(ps.InvalidArgument, match=r"asynchronous=True.*without it"):
                checked_executor(client)

    with made("dask") as client:
        asyncio.run(refused(client.scheduler.address))


def test_ctrl_c_ends_a_job(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPTS / "job_for_ctrl_c.py", tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a part ran\n"
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "interrupted, 0 of 30 are left to run" in said
    count = len(functions.ran(tmp_path))
    assert 0 < count < 30
    time.sleep(0.2)
    assert len(functions.ran(tmp_path)) == count
