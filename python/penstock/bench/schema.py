"""The columns of a row, in order, with their Arrow types.

The first 31 columns have the names and meanings of ``notebooks/data-loader/epochs.parquet`` in
TileDB-Inc/arrayloader-benchmarks (commit 100b4fe), so that rows of both can be plotted together.
`max_mem` is the peak USS of the process, as there, but with its children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ALB_COLUMNS: dict[str, str] = {
    "start_dt": "timestamp[us]",
    "epoch": "int64",
    "n_rows": "int64",
    "n_cols": "int64",
    "elapsed": "double",
    "gc": "double",
    "max_mem": "int64",
    "alb_start_dt": "timestamp[us]",
    "sha": "string",
    "user": "string",
    "hostname": "string",
    "uri": "string",
    "chunk_method": "string",
    "batch_size": "int64",
    "chunk_size": "int64",
    "chunks_per_block": "int64",
    "py_buffer_size": "int64",
    "soma_buffer_size": "int64",
    "block_size": "int64",
    "instance_id": "string",
    "instance_type": "string",
    "sorted_datasets": "bool",
    "host": "string",
    "collection_id": "string",
    "census_uri": "string",
    "census_version": "string",
    "start_idx": "int64",
    "end_idx": "int64",
    "max_batches": "int64",
    "total_rows": "int64",
    "end_dt": "timestamp[us]",
}
"""One row an epoch; `elapsed` and `gc` in seconds, times in UTC, sizes in bytes."""

OUR_COLUMNS: dict[str, str] = {
    "command": "string",
    "round": "int64",
    "contestant": "string",
    "status": "string",
    "error": "string",
    "oom": "bool",
    "method": "string",
    "source_kind": "string",
    "source": "string",
    "sparse": "bool",
    "format": "string",
    "memory_budget": "string",
    "threads": "int64",
    "seed": "int64",
    "obs_filter": "string",
    "n_vars": "int64",
    "gc_freq": "int64",
    "device": "string",
    "memory_limit": "int64",
    "cache": "string",
    "cache_resident": "double",
    "first_batch_included": "bool",
    "whole_epoch": "bool",
    "n_batches": "int64",
    "total_n_rows": "int64",
    "n_nonzeros": "int64",
    "joinid_sum": "int64",
    "cells_per_second": "double",
    "epoch_cells_per_second": "double",
    "import_seconds": "double",
    "open_seconds": "double",
    "first_batch_seconds": "double",
    "epoch_seconds": "double",
    "copy_seconds": "double",
    "batch_p50": "double",
    "batch_p99": "double",
    "batch_max": "double",
    "slowest_tenth_share": "double",
    "batch_quantiles": "string",
    "cpu_seconds": "double",
    "system_seconds": "double",
    "bytes_read": "int64",
    "disk_bytes_read": "int64",
    "peak_uss": "int64",
    "peak_pss": "int64",
    "peak_rss": "int64",
    "peak_tree_rss": "int64",
    "imports_rss": "int64",
    "n_processes": "int64",
    "memory_samples": "int64",
    "memory_over_time": "string",
    "shuffle_label": "string",
    "shuffle_share": "double",
    "shuffle_entropy": "double",
    "load_average": "double",
    "cpu": "string",
    "cores": "int64",
    "memory_bytes": "int64",
    "system": "string",
    "versions": "string",
    "statistics": "string",
}
"""`versions` and `statistics` are JSON objects, `batch_quantiles` and `memory_over_time` JSON lists;
docs/reference/benchmarks.md says what each column is."""

COLUMNS = {**ALB_COLUMNS, **OUR_COLUMNS}


def schema() -> pa.Schema:
    """Return the Arrow schema of a file without columns of the user."""
    import pyarrow as pa

    types = {"timestamp[us]": pa.timestamp("us"), "int64": pa.int64(), "double": pa.float64(),
             "string": pa.string(), "bool": pa.bool_()}  # fmt: skip
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
