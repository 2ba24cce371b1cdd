"""Seconds that a consumer waited for each batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Quantiles that are kept of an epoch: 0 %, 1 %, …, 100 %.
_QUANTILES = np.linspace(0, 1, 101)


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Return median, 99th percentile, maximum, share of the slowest tenth, and 101 quantiles.

    Without a batch all are None.
    """
    names = ("batch_p50", "batch_p99", "batch_max", "slowest_tenth_share", "batch_quantiles")
    if not len(seconds):
        return dict.fromkeys(names)
    ordered = np.sort(np.asarray(seconds, np.float64))
    quantiles = np.quantile(ordered, _QUANTILES)
    slowest = ordered[-max(1, len(ordered) // 10) :]
    whole = float(ordered.sum())
    values = (
        float(quantiles[50]),
        float(quantiles[99]),
        float(quantiles[100]),
        float(slowest.sum()) / whole if whole else None,
        json.dumps([float(f"{value:.3g}") for value in quantiles]),
    )
    return dict(zip(names, values, strict=True))
