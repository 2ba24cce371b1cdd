"""A pack by mpi4py.futures, started by `mpirun -n 3 python -m mpi4py.futures`: mpi_pack_script.py PATH PACK [MARKER].

With a marker that does not exist, the first worker that writes is killed.
"""

from __future__ import annotations

import sys

from engines import Calling
from part_functions import killed_while_writing

if __name__ == "__main__":
    import penstock as ps
    from mpi4py.futures import MPIPoolExecutor

    path, pack, *marker = sys.argv[1:]
    with MPIPoolExecutor() as executor:
        given = (
            Calling(executor, killed_while_writing, marker[0], f"{pack}.partial")
            if marker
            else executor
        )
        kept = []
        ps.pack(
            path, pack, rows_per_file=100, executor=given,
            progress=lambda now: kept.append(now.rows_kept),
        )  # fmt: skip
        print("packed", kept[-1], flush=True)
