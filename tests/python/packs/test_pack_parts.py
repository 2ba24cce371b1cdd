"""Packs made in parts are those made at once, byte for byte, whoever makes the parts and whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anndata
import engines
import numpy as np
import part_functions
import penstock as ps
import pytest
import scipy.sparse as sp
from packed_experiments import (
    contents,
    put_cells,
    row_files,
    write_growing,
    write_many_units,
    write_random,
)
from penstock import _core
from penstock.executors import PartFailed
from penstock.experiment.packs.pack import pack_part


def left_over(folder: Path) -> list[str]:
    return sorted(str(p) for p in folder.rglob("*") if p.suffix in {".tmp", ".partial"})


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many_units(tmp_path_factory.mktemp("parts"))


@pytest.mark.parametrize("seed", range(8))
def test_random_parts_in_any_order(seed: int, tmp_path: Path) -> None:
    """Some parts twice, and some not at all: the last command packs what is missing."""
    write_random(tmp_path / "source", seed)
    rng = random.Random(seed)
    rows = rng.choice([1, 7, 50, 1000])
    whole, parts = tmp_path / "whole.pack", tmp_path / "parts.pack"
    ps.pack(tmp_path / "source", whole, rows_per_file=rows)
    count = rng.randint(1, 12)
    done = 0
    for number in rng.choices(range(count), k=count):
        kept = pack_part(tmp_path / "source", parts, number, count, rows_per_file=rows)
        done += kept.rows_done - kept.rows_kept
    assert not parts.exists(), "parts do not finish a pack"
    packed = ps.pack(tmp_path / "source", parts, rows_per_file=rows)
    assert done <= packed.n_obs
    assert contents(parts) == contents(whole)
    assert not left_over(tmp_path)


@pytest.mark.parametrize("kind", engines.KINDS)
def test_on_an_executor(kind: str, cells: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"obs_query": "group != 3", "rows_per_file": 300}
    ps.pack(cells, tmp_path / "whole.pack", **options)
    seen: list[tuple[int, int, int]] = []
    with engines.made(kind) as executor:
        packed = ps.pack(
            cells, tmp_path / "parts.pack", **options, executor=executor,
            progress=lambda now: seen.append((now.rows_done, now.rows_total, now.rows_kept)),
        )  # fmt: skip
        again = ps.pack(cells, tmp_path / "parts.pack", **options, executor=executor)
    files = row_files(tmp_path / "parts.pack")
    assert len(seen) == len(files) > 3
    assert seen == sorted(seen)
    assert seen[-1] == (packed.n_obs * len(packed.layers("RNA")), seen[0][1], 0)
    assert seen[-1][0] == seen[-1][1]
    assert again.n_obs == packed.n_obs
    assert contents(tmp_path / "parts.pack") == contents(tmp_path / "whole.pack")
    assert not left_over(tmp_path)


@pytest.mark.parametrize("kind", ["processes", "loky", "dask"])
def test_a_worker_is_killed_while_it_writes(kind: str, cells: Path, tmp_path: Path) -> None:
    """Dask runs the part again. A pool is broken, and the same call resumes with a new one."""
    pack, marker = tmp_path / "parts.pack", tmp_path / "killed"
    watched = str(tmp_path / "parts.pack.partial")
    with engines.made(kind) as executor:
        killing = engines.Calling(
            executor, part_functions.killed_while_writing, str(marker), watched
        )
        if kind == "dask":
            ps.pack(cells, pack, rows_per_file=100, executor=killing)
        else:
            with pytest.raises(PartFailed, match=r"lost part \d+ of \d+ of .*parts\.pack"):
                ps.pack(cells, pack, rows_per_file=100, executor=killing)
            assert not pack.exists()
    assert marker.exists(), "a worker was killed"
    if kind != "dask":
        with engines.made(kind) as executor:
            ps.pack(cells, pack, rows_per_file=100, executor=executor)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=100)
    assert contents(pack) == contents(tmp_path / "whole.pack")
    assert not left_over(tmp_path)


DRIVER = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import penstock as ps
if __name__ == "__main__":
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        ps.pack(sys.argv[1], sys.argv[2], rows_per_file=20, executor=executor,
                progress=lambda now: print(now.rows_done, flush=True))
"""


def test_the_caller_is_killed(cells: Path, tmp_path: Path) -> None:
    """The same call then resumes, also beside workers that do not know of it yet."""
    pack = tmp_path / "parts.pack"
    (tmp_path / "driver.py").write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, tmp_path / "driver.py", cells, pack],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert driver.stdout is not None
    try:
        first = int(driver.stdout.readline())
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
        assert not pack.exists()
        assert row_files(tmp_path / "parts.pack.partial")
        seen: list[int] = []
        with engines.made("processes") as executor:
            ps.pack(
                cells, pack, rows_per_file=20, executor=executor,
                progress=lambda now: seen.append(now.rows_kept),
            )  # fmt: skip
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # a pool's workers outlive its process
    assert seen[-1] >= first > 0, "its files were kept"
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=20)
    assert contents(pack) == contents(tmp_path / "whole.pack")
    assert not left_over(tmp_path)


