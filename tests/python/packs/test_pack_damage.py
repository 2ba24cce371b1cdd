"""Packs with damaged contents or tables."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from packed_experiments import (
    entries,
    same_bits,
    write_growing,
    write_random,
)

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    return write_growing(tmp_path / "growing")


def test_rows_of_obs_that_no_row_file_has(growing: Path, tmp_path: Path) -> None:
    """Only damage brings them: they are no empty cells."""
    _, ids = write_random(tmp_path / "gaps", 2)
    gap = next(row for row in range(int(ids[0]), 700) if row not in ids)
    assert gap < ids[-1]
    for source, rows in [(tmp_path / "gaps", [gap]), (growing, np.arange(3_000, 3_004))]:
        path = tmp_path / "pack"
        ps.pack(source, path, overwrite=True)
        with tiledbsoma.open(str(path / "obs"), "w") as obs:
            obs.write(pa.table({"soma_joinid": rows}))
        with pytest.raises(ps.CorruptData, match="a file that the pack does not know"):
            entries(path)
        without_sums(path)
        with pytest.raises(ps.CorruptData, match=rf"row {rows[0]} of obs is in no row file.*again"):
            entries(path)


def test_a_flipped_bit_of_obs_and_var_is_seen(growing: Path, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    expected = entries(ps.pack(growing, path))
    tables = json.loads((path / "pack.json").read_text())["tables"]
    files = [each for each in path.rglob("*") if each.is_file() and each.suffix != ".rows"]
    there = {str(each.relative_to(path)): each.stat().st_size for each in files}
    assert {name: size for name, (size, _) in tables.items()} | {
        "pack.json": (path / "pack.json").stat().st_size
    } == there
    rng = random.Random(4)
    seen = 0
    for name in tables:
        whole = (path / name).read_bytes()
        if not whole:
            continue
        for damaged in (flipped(whole, rng), whole[:-1], whole + b"x"):
            (path / name).write_bytes(damaged)
            try:
                packed = ps.open(path)
                packed.obs.to_pandas(), packed.var("RNA").to_pandas()
            except ps.CorruptData as error:
                seen += 1
                assert name in str(error)  # noqa: PT017
                if len(damaged) == len(whole):
                    assert "pack the experiment again" in str(error)  # noqa: PT017
            else:  # what is not read may be anything
                assert "__fragments" not in name or "__fragment_metadata" in name
                same_bits(entries(path), expected)
        (path / name).write_bytes(whole)
    assert seen > 12
    same_bits(entries(path), expected)


def flipped(whole: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(whole))
    return whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]


def without_sums(path: Path) -> None:
    contents = json.loads((path / "pack.json").read_text())
    del contents["tables"]
    write_contents(path, contents)


def write_contents(path: Path, contents: dict) -> None:
    """pack.json, with the checksum that fits it."""
    contents.pop("checksum", None)
    text = json.dumps(contents, indent=1, sort_keys=True, ensure_ascii=False)
    contents["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "pack.json").write_text(json.dumps(contents))


def test_a_damaged_table_gets_no_checksum_that_fits_it(growing: Path, tmp_path: Path) -> None:
    """By packing the pack."""
    path = tmp_path / "pack"
    ps.pack(growing, path)
    same_bits(entries(ps.pack(path, tmp_path / "again")), entries(path))
    rng = random.Random(5)
    files = (path / "obs" / "__fragments").rglob("*.tdb")
    columns = [each for each in sorted(files) if "metadata" not in each.name]
    assert columns
    for column in columns:
        whole = column.read_bytes()
        column.write_bytes(flipped(whole, rng))
        with pytest.raises(ps.CorruptData, match="checksum does not fit"):
            ps.pack(path, tmp_path / "third")
        column.write_bytes(whole)


def test_a_pack_that_is_exchanged_after_it_was_opened(growing: Path, tmp_path: Path) -> None:
    """Its obs is none of the other's."""
    path = tmp_path / "pack"
    ps.pack(growing, path)
    opened = ps.open(path)
    _, ids = write_random(tmp_path / "other", 3)
    ps.pack(tmp_path / "other", path, overwrite=True)
    with pytest.raises(ps.CorruptData, match="replaced since it was opened"):
        opened.obs.to_pandas()
    assert len(ps.open(path).obs) == len(ids)


