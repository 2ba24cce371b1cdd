"""Categories of tables that Penstock writes, read back by tiledbsoma and by Penstock."""

from __future__ import annotations

import itertools
from pathlib import Path

import penstock as ps
import pyarrow as pa
import pytest
import tiledbsoma
from penstock import synthetic
from penstock.cli import main
from penstock.synthetic import experiment as experiment_module
from penstock.synthetic.axes import obs_tables
from penstock.synthetic.census_layout import DICTIONARY_COLUMNS, OBS_CONFIG
from penstock.synthetic.dataframe_writer import write_dataframe


def by_tiledbsoma(frame: tiledbsoma.DataFrame) -> pa.Table:
    """Its table, by joinid; an error where a code has no category."""
    table = frame.read().concat()
    table.validate(full=True)
    return table.sort_by("soma_joinid")


def categories_of(frame: tiledbsoma.DataFrame, name: str) -> list:
    """Also of tiledbsoma 1.15, which has no get_enumeration_values."""
    return frame.read(column_names=[name]).concat()[name].chunk(0).dictionary.to_pylist()


def values(table: pa.Table, name: str) -> list:
    return table[name].cast(pa.large_string()).to_pylist()


def test_categories_that_come_later_keep_their_values(tmp_path: Path) -> None:
    """Each table has categories that those before it lack, in an order of its own."""
    texts = [list("aab"), list("bcc"), list("dad"), list("eba")]
    tables, begin = [], 0
    for text in texts:
        names = sorted(set(text), reverse=True)
        codes = pa.array([names.index(each) for each in text], pa.int8())
        labels = pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.large_string()))
        joinids = pa.array(range(begin, begin + len(text)), pa.int64())
        tables.append(pa.table({"soma_joinid": joinids, "cell_type": labels}))
        begin += len(text)
    path = str(tmp_path / "e")
    with tiledbsoma.Experiment.create(path) as made:
        uri, n_tables = write_dataframe(made, "obs", iter(tables), begin, OBS_CONFIG)
        made.add_new_collection("ms")
    assert uri.endswith(f"{path}/obs")
    assert n_tables == len(tables)
    expected = list(itertools.chain(*texts))
    with tiledbsoma.open(path) as opened:
        found = by_tiledbsoma(opened.obs)
        assert values(found, "cell_type") == expected
        categories = categories_of(opened.obs, "cell_type")
    assert sorted(categories) == sorted(set(expected))
    read = ps.open(path).obs.to_pandas().sort_values("soma_joinid")
    assert read["cell_type"].tolist() == expected


@pytest.mark.parametrize("rows_at_once", [1 << 18, 300])
def test_an_invented_experiment_has_its_categories(
    rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the tables that were written, whether they were one or several."""
    written: list[pa.Table] = []

    def noted(*arguments) -> pa.Table:
        for table in obs_tables(*arguments, rows_at_once):
            written.append(table)
            yield table

    monkeypatch.setattr(experiment_module, "obs_tables", noted)
    path = tmp_path / "made"
    synthetic.make_experiment(path, n_cells=700, n_genes=200, seed=2)
    assert len(written) == -(-700 // rows_at_once)
    expected = pa.concat_tables(written).unify_dictionaries()
    with tiledbsoma.open(str(path)) as opened:
        found = by_tiledbsoma(opened.obs)
        categories = {name: categories_of(opened.obs, name) for name in DICTIONARY_COLUMNS}
    read = ps.open(path).obs.to_pandas().sort_values("soma_joinid")
    for name in DICTIONARY_COLUMNS:
        assert values(found, name) == values(expected, name), name
        assert read[name].tolist() == values(expected, name), name
        wanted = expected[name].chunk(0).dictionary.to_pylist()
        assert categories[name] == wanted, name
        assert read[name].cat.categories.tolist() == wanted, name


def test_a_slice_has_the_categories_of_its_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    synthetic.make_experiment(source, n_cells=900, n_genes=200, seed=4)
    chosen = "soma_joinid >= 300 and tissue_general != 'lung'"
    assert main(["bench", "download", str(source), "--filter", chosen, "-d", str(tmp_path),
                 "-n", "slice"]) == 0  # fmt: skip
    with tiledbsoma.open(str(source)) as opened:
        expected = opened.obs.read(value_filter=chosen).concat().sort_by("soma_joinid")
    with tiledbsoma.open(str(tmp_path / "slice")) as opened:
        found = by_tiledbsoma(opened.obs)
    read = ps.open(tmp_path / "slice").obs.to_pandas().sort_values("soma_joinid")
    assert 0 < len(expected) < 600
    for name in DICTIONARY_COLUMNS:
        assert values(found, name) == values(expected, name), name
        assert read[name].tolist() == values(expected, name), name
