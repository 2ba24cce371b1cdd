"""Rows of measurements, ours and alb's, for the tests of this folder."""

from __future__ import annotations

import datetime

import pandas as pd

# The columns of alb's file as its repository has it (TileDB-Inc/arrayloader-benchmarks, 100b4fe).
ALB = [
    "start_dt",
    "epoch",
    "n_rows",
    "n_cols",
    "elapsed",
    "gc",
    "max_mem",
    "alb_start_dt",
    "sha",
    "user",
    "hostname",
    "uri",
    "chunk_method",
    "batch_size",
    "chunk_size",
    "chunks_per_block",
    "py_buffer_size",
    "soma_buffer_size",
    "block_size",
    "instance_id",
    "instance_type",
    "sorted_datasets",
    "host",
    "collection_id",
    "census_uri",
    "census_version",
    "start_idx",
    "end_idx",
    "max_batches",
    "total_rows",
    "end_dt",
]


def row(**more) -> dict:
    base = {
        "start_dt": datetime.datetime(2026, 1, 2, 3), "status": "ok", "oom": False, "epoch": 0,
        "method": "penstock", "cells_per_second": 1000.0, "max_mem": 2**30, "n_rows": 5000,
        "elapsed": 6.0, "gc": 1.0, "hostname": "one.example", "host": "one", "max_batches": 0,
    }  # fmt: skip
    return {**base, **more}


def alb_row(**more) -> dict:
    base = dict.fromkeys(ALB)
    base |= {"start_dt": pd.Timestamp("2024-06-23"), "n_rows": 4096, "elapsed": 5.0, "gc": 1.0,
             "max_mem": 2**31, "chunk_method": "np.array", "block_size": 131072,
             "chunks_per_block": 64, "chunk_size": 2048, "start_idx": 0, "end_idx": 138,
             "sorted_datasets": False, "max_batches": 4096, "instance_type": "g4dn.8xlarge",
             "hostname": "ip-1", "host": "tw5"}  # fmt: skip
    return {**base, **more}


def rounds(speeds: dict[str, list[float]], **more) -> list[dict]:
    return [
        row(contestant=name, round=i, epoch_cells_per_second=speed, cells_per_second=speed,
            peak_rss=int(1e6 * (1 + len(name))), whole_epoch=True, total_n_rows=10,
            first_batch_seconds=0.1, epoch_seconds=1.0, cpu_seconds=1.0, bytes_read=10, method=name.split()[0],
            error=None, **more)
        for name, values in speeds.items() for i, speed in enumerate(values)
    ]  # fmt: skip
