"""Ranks that would read different epochs raise an error; working programs do not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from conftest import SCRIPTS, write_small_tiles
from penstock.base.call_site import call_site
from penstock.epochs import rank_check
from penstock.epochs.rank_check import RankCheck
from penstock.epochs.rank_summary import differences
from torchrun import finish, torchrun

SCRIPT = SCRIPTS / "rank_agreement_script.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """By case of the script, what each of two ranks got."""
    path = write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 400, 50)
    out = finish(torchrun(2, SCRIPT, path))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    return json.loads(line.removeprefix("RESULTS "))


@pytest.mark.parametrize(
    ("case", "what"),
    [
        ("seed", "seed: "),
        ("seed_with_workers", "seed: "),
        ("seed_on_the_way_to_a_device", "seed: "),
        ("seed_of_compat", "seed: "),
        ("later_epoch", "seed: "),
        ("number_of_cells", "selected cells: "),
        ("other_cells", "fingerprint of the selected cells: "),
        ("split", "fingerprint of the selected cells: "),
        ("batch_size", "batch_size: "),
        ("epoch", "epoch: "),
        ("state_of_rank_0_alone", "batches taken before: "),
        ("state_and_other_memory", "memory_budget of a resumed run: "),
        ("state_and_other_workers", "num_workers of a resumed run: "),
        ("states_of_unlike_memory", "memory_budget of the loaded state: "),
    ],
)
def test_what_differs_is_an_error_on_every_rank(results, case: str, what: str) -> None:
    for each in results[case]:
        assert "ranks do not read the same epoch: " + what in each["error"], each
        assert "shard=False" in each["error"]
        assert "on rank 0" in each["error"]
        assert "on rank 1" in each["error"]
        assert each["error"].count(": ") == 2, "nothing else differs"


@pytest.mark.parametrize(
    "case",
    [
        "equal", "equal_with_workers", "has_one_more", "looks_at_a_batch", "of_different_machines",
        "in_a_forked_process", "all_leave_early",
    ],
)  # fmt: skip
def test_ranks_that_agree_read_on(results, case: str) -> None:
    for epochs in zip(*(each["got"] for each in results[case]), strict=True):
        assert sorted(sum(epochs, [])) == list(range(300))


def test_the_values_are_those_of_the_ranks(results) -> None:
    for each in results["state_and_other_memory"] + results["states_of_unlike_memory"]:
        assert "8388608 on rank 0" in each["error"]
        assert "9437184 on rank 1" in each["error"]


def test_what_was_left_comes_once(results) -> None:
    """All have changed alike, or each resumes in the order that it had."""
    for case in ("state_and_other_memory_on_all", "states_of_its_own"):
        before, after = ([each["got"][part] for each in results[case]] for part in (0, 1))
        assert len(sum(before, [])) == 80
        assert sorted(sum(before + after, [])) == list(range(300)), case


def test_a_rank_that_iterates_alone_waits_for_nobody(results) -> None:
    for epochs in zip(*(each["got"] for each in results["iterates_alone"]), strict=True):
        assert len(set(sum(epochs, []))) == 210


def test_an_epoch_too_many_on_one_rank_is_a_warning(results) -> None:
    """Whoever comes second to the next epoch has it; nothing else that works is warned of."""
    for case, of_ranks in results.items():
        warned = sum((each["warned"] for each in of_ranks), [])
        if case != "looks_at_a_batch_and_resumes":
            assert warned == [], case
            continue
        (text,) = warned
        assert "start epoch 1 after different numbers of batches of the previous epoch" in text
        assert "1 on rank 0" in text
        assert "8 on rank 1" in text
        assert "set_epoch" in text
        first = [set(each["got"][0]) for each in of_ranks]
        assert first[0] & first[1], "what it is about: cells come twice"


def test_what_is_not_divided_is_not_compared(results) -> None:
    assert [each["got"] for each in results["of_its_own"]] == [[], []]


def test_who_comes_too_late_learns_it_at_least(results) -> None:
    first, late = results["comes_late"]
    assert len(first["got"]) == 150
    assert "seed: 0 on rank 0, 1 on rank 1" in late["error"]


def test_the_message_says_what_differs_and_no_more() -> None:
    first = {
        "rank": 0, "world_size": 2, "epoch": 0, "batches": 0, "seed": 0, "cells": 10, "rows": 5,
        "batch_size": 8, "shuffle": True, "uneven": "drop", "drop_last": False, "min_batch": 1,
        "sampling": 0, "plan": 1, "earlier": [], "own": {},
    }  # fmt: skip
    assert differences(first, {**first, "rank": 1}) is None
    both = differences(
        first, {**first, "rank": 1, "cells": 9, "rows": 6, "uneven": "pad", "plan": 2}
    )
    assert "epoch: selected cells: 10 on rank 0, 9 on rank 1; uneven: 'drop' on rank 0" in both
    assert "fingerprint" not in both
    assert "fingerprint of the stored data: 1 on" in differences(first, {**first, "plan": 2})
    own = {"memory_budget": 1, "num_workers": 1, "sparse": False, "dtype": "float32"}
    resumed_entry = {**first, "own": own, "earlier": []}
    assert differences(resumed_entry, {**resumed_entry, "own": {**own, "memory_budget": 2}}) is None
    earlier = [{**own, "batches": 5}]
    for changed, message in [
        (
            {"own": {**own, "dtype": "int8"}},
            "dtype of a resumed run: 'float32' on rank 0, 'int8'",
        ),
        ({"earlier": [{**earlier[0], "sparse": True}]}, "sparse of the loaded state: False on"),
        ({"earlier": [{**earlier[0], "batches": 4}] * 2}, "epoch: loaded state: [] on rank 0, [{"),
    ]:
        here = {**resumed_entry, "rank": 1, "plan": 2, "earlier": earlier, **changed}
        assert message in differences(resumed_entry, here)
        assert "stored data" not in differences(resumed_entry, here)


def test_what_an_earlier_run_left_in_the_store_does_not_count(monkeypatch) -> None:
    """Workers that torchrun's agent starts again may find the store as the ones before left it."""
    import torch.distributed

    store = torch.distributed.HashStore()
    monkeypatch.setattr(rank_check, "WAIT_SECONDS", 0.0)

    def begins(agreement: RankCheck, seed: int) -> str | None:
        order = SimpleNamespace(
            world_size=2, seed=seed, batch_size=8, shuffle=True, chunk_size=0, uneven="drop",
            drop_last=False, min_batch=1, sampling=0, global_shuffle=False,
            memory_budget=2**20, num_workers=1, sparse=False, dtype="float32",
        )  # fmt: skip
        run = SimpleNamespace(
            shard=SimpleNamespace(rank=seed), order=order, epoch=0, earlier=(), first=0,
            selected=(10, 1), rank_plan=1, left_before=None,
        )  # fmt: skip
        return agreement._exchange(store, run)

    def dataset_of_a_rank() -> RankCheck:
        agreement = RankCheck()
        agreement.site = "the same"
        return agreement

    with monkeypatch.context() as before:
        before.setattr(rank_check.time, "time", lambda: 1000.0)  # in 1970
        before.setattr(rank_check, "_process_start", lambda: 0.0)
        assert begins(dataset_of_a_rank(), 5) is None
        assert "seed: 5 on rank 5, 6 on rank 6" in begins(dataset_of_a_rank(), 6)
    assert begins(dataset_of_a_rank(), 0) is None
    assert begins(dataset_of_a_rank(), 0) is None
    assert "seed: 0 on rank 0, 1 on rank 1" in begins(dataset_of_a_rank(), 1)
    with monkeypatch.context() as odd:  # a clock that is ahead: nothing is compared, nothing hangs
        odd.setattr(rank_check, "_process_start", lambda: 1e12)
        assert begins(dataset_of_a_rank(), 7) is None
        assert begins(dataset_of_a_rank(), 8) is None


def test_the_start_of_this_process_is_known() -> None:
    code = "from penstock.epochs import rank_check; print(rank_check._process_start())"
    before = time.time()
    out = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert before - 1 < float(out) < time.time()


def test_a_call_site_is_a_line_of_the_program_and_a_number() -> None:
    def made() -> str:
        return call_site()

    several = [made() for _ in range(3)]
    assert len({each.split(".")[0] for each in several}) == 1
    assert len(set(several)) == 3
    other = made()
    assert other.split(".")[0] != several[0].split(".")[0]
