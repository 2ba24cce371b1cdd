"""Genes that the most cells have, as a file for `penstock bench … --genes`.

python benchmarks/detected_genes.py EXPERIMENT [--count 8000]

The file lies beside the experiment and is made once. Its path is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def most_detected_genes(experiment: Path, count: int = 8_000) -> Path:
    """Return the path of a .npy file: joinids of the genes with the most non-zeros, ascending."""
    path = experiment.with_name(f"{experiment.name}.{count}-genes.npy")
    if not path.exists():
        import numpy as np
        import penstock as ps

        var = ps.open(experiment).var("RNA").to_pandas(columns=["soma_joinid", "nnz"])
        chosen = var.sort_values("nnz", ascending=False, kind="stable")["soma_joinid"][:count]
        np.save(path, np.sort(chosen.to_numpy(np.int64)))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--count", type=int, default=8_000)
    parsed = parser.parse_args()
    print(most_detected_genes(parsed.experiment, parsed.count))


if __name__ == "__main__":
    main()
