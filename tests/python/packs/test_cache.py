"""cache_dir: data is read once from the source, and damage to the folder is harmless."""

from __future__ import annotations

import os
import pickle
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, cache_in, collect, read_with_tiledbsoma, write_small_tiles

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many small units."""
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, 4_000, 100, per_cell=30)


def epoch(ds: Iterable, X: sp.csr_matrix) -> np.ndarray:
    """joinids in the order of an epoch, each cell compared with what it should be."""
    joinids = []
    for cells, obs in ds:
        assert (cells != X[obs["soma_joinid"]]).nnz == 0
        joinids.append(obs["soma_joinid"])
    return np.concatenate(joinids)


def dataset(source, cache: Path, **settings) -> ps.Dataset:
    """One that reads its cells from the cache in each epoch."""
    given = {**cache_in(cache), "sparse": True, "batch_size": 200, "keep": False}
    return ps.Dataset(source, **{**given, **settings})


def test_read_once(census_like: Oracle, tmp_path: Path) -> None:
    ds = dataset(census_like.path, tmp_path / "cache", shuffle="scatter")
    first = epoch(ds, census_like.X)
    assert ds.stats.bytes_read > 0
    assert ds.stats.cached_units == ds.stats.cached_bytes == 0
    for again in (
        ds,
        dataset(census_like.path, tmp_path / "cache", shuffle="scatter"),
        pickle.loads(pickle.dumps(ds)),
    ):
        assert sorted(epoch(again, census_like.X)) == sorted(first)
        assert again.stats.bytes_read == 0
        assert again.stats.cached_units == again.stats.units > 0
        assert 0 < again.stats.cached_bytes < census_like.X.nnz * 2
    # The order is that of the first epoch, wherever cells come from.
    for cache in ("cache", "other"):
        same = dataset(census_like.path, tmp_path / cache, shuffle="scatter")
        assert (epoch(same, census_like.X) == first).all()


def test_other_genes_and_cells(census_like: Oracle, tmp_path: Path) -> None:
    half = dataset(census_like.path, tmp_path / "cache", obs_query="soma_joinid < 3000")
    epoch(half, census_like.X)
    genes = "soma_joinid >= 7 and soma_joinid < 600"
    some = dataset(
        census_like.path, tmp_path / "cache", obs_query="soma_joinid < 2000", var_query=genes,
        memory_budget="64MiB",
    )  # fmt: skip
    for X, obs in some:
        assert (census_like.X[obs["soma_joinid"], 7:600] != X).nnz == 0
    assert some.stats.bytes_read == 0
    whole = dataset(census_like.path, tmp_path / "cache")
    assert len(epoch(whole, census_like.X)) == 6_000
    assert whole.stats.bytes_read > 0
    epoch(whole, census_like.X)
    assert whole.stats.bytes_read == 0
    train, val = whole.random_split(0.7, 0.3, seed=1)
    assert len(epoch(train, census_like.X)) + len(epoch(val, census_like.X)) == 6_000
    assert train.stats.bytes_read == val.stats.bytes_read == 0


def test_workers_and_ranks(census_like: Oracle, tmp_path: Path) -> None:
    settings = {"uneven": "exact", "memory_budget": "256MiB"}
    ranks = [
        dataset(census_like.path, tmp_path / "cache", rank=rank, world_size=2, **settings)
        for rank in range(2)
    ]
    seen = np.concatenate([epoch(ds, census_like.X) for ds in ranks])
    assert sorted(seen) == list(range(6_000))
    loaded = dataset(census_like.path, tmp_path / "cache", format="torch", uneven="exact")
    cells = sum(X.shape[0] for X, _ in ps.dataloader(loaded, num_workers=2))
    assert cells == 6_000
    ds = dataset(census_like.path, tmp_path / "cache")
    epoch(ds, census_like.X)
    epoch(ds, census_like.X)
    assert ds.stats.bytes_read == 0


def test_joined(pbmc3k: Oracle, census_like: Oracle, tmp_path: Path) -> None:
    joined = ps.join({"a": census_like.path, "b": census_like.path})
    ds = dataset(joined, tmp_path / "cache")
    assert sum(X.shape[0] for X, _ in ds) == 12_000
    assert ds.stats.bytes_read > 0
    assert sum(X.shape[0] for X, _ in ds) == 12_000
    assert ds.stats.bytes_read == 0


def test_what_is_written_later_is_read(pbmc3k: Oracle, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(pbmc3k.path, source)
    epoch(dataset(source, tmp_path / "cache"), pbmc3k.X)
    ds = dataset(source, tmp_path / "cache")
    epoch(ds, pbmc3k.X)
    assert ds.stats.bytes_read == 0
    changed = pbmc3k.X.tolil()
    changed[100, 7] = 99
    with tiledbsoma.open(str(source), "w") as experiment:
        layer = experiment.ms["RNA"].X["raw"]
        more = sp.coo_matrix(([99], ([100], [7])), shape=layer.shape, dtype=pbmc3k.X.dtype)
        layer.write(pa.SparseCOOTensor.from_scipy(more))
    ds = dataset(source, tmp_path / "cache")
    epoch(ds, changed.tocsr())
    assert ds.stats.bytes_read > 0
    # A copy elsewhere is the same content.
    shutil.copytree(source, tmp_path / "copy")
    ds = dataset(tmp_path / "copy", tmp_path / "cache")
    epoch(ds, changed.tocsr())
    assert ds.stats.bytes_read == 0


def kept(cache: Path) -> list[Path]:
    """The files of cells, beside what says how much they are."""
    files = (path for path in cache.rglob("*") if path.is_file())
    return sorted(path for path in files if path.name != ".penstock-room")


def test_damage_and_loss(census_like: Oracle, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    epoch(dataset(census_like.path, cache), census_like.X)
    rng = random.Random(1)
    for round in range(12):
        file = rng.choice(kept(cache))
        whole = bytearray(file.read_bytes())
        if round % 3 == 0:
            file.unlink()
        elif round % 3 == 1:
            whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            file.write_bytes(whole)
        else:
            file.write_bytes(whole[: rng.randrange(len(whole))])
        ds = dataset(census_like.path, cache, memory_budget=rng.choice(["64MiB", "1GiB"]))
        assert len(epoch(ds, census_like.X)) == 6_000
        epoch(ds, census_like.X)
        assert ds.stats.bytes_read == 0


READ = """
import sys
import penstock as ps
ds = ps.Dataset(
    sys.argv[1], cache_dir=sys.argv[2], cache_bytes=int(sys.argv[5]), sparse=True,
    seed=int(sys.argv[3]),
)
print("ready", flush=True)
total = 0
for _ in range(int(sys.argv[4])):
    for X, obs in ds:
        total += float(X.sum())
