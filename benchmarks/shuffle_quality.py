"""Best mixing that a quarter or half of the cells in memory allows: docs/concepts/shuffle.md.

python benchmarks/shuffle_quality.py EXPERIMENT [--column dataset_id]

The simulation reads row bands, each once, in an order that takes one band from each part of the store in
turn. Any cell in memory may leave next. No scheme that reads each band once mixes better. What Penstock
does is told by `Dataset.shuffle_report`, and what loaders really do by `penstock bench shuffle`.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
import penstock as ps
from penstock.plan.uniform_entropy import uniform_entropy

BATCH = 128
BAND = 2048

Labels = npt.NDArray[np.int64]


def pooled(labels: Labels, share: float, random: np.random.Generator) -> Labels:
    """Return the labels in the order in which cells leave a pool that holds `share` of all cells."""
    bands = np.array_split(labels, range(BAND, len(labels), BAND))
    stride = max(1, round(len(bands) ** 0.5))
    pool = np.empty(0, np.int64)
    left = []
    for start in random.permutation(stride):
        for band in bands[start::stride]:
            pool = random.permutation(np.concatenate([pool, band]))
            leaving = max(0, len(pool) - int(share * len(labels)))
            left.append(pool[:leaving])
            pool = pool[leaving:]
    return np.concatenate([*left, pool])


def entropy(labels: Labels) -> float:
    """Return the mean entropy of the whole batches, in bits."""
    batches = labels[: len(labels) // BATCH * BATCH].reshape(-1, BATCH)
    shares = [np.unique(batch, return_counts=True)[1] / BATCH for batch in batches]
    return float(np.mean([-(each * np.log2(each)).sum() for each in shares]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment")
    parser.add_argument("--column", default="dataset_id")
    parsed = parser.parse_args()
    values = ps.open(parsed.experiment).obs.to_pandas(columns=[parsed.column])[parsed.column]
    labels = values.astype(str).factorize()[0].astype(np.int64)
    uniform = float(uniform_entropy(np.bincount(labels), BATCH))
    random = np.random.default_rng(0)
    for share in (0.25, 0.5):
        found = entropy(pooled(labels, share, random)) / uniform
        print(f"{share:.0%} of the cells in memory: {found:.1%} of a uniform shuffle's entropy")


if __name__ == "__main__":
    main()
