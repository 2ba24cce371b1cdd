"""digests.py: prints SHA-256 of batches and of packed rows of the cells in the package. Needs numpy alone."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import penstock as ps

SETTINGS: list[dict[str, Any]] = [
    {},
    {"shuffle": "global"},
    {"transforms": [ps.NormalizeTotal(), ps.Log1p()]},
    {"shuffle": False, "dtype": "float64"},
]


def main(folder: Path) -> None:
    for name in ("pbmc3k", "census-like"):
        path = ps.example(name, folder=folder)
        for number, settings in enumerate(SETTINGS):
            digest = hashlib.sha256()
            for X, obs in ps.Dataset(path, seed=3, **settings):
                digest.update(X.tobytes())
                digest.update(obs["soma_joinid"].tobytes())
            print(name, number, digest.hexdigest())
        pack = folder / f"{name}.pack"
        ps.pack(path, pack)
        digest = hashlib.sha256()
        for file in sorted(pack.rglob("*.rows")):
            digest.update(file.read_bytes())
        print(name, "pack", digest.hexdigest())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
