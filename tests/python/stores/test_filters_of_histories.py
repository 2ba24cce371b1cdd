"""Random value filters on tables with overwrites, deletes, consolidation and other indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

tiledbsoma = pytest.importorskip("tiledbsoma")
tiledb = pytest.importorskip("tiledb")
from filter_oracle import FilterOracle  # noqa: E402
from soma_tables import tick, write_experiment  # noqa: E402
from value_filters import ROWS, make_table, render, trees  # noqa: E402

DELETES = [
    "i32 > 1",
    "n == 2",
    "s == 'a' or u8 < 3",
    "soma_joinid < 20 and f64 > 0.5",
    "i16 == 100",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[FilterOracle]:
    asked = FilterOracle()
    yield asked
    asked.close()


def assert_same_rows(
    oracle: FilterOracle, uri: str, times: list[int | None], examples: int
) -> None:
    """The same rows for each of many filters, at each of the times; some rows for a good part of them."""
    kinds: Counter[str] = Counter()
    tables = {time: ps.open(uri, timestamp=time).obs for time in times}

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(times), trees(proper=True))
    def same_rows(time: int | None, tree: tuple) -> None:
        try:
            ours = tables[time].select(render(tree, False, True)).to_numpy().tolist()
        except ps.InvalidArgument:
            ours = None
        theirs = oracle.rows(f"{uri}/obs", render(tree, False, False), time)
        assert ours == theirs, (time, render(tree, False, True))
        whole = len(tables[time])
        kinds[
            "refused" if ours is None else "some" if 0 < len(ours) < whole else "all or none"
        ] += 1

    for _ in range(5):  # by chance, too few of the first filters can keep some rows
        same_rows()
        if kinds["some"] > 0.3 * examples:
            break
    assert kinds["refused"] < 0.1 * kinds.total(), kinds
    assert kinds["some"] > 0.3 * examples, kinds


class History:
    """What happens to a table, by chance; `times` lie between its events."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.uri = write_experiment(path, make_table(seed), pieces=1 + seed % 3)
        self.obs = f"{self.uri}/obs"
        self.times: list[int | None] = [tick()]

    def write_over(self) -> None:
        rows = np.sort(self.random.choice(ROWS, self.random.integers(1, 40), replace=False))
        newer = make_table(int(self.random.integers(100, 200))).take(pa.array(rows))
        with tiledbsoma.DataFrame.open(self.obs, "w") as table:
            table.write(newer)

    def delete(self) -> None:
        with tiledb.open(self.obs, "d") as table:
            table.query(cond=str(self.random.choice(DELETES))).submit()

    def consolidate(self) -> None:
        tiledb.consolidate(self.obs)

    def write_more(self) -> None:
        events = [self.write_over] * 3 + [self.delete] * 2 + [self.consolidate]
        for number in self.random.permutation(len(events)):
            events[number]()
            self.times.append(tick())


@pytest.mark.parametrize("vacuumed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_of_overlapping_deleted_and_consolidated_rows(
    tmp_path: Path, oracle: FilterOracle, seed: int, vacuumed: bool
) -> None:
    history = History(tmp_path / "e", seed + 10 * vacuumed)
    history.write_more()
    times = [*history.times, None]
    if vacuumed:
        tiledb.consolidate(history.obs)
        tiledb.vacuum(history.obs)
    assert_same_rows(oracle, history.uri, times, 60)


@pytest.mark.parametrize(
    ("index", "domain"),
    [
        (("i16", "soma_joinid"), [(-1000, 1000), (0, 10**6)]),
        (("soma_joinid", "u8"), [(0, 10**6), (0, 250)]),
        (("s", "soma_joinid"), [None, (0, 10**6)]),
        (("t_s", "soma_joinid"), [(np.datetime64(-9, "s"), np.datetime64(10**7, "s")), (0, 10**6)]),
        (("f32", "soma_joinid"), [(-100.0, 100.0), (0, 10**6)]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "",
)
def test_of_other_index_columns(
    tmp_path: Path, oracle: FilterOracle, index: tuple, domain: list
) -> None:
    """Filters on the index columns, too, whose values are in the fragments' R-trees."""
    table = make_table(len(index[0]))
    bounded = {
        "i16": pa.array(np.clip(table["i16"].to_numpy(), -1000, 1000)),
        "u8": pa.array(np.clip(table["u8"].to_numpy(), 0, 250)),
        "s": pc.replace_substring_regex(table["s"].combine_chunks(), "[^ -~]", "e"),
        "f32": pa.array(np.clip(np.nan_to_num(table["f32"].to_numpy()), -100, 100)),
    }
    for name, column in bounded.items():
        at = table.column_names.index(name)
        table = table.set_column(at, pa.field(name, column.type, nullable=False), column)
    uri = write_experiment(tmp_path / "e", table, pieces=3, index_column_names=index, domain=domain)
    times: list[int | None] = [tick()]
    if index[0] != "t_s":  # tiledb-py deletes nothing where a dimension is a time
        with tiledb.open(f"{uri}/obs", "d") as obs:
            obs.query(cond="i32 > 2 or soma_joinid < 4").submit()
        times.append(tick())
        tiledb.consolidate(f"{uri}/obs")
    assert_same_rows(oracle, uri, [*times, None], 80)
