"""Labelled cells of a part: all of them in an epoch, or some of each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.dataset.dataset import Dataset


@dataclass(frozen=True)
class LabelledCells:
    """Positions of the labelled cells of a part, in stored order, with the codes of their labels.

    With `per_label`, an epoch has so many cells of each label, or all cells of a rarer label. They
    are drawn without replacement from the part's seed and the epoch's number, equal on all ranks.
    """

    part: Dataset
    places: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    per_label: int | None = None

    @property
    def epoch_cells(self) -> int:
        """Number of cells in an epoch over all ranks."""
        if self.per_label is None:
            return len(self.places)
        return int(np.minimum(np.bincount(self.labels), self.per_label).sum())

    def of_epoch(self, number: int) -> Dataset:
        """Return the cells of an epoch."""
        places = self.places if self.per_label is None else self._drawn(number, self.per_label)
        rows = self.part.reader.selection.rows.take(places.astype(np.uint64))
        return self.part.with_rows(rows)

    def _drawn(self, number: int, per_label: int) -> npt.NDArray[np.int64]:
        random = np.random.default_rng((self.part.reader.settings.seed, number))
        order = random.permutation(len(self.places))
        order = order[np.argsort(self.labels[order], kind="stable")]
        labels = self.labels[order]
        place_in_label = np.arange(len(order)) - np.searchsorted(labels, labels)
        return np.sort(self.places[order[place_in_label < per_label]])
