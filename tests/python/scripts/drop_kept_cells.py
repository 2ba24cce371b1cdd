"""Resident bytes before, after two epochs, after fifty more, and after the dataset is dropped."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import penstock as ps


def resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def read(ds: ps.Dataset) -> None:
    for _ in ds:
        pass


warm = ps.Dataset(sys.argv[1], sparse=True, keep=False, memory_budget="256MiB")
read(warm)
del warm
gc.collect()
before = resident()
ds = ps.Dataset(sys.argv[1], sparse=True, memory_budget="256MiB")
read(ds)
read(ds)
report = ds.shuffle_report("dataset_id")  # it outlives the dataset, and holds no cells
kept = resident()
for _ in range(50):
    read(ds)
flat = resident()
kept_bytes = ds.stats.kept_bytes
del ds
gc.collect()
after = resident()
report.budget_for(0.5)
print(before, kept, flat, after, kept_bytes)
