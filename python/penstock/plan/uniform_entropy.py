"""Entropy of the batches of a uniform shuffle."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def uniform_entropy(counts: npt.NDArray[np.int64], batch_size: int) -> float:
    """Return the mean entropy, in bits, of the labels of `batch_size` cells without replacement.

    The number of cells of a label in a batch is hypergeometric. The mean of ``-p log2(p)`` is
    summed over all labels.

    Parameters
    ----------
    counts : ndarray of int
        Cells of each label.
    batch_size : int
        Cells in a batch.
    """
    counts = np.asarray(counts, np.int64)
    counts = counts[counts > 0]
    total = int(counts.sum())
    size = min(batch_size, total)
    if size < 2:
        return 0.0
    # Labels of equal size are computed once. Only numbers near the mean are summed, so memory grows
    # with the deviation, not with the batch.
    entropy = 0.0
    for own, labels in zip(*np.unique(counts, return_counts=True), strict=True):
        mean = size * own / total
        reach = 12 * math.sqrt(mean * (1 - own / total)) + 12
        least, most = max(0, size - (total - own)), min(size, own)
        x = np.arange(max(least, int(mean - reach)), min(most, int(mean + reach)) + 1)
        chance = _shares(_log_binomial(own, x) + _log_binomial(total - own, size - x))
        share = np.maximum(x, 1) / size  # for 0 cells the term is 0
        entropy -= int(labels) * float((chance * (x / size) * np.log2(share)).sum())
    return entropy


def _shares(logs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return numbers with these logs, scaled to sum to 1."""
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def _log_binomial(n: int, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the log of n choose k, 0 <= k <= n."""
    return np.asarray(math.lgamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1))


_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])
