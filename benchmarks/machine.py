"""Facts of the machine, the page cache, and the files of an experiment."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def warm_page_cache(path: Path) -> int:
    """Read every file of the experiment once; returns the bytes."""
    total = 0
    buffer = bytearray(1 << 22)
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb", buffering=0) as handle:
                while n := handle.readinto(buffer):
                    total += n
    return total


def x_file_sizes(path: Path) -> tuple[int, int]:
    """Bytes of X/raw's data files and of its fragments' metadata, from the file system."""
    data = metadata = 0
    for file in (path / "ms" / "RNA" / "X" / "raw" / "__fragments").rglob("*.tdb"):
        size = file.stat().st_size
        if file.name == "__fragment_metadata.tdb":
            metadata += size
        else:
            data += size
    return data, metadata


def most_detected_genes(path: Path, n_genes: int, keep_at: Path) -> Path:
    """A .npy of the joinids of the genes with most non-zeros, ascending; made once."""
    if keep_at.exists():
        return keep_at
    import numpy as np
    import tiledbsoma

    with tiledbsoma.Experiment.open(str(path)) as experiment:
        columns = ["soma_joinid", "nnz"]
        var = experiment.ms["RNA"].var.read(column_names=columns).concat().to_pandas()
    chosen = var.sort_values("nnz", ascending=False).soma_joinid.to_numpy()[:n_genes]
    np.save(keep_at, np.sort(chosen).astype(np.int64))
    return keep_at
