"""A trace of training: the loss of each step, time and memory. Imports lightning."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.callbacks import Callback

from penstock.base.validation import checked_local_path
from penstock.errors import CorruptData

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("step", "epoch", "seconds", "loss", "rss", "device_bytes")
_STEPS_BETWEEN_WRITES = 64  # a loss on a GPU is not waited for at each step


class Trace(Callback):
    """Write the loss of each training step, with time and memory, to a CSV file.

    A callback for `penstock.scvi.train`, or for scvi-tools' own ``train``. Rank 0 writes, and its
    loss is that of its own cells. A run that resumes continues the file.

    Parameters
    ----------
    path : path
        The file. A new run replaces it.

    Notes
    -----
    Columns: ``step``, from 1; ``epoch``, from 0; ``seconds`` since training started, of all runs
    together; ``loss``, the loss per cell that the step minimised; ``rss``, bytes of memory of the
    process; ``device_bytes``, bytes that torch has allocated on a CUDA device, else 0.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(checked_local_path("path", path, "file"))
        self._rows: list[list[Any]] = []
        self._began = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the file, or keep its rows up to the step that the run resumes from."""
        if not trainer.is_global_zero:
            return
        kept = []
        if trainer.global_step and self.path.exists():
            kept = [row for row in _rows(self.path) if int(row[0]) <= trainer.global_step]
        with self.path.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *kept])
        self._began = time.perf_counter() - (float(kept[-1][2]) if kept else 0.0)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note a step."""
        if not trainer.is_global_zero:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is None:  # a plan that steps its optimizers itself
            loss = trainer.callback_metrics.get("train_loss_step", float("nan"))
        seconds = time.perf_counter() - self._began
        loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
        row = [trainer.global_step, trainer.current_epoch, seconds, loss, _rss(), _device_bytes()]
        self._rows.append(row)
        if len(self._rows) >= _STEPS_BETWEEN_WRITES:
            self._write()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Write what is left, also after an exception."""
        self._write()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            with self.path.open("a", newline="") as file:
                writer = csv.writer(file)
                for step, epoch, seconds, loss, *memory in rows:
                    writer.writerow([step, epoch, f"{seconds:.6f}", f"{float(loss):.9g}", *memory])


def read_trace(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the table that a `Trace` wrote, a row for each step.

    Raises
    ------
    CorruptData
        The file is no trace.
    """
    import pandas as pd

    rows = _rows(Path(checked_local_path("path", path, "file")))
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(float)
    whole = {"step": "int64", "epoch": "int64", "rss": "int64", "device_bytes": "int64"}
    return frame.astype(whole)


def _rows(path: Path) -> list[list[str]]:
    """Return the rows of a file; a last row that was cut by a kill is left out."""
    with path.open(newline="", errors="replace") as file:
        found = list(csv.reader(file))
    if not found or tuple(found[0]) != COLUMNS:
        raise CorruptData(f"{path} is no trace of training: its first line must name {COLUMNS}")
    rows = [row for row in found[1:] if len(row) == len(COLUMNS)]
    for number, row in enumerate(rows, 1):
        try:
            [float(value) for value in row]
        except ValueError:
            if number < len(rows):
                raise CorruptData(f"{path}: row {number} is not of numbers") from None
            rows.pop()
    return rows


def _rss() -> int:
    """Return the bytes of memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _device_bytes() -> int:
    # is_initialized has no types in some releases of torch.
    started: Any = torch.cuda.is_initialized
    return int(torch.cuda.memory_allocated()) if started() else 0
