"""States saved by earlier versions: they resume bit for bit, or say that the order has changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
import saved_epochs
from conftest import DATA

RECORDS = json.loads((DATA / "saved_states.json").read_text())
#: Of commit b4141aa. Epochs of one process in the scatter shuffle have another order since 95fa801.
OF_OTHER_ORDERS = json.loads((DATA / "saved_states_of_other_orders.json").read_text())


@pytest.fixture(scope="module")
def sources(unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return saved_epochs.sources(unpacked("saved_states"), tmp_path_factory.mktemp("packed"))


def name_of(record: dict[str, Any]) -> str:
    taken = ", then ".join(str(segment["batches"]) for segment in record["state"]["segments"])
    return f"{record['kind']} after {taken}"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_resumes_bit_for_bit(sources: Any, record: dict[str, Any]) -> None:
    found = saved_epochs.resumed(record["kind"], sources, copy.deepcopy(record["state"]))
    assert found == {"left": record["left"], "after": record["after"]}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("record", OF_OTHER_ORDERS, ids=name_of)
def test_a_state_of_another_order_is_refused(sources: Any, record: dict[str, Any]) -> None:
    with pytest.raises(ps.InvalidArgument, match="it was saved by another version of penstock"):
        saved_epochs.resumed(record["kind"], sources, copy.deepcopy(record["state"]))


@pytest.mark.filterwarnings("ignore::penstock.ReadAgainWarning")
@pytest.mark.parametrize("record", RECORDS[: len(saved_epochs.KINDS)], ids=name_of)
def test_the_same_state_is_saved(sources: Any, record: dict[str, Any]) -> None:
    """So an earlier version may load it, too."""
    taken = record["state"]["segments"][-1]["batches"]
    assert saved_epochs.saved(record["kind"], sources, taken) == record["state"]


def test_every_kind_is_kept_at_its_begin_and_in_the_middle() -> None:
    assert sorted(record["kind"] for record in RECORDS[:-1]) == sorted(2 * list(saved_epochs.KINDS))
    assert {record["state"]["version"] for record in RECORDS} == {1}
    lanes = [record["state"]["segments"][-1]["lanes"] for record in RECORDS]
    assert max(lanes) == 2
    assert len({record["left"]["sha256"] for record in RECORDS}) > len(RECORDS) / 2