def test_packs_without_checksums_of_tables_are_read(growing: Path, tmp_path: Path) -> None:
    """Those that were packed before there were any."""
    path = tmp_path / "pack"
    expected = entries(ps.pack(growing, path))
    without_sums(path)
    same_bits(entries(path), expected)
    assert ps.pack(growing, path).n_obs == 3_000  # whole as it is


def test_every_flipped_bit_of_the_contents_is_seen(growing: Path, tmp_path: Path) -> None:
    ps.pack(growing, tmp_path / "pack", obs_query=ps.AxisQuery(coords=([3, 70, 71, 900],)))
    contents = tmp_path / "pack" / "pack.json"
    whole = contents.read_bytes()
    rng = random.Random(2)
    for place in range(len(whole) - 1):  # but of the line's end
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        contents.write_bytes(damaged)
        with pytest.raises((ps.CorruptData, ps.Unsupported), match=r"pack\.json"):
            ps.open(tmp_path / "pack")
    contents.write_bytes(whole)
    assert ps.open(tmp_path / "pack").n_obs == 4


def with_empty_commits(path: Path) -> list[str]:
    """What packs were until their empty files got a line; returns the names of the empty files."""
    contents = json.loads((path / "pack.json").read_text())
    commits = [name for name in contents["tables"] if name.endswith(".wrt")]
    for name in commits:
        (path / name).write_bytes(b"")
        contents["tables"][name] = [0, 0]
    write_contents(path, contents)
    return commits


@pytest.mark.parametrize("made", ["now", "before"])
def test_every_listed_file_must_be_there(growing: Path, tmp_path: Path, made: str) -> None:
    """A commit that is missing would be cells that are missing, without a word."""
    path = tmp_path / "pack"
    expected = entries(ps.pack(growing, path))
    if made == "before":
        assert with_empty_commits(path)
        same_bits(entries(path), expected)
    tables = json.loads((path / "pack.json").read_text())["tables"]
    assert any(name.startswith("obs/__commits/") for name in tables)
    assert any(name.startswith("ms/RNA/var/__commits/") for name in tables)
    rows = [str(each.relative_to(path)) for each in path.rglob("*.rows")]
    for name in [*tables, *rows]:
        whole = (path / name).read_bytes()
        (path / name).unlink()
        with pytest.raises(ps.CorruptData, match=re.escape(name)) as error:
            ps.open(path)
        assert "is missing; copy the pack again with all its files" in str(error.value)
        (path / name).write_bytes(whole)
    for folder in ("obs/__commits", "ms/RNA/var"):
        shutil.move(path / folder, tmp_path / "away")
        with pytest.raises(ps.CorruptData, match=f"is missing.*{folder}"):
            ps.open(path)
        shutil.move(tmp_path / "away", path / folder)
    same_bits(entries(path), expected)


@pytest.mark.parametrize("table", ["obs", "ms/RNA/var"])
def test_a_file_that_goes_after_the_pack_was_opened_is_missed(
    growing: Path, tmp_path: Path, table: str
) -> None:
    path = tmp_path / "pack"
    ps.pack(growing, path)
    opened = ps.open(path)
    (commit, *_) = (path / table / "__commits").iterdir()
    commit.unlink()
    with pytest.raises(ps.CorruptData, match=f"is gone.*open it again.*{commit.name}"):
        entries(opened)


def test_a_copy_that_leaves_out_empty_files_is_whole(growing: Path, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    expected = entries(ps.pack(growing, path))
    assert [each for each in growing.rglob("*") if each.is_file() and not each.stat().st_size]
    copy = tmp_path / "copy"
    for file in path.rglob("*"):
        if file.is_file() and file.stat().st_size:
            target = copy / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    same_bits(entries(copy), expected)
    for table in ("obs", "ms/RNA/var"):  # and TileDB reads what is in it
        with (
            tiledbsoma.open(str(copy / table)) as copied,
            tiledbsoma.open(str(growing / table)) as source,
        ):
            assert copied.read().concat() == source.read().concat()
    same_bits(entries(ps.pack(copy, tmp_path / "again")), expected)


def test_names_that_are_no_text_are_not_packed(growing: Path, tmp_path: Path) -> None:
    """pack.json could not list them."""
    odd = os.path.join(os.fsencode(growing / "obs" / "__meta"), b"caf\xe9")  # noqa: PTH118
    with open(odd, "wb") as file:  # noqa: PTH123
        file.write(b"x")
    with pytest.raises(ps.CorruptData, match=r"not UTF-8: 'caf\\xe9', below .*__meta"):
        ps.pack(growing, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()
