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
from penstock.errors import CorruptData, NotFound

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

    Raises
    ------
    NotFound
        The file's folder does not exist.

    Notes
    -----
    A row is a batch. Columns: ``step``, the optimizer's steps so far; ``epoch``, from 0;
    ``seconds`` since training started, of all runs together; ``loss``, as the model defines it: per
    cell for SCVI, for some models a sum over the batch; ``rss``, bytes of memory of the process
    after the step; ``device_bytes``, bytes that torch has then allocated on a CUDA device, else 0.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(checked_local_path("path", path, "file")).absolute()
        if not self.path.parent.is_dir():
            raise NotFound(f"there is no folder {self.path.parent} for the trace")
        self._rows: list[list[Any]] = []
        self._began = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the file, or keep its rows up to the step that the run resumes from."""
        self._rows = []
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
        """Write what is left."""
        self._write()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what is left of a training that fails."""
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
        try:
            found = list(csv.reader(file))
        except csv.Error as error:
            raise CorruptData(f"{path} is no trace of training: {error}") from None
    if not found or tuple(found[0]) != COLUMNS:
        raise CorruptData(f"{path} is no trace of training: its first line must name {COLUMNS}")
    rows = found[1:]
    if rows and not _is_row(rows[-1]):
        rows.pop()
    for number, row in enumerate(rows, 1):
        if not _is_row(row):
            raise CorruptData(f"{path}: row {number} is not of {len(COLUMNS)} numbers")
    return rows


def _is_row(row: list[str]) -> bool:
    """Whether these are whole numbers where they must be, and numbers."""
    if len(row) != len(COLUMNS) or not all(len(value) < 25 for value in row):
        return False
    step, epoch, seconds, loss, *memory = row
    try:
        float(loss)
        return 0 <= float(seconds) < 1e10 and all(
            each.isdecimal() for each in (step, epoch, *memory)
        )
    except ValueError:
        return False


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
