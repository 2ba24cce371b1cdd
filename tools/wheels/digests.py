"""digests.py [--all]: prints SHA-256 of what this interpreter's penstock makes of the cells in the package.

Two builds agree where their lines do. Without --all, numpy is enough.
"""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import penstock as ps

DENSE: list[dict[str, Any]] = [
    {},
    {"shuffle": "global"},
    {"transforms": [ps.NormalizeTotal(), ps.Log1p()]},
    {"shuffle": False, "dtype": "float64"},
]


def batches(path: str, **settings: Any) -> str:
    digest = hashlib.sha256()
    for X, obs in ps.Dataset(path, seed=3, **settings):
        arrays = [X.data, X.indices, X.indptr] if "sparse" in settings else [X]
        for array in (*arrays, obs["soma_joinid"]):
            digest.update(array.tobytes())
    return digest.hexdigest()


def packed(path: str, pack: Path, with_tables: bool) -> str:
    """Rows by their bytes. The bytes of tables depend on the version of zstd, so those by their values."""
    ps.pack(path, pack)
    digest = hashlib.sha256()
    for file in sorted(pack.rglob("*.rows")):
        digest.update(file.read_bytes())
    made = ps.open(pack)
    for table in (made.obs, made.var()) if with_tables else ():
        digest.update(table.to_pandas().to_csv().encode())
    return digest.hexdigest()


def main(folder: Path, everything: bool) -> None:
    for name in ("pbmc3k", "census-like"):
        for form in ("soma", "h5ad", "zarr") if everything else ("soma",):
            # A pack names the file that it was made of: --all reads the same files in every build.
            path = ps.example(name, format=form, folder=None if everything else folder)
            for number, settings in enumerate(DENSE):
                print(name, form, number, batches(path, **settings))
            print(name, form, "pack", packed(path, folder / f"{name}-{form}.pack", everything))
            if everything:
                print(name, form, "sparse", batches(path, sparse="csr", shuffle="global"))
                table = ps.gene_statistics(ps.Dataset(path))
                print(name, form, "statistics", hashlib.sha256(table.to_csv().encode()).hexdigest())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch), "--all" in sys.argv)