print(total, ds.stats.bytes_read)
"""


def reader(source: Path, cache: Path, seed: int, epochs: int = 1, limit: int = 2**30, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-c", READ, *map(str, (source, cache, seed, epochs, limit))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs,
    )  # fmt: skip


READ_SLOWLY = """
import sys, time
import penstock as ps
ds = ps.Dataset(
    sys.argv[1], cache_dir=sys.argv[2], cache_bytes="1GiB", sparse=True, batch_size=50, threads=1,
    memory_budget="600KB",
)
print("ready", flush=True)
for _ in ds:
    time.sleep(0.01)
"""


def test_killed_at_any_point(tiled: Path, tmp_path: Path) -> None:
    """Some kills come while nothing is kept, most when a part is, in the midst of the next one."""
    X = read_with_tiledbsoma(tiled).X
    units = len(ps.open(tiled).x("RNA", "raw").units())
    assert units > 20
    rng = random.Random(2)
    parts = []
    for round in range(8):
        cache = tmp_path / f"cache{round}"
        for half in range(2):  # the second starts with what the first has kept
            enough = rng.randrange(units // 2) + half * units // 3
            process = subprocess.Popen(
                [sys.executable, "-c", READ_SLOWLY, str(tiled), str(cache)],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            process.stdout.readline()
            while process.poll() is None and len(rows_kept(cache)) < enough:
                pass
            time.sleep(rng.random() * 0.005)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            parts.append(len(rows_kept(cache)))
        ds = dataset(tiled, cache, shuffle="scatter")
        assert sorted(epoch(ds, X)) == list(range(4_000))
        assert ds.stats.cached_units == parts[-1]  # all are whole, and used
        assert (ds.stats.bytes_read > 0) == (parts[-1] < units)
        epoch(ds, X)
        assert ds.stats.bytes_read == 0
    assert sum(0 < part < units for part in parts) >= 4, parts


def rows_kept(cache: Path) -> list[str]:
    """While others make folders that go again."""
    names = (name for _, _, names in os.walk(cache) for name in names)
    return [name for name in names if name.endswith(".rows")]


READ_TOGETHER = """
import sys, time
from pathlib import Path
import numpy as np
import penstock as ps
import scipy.sparse as sp

source, cache, here, number = sys.argv[1:]
here = Path(here)

def meet(name):
    (here / f"{name}-{number}").touch()
    while not all((here / f"{name}-{other}").exists() for other in range(2)):
        time.sleep(0.001)

