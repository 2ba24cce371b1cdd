"""Callbacks of a run: noise seeds, SIGTERM of a rank, early stopping. Imports lightning."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.callbacks.early_stopping import EarlyStopping

from .worker import Terminated


class NoiseSeeds(Callback):
    """Seed torch with (seed, epoch, rank, step) before each step and before validation.

    Ranks draw different noise. A step draws the same noise in a resumed run, even if other code
    draws between steps, as a DataLoader with workers does in each epoch.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, step: int) -> None:
        """Seed a step, counted from one."""
        _seed(self._seed, trainer.current_epoch, trainer.global_rank, 1 + step)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Seed validation."""
        _seed(self._seed, trainer.current_epoch, trainer.global_rank, 0)


def _seed(*words: int) -> None:
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]) >> 1)


class EndsWhenAsked(Callback):
    """Set Penstock's own SIGTERM handler in a rank that `launch` started.

    Lightning's handler broadcasts to ranks that do not listen, which aborts this rank or hangs all.
    """

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Set the handler by patching Lightning, which has no hook before it makes loaders."""
        connector = getattr(trainer, "_signal_connector", None)
        if Terminated.of_this_rank is not None and connector is not None:
            connector._sigterm_notifier_fn = Terminated.of_this_rank

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Replace the handler that Lightning has set; Lightning restores the old one later."""
        if Terminated.of_this_rank is not None:
            signal.signal(signal.SIGTERM, Terminated.of_this_rank)


class EarlyStop(EarlyStopping):
    """Early stopping on metrics of all ranks, with a warm-up as in scvi-tools.

    Rank 0 prints why training stopped.
    """

    def __init__(self, warmup_epochs: int = 0, **arguments: Any) -> None:
        # Lightning would run this check after other callbacks: a checkpoint written at the end of
        # the epoch would have the old state.
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
        """Train no further epoch if the resumed run had stopped."""
        if self.wait_count >= max(1, self.patience):
            trainer.should_stop = True

    def teardown(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Print why training stopped."""
        if self._reason is not None and trainer.is_global_zero:
            print(self._reason, flush=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps."""
        return {**super().state_dict(), "warmup_epochs": self._warmup_epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        state = dict(state_dict)
        self._warmup_epochs = state.pop("warmup_epochs", 0)
        # The new patience replaces the saved one: more patience lets the run continue.
        super().load_state_dict({**state, "patience": self.patience})
