"""Batches of an experiment in moto's S3, anonymous and signed, beside those of the same files on disk.

python benchmarks/remote_identical.py EXPERIMENT [--cells-of-units 0.01]

Not of speed (moto is Python): every array of every batch of an epoch is compared, and the bytes that a
filter reads which selects a share of the fetch units.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import penstock as ps

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
from remote_servers import BUCKET, authentication, s3_server, upload


def digest(source: Any) -> tuple[str, Any]:
    """Return the digest of all arrays of an epoch's batches in order, and the stats of reading."""
    ds = ps.Dataset(source, sparse=True, seed=1, obs_columns=["soma_joinid"])
    found = hashlib.sha256()
    for X, obs in ds:
        for array in (X.indptr, X.indices, X.data, obs["soma_joinid"]):
            found.update(memoryview(array).cast("B"))
    return found.hexdigest(), ds.stats


def main() -> None:
    """Print what was compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--cells-of-units", type=float, default=0.01)
    options = parser.parse_args()
    expected, stats = digest(options.experiment)
    print(f"{options.experiment.name}: {stats.cells:,} cells, {stats.units} units, {expected[:16]}")
    uri = f"s3://{BUCKET}/experiment"
    with s3_server() as endpoint:
        upload(endpoint, options.experiment, "experiment")
        remote = ps.open(uri, storage_options={"endpoint": endpoint, "anonymous": True})
        same, everything = digest(remote)
        assert same == expected
        print(f"anonymous: the same, {everything.requests:,} requests, "
              f"{everything.read_amplification:.3f} times the bytes needed")  # fmt: skip
        units = remote.x("RNA", "raw").units()
        count = max(1, round(options.cells_of_units * len(units)))
        first = len(units) // 2
        rows = slice(units[first].row_begin, units[first + count - 1].row_end - 1)
        some = ps.Dataset(remote, obs_query=ps.AxisQuery(coords=(rows,)), sparse=True)
        cells = sum(X.shape[0] for X, _ in some)
        share = some.stats.bytes_read / everything.bytes_read
        print(f"a filter of {count} of {len(units)} units ({count / len(units):.2%}), {cells:,} cells: "
              f"{some.stats.bytes_read:,} bytes, {share:.2%} of an epoch's, {some.stats.requests} requests")  # fmt: skip
        with authentication(endpoint) as (_, keys):
            same, _ = digest(ps.open(uri, storage_options={"endpoint": endpoint, **keys}))
        assert same == expected
        print("signed: the same")


if __name__ == "__main__":
    main()
