"""Measures how fast a disk gives the rows of a pack in random order, without decoding them.

python benchmarks/cold_rows.py PACK/ms/RNA/X/raw/….rows [--rows 65536] [--ahead 1000] [--repeats 3]

The page cache is dropped before each run (as root). Rows are taken as pieces of equal length, announced with
posix_fadvise and read with pread by two processes, as the global shuffle reads them; then the same file from its beginning to its end.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def drop_page_cache() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def read_pieces(path: str, offsets: list[int], length: int, ahead: int) -> int:
    """Bytes read."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    total = 0
    for i, offset in enumerate(offsets):
        if i % ahead == 0 and ahead > 1:
            for each in offsets[i + ahead if i else 0 : i + 2 * ahead]:
                os.posix_fadvise(fd, each, length, os.POSIX_FADV_WILLNEED)
        total += len(os.pread(fd, length, offset))
    os.close(fd)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--ahead", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    path, size = str(options.file), options.file.stat().st_size
    length = size // options.rows
    for repeat in range(options.repeats):
        offsets = [row * length for row in range(options.rows)]
        random.Random(repeat).shuffle(offsets)
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(abs, range(2)))  # started
            drop_page_cache()
            begun = time.perf_counter()
            done = [
                pool.submit(read_pieces, path, offsets[half::2], length, options.ahead)
                for half in range(2)
            ]
            total = sum(each.result() for each in done)
            seconds = time.perf_counter() - begun
        print(
            f"random: {options.rows / seconds:,.0f} rows/s, {total / seconds / 1e6:.0f} MB/s of rows",
            flush=True,
        )
        drop_page_cache()
        begun = time.perf_counter()
        with options.file.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
        seconds = time.perf_counter() - begun
        print(f"in order: {options.rows / seconds:,.0f} rows/s, {size / seconds / 1e6:.0f} MB/s")


if __name__ == "__main__":
    main()