ds = ps.Dataset(
    source, cache_dir=cache, cache_bytes="1GiB", sparse=True, batch_size=200, seed=int(number)
)
meet("ready")
for epoch in range(2):
    parts, joinids = [], []
    for X, obs in ds:
        if not parts:
            meet(f"within{epoch}")  # both have begun, and none has ended
        parts.append(X)
        joinids.append(obs["soma_joinid"])
    sp.save_npz(here / f"X-{epoch}-{number}.npz", sp.vstack(parts, "csr"))
    np.save(here / f"joinids-{epoch}-{number}.npy", np.concatenate(joinids))
    print(ds.stats.bytes_read)
"""


def read_together(cells: Oracle, folder: Path) -> list[int]:
    """Two processes fill one cache; the bytes that each read in the first epoch."""
    folder.mkdir()
    cache = folder / "cache"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", READ_TOGETHER,
             *map(str, (cells.path, cache, folder, number))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    firsts = []
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        first, second = map(int, out.split())
        firsts.append(first)
        assert second == 0
        for epoch in range(2):
            joinids = np.load(folder / f"joinids-{epoch}-{number}.npy")
            assert sorted(joinids) == list(range(6_000))
            X = sp.load_npz(folder / f"X-{epoch}-{number}.npz")
            assert (cells.X[joinids] != X).nnz == 0
    units = {path.parent for path in kept(cache)}
    assert len(kept(cache)) == len(units)
    return firsts


def test_two_processes_at_once(census_like: Oracle, tmp_path: Path) -> None:
    """Each has read some of it, unless the system let one wait all that time: then again."""
    tries = (read_together(census_like, tmp_path / str(number)) for number in range(5))
    assert any(all(firsts) for firsts in tries)


@pytest.mark.filterwarnings("ignore:cache_bytes")
def test_within_its_limit(census_like: Oracle, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    epoch(dataset(census_like.path, cache), census_like.X)
    whole = sum(path.stat().st_size for path in kept(cache))
    shutil.rmtree(cache)
    limit = int(whole * 0.6)
    ds = dataset(census_like.path, cache, cache_bytes=limit)
    for _ in range(3):
        assert len(epoch(ds, census_like.X)) == 6_000
        assert sum(path.stat().st_size for path in kept(cache)) <= limit
    assert ds.stats.bytes_read > 0 or whole <= limit


def test_workers_stay_within_the_limit(tiled: Path, tmp_path: Path) -> None:
    _, X = collect(ps.Dataset(tiled, sparse=True, shuffle=False))
    collect(dataset(tiled, tmp_path / "whole"))
    whole = sum(path.stat().st_size for path in kept(tmp_path / "whole"))
    cache = tmp_path / "cache"
    for share in (8, 3):
        limit = whole // share
        ds = ps.Dataset(
            tiled, cache_dir=cache, cache_bytes=limit, batch_size=50, memory_budget="256MiB",
            format="torch",
        )  # fmt: skip
        for _ in range(2):
            seen = []
            for batch, obs in ps.dataloader(ds, num_workers=8):
                joinids = obs["soma_joinid"].numpy()
                assert (batch.numpy() == X[joinids]).all()
                seen.append(joinids)
            assert sorted(np.concatenate(seen)) == list(range(4_000))
            size = sum(path.stat().st_size for path in kept(cache))
            assert limit // 2 < size <= limit


def test_processes_stay_within_the_limit_though_killed(tiled: Path, tmp_path: Path) -> None:
    collect(dataset(tiled, tmp_path / "whole"))
    limit = sum(path.stat().st_size for path in kept(tmp_path / "whole")) // 3
    total = sum(float(X.sum()) for X, _ in ps.Dataset(tiled, sparse=True))
    cache = tmp_path / "cache"
    rng = random.Random(4)
    for round in range(4):
        processes = [reader(tiled, cache, seed, 2, limit) for seed in range(4)]
        for i, process in enumerate(processes):
            assert process.stdout is not None
            process.stdout.readline()
            if round < 3 and i % 2 == 0:
                time.sleep(rng.random() * 0.1)
                process.send_signal(signal.SIGKILL)
        for i, process in enumerate(processes):
            # communicate() would lose a second line that came along with the first.
            with process:
                assert process.stdout is not None
                assert process.stderr is not None
                out, err = process.stdout.read(), process.stderr.read()
            if round == 3 or i % 2 == 1:
                assert process.returncode == 0, err
                assert float(out.split()[0]) == pytest.approx(2 * total)
        assert sum(path.stat().st_size for path in cache.rglob("*.rows")) <= limit


def test_a_folder_that_cannot_be_written(census_like: Oracle, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    ds = dataset(census_like.path, tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="no longer kept in cache_dir") as caught:
        seen = [len(epoch(ds, census_like.X)) for _ in range(2)]
    assert seen == [6_000, 6_000]
    assert len(caught) == 1


def test_a_full_disk(census_like: Oracle, tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = reader(census_like.path, tmp_path / "cache", 1, preexec_fn=limit)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert float(out.split()[1]) == pytest.approx(census_like.X.sum())
    assert err.count("RuntimeWarning: cells are no longer kept in cache_dir") == 1
    assert not [path for path in kept(tmp_path / "cache") if path.suffix == ".tmp"]


@pytest.mark.parametrize("mode", [0o2770, 0o777, 0o1777, 0o700])
def test_what_is_made_is_for_those_of_the_folder(
    census_like: Oracle, tmp_path: Path, mode: int
) -> None:
    """Whatever the umask of who makes it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    if os.geteuid() == 0:
        os.chown(cache, -1, 12_345)
    cache.chmod(mode)
    for seed, mask in enumerate((0o077, 0)):
        process = reader(census_like.path, cache, seed, preexec_fn=lambda mask=mask: os.umask(mask))
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert not err
        made = [path for path in cache.rglob("*") if path.name != ".penstock-room"]
        assert made
        of_files = mode & (0o644 if mode & stat.S_ISVTX else 0o666)
        for path in made:
            found = path.stat()
            assert stat.S_IMODE(found.st_mode) == (of_files if path.is_file() else mode), path
            assert found.st_gid == cache.stat().st_gid
        shutil.rmtree(next(path for path in made if path.is_dir()))


