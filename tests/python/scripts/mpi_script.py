"""Rows and statistics by mpi4py.futures: mpi_script.py PATH [kill].

It is started by `mpirun -n 3 python -m mpi4py.futures`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def totals(X: Any, obs: Any) -> Any:
    return X.sum(axis=1)


def kill(X: Any, obs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    import numpy as np
    import pandas as pd
    import penstock as ps
    from mpi4py.futures import MPIPoolExecutor
    from penstock.genes import chunks

    chunks.CHUNK_CELLS = 500
    ds = ps.Dataset(sys.argv[1], batch_size=100, threads=1)
    with MPIPoolExecutor() as executor:
        executor.bootup()
        print("workers", executor.num_workers, flush=True)
        function = kill if "kill" in sys.argv else totals
        rows = ps.map_batches(function, ds, executor=executor)
        found = ps.gene_statistics(ds, group_by="cell_type", executor=executor)
    same = np.array_equal(rows.values, ps.map_batches(totals, ds).values)
    print("same", same, len(rows))
    alone = ps.gene_statistics(ds, group_by="cell_type")
    pd.testing.assert_frame_equal(found, alone, check_exact=True)
    print("same statistics of", ds.n_obs)
