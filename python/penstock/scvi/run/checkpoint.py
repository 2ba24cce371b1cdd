"""Callbacks that keep the best model and a checkpoint to resume from. Imports lightning."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

BEST, LAST, SCORE = "best", "last.ckpt", "best.json"

#: Checkpoint key for facts of the run: processes, batch size, whether it is within an epoch.
RUN = "penstock_run"


class Checkpoints(Callback):
    """Keeps the best model as scvi-tools saves it, and a Lightning checkpoint to resume from.

    ``best/`` is the model of the epoch with the lowest (or highest) monitored metric. ``best.json``
    holds its epoch and score. ``last.ckpt`` is the state after the last epoch (or the last
    `every_n_steps` steps). Rank 0 writes and the others wait. Unfinished files have another name.

    Parameters
    ----------
    folder : path
        Folder of these files.
    monitor : str or None
        Validation metric; if None, the model of the last epoch is ``best``.
    mode : {"min", "max"}
        Whether a lower or a higher metric is better.
    every_n_steps : int, optional
        Also write ``last.ckpt`` after so many steps.
    fresh : bool
        Whether the run starts from scratch; files of an earlier run in the folder are then removed.
    """

    def __init__(
        self,
        folder: Path,
        monitor: str | None,
        mode: str = "min",
        every_n_steps: int | None = None,
        fresh: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.monitor = monitor
        self._sign = 1.0 if mode == "min" else -1.0
        self._every_n_steps = every_n_steps
        self._fresh = fresh
        self.best_score: float | None = None
        self.best_epoch: int | None = None
        #: Metrics for the logger, which gets them after the checkpoint at the end of an epoch.
        self.epoch_metrics: dict[str, float] = {}
        #: Whether the epoch has ended.
        self.at_end = False
        #: Steps that each plateau scheduler should have made, and the metric of the last one.
        self._plateaus: dict[int, tuple[int, float]] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Remove files of an earlier run, which could pass for checkpoints of this one."""
        if trainer.is_global_zero:
            if self._fresh:
                for name in (LAST, SCORE):
                    (self.folder / name).unlink(missing_ok=True)
                for folder in (self.folder / BEST, _old(self.folder / BEST)):
                    shutil.rmtree(folder, ignore_errors=True)
            else:
                restore_model(self.folder / BEST)
        trainer.strategy.barrier("penstock begins")

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Step plateau schedulers that Lightning has not stepped.

        Lightning steps them after it writes the checkpoint at the end of an epoch, and not at all
        in the epoch in which a run resumes.
        """
        for i, (steps, metric) in self._plateaus.items():
            scheduler = trainer.lr_scheduler_configs[i].scheduler
            if scheduler.last_epoch < steps:
                scheduler.step(metric)

    def note_plateaus(self, trainer: Any) -> None:
        """Record the metric of the epoch that ends for each plateau scheduler."""
        self._plateaus = {
            i: (config.scheduler.last_epoch + 1, float(trainer.callback_metrics[config.monitor]))
            for i, config in enumerate(trainer.lr_scheduler_configs)
            if config.reduce_on_plateau and config.monitor in trainer.callback_metrics
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps."""
        return {
            "best_score": self.best_score,
            "best_epoch": self.best_epoch,
            "plateaus": self._plateaus,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.best_score, self.best_epoch = state["best_score"], state["best_epoch"]
        self._plateaus = state.get("plateaus", {})

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Add the history, which the logger has only in memory, and facts of the run."""
        checkpoint[RUN] = {
            "world_size": trainer.world_size,
            "batch_size": trainer.datamodule.train.batch_size,
            "within_epoch": not self.at_end,
        }
        history = getattr(trainer.logger, "history", None)
        if not isinstance(history, dict):  # not rank 0, or a logger of the user's
            return
        kept = {
            name: {
                "index": [int(each) for each in frame.index],
                "index_name": frame.index.name,
                "values": [float(each) for each in frame[name]],
            }
            for name, frame in history.items()
        }
        for name, value in self.epoch_metrics.items():
            column = kept.setdefault(name, {"index": [], "index_name": "epoch", "values": []})
            column["index"].append(trainer.current_epoch)
            column["values"].append(value)
        checkpoint["penstock_history"] = kept

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Restore the history of the logger."""
        import pandas as pd

        data = getattr(getattr(trainer.logger, "experiment", None), "data", None)
        if not isinstance(data, dict):  # not rank 0, or a logger of the user's
            return
        for name, kept in checkpoint.get("penstock_history", {}).items():
            index = pd.Index(kept["index"], name=kept["index_name"])
            data[name] = pd.DataFrame({name: kept["values"]}, index=index, dtype=object)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the model if it is the best."""
        if trainer.sanity_checking or self.monitor is None:
            return
        if self.monitor not in trainer.callback_metrics:
            known = ", ".join(sorted(trainer.callback_metrics))
            raise RuntimeError(f"no metric {self.monitor!r} was logged; logged metrics: {known}")
        score = float(trainer.callback_metrics[self.monitor])
        best = math.inf if self.best_score is None else self._sign * self.best_score
        # Rank 0 decides: ranks would disagree on a metric that is not summed over ranks.
        if trainer.strategy.broadcast(self._sign * score < best):
            self._keep(trainer, score)

    def _keep(self, trainer: Any, score: float | None) -> None:
        self.best_score, self.best_epoch = score, trainer.current_epoch
        if trainer.is_global_zero:
            save_model(trainer._model, self.folder / BEST)
            told = {"monitor": self.monitor, "score": score, "epoch": self.best_epoch}
            write_text(self.folder / SCORE, json.dumps(told))
        trainer.strategy.barrier("penstock best model")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the model as the best if no metric is monitored."""
        if self.monitor is None:
            self._keep(trainer, None)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write ``last.ckpt`` within an epoch."""
        every = self._every_n_steps
        if every and trainer.global_step % every == 0:
            self.save_last(trainer)

    def save_last(self, trainer: Any) -> None:
        """Write ``last.ckpt``; all ranks call it."""
        partial = self.folder / f"{LAST}.partial"
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            partial.replace(self.folder / LAST)
        trainer.strategy.barrier("penstock last checkpoint")


class LastCheckpoint(Callback):
    """Writes ``last.ckpt`` at the end of an epoch, after callbacks have seen its metrics."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Write ``last.ckpt``."""
        # Reading metrics is a collective call: all ranks must do it.
        metrics = {name: float(each) for name, each in trainer.callback_metrics.items()}
        self._checkpoints.epoch_metrics = {
            name: each for name, each in metrics.items() if "train" in name
        }
        self._checkpoints.note_plateaus(trainer)
        self._checkpoints.at_end = True
        try:
            self._checkpoints.save_last(trainer)
        finally:
            self._checkpoints.epoch_metrics = {}
            self._checkpoints.at_end = False


def save_model(model: Any, folder: Path) -> None:
    """Save a model in training as a trained one; the folder appears only when complete."""
    module = model.module
    was = module.training, model.is_trained_, model.history_
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    module.eval()
    model.is_trained_ = True
    try:
        model.save(str(partial), overwrite=True, save_anndata=False)
    finally:
        module.train(was[0])
        model.is_trained_, model.history_ = was[1:]
    old = _old(folder)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def restore_model(folder: Path) -> None:
    """Restore the model that `save_model` was replacing when the process was killed."""
    if not folder.exists() and _old(folder).exists():
        _old(folder).rename(folder)


def _old(folder: Path) -> Path:
    return folder.with_name(folder.name + ".old")


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
