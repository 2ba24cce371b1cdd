"""Methods of `Dataset` as functions of the package, which also take a source of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.base.suggestions import suggests
from penstock.plan.shuffle_report import ShuffleReport

from .dataset import Dataset
from .hints import SPLIT_ARGUMENTS


@suggests(SPLIT_ARGUMENTS)
def random_split(
    ds: Dataset | Any,
    *parts: float,
    seed: int = 0,
    stratify: str | Sequence[str] | None = None,
    group: str | Sequence[str] | None = None,
) -> list[Dataset]:
    """Split the cells into random parts; see `Dataset.random_split`."""
    return as_dataset(ds).random_split(*parts, seed=seed, stratify=stratify, group=group)


@suggests(SPLIT_ARGUMENTS)
def group_split(
    ds: Dataset | Any, *parts: float, group: str | Sequence[str], seed: int = 0
) -> list[Dataset]:
    """Split the cells into parts of whole groups; see `Dataset.random_split`."""
    return as_dataset(ds).random_split(*parts, seed=seed, group=group)


@suggests(SPLIT_ARGUMENTS)
def stratified_split(
    ds: Dataset | Any, *parts: float, stratify: str | Sequence[str], seed: int = 0
) -> list[Dataset]:
    """Split the cells, dividing each value in proportion; see `Dataset.random_split`."""
    return as_dataset(ds).random_split(*parts, seed=seed, stratify=stratify)


def shuffle_report(
    ds: Dataset | Any, column: str, *, memory_budget: int | str | None = None
) -> ShuffleReport:
    """Report how well the next epoch is mixed; see `Dataset.shuffle_report`."""
    return as_dataset(ds).shuffle_report(column, memory_budget=memory_budget)


def to_anndata(
    ds: Dataset | Any, max_size: int | str = "2GiB", obs_columns: Sequence[str] | None = None
) -> Any:
    """Read all selected cells into memory as an AnnData; see `Dataset.to_anndata`."""
    return as_dataset(ds).to_anndata(max_size, obs_columns)


def as_dataset(ds: Any) -> Dataset:
    """Return `ds` if it is a Dataset, else a Dataset of this source, with default settings."""
    return ds if isinstance(ds, Dataset) else Dataset(ds)