def packer(source: ps.Experiment, pack: Path, part: tuple[int, int, bool] | None) -> _core.Packer:
    return _core.Packer(source.engine, str(pack), None, [], [], False, 1, 1000, 1 << 30, part)


def half_written(pack: Path) -> list[Path]:
    return [path for path in pack.rglob("*.tmp") if ".rows." in path.name]


def test_a_part_that_runs_on_after_the_end_leaves_nothing(cells: Path, tmp_path: Path) -> None:
    source, pack = ps.open(cells), tmp_path / "cells.pack"
    driver = packer(source, pack, None)
    driver.begin()
    late = packer(source, pack, (1, 3, True))
    while not half_written(tmp_path / "cells.pack.partial"):
        assert late.advance(0), "it is in the middle of a file"
    while driver.advance(1):
        pass
    assert pack.exists()
    assert not half_written(pack), "its file was removed"
    whole = contents(pack)
    with pytest.raises(ps.IoError, match=r"cells\.pack\.partial"):
        while late.advance(1):
            pass
    assert not left_over(tmp_path)
    assert contents(pack) == whole
    # One that begins only now has nothing to do, and makes no folder.
    for joins in (True, False):
        after = packer(source, pack, (2, 3, joins))
        assert not after.advance(1)
        assert after.progress().rows_kept == after.progress().rows_total
    del driver, late, after
    assert not left_over(tmp_path)
    shutil.rmtree(pack)
    with pytest.raises(ps.IoError, match="folder that this part of the pack belongs in is gone"):
        packer(source, pack, (2, 3, True))
    assert not left_over(tmp_path)


def test_two_copies_of_a_part_at_once(cells: Path, tmp_path: Path) -> None:
    source, pack = ps.open(cells), tmp_path / "cells.pack"
    copies = [packer(source, pack, (0, 2, False)) for _ in range(2)]
    both = 0
    while sum(copy.advance(0) for copy in copies):
        both = max(both, len(half_written(tmp_path / "cells.pack.partial")))
    assert both == 2, "both wrote at a time"
    del copies
    ps.pack(source, pack, rows_per_file=1000)
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=1000)
    assert contents(pack) == contents(tmp_path / "whole.pack")


def test_the_last_command_while_a_part_runs(cells: Path, tmp_path: Path) -> None:
    source, pack = ps.open(cells), tmp_path / "cells.pack"
    part = packer(source, pack, (0, 2, False))
    assert part.advance(0)
    with pytest.raises(ps.InvalidArgument, match="another process is packing there"):
        ps.pack(source, pack, rows_per_file=1000)
    other = packer(source, pack, (1, 2, False))
    for each in (part, other):
        while each.advance(1):
            pass
    del part, each, other
    kept: list[int] = []
    ps.pack(source, pack, rows_per_file=1000, progress=lambda now: kept.append(now.rows_kept))
    assert kept[-1] == 3_000 * len(source.layers("RNA"))


def test_parts_of_other_content(tmp_path: Path) -> None:
    path = write_growing(tmp_path / "source")
    pack_part(path, tmp_path / "a.pack", 0, 2, rows_per_file=500)
    refused = "a pack of other content was begun there"
    with pytest.raises(ps.InvalidArgument, match=refused):
        pack_part(path, tmp_path / "a.pack", 1, 2, rows_per_file=400)
    with pytest.raises(ps.InvalidArgument, match=refused):
        pack_part(path, tmp_path / "a.pack", 1, 2, rows_per_file=500, obs_query=[0, 1, 2])
    joining = packer(ps.open(path), tmp_path / "b.pack", None)
    joining.begin()
    put_cells(path, np.arange(3_000, 3_500))
    with pytest.raises(ps.InvalidArgument, match=refused):
        pack_part(path, tmp_path / "a.pack", 1, 2, rows_per_file=500)
    with pytest.raises(ps.InvalidArgument, match="the source was written to since"):
        packer(ps.open(path), tmp_path / "b.pack", (0, 2, True))
    del joining
    # The whole packs what is there now. What was begun stays for the same call again.
    assert ps.pack(path, tmp_path / "a.pack", rows_per_file=500).n_obs == 3_500
    there = sorted(each.name for each in tmp_path.iterdir())
    assert there == ["a.pack", "b.pack.partial", "source"]


