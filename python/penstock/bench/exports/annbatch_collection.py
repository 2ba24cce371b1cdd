"""annbatch's own pre-shuffled collection, made by annbatch from an h5ad file.

It runs in the environment that has annbatch, which need not have Penstock.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from penstock.bench.methods import METHODS
from penstock.bench.peers import interpreter
from penstock.errors import ResourceExhausted, Unsupported

# Everything at annbatch's defaults but the seed: chunks of 64 cells, shards of 1 GB, lz4.
_PROGRAM = """
import sys
import annbatch, anndata, h5py, numpy
source, target, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])

def load(path):
    file = h5py.File(path, "r")
    obs = anndata.io.read_elem(file["obs"])
    x = anndata.experimental.read_elem_lazy(file["X"])
    return anndata.AnnData(X=x, obs=obs, var=anndata.io.read_elem(file["var"]))

annbatch.DatasetCollection(target, mode="a").add_adatas(
    [source], load_adata=load, rng=numpy.random.default_rng(seed))
"""


def write_annbatch(h5ad: Path, target: Path, seed: int = 0) -> None:
    """Write the collection, a folder that must end in ``.zarr``, whole or not at all.

    Raises
    ------
    ModuleNotFoundError
        annbatch is not installed anywhere; the message says how to get it.
    ResourceExhausted
        annbatch was killed, as a system does that is out of memory: it holds all cells.
    Unsupported
        It failed; with the end of what it said.
    """
    python = interpreter(METHODS["annbatch"])
    partial = target.with_name(f".partial.{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        done = subprocess.run(
            [python, "-c", _PROGRAM, str(h5ad), str(partial), str(seed)],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            if done.returncode == -signal.SIGKILL:
                raise ResourceExhausted(
                    "annbatch was killed while it made a collection: out of memory?"
                )
            raise Unsupported(f"annbatch could not make a collection: {done.stderr[-1500:]}")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
