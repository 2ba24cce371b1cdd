"""Bytes that Penstock reads from experiments that tiledbsoma wrote with different tile extents.

python benchmarks/tile_extents.py [--cells 32768] [--genes 20000]

No speed is measured. The table has the size of X, and the bytes that are read for all cells, for 2,000 cells beside one
another, for 100 cells at random, and for 2,000 genes beside one another.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import tiledbsoma.io
from penstock.base.text import markdown_table
from penstock.synthetic import make_experiment


def created_with(rows: int, genes: int, capacity: int = 100_000, **more: Any) -> dict[str, Any]:
    """Return tiledbsoma's platform_config for X with these extents."""
    zstd = {"_type": "ZstdFilter", "level": 9}
    create = {
        "capacity": capacity,
        "dims": {
            "soma_dim_0": {"tile": rows, "filters": [zstd]},
            "soma_dim_1": {"tile": genes, "filters": ["ByteShuffleFilter", zstd]},
        },
        "attrs": {"soma_data": {"filters": ["ByteShuffleFilter", zstd]}},
        "cell_order": "row-major",
        "tile_order": "row-major",
        **more,
    }
    return {"tiledb": {"create": create}}


def variants(genes: int) -> dict[str, dict[str, Any] | None]:
    """Return names and settings; None are tiledbsoma's defaults."""
    return {
        "tiledbsoma.io's defaults": None,
        "2,048 x 2,048, as the Census": created_with(2_048, 2_048, 65_536),
        "2,048 x all genes": created_with(2_048, genes),
        "64 x all genes": created_with(64, genes),
        "16,384 x all genes": created_with(16_384, genes),
        "2,048 x 2,048, column-major": created_with(2_048, 2_048, cell_order="column-major"),
        "2,048 x all genes, capacity 1,000,000": created_with(2_048, genes, 1_000_000),
    }


def read(path: Path, **selection: Any) -> str:
    """Return the MB that an epoch reads."""
    ds = ps.Dataset(path, sparse=True, keep=False, memory_budget="256MiB", **selection)
    for _ in ds:
        pass
    return f"{ds.stats.bytes_read / 1e6:,.1f}"


def main() -> None:
    """Write, read and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=32_768)
    parser.add_argument("--genes", type=int, default=20_000)
    parsed = parser.parse_args()
    some = np.sort(np.random.default_rng(0).choice(parsed.cells, 100, replace=False))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        make_experiment(source, n_cells=parsed.cells, n_genes=parsed.genes, mean_genes_per_cell=600)
        adata = ps.Dataset(source).to_anndata(max_size="8GiB")
        for number, (name, config) in enumerate(variants(parsed.genes).items()):
            path = Path(folder) / str(number)
            tiledbsoma.io.from_anndata(
                str(path), adata, measurement_name="RNA", X_layer_name="raw", platform_config=config
            )
            size = sum(each.stat().st_size for each in (path / "ms/RNA/X/raw").rglob("*.tdb"))
            rows.append([
                name,
                f"{size / 1e6:,.1f}",
                read(path),
                read(path, obs_query=ps.AxisQuery(coords=(slice(6_000, 7_999),))),
                read(path, obs_query=ps.AxisQuery(coords=(some,))),
                read(path, var_query=ps.AxisQuery(coords=(slice(0, 1_999),))),
            ])  # fmt: skip
            print(rows[-1], flush=True)
    head = ("tile extents (cells x genes)", "X, MB", "all cells, MB read", "2,000 cells beside one another",
            "100 cells at random", "2,000 genes beside one another")  # fmt: skip
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
