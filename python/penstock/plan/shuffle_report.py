"""Report how well the shuffle mixes, computed from the plan; docs/concepts/shuffle.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.text import size
from penstock.base.validation import (
    checked_local_path,
    checked_number,
    described,
    parse_memory_size,
)
from penstock.errors import InvalidArgument, ResourceExhausted
from penstock.experiment.factorize import factorize

from .planner import Planner
from .stats import from_core
from .uniform_entropy import uniform_entropy

#: Number of batches at each end of an epoch that `first_share` and `last_share` cover.
EDGE = 10
_MOST_BUDGET = 2**50
_NEAR_ENOUGH = 1.05


@dataclass(frozen=True)
class ShuffleReport:
    """Mixing of the batches of an epoch, measured by the labels of a column of obs.

    Attributes
    ----------
    column : str
        Column of obs with the labels; a missing value counts as a label.
    batch_entropy : ndarray of float64
        Shannon entropy of the labels in each batch, in bits, shape (batches,), in epoch order.
    uniform_entropy : float
        Mean entropy of a full batch in a uniform shuffle of the same cells, in bits.
    units, units_in_shuffle : int
        Fetch units that the epoch reads, and units that feed a batch at any time. 0 if cells are
        read one by one.
    read_amplification : float or None
        Stored bytes that the epoch will read, divided by the stored bytes of the distinct tiles
        that its cells and genes touch. Cells in a `cache_dir` count as read. None if cells are read
        one by one; `Dataset.stats` has it after the epoch.
    memory_budget, planned_bytes : int
        Bytes that are allowed, and bytes that the plan uses.
    """

    column: str
    batch_entropy: npt.NDArray[np.float64]
    uniform_entropy: float
    units: int
    units_in_shuffle: int
    read_amplification: float | None
    memory_budget: int
    planned_bytes: int
    _again: Callable[[int], ShuffleReport] | None = field(default=None, repr=False, compare=False)

    @property
    def share(self) -> float:
        """Mean entropy of all batches divided by that of a uniform shuffle; 1 is uniform."""
        return self._share_of(self.batch_entropy)

    @property
    def first_share(self) -> float:
        """Share of the first ten batches."""
        return self._share_of(self.batch_entropy[:EDGE])

    @property
    def first_twentieth_share(self) -> float:
        """Share of the first twentieth of the batches, of one batch at least."""
        return self._share_of(self.batch_entropy[: max(1, len(self.batch_entropy) // 20)])

    @property
    def last_share(self) -> float:
        """Share of the last ten batches."""
        return self._share_of(self.batch_entropy[-EDGE:])

    def _share_of(self, entropy: npt.NDArray[np.float64]) -> float:
        if self.uniform_entropy == 0:
            return 1.0  # with one label, every order is uniform
        return float(entropy.mean()) / self.uniform_entropy

    def budget_for(self, share: float) -> int:
        """Return the least `memory_budget` that reaches a share, to within 5 %.

        Epochs of other budgets are planned, but no cells are read.

        Parameters
        ----------
        share : float
            Share of a uniform shuffle's entropy, above 0 and at most 1; for example 0.98.

        Returns
        -------
        int
            Budget in bytes.

        Raises
        ------
        InvalidArgument
            No budget reaches `share`, `share` is out of range, or the report was pickled.
        """
        if not 0 < checked_number("share", share) <= 1:
            raise InvalidArgument(f"share must be above 0 and at most 1, got {described(share)}")
        if self._again is None:
            raise InvalidArgument("this report was not made by Dataset.shuffle_report")

        def reached(budget: int) -> ShuffleReport | None:
            assert self._again is not None
            try:
                report = self._again(budget)
            except ResourceExhausted:
                return None
            # Batches of a uniform shuffle also differ from their mean by chance.
            whole = report.units_in_shuffle >= report.units - 1
            return report if report.share >= share or whole else None

        least, most = 0, self.memory_budget
        while (best := reached(most)) is None:
            least, most = most, 2 * most
            if most > _MOST_BUDGET:
                raise InvalidArgument(f"no budget reaches {share:.1%} of a uniform shuffle")
        least = least or 2**20
        if best.share < share - 0.01:
            raise InvalidArgument(
                f"{best.share:.1%} of a uniform shuffle is reached with all cells in memory, not "
                f"{share:.1%}: batches have fewer labels than that takes"
            )
        while most > least * _NEAR_ENOUGH:
            middle = int(math.sqrt(least * most))
            least, most = (middle, most) if reached(middle) is None else (least, middle)
        return most

    def plot(self, path: str | Path) -> None:
        """Plot the entropy of the batches along the epoch; needs matplotlib.

        Parameters
        ----------
        path : str or Path
            File to write. The suffix chooses the format: PNG, SVG or PDF.

        Raises
        ------
        InvalidArgument
            `path` is a URL.
        MissingPackage
            matplotlib is not installed.
        """
        path = checked_local_path("path", path, "file")
        require("matplotlib")
        from matplotlib.figure import Figure  # pyplot would change a notebook's backend

        figure = Figure(figsize=(8, 3.4), layout="constrained")
        axes = figure.subplots()
        batches = np.arange(1, len(self.batch_entropy) + 1)
        axes.plot(batches, self.batch_entropy, ".", markersize=2, color="#1b7f8c", alpha=0.35)
        windows = np.array_split(np.arange(len(batches)), min(len(batches), 120) or 1)
        middle = [batches[each].mean() for each in windows if len(each)]
        mean = [self.batch_entropy[each].mean() for each in windows if len(each)]
        axes.plot(middle, mean, color="#1b7f8c", linewidth=1.6, label="batches")
        axes.axhline(
            self.uniform_entropy, color="#d1672e", linestyle="--", label="a uniform shuffle"
        )
        axes.set(
            xlabel="batch",
            ylabel=f"entropy of {self.column} (bits)",
            ylim=(0, None),
            title=f"{self.share:.1%} of a uniform shuffle, units: {self._units()}, "
            f"{size(self.memory_budget)}",
        )
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=150)

    def _units(self) -> str:
        if not self.units:
            return "none, cells are read one by one"
        return f"{self.units_in_shuffle:,} in the shuffle of {self.units:,} read"

    def _amplification(self) -> str:
        if self.read_amplification is None:
            return "not known in advance where cells are read one by one"
        return f"{self.read_amplification:.2f} bytes read for each one needed"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_again": None}  # it holds the dataset

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __str__(self) -> str:
        lines = [
            f"Shuffle of {self.column}: {self.share:.1%} of the entropy of a uniform shuffle",
            f"  batches       {len(self.batch_entropy):,}, of {self.batch_entropy.mean():.3f} bits; "
            f"uniform {self.uniform_entropy:.3f}",
            f"  first, last   {self.first_share:.1%}, {self.last_share:.1%} (ten batches each)",
            f"  first 5 %     {self.first_twentieth_share:.1%} (a twentieth of the batches)",
            f"  units         {self._units()}",
            f"  amplification {self._amplification()}",
            f"  memory        {size(self.planned_bytes)} planned of {size(self.memory_budget)}",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def shuffle_report(
    planner: Planner, epoch: int, column: str, memory_budget: int | str | None
) -> ShuffleReport:
    """See `Dataset.shuffle_report`."""
    # Memory counts as empty, and a report that is held holds no cells.
    planner = replace(planner, selection=replace(planner.selection, kept=_core.KeptRows()))
    selection, settings = planner.selection, planner.settings
    (name,) = selection.obs.checked_columns([column], "column")
    codes, counts = factorize(selection.obs.read([name]))
    labels = codes.astype(np.uint32)
    shard = replace(planner.shard_with_cells(), worker=0, num_workers=1)
    if not planner.epoch_cells:
        raise InvalidArgument("no cell is selected, so there is no shuffle to report on")

    def report(budget: int) -> ShuffleReport:
        asked = planner.replace_settings(memory_budget=budget).as_of_now(epoch)
        loader = asked.loader(shard, epoch)
        entropy, drawn = loader.label_entropy(labels)
        known = counts if settings.sampling is None else drawn.astype(np.int64)
        stats = from_core(loader.stats())
        amplification = None
        if stats.planned_units:
            needed = stats.bytes_needed
            amplification = stats.planned_bytes_read / needed if needed else 1.0
        return ShuffleReport(
            name,
            entropy,
            uniform_entropy(known, settings.batch_size),
            stats.planned_units,
            stats.units_in_shuffle,
            amplification,
            budget,
            stats.planned_bytes,
            report,
        )

    if memory_budget is None:
        return report(settings.memory_budget)
    return report(parse_memory_size("memory_budget", memory_budget))
