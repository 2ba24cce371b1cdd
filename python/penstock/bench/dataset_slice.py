"""Slices of an experiment's datasets: ``:138``, ``2:7``, ``s:55`` (sorted by size first)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import InvalidArgument

_TEXT = re.compile(r"(?P<sorted>s?)(?P<start>\d*):(?P<end>\d*)")


@dataclass(frozen=True)
class DatasetSlice:
    """Datasets in [`start`, `end`), in the order of the source or of their sizes."""

    start: int = 0
    end: int | None = None
    sorted_datasets: bool = False

    def __post_init__(self) -> None:
        if self.start < 0 or (self.end is not None and self.end <= self.start):
            raise InvalidArgument(f"a slice of datasets must not be empty, got {self}")

    def __str__(self) -> str:
        begin = str(self.start) if self.start else ""
        end = "" if self.end is None else str(self.end)
        return f"{'s' if self.sorted_datasets else ''}{begin}:{end}"

    @staticmethod
    def parse(text: str) -> DatasetSlice:
        """Parse ``alb``'s notation.

        Raises
        ------
        InvalidArgument
            The text has another form, or the slice is empty.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(
                f"a slice of datasets must be given as START:END, with s before it when sorted by "
                f"size, such as ':138' or 's2:7', got {text!r}"
            )
        end = int(match["end"]) if match["end"] else None
        return DatasetSlice(int(match["start"] or 0), end, bool(match["sorted"]))

    def of(self, ids: Sequence[str], sizes: Sequence[int]) -> list[str]:
        """Return the ids in the slice; sorted ones are smallest first, equal sizes in order.

        Raises
        ------
        InvalidArgument
            There are too few datasets.
        """
        if len(ids) <= self.start:
            raise InvalidArgument(f"slice {self} of {len(ids)} datasets is empty")
        order = range(len(ids))
        if self.sorted_datasets:
            order = sorted(order, key=lambda i: sizes[i])  # type: ignore[assignment]
        return [ids[i] for i in order][self.start : self.end]


def value_filter(ids: Sequence[str]) -> str:
    """Return the filter of obs that keeps these datasets."""
    return f"dataset_id in [{', '.join(repr(each) for each in ids)}]"