def test_not_within_what_is_read(pbmc3k: Oracle, tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    for path in (source, other):
        shutil.copytree(pbmc3k.path, path)
    before = sorted(source.rglob("*"))
    (tmp_path / "link").symlink_to(source / "ms")
    for cache in (source, source / "cache", source / "ms/RNA/X/raw/a/b", tmp_path / "link" / "c"):
        for given in (source, f"file://{source}", ps.open(source)):
            with pytest.raises(ps.InvalidArgument, match=f"cache_dir lies within.*{source}"):
                ps.Dataset(given, cache_dir=cache)
        with pytest.raises(ps.InvalidArgument, match="cache_dir lies within"):
            ps.Dataset({"a": other, "b": source}, cache_dir=cache)
    assert sorted(source.rglob("*")) == before
    for cache in (tmp_path, tmp_path / "source-cache"):
        epoch(dataset(source, cache), pbmc3k.X)


def test_a_limit_below_what_is_kept_at_once(tiled: Path, tmp_path: Path) -> None:
    stored = [unit.stored_bytes for unit in ps.open(tiled).x("RNA", "raw").units()]
    assert len(set(stored)) > 1
    ds = ps.Dataset(tiled, sparse=True, cache_dir=tmp_path / "none", cache_bytes=min(stored) - 1)
    with pytest.warns(RuntimeWarning, match=f"too small to ever keep {len(stored)} of") as caught:
        _ = [collect(ds) for _ in range(2)]
    assert len(caught) == 1
    told = re.search(
        r"give ([\d.]+) KiB or more, about ([\d.]+) KiB for all", str(caught[0].message)
    )
    assert told
    for size, wanted in zip(told.groups(), (max(stored), sum(stored)), strict=True):
        assert 0 <= float(size) * 1024 - wanted < 103  # a tenth of a KiB, rounded up
    assert not kept(tmp_path / "none")
    workers = ps.Dataset(tiled, cache_dir=tmp_path / "none", cache_bytes=min(stored) - 1)
    loader = ps.dataloader(workers, num_workers=2)
    with pytest.warns(RuntimeWarning, match="too small to ever keep") as caught:
        _ = [sum(len(obs["soma_joinid"]) for _, obs in loader) for _ in range(2)]
    assert len([each for each in caught if "too small" in str(each.message)]) == 1
    some = ps.Dataset(tiled, cache_dir=tmp_path / "some", cache_bytes=max(stored) - 1)
    with pytest.warns(
        RuntimeWarning, match=f"too small to ever keep {stored.count(max(stored))} of"
    ):
        collect(some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for limit in (max(stored), "1GiB"):
            collect(ps.Dataset(tiled, cache_dir=tmp_path / "cache", cache_bytes=limit))


def test_arguments(census_like: Oracle, tmp_path: Path) -> None:
    for settings, match in (
        ({"cache_bytes": "1GiB"}, "give its cache_dir"),
        ({"cache_dir": ""}, "cache_dir"),
        ({"cache_dir": "s3://bucket/cache"}, "on this machine"),
        ({"cache_dir": 7}, "cache_dir"),
        ({"cache_dir": tmp_path, "cache_bytes": "much"}, "cache_bytes"),
    ):
        with pytest.raises(ps.InvalidArgument, match=match):
            ps.Dataset(census_like.path, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(epoch(dataset(str(census_like.path), tmp_path), census_like.X)) == 6_000
