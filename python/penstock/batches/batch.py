"""A batch: X, and obs of the same cells."""

from __future__ import annotations

from typing import Any, NamedTuple


class Batch(NamedTuple):
    """Cells that come together: ``X, obs = batch``, or ``batch.X`` and ``batch.obs``.

    Attributes
    ----------
    X : ndarray, sparse matrix, tensor or Tokens
        Shape (cells, genes), in the form that the `Dataset` was asked for. With several
        measurements a dict of them by name.
    obs : dict or pandas.DataFrame
        Columns of obs and output of encoders, one value for each row of X.
    """

    X: Any
    obs: Any
