"""Training a model on one rank, by scvi-tools' own `train`."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from penstock.errors import InvalidArgument
from penstock.plan.shard import find_rank

from ..registry.model_classes import takes_data_module
from .checkpoint import BEST, LAST, Checkpoints, LastCheckpoint
from .epoch_callbacks import EarlyStop, EndsWhenAsked, NoiseSeeds

#: A step does not use all parameters, for example those of the encoder of library sizes. Plain DDP
#: fails on unused parameters.
STRATEGY = "ddp_find_unused_parameters_true"


@dataclass(frozen=True)
class Run:
    """Settings of a training run; see `penstock.scvi.train`."""

    max_epochs: int
    accelerator: str
    seed: int
    early_stopping: dict[str, Any] | None
    checkpoint: Path | None
    monitor: str | None
    mode: str
    every_n_steps: int | None
    resume: Path | None
    load_best: bool
    sync_batchnorm: bool
    progress: bool
    check_val_every_n_epoch: int | None
    plan: dict[str, Any]
    trainer: dict[str, Any]
    callbacks: Sequence[Any] = field(default_factory=tuple)


def fit(model: Any, data: Any, run: Run) -> dict[str, Any]:
    """Train the model in this process, alone or as one rank of `WORLD_SIZE`.

    Returns
    -------
    dict
        ``state`` of the module on the CPU, ``history`` of scvi-tools, ``best`` epoch and score;
        empty on ranks other than 0.
    """
    rank, world_size = find_rank()
    torch.manual_seed(run.seed)
    callbacks, checkpoints = _callbacks(run)
    with (
        _without_false_warning(world_size),
        _summed_metrics(model, world_size),
        _cells(model, data) as given,
    ):
        type(model).train(
            model,
            max_epochs=run.max_epochs,
            accelerator=run.accelerator,
            **given,
            callbacks=callbacks,
            early_stopping=False,  # `EarlyStop` does it, on several processes too
            enable_progress_bar=run.progress and rank == 0,
            **_validations(run),
            **_world(run, world_size),
            **_resumed(run),
            **_plan_and_trainer(model, data, run),
        )
    if run.load_best and checkpoints is not None:
        if checkpoints.best_epoch is None:
            raise InvalidArgument(
                f"load_best=True, but {run.monitor} was not a number in any epoch, so there is no best "
                "model; the weights are the last ones"
            )
        saved = torch.load(
            checkpoints.folder / BEST / "model.pt", map_location="cpu", weights_only=False
        )
        state = saved["model_state_dict"]
        state.pop("pyro_param_store", None)
        model.module.load_state_dict(state)
    if rank:
        return {}
    return {
        "state": {name: each.detach().cpu() for name, each in model.module.state_dict().items()},
        "history": model.history_,
        "best": None
        if checkpoints is None or checkpoints.best_epoch is None
        else {"epoch": checkpoints.best_epoch, "score": checkpoints.best_score},
    }


def from_first_rank(value: Any) -> Any:
    """Return the value of rank 0 on every rank of torch.distributed."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    values = [value]
    distributed.broadcast_object_list(values, src=0)
    return values[0]


def _callbacks(run: Run) -> tuple[list[Any], Checkpoints | None]:
    made: list[Any] = [NoiseSeeds(run.seed), EndsWhenAsked(), *run.callbacks]
    if run.early_stopping is not None:
        made.append(EarlyStop(**run.early_stopping))
    if run.checkpoint is None:
        return made, None
    checkpoints = Checkpoints(
        run.checkpoint, run.monitor, run.mode, run.every_n_steps, fresh=run.resume is None
    )
    return [*made, checkpoints, LastCheckpoint(checkpoints)], checkpoints


def _world(run: Run, world_size: int) -> dict[str, Any]:
    """Return the arguments of the Trainer for this number of processes."""
    if world_size == 1:
        return {"devices": 1}
    from scvi.train._logger import SimpleLogger

    here = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("SLURM_NTASKS_PER_NODE") or 0)
    here = here or world_size
    made: dict[str, Any] = {
        "devices": here,
        "num_nodes": world_size // here,
        "strategy": STRATEGY,
        "sync_batchnorm": run.sync_batchnorm,
    }
    if "logger" not in run.trainer:
        # scvi-tools' default under DDP writes a file into the working folder.
        made["logger"] = SimpleLogger()
    return made


def _validations(run: Run) -> dict[str, Any]:
    """Return how often to validate; MRVI's default is not scvi-tools' own."""
    every = run.check_val_every_n_epoch
    return {} if every is None else {"check_val_every_n_epoch": every}


@contextlib.contextmanager
def _cells(model: Any, data: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `train` that give it the data module.

    A model whose `train` takes no ``datamodule`` makes a splitter of its AnnData instead, and gets the
    data module in its place.
    """
    if takes_data_module(type(model)):
        yield {"datamodule": data}
        return
    model._data_splitter_cls = lambda *_, **__: data
    try:
        yield {}
    finally:
        del model._data_splitter_cls


def _plan_and_trainer(model: Any, data: Any, run: Run) -> dict[str, Any]:
    """Return the arguments of the plan and of the Trainer.

    Some models have arguments of the plan, such as ``lr``, as arguments of `train` whose defaults
    would replace those in ``plan_kwargs``.
    """
    own = inspect.signature(model.train).parameters
    direct = {name: value for name, value in run.plan.items() if name in own}
    plan = {name: value for name, value in run.plan.items() if name not in own}
    if type(model).__name__ == "TOTALVI":
        # scvi-tools' default is computed from the AnnData.
        direct.setdefault("n_steps_kl_warmup", int(0.75 * data.n_obs))
    if "reduce_lr_on_plateau" in own and data.val is None:
        direct.setdefault("reduce_lr_on_plateau", False)
    return {"plan_kwargs": plan, **direct, **run.trainer}


def _resumed(run: Run) -> dict[str, Any]:
    return {} if run.resume is None else {"ckpt_path": str(run.resume)}


@contextlib.contextmanager
def _without_false_warning(world_size: int) -> Iterator[None]:
    with warnings.catch_warnings():
        if world_size > 1:
            warnings.filterwarnings("ignore", message="early_stopping was automatically disabled")
        # A Dataset shards its cells over workers itself.
        warnings.filterwarnings("ignore", message="Your `IterableDataset` has `__len__` defined")
        # Where Slurm is installed; `train` needs no srun.
        warnings.filterwarnings("ignore", message="The `srun` command is available")
        yield


@contextlib.contextmanager
def _summed_metrics(model: Any, world_size: int) -> Iterator[None]:
    """Sum every metric of an epoch over all ranks.

    scvi-tools does so for the ELBO only, but not for SCANVI's metrics such as accuracy.
    """
    if world_size == 1:
        yield
        return
    plan: Any = type(model)._training_plan_cls

    class SummedPlan(plan):  # type: ignore[misc]
        def log(self, name: str, value: Any, *arguments: Any, **options: Any) -> None:
            if options.get("on_epoch"):
                options.setdefault("sync_dist", True)
            super().log(name, value, *arguments, **options)

    model._training_plan_cls = SummedPlan
    try:
        yield
    finally:
        del model._training_plan_cls


def last_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, or None."""
    path = folder / LAST
    return path if path.exists() else None
