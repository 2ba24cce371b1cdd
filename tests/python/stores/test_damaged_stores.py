"""Stores that are truncated, changed or removed."""

from __future__ import annotations

import shutil

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle, collect, write_small_tiles


def x_files(path) -> list:
    return [file for file in path.glob("ms/RNA/X/raw/__fragments/*/*") if file.stat().st_size]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_x_is_an_error(tmp_path, census_like: Oracle, share: float) -> None:
    for number, name in enumerate(sorted({file.name for file in x_files(census_like.path)})):
        path = tmp_path / f"copy{number}"
        shutil.copytree(census_like.path, path)
        file = next(file for file in x_files(path) if file.name == name)
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        with pytest.raises((ps.CorruptData, ps.IoError)) as error:
            list(ps.Dataset(path))
        assert file.parent.name in str(error.value) or name in str(error.value)
        shutil.rmtree(path)


def test_files_that_vanish_before_the_first_batch(tmp_path, soma_small: Oracle) -> None:
    path = tmp_path / "copy"
    shutil.copytree(soma_small.path, path)
    ds = ps.Dataset(path)
    iterator = iter(ds)
    shutil.rmtree(path / "ms")
    with pytest.raises((ps.IoError, ps.NotFound), match="copy"):
        next(iterator)
    assert list(iterator) == []
    with pytest.raises(ps.PenstockError):
        list(ds)


def test_files_that_vanish_while_reading(tmp_path) -> None:
    path = write_small_tiles(tmp_path / "experiment", n_obs=20_000, n_vars=64)
    ds = ps.Dataset(path, shuffle=False, memory_budget="8MiB", sparse=True, batch_size=16)
    iterator = iter(ds)
    next(iterator)
    shutil.rmtree(path / "ms")
    seen = 16
    with pytest.raises((ps.IoError, ps.NotFound)):
        for X, _ in iterator:
            seen += X.shape[0]
    assert seen < ds.n_obs
    assert list(iterator) == []


def test_flipped_bytes_never_crash(tmp_path, soma_small: Oracle) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "copy"
    shutil.copytree(soma_small.path, path)
    files = x_files(path)
    failures = 0
    before, X_before = collect(ps.Dataset(path, sparse=True))
    for _ in range(60):
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        position = rng.integers(len(content))
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            for X, obs in ps.Dataset(path, sparse=True):
                X.check_format(full_check=True)
                assert X.shape == (len(obs["soma_joinid"]), 400)
        except ps.PenstockError:
            failures += 1
        file.write_bytes(content)
    assert failures > 20
    after, X_after = collect(ps.Dataset(path, sparse=True))
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(X_before, X_after)


@pytest.mark.parametrize("checksum", ["ChecksumMD5Filter", "ChecksumSHA256Filter"])
def test_flipped_bytes_under_a_checksum_are_seen(tmp_path, checksum: str) -> None:
    """No cell that is handed over differs from what was stored."""
    path = write_small_tiles(tmp_path / "experiment", 200, 64, ["ZstdFilter", checksum])
    _, whole = collect(ps.Dataset(path, shuffle=False))
    assert np.count_nonzero(whole) > 1000
    rng = np.random.default_rng(0)
    failures = 0
    files = [file for file in x_files(path) if not file.name.startswith("__")]
    assert len(files) == 3
    for _ in range(40):
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            _, X = collect(ps.Dataset(path, shuffle=False))
            np.testing.assert_array_equal(X, whole)
        except ps.CorruptData:
            failures += 1
        file.write_bytes(content)
    assert failures > 35
