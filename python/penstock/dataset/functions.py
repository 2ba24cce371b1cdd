"""Methods of `Dataset` as functions of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.plan.shuffle_report import ShuffleReport

from .dataset import Dataset


def random_split(
    ds: Dataset,
    *parts: float,
    seed: int = 0,
    stratify: str | Sequence[str] | None = None,
    group: str | Sequence[str] | None = None,
) -> list[Dataset]:
    """Split the cells into random parts; see `Dataset.random_split`."""
    return _checked("random_split", ds).random_split(
        *parts, seed=seed, stratify=stratify, group=group
    )


def group_split(
    ds: Dataset, *parts: float, group: str | Sequence[str], seed: int = 0
) -> list[Dataset]:
    """Split the cells into parts of whole groups; see `Dataset.random_split`."""
    return _checked("group_split", ds).random_split(*parts, seed=seed, group=group)


def stratified_split(
    ds: Dataset, *parts: float, stratify: str | Sequence[str], seed: int = 0
) -> list[Dataset]:
    """Split the cells, dividing each value in proportion; see `Dataset.random_split`."""
    return _checked("stratified_split", ds).random_split(*parts, seed=seed, stratify=stratify)


def shuffle_report(
    ds: Dataset, column: str, *, memory_budget: int | str | None = None
) -> ShuffleReport:
    """Report how well the next epoch is mixed; see `Dataset.shuffle_report`."""
    return _checked("shuffle_report", ds).shuffle_report(column, memory_budget=memory_budget)


def to_anndata(ds: Dataset, max_size: int | str = "2GiB") -> Any:
    """Read all selected cells into memory as an AnnData; see `Dataset.to_anndata`."""
    return _checked("to_anndata", ds).to_anndata(max_size)


def _checked(function: str, ds: Any) -> Dataset:
    if not isinstance(ds, Dataset):
        raise InvalidArgument(f"{function} takes a penstock Dataset, got {described(ds)}")
    return ds
