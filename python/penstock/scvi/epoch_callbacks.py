"""Callbacks of a run: noise by step and rank, ends of ranks, early stopping. Imports lightning."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.callbacks.early_stopping import EarlyStopping

from .worker import Terminated


class NoiseSeeds(Callback):
    """Seeds torch with (seed, epoch, rank, step) when a step begins, and for validation.

    Ranks draw different noise, and a step draws the same whether the run went on from a checkpoint
    or not, whatever else draws between steps: a DataLoader with workers does for each epoch.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, step: int) -> None:
        """Seed; steps are counted from one."""
        _seed(self._seed, trainer.current_epoch, trainer.global_rank, 1 + step)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Seed."""
        _seed(self._seed, trainer.current_epoch, trainer.global_rank, 0)


def _seed(*words: int) -> None:
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]) >> 1)


class EndsWhenAsked(Callback):
    """Gives a rank that `launch` started an answer of its own to SIGTERM.

    Lightning's broadcasts to ranks that are not listening, which aborts this one or hangs all.
    """

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Lightning takes the signal over before it asks for loaders, and no hook is between."""
        connector = getattr(trainer, "_signal_connector", None)
        if Terminated.of_this_rank is not None and connector is not None:
            connector._sigterm_notifier_fn = Terminated.of_this_rank

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Lightning has taken the signal over by now, and gives it back after the run."""
        if Terminated.of_this_rank is not None:
            signal.signal(signal.SIGTERM, Terminated.of_this_rank)


class EarlyStop(EarlyStopping):
    """Early stopping on metrics of all ranks, with a warm-up, as scvi-tools' own.

    Rank 0 says why it stopped.
    """

    def __init__(self, warmup_epochs: int = 0, **arguments: Any) -> None:
        # At the end of an epoch Lightning asks it after other callbacks, and a checkpoint that is
        # written there would have its state from before.
        super().__init__(check_on_train_epoch_end=False, **arguments)
        self._warmup_epochs = warmup_epochs
        self._reason: str | None = None

    def _evaluate_stopping_criteria(self, current: Any) -> tuple[bool, str | None]:
        if self._warmup_epochs > 0:
            self._warmup_epochs -= 1
            return False, None
        should_stop, reason = super()._evaluate_stopping_criteria(current)
        if should_stop:
            self._reason = reason
        return should_stop, reason

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Train no further epoch where the resumed run had stopped."""
        if self.wait_count >= max(1, self.patience):
            trainer.should_stop = True

    def teardown(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Say why it stopped."""
        if self._reason is not None and trainer.is_global_zero:
            print(self._reason, flush=True)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this."""
        return {**super().state_dict(), "warmup_epochs": self._warmup_epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        state = dict(state_dict)
        self._warmup_epochs = state.pop("warmup_epochs", 0)
        # Not the patience of before: more patience lets the run continue.
        super().load_state_dict({**state, "patience": self.patience})
