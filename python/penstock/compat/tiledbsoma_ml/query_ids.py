"""Joinids of the cells that a dataset reads, and their random split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_choice
from penstock.errors import InvalidArgument

SamplingMethod = Literal["deterministic", "multinomial", "stochastic_rounding"]
SamplingMethods: tuple[str, ...] = get_args(SamplingMethod)

JoinIds = npt.NDArray[np.int64]


class WrongFractions(InvalidArgument, AssertionError):
    """Fractions that do not sum to 1; also an AssertionError, as in tiledbsoma_ml."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryIDs:
    """Joinids of the cells and genes of a query, ascending.

    Attributes
    ----------
    obs_joinids, var_joinids : ndarray of int64
    partition
        Always None: ranks and workers are determined when iteration starts.
    """

    obs_joinids: JoinIds
    var_joinids: JoinIds
    partition: Any = None

    @classmethod
    def create(cls, query: Any) -> QueryIDs:
        """Return the joinids of a tiledbsoma ExperimentAxisQuery."""
        return cls(
            obs_joinids=query.obs_joinids().to_numpy(),
            var_joinids=query.var_joinids().to_numpy(),
        )

    def random_split(
        self,
        *fracs: float,
        seed: int | None = None,
        method: SamplingMethod = "stochastic_rounding",
    ) -> tuple[QueryIDs, ...]:
        """Split the cells into random parts; see `split_joinids`."""
        parts = split_joinids(self.obs_joinids, fracs, seed, method)
        return tuple(replace(self, obs_joinids=part) for part in parts)


def split_joinids(
    joinids: JoinIds, fracs: Sequence[float], seed: int | None, method: str
) -> list[JoinIds]:
    """Split joinids into random parts, each in ascending order.

    Equal seeds give the same parts as tiledbsoma_ml, because numpy's generator draws in the same
    order: first a permutation, then the sizes.

    Parameters
    ----------
    fracs : sequence of float
        One or more fractions with a sum of 1.
    method : {"deterministic", "multinomial", "stochastic_rounding"}
        Round the ends of the parts; draw the part of every cell independently; or round sizes up or
        down at random, so that they are right on average.

    Raises
    ------
    InvalidArgument
        The sum is not 1 (also an AssertionError), or the method is unknown.
    """
    if not fracs or not np.isclose(np.sum(fracs), 1.0):
        raise WrongFractions(f"Fractions must sum to 1, got {list(fracs)}")
    checked_choice("method", method, SamplingMethods)
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(joinids)
    ends = np.cumsum(_part_sizes(fracs, len(joinids), method, generator))
    return [np.sort(part) for part in np.split(shuffled, ends[:-1])]


def _part_sizes(
    fracs: Sequence[float], total: int, method: str, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    if method == "deterministic":
        ends = np.round(np.cumsum(fracs) * total).astype(np.int64)
        return np.diff(ends, prepend=0)
    if method == "multinomial":
        return generator.multinomial(total, np.array(fracs))
    exact = np.array(fracs) * total
    sizes = exact.astype(np.int64)
    chances = exact - sizes
    for _ in range(round(np.sum(chances))):
        rounded_up = generator.choice(len(sizes), p=chances / np.sum(chances))
        sizes[rounded_up] += 1
        chances[rounded_up] = 0
    return sizes
