"""``penstock bench download`` checks space, copies in pieces, and equals tiledbsoma's slice."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections import namedtuple
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tiledbsoma
from conftest import Oracle
from mounts import with_mount
from penstock.bench import download as downloading
from penstock.bench.measuring.page_cache import files_of
from penstock.bench.target import Target, make_target
from penstock.synthetic import disk_space

FILTERS = (None, "soma_joinid < 700 and tissue_general != 'no such'")


def silent(text: str) -> None:
    pass


def slice_of(census_like: Oracle, folder: Path, obs_filter: str | None, n_vars: int | None) -> None:
    target = make_target(str(census_like.path), obs_filter=obs_filter, n_vars=n_vars, say=silent)
    downloading.download(target, folder, True, silent)


def sorted_table(frame: tiledbsoma.DataFrame, **selected: object) -> pa.Table:
    """Rows by joinid, values in place of codes: a slice's dictionaries hold what it has."""
    read = frame.read(**selected).concat().sort_by("soma_joinid")
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in read.columns
    ]
    return pa.table(plain, names=read.column_names)


def test_in_pieces_it_is_the_slice_that_tiledbsoma_reads(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obs in pieces of 8 KiB a column, of which none is kept when the next is written."""
    written: list[tuple[weakref.ref, int]] = []
    write = tiledbsoma.DataFrame.write

    def noted(frame: tiledbsoma.DataFrame, table: pa.Table) -> object:
        assert all(earlier() is None for earlier, _ in written)
        written.append((weakref.ref(table), len(table)))
        return write(frame, table)

    random = np.random.default_rng(7)
    for obs_filter in FILTERS:
        n_vars = int(random.integers(1, census_like.X.shape[1]))
        with monkeypatch.context() as small:
            small.setattr("penstock.bench.target._BUFFER", 8 << 10)
            small.setattr(tiledbsoma.DataFrame, "write", noted)
            slice_of(census_like, tmp_path / "slice", obs_filter, n_vars)
        with (
            tiledbsoma.open(str(census_like.path)) as source,
            tiledbsoma.open(str(tmp_path / "slice")) as made,
        ):
            genes = slice(0, n_vars - 1)
            expected = sorted_table(source.obs, value_filter=obs_filter)
            assert sorted_table(made.obs) == expected
            assert made.obs.schema.remove_metadata() == source.obs.schema.remove_metadata()
            var = sorted_table(source.ms["RNA"].var, coords=(genes,))
            assert sorted_table(made.ms["RNA"].var) == var
            cells = expected["soma_joinid"].to_numpy()
            x = source.ms["RNA"].X["raw"].read((cells, genes)).tables().concat()
            by_cell = [("soma_dim_0", "ascending"), ("soma_dim_1", "ascending")]
            read = made.ms["RNA"].X["raw"].read().tables().concat()
            assert read.sort_by(by_cell) == x.sort_by(by_cell)
    assert max(rows for _, rows in written) <= 1024
    assert len(written) > 2 * len(FILTERS) + 4


def test_joinids_of_genes_may_have_gaps(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    cells = np.sort(random.choice(5_000, 300, replace=False))
    genes = np.sort(random.choice(900, 200, replace=False))
    source, made = tmp_path / "source", tmp_path / "slice"
    with tiledbsoma.Experiment.create(str(source)) as experiment:
        obs = pa.table({"soma_joinid": cells, "dataset_id": ["one"] * len(cells)})
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = pa.table({"soma_joinid": genes, "feature_id": [f"g{gene}" for gene in genes]})
        for parent, name, table in ((experiment, "obs", obs), (rna, "var", var)):
            parent.add_new_dataframe(
                name, schema=table.schema, index_column_names=["soma_joinid"], domain=[(0, 9_999)]
            ).write(table)
        x = rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(10_000, 10_000)
        )
        places = random.choice(len(cells) * len(genes), 4_000, replace=False)
        x.write(
            pa.table(
                {
                    "soma_dim_0": cells[places // len(genes)],
                    "soma_dim_1": genes[places % len(genes)],
                    "soma_data": random.integers(1, 9, len(places)).astype("f4"),
                }
            )
        )
    for n_vars in (None, 450):
        downloading.download(
            make_target(str(source), n_vars=n_vars, say=silent), made, True, silent
        )
        chosen = slice(None) if n_vars is None else slice(0, n_vars - 1)
        by_cell = [("soma_dim_0", "ascending"), ("soma_dim_1", "ascending")]
        with tiledbsoma.open(str(source)) as left, tiledbsoma.open(str(made)) as right:
            expected, got = (
                each.ms["RNA"]
                .X["raw"]
                .read((slice(None), chosen))
                .tables()
                .concat()
                .sort_by(by_cell)
                for each in (left, right)
            )
        assert got == expected
        assert (len(got) == len(places)) == (n_vars is None)


@pytest.mark.parametrize(("n_vars", "local"), [(None, True), (800, True), (None, False)])
def test_the_space_that_is_looked_for_is_less_than_what_is_taken(
    n_vars: int | None, local: bool, census_like: Oracle, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """So that what would fit is never refused, and what is known not to fit nearly always."""
    needed: list[int] = []
    monkeypatch.setattr(Target, "is_local", property(lambda target: local))
    monkeypatch.setattr(downloading, "check_space", lambda folder, n: needed.append(n))
    for obs_filter in FILTERS:
        slice_of(census_like, tmp_path / "slice", obs_filter, n_vars)
        taken = sum(file.stat().st_size for file in files_of(tmp_path / "slice"))
        assert 0.2 * taken < needed[-1] < taken
    whole = needed[0]
    slice_of(census_like, tmp_path / "slice", "soma_joinid < 60", n_vars)
    assert needed[-1] < whole / 20


@pytest.mark.parametrize(
    ("more", "words"), [([], "MB needed, "), (["-v", "600"], "it filled up while writing")]
)
def test_a_disk_that_is_too_small(
    more: list[str], words: str, census_like: Oracle, tmp_path: Path
) -> None:
    """Told before anything is written where that is known, else when it is full; nothing is left."""
    small = tmp_path / "small"
    small.mkdir()
    prefix = with_mount('mount -t tmpfs -o size=1m tmpfs "$0"', small)
    command = [sys.executable, "-m", "penstock", "bench", "download", str(census_like.path), *more]
    script = f'"$@" -d "{small}"; status=$?; ls -A "{small}"; exit $status'
    done = subprocess.run(
        [*prefix, "sh", "-c", script, "sh", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done
    # numcodecs' warning of its own dependencies may come first.
    said = done.stderr.splitlines()[-1]
    assert said.startswith("penstock: not enough space on the disk"), done.stderr
    assert words in said
    assert done.stderr.count("not enough space") == 1
    assert str(small) in said
    assert done.stdout == f"6,000 cells, {more[1] if more else '3,000'} genes\n"


def test_without_space_nothing_is_written_and_what_is_there_stays(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slice_of(census_like, tmp_path / "slice", FILTERS[1], 50)
    before = {file: file.stat().st_mtime_ns for file in files_of(tmp_path / "slice")}
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 10_000, 10_000)
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(tiledbsoma.Experiment, "create", lambda *_: pytest.fail("it began"))
    with pytest.raises(OSError, match=r"not enough space on the disk: .* needed, 0\.01 MB free"):
        slice_of(census_like, tmp_path / "slice", None, None)
    assert {file: file.stat().st_mtime_ns for file in files_of(tmp_path / "slice")} == before
    assert [each.name for each in tmp_path.iterdir()] == ["slice"]
