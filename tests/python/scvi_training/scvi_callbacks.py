"""Callbacks for the ranks of tests/python/scvi_training/test_scvi_train.py."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback
from penstock.scvi import DataModule


class FixedNoise(Callback):
    """Validates with the mean of the latent variables, and keeps the weights that it used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._draw = torch.distributions.Normal.rsample
        torch.distributions.Normal.rsample = lambda self, shape=(): self.loc
        if trainer.is_global_zero:
            torch.save(pl_module.module.state_dict(), self.folder / f"{trainer.current_epoch}.pt")

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        torch.distributions.Normal.rsample = self._draw


class SpoilsOnRank(Callback):
    """One rank validates with other weights from an epoch on; training continues as it would."""

    def __init__(self, rank: int, epoch: int) -> None:
        self.rank = rank
        self.epoch = epoch

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._kept: list[torch.Tensor] = []
        if trainer.global_rank == self.rank and trainer.current_epoch >= self.epoch:
            with torch.no_grad():
                for each in pl_module.module.parameters():
                    self._kept.append(each.clone())
                    each.mul_(3)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        with torch.no_grad():
            for each, kept in zip(pl_module.module.parameters(), self._kept, strict=False):
                each.copy_(kept)


class Killed(Callback):
    """Rank 1 is killed when an epoch begins."""

    def __init__(self, epoch: int, number: signal.Signals = signal.SIGKILL) -> None:
        self.epoch = epoch
        self.number = number

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == self.epoch and trainer.global_rank == 1:
            os.kill(os.getpid(), self.number)


class Writes(Callback):
    """A line for each change that a rank's Python makes under a folder."""

    def __init__(self, folder: Path, told: Path) -> None:
        self.folder = folder
        self.told = told

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        told = (self.told / f"writes-{trainer.global_rank}.txt").open("w", buffering=1)
        changes = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}

        def noted(event: str, arguments: tuple[Any, ...]) -> None:
            is_change = event in changes
            if event == "open" and len(arguments) == 3:
                is_change = bool(int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
            if is_change and str(self.folder) in str(arguments[0]):
                print(event, arguments[0], file=told)

        sys.addaudithook(noted)


class Watched:
    """As an inference that it is given; a line for each batch: what the rank has allocated."""

    def __init__(self, infer: Any, folder: Path) -> None:
        self.infer = infer
        self.folder = folder

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        made = self.infer(model, tensors)
        # Without the pages of files that are mapped.
        (line,) = (
            line
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("RssAnon:")
        )
        path = self.folder / f"allocated-{os.environ.get('RANK', '0')}.txt"
        with path.open("a") as file:
            print(int(line.split()[1]) * 1024, file=file)
        return made  # type: ignore[no-any-return]


class KilledAtLoaders(DataModule):
    """Rank 1 is asked to end when Lightning asks for batches."""

    def train_dataloader(self) -> Any:
        if os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return super().train_dataloader()


class Recorded(Callback):
    """No noise, and a line for each step of a rank: its epoch, number and sum of counts.

    Also the seed that the first of them has. Rank 1 is killed when the step of `killed_at` begins.
    """

    def __init__(self, folder: Path, killed_at: tuple[int, int] | None = None) -> None:
        self.folder = folder
        self.killed_at = killed_at

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        torch.distributions.Normal.rsample = lambda self, shape=(): self.loc

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, step: int) -> None:
        at = trainer.current_epoch, step
        if at == self.killed_at and trainer.global_rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        seed = self.folder / f"seed-{trainer.global_rank}.txt"
        if not seed.exists():
            seed.write_text(str(torch.initial_seed()))
        with (self.folder / f"steps-{trainer.global_rank}.txt").open("a") as file:
            print(*at, int(batch["X"].sum()), len(batch["X"]), file=file)


class RankMetrics(Callback):
    """What each rank monitors and its learning rate, after each epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        told = float(trainer.callback_metrics["elbo_validation"])
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        with (self.folder / f"metrics-{trainer.global_rank}.txt").open("a") as file:
            print(told, rate, file=file)
