"""same_results.py PYTHON: compares this interpreter's penstock with the one of PYTHON, bit for bit.

Both read the same cells, count them, and pack them. What differs is named, and the exit status is 1. PYTHON has a wheel, and this
interpreter a build by another compiler.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import penstock as ps


def digests(folder: Path) -> dict[str, str]:
    """Return SHA-256 of batches, statistics and packs by name; packs are made in the folder."""
    made = {}
    for name in ("pbmc3k", "census-like"):
        for form in ("soma", "h5ad", "zarr"):
            path = ps.example(name, format=form)
            kinds: dict[str, dict[str, Any]] = {
                "dense": {},
                "sparse": {"sparse": "csr", "shuffle": "global"},
                "log": {"transforms": [ps.NormalizeTotal(), ps.Log1p()]},
            }
            for kind, arguments in kinds.items():
                digest = hashlib.sha256()
                for X, obs in ps.Dataset(path, seed=3, **arguments):
                    arrays = [X] if kind != "sparse" else [X.data, X.indices, X.indptr]
                    for array in (*arrays, obs["soma_joinid"]):
                        digest.update(array.tobytes())
                made[f"{name} {form} {kind}"] = digest.hexdigest()
            pack = folder / f"{name}-{form}.pack"
            ps.pack(path, pack)
            # Rows by their bytes. The bytes of tables depend on the version of zstd, so those by their values.
            digest = hashlib.sha256()
            for file in sorted(pack.rglob("*.rows")):
                digest.update(file.relative_to(pack).as_posix().encode() + file.read_bytes())
            packed = ps.open(pack)
            for table in (packed.obs, packed.var()):
                digest.update(table.to_pandas().to_csv().encode())
            made[f"{name} {form} pack"] = digest.hexdigest()
        table = ps.gene_statistics(ps.Dataset(ps.example(name)))
        made[f"{name} statistics"] = hashlib.sha256(table.to_csv().encode()).hexdigest()
    return made


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = digests(Path(folder))
    asked = [python, __file__, "--print"]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True)
    theirs = json.loads(done.stdout)
    differ = [name for name in ours if ours[name] != theirs.get(name)]
    for name in differ:
        print(f"{name} differs", file=sys.stderr)
    print(f"{len(ours)} results, {len(ours) - len(differ)} of them the same bits")
    sys.exit(bool(differ))


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(digests(Path(scratch))))
    else:
        main(sys.argv[1])
