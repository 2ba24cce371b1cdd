"""Old place of `penstock.find_rank`."""

import warnings

from penstock.plan.shard import find_rank

__all__ = ["find_rank"]

warnings.warn(
    "penstock.sharding is deprecated: use penstock.find_rank", DeprecationWarning, stacklevel=2
)
