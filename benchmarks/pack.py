"""Size and speed of packs: what they take on disk, to write, and to read.

python benchmarks/pack.py [--path EXPERIMENT] [--keep PACK] [--repeats 3]

EXPERIMENT defaults to benchmarks/.data/census-65k. It is packed under a temporary name beside it, unless
--keep names a pack, which is then made once. Both are read with the default settings: CSR,
batches of 128, shuffled; the page cache warm, and cold as far as a process without privileges can
make it (posix_fadvise DONTNEED on the row files, after a sync). Every figure is of a process of its
own; cells/s are the median and the range, from opening to the last batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock.base.text import markdown_table
from penstock.bench.measuring import page_cache
from spread import spread

READ = """
import json, sys, time
import penstock as ps
settings = json.loads(sys.argv[2])
begin = time.perf_counter()
ds = ps.Dataset(sys.argv[1], sparse=True, batch_size=128, **settings)
cells = nonzeros = 0
for X, _ in ds:
    cells += X.shape[0]
    nonzeros += X.nnz
seconds = time.perf_counter() - begin
print(json.dumps([cells, nonzeros, seconds]))
"""


def read(path: Path, repeats: int, cold: bool = False, **settings: object) -> str:
    """Cells/s of epochs, each in a process of its own."""
    speeds = []
    for _ in range(repeats):
        page_cache.prepare("cold" if cold else "warm", path)
        done = subprocess.run(
            [sys.executable, "-c", READ, str(path), json.dumps(settings)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        cells, _, seconds = json.loads(done.stdout)
        speeds.append(cells / seconds)
    return spread(speeds)


def write(source: Path, destination: Path) -> None:
    """Pack, and say how fast."""
    import penstock as ps

    begin = time.perf_counter()
    packed = ps.pack(source, destination)
    seconds = time.perf_counter() - begin
    print(
        f"packed {packed.n_obs:,} cells in {seconds:.1f} s, {packed.n_obs / seconds:,.0f} cells/s"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    data = Path(__file__).resolve().parent / ".data"
    parser.add_argument("--path", type=Path, default=data / "census-65k")
    parser.add_argument("--keep", type=Path, help="a pack to make once and use again")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-global", action="store_true", help="leave shuffle='global' out")
    parsed = parser.parse_args()

    import penstock as ps

    source = ps.open(parsed.path)
    with tempfile.TemporaryDirectory(dir=parsed.path.parent) as folder:
        pack = parsed.keep or Path(folder) / "pack"
        if not pack.exists():
            write(parsed.path, pack)
        matrix, packed = source.x(), ps.open(pack).x()
        nonzeros = matrix.stored_cells()
        print(
            f"X takes {packed.stored_bytes / nonzeros:.3f} bytes a non-zero, "
            f"{matrix.stored_bytes / nonzeros:.3f} in its source "
            f"({packed.stored_bytes / matrix.stored_bytes:.1%})"
        )
        cases: list[tuple[str, Path, dict[str, object]]] = [
            ("source, scatter shuffle", parsed.path, {"shuffle": True}),
            ("pack, scatter shuffle", pack, {"shuffle": True}),
            ("pack, in order", pack, {"shuffle": False}),
        ]
        if not parsed.no_global:
            cases.append(("pack, shuffle='global'", pack, {"shuffle": "global"}))
        rows = []
        for name, path, settings in cases:
            speeds = (read(path, parsed.repeats, cold, **settings) for cold in (False, True))
            rows.append((name, *speeds))
        print(markdown_table(("read", "cells/s, warm", "cold"), rows))


if __name__ == "__main__":
    main()
