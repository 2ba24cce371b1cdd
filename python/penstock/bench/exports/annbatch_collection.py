"""annbatch's pre-shuffled collection, made by annbatch from an h5ad file.

The code runs in annbatch's environment, where Penstock may be missing.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from penstock.bench.methods import METHODS
from penstock.bench.peers import interpreter
from penstock.errors import ResourceExhausted, Unsupported

# annbatch's defaults, except for the seed: chunks of 64 cells, shards of 1 GB, lz4.
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
    """Write the complete collection, or nothing; the folder must end in ``.zarr``.

    Raises
    ------
    ModuleNotFoundError
        annbatch is not installed; the message says how to install it.
    ResourceExhausted
        annbatch was killed, probably for memory: it holds all cells.
    Unsupported
        annbatch failed; the message has the end of its output.
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