def test_refused(cells: Path, tmp_path: Path) -> None:
    pack = tmp_path / "cells.pack"
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ps.Unsupported, match="in memory is packed by this process alone"):
            ps.pack(anndata.AnnData(sp.eye(9, format="csr")), pack, executor=executor)
        with pytest.raises(ps.InvalidArgument, match="parts must be"):
            ps.pack(cells, pack, executor=executor, parts=0)
    with pytest.raises(ps.InvalidArgument, match="give executor="):
        ps.pack(cells, pack, parts=2)
    with pytest.raises(ps.InvalidArgument, match="executor must have a submit method"):
        ps.pack(cells, pack, executor=2)  # type: ignore[arg-type]
    with pytest.raises(ps.InvalidArgument, match="rows_per_file must be"):
        ps.pack(cells, pack, rows_per_file=0)
    with pytest.raises(ps.InvalidArgument, match="number must be"):
        pack_part(cells, pack, 3, 3)
    with pytest.raises(ps.InvalidArgument, match="count must be"):
        pack_part(cells, pack, 0, 10**20)
    assert list(tmp_path.iterdir()) == []


def test_layers_by_genes(tmp_path: Path) -> None:
    """Each part reads all of such a layer, so their number must be given."""
    rng = np.random.default_rng(0)
    X = sp.random(500, 40, 0.2, "csc", np.float32, random_state=rng)
    anndata.AnnData(X).write_h5ad(tmp_path / "cells.h5ad")
    ps.pack(tmp_path / "cells.h5ad", tmp_path / "whole.pack", rows_per_file=60)
    with engines.made("processes") as executor:
        with pytest.raises(ps.InvalidArgument, match=r"stored by genes.*parts=; it has 9 files"):
            ps.pack(
                tmp_path / "cells.h5ad", tmp_path / "a.pack", rows_per_file=60, executor=executor
            )
        assert not (tmp_path / "a.pack.partial").exists()
        packed = ps.pack(
            tmp_path / "cells.h5ad", tmp_path / "a.pack", rows_per_file=60, executor=executor, parts=2,
        )  # fmt: skip
    assert contents(tmp_path / "a.pack") == contents(tmp_path / "whole.pack")
    assert (X.tocsr() != ps.Dataset(packed).to_anndata().X).nnz == 0


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "pack", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_the_command(cells: Path, tmp_path: Path) -> None:
    pack = tmp_path / "cells.pack"
    given = [cells, pack, "--rows-per-file", "200", "--obs-query", "group != 3"]
    running = [command(*given, "--part", f"{number}/3") for number in (3, 1)]
    for number, done in zip((3, 1), running, strict=True):
        assert done.returncode == 0, done.stderr
        assert f"part {number} of 3 is done: " in done.stdout
        assert "packed in" in done.stdout
    again = command(*given, "--part", "3/3")
    assert "had been packed before" in again.stdout
    assert "packed in" not in again.stdout
    whole = command(*given)
    assert whole.returncode == 0, whole.stderr
    assert "had been packed before" in whole.stdout
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=200, obs_query="group != 3")
    assert contents(pack) == contents(tmp_path / "whole.pack")
    for wrong in ("0/3", "4/3", "3", "a/b", "-1/3", "1/0", f"1/{10**20}"):
        done = command(*given, f"--part={wrong}")
        assert done.returncode == 2
        assert "a part is K/N, such as 3/16" in done.stderr


def test_a_part_that_runs_on_while_another_pack_is_made(cells: Path, tmp_path: Path) -> None:
    """Its caller was lost. It neither writes into the other pack's folder nor makes one."""
    source, pack = ps.open(cells), tmp_path / "cells.pack"
    lost = packer(source, pack, None)
    lost.begin()
    between, within = (packer(source, pack, (part, 3, True)) for part in (0, 1))
    assert within.advance(0), "it is in the middle of a file"
    lost.close()
    other = _core.Packer(source.engine, str(pack), None, [], [], True, 1, 999)
    other.begin()
    for late in (between, within):
        with pytest.raises(ps.IoError, match="is gone"):
            while late.advance(1):
                pass
    while other.advance(1):
        pass
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=999)
    assert contents(pack) == contents(tmp_path / "whole.pack")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cells.pack", "whole.pack"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_task_that_runs_again_after_the_end(cells: Path, tmp_path: Path, overwrite: bool) -> None:
    pack = tmp_path / "cells.pack"
    ps.pack(cells, pack)
    done = pack_part(cells, pack, 0, 2, overwrite=overwrite)
    assert done.rows_kept == done.rows_total
    assert [each.name for each in tmp_path.iterdir()] == ["cells.pack"]


def test_the_same_call_again_while_the_error_is_held(cells: Path, tmp_path: Path) -> None:
    """Also beside forked workers, which have the lock, too."""
    pack, marker = tmp_path / "cells.pack", tmp_path / "raised"
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        raising = engines.Calling(pool, part_functions.raising_once, str(marker))
        with pytest.raises(ps.NotFound) as held:
            ps.pack(cells, pack, rows_per_file=100, executor=raising)
        assert marker.exists()
        ps.pack(cells, pack, rows_per_file=100, executor=pool)
    assert "nothing" in str(held.value)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=100)
    assert contents(pack) == contents(tmp_path / "whole.pack")
