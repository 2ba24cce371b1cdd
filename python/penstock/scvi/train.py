"""Training a model of scvi-tools in one call, on one process or several."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..arguments import checked_int, described
from ..errors import InvalidArgument
from ..sharding import find_rank
from . import models
from .data_module import DataModule
from .fit import Run, fit, last_checkpoint
from .launch import launch

#: Defaults of scvi-tools' own early stopping.
_EARLY_STOPPING = {"monitor": "elbo_validation", "patience": 45, "min_delta": 0.0, "mode": "min"}


def train(
    model: Any,
    data: DataModule,
    *,
    devices: int | str = "auto",
    accelerator: str = "auto",
    max_epochs: int | None = None,
    early_stopping: bool | Mapping[str, Any] = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_monitor: str = "elbo_validation",
    checkpoint_every_n_steps: int | None = None,
    resume: bool = False,
    load_best: bool = False,
    sync_batchnorm: bool = False,
    check_val_every_n_epoch: int | None = None,
    seed: int | None = None,
    progress: bool = True,
    plan_kwargs: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
    **trainer: Any,
) -> Any:
    """Train a model of scvi-tools on one process or several, from a script or a notebook.

    Parameters
    ----------
    model : model or mapping
        What to train, changed in place: ``data.create_model()``, or a model that was trained
        before. A mapping is arguments of `DataModule.create_model`.
    data : DataModule
        The cells.
    devices : int or "auto"
        Processes, one for each GPU, or on the CPU. -1 is all GPUs, or cores; "auto" one process.
        In a rank of a run that there is (torchrun, Slurm) the run says how many.
    accelerator : {"auto", "gpu", "cpu"}
        Where to train; "auto" takes a GPU if there is one.
    max_epochs : int, optional
        By default as scvi-tools: 400, and fewer from 20,000 cells on (a third of that, 2 to 10, for
        a SCANVI made from a SCVI).
    early_stopping : bool or mapping
        Stop when the ELBO of validation over all ranks gets no better. A mapping sets ``monitor``,
        ``patience`` (epochs, 45), ``min_delta``, ``mode`` and ``warmup_epochs``.
    checkpoint : path, optional
        A folder for the best model (``best/``, as scvi-tools saves it) and to go on from
        (``last.ckpt``), written at the end of each epoch, by rank 0.
    checkpoint_monitor : str
        What the best model is best in, of validation; lower is better unless its name ends in
        accuracy or f1_score.
    checkpoint_every_n_steps : int, optional
        Write ``last.ckpt`` within epochs, too.
    resume : bool, default False
        Go on from ``checkpoint`` where it has something; begin otherwise.
    load_best : bool, default False
        Leave the model with the weights of ``best/`` in place of the last ones.
    sync_batchnorm : bool, default False
        BatchNorm over the cells of all ranks, on GPUs.
    check_val_every_n_epoch : int, optional
        How often to validate; by default each epoch where something looks at it, else never.
    seed : int, optional
        Of the noise; drawn from torch's generator when absent. The order of the cells has that of
        the Dataset.
    progress : bool, default True
        Show how far it is; rank 0 does.
    plan_kwargs : mapping, optional
        For scvi-tools' training plan: ``lr``, ``n_epochs_kl_warmup``, ``reduce_lr_on_plateau``, ….
    callbacks : sequence
        Further callbacks of Lightning; classes of a notebook's cell are taken.
    **trainer
        For scvi-tools' Trainer: ``log_every_n_steps``, ``limit_train_batches``, ….

    Returns
    -------
    The model, trained, with `history`, `train_indices`, `validation_indices` and `test_indices`
    (places among the data module's cells in stored order).

    Raises
    ------
    RankFailed
        A process failed; the message has its traceback.
    InvalidArgument
        Arguments that do not go together, or a model of other genes or batches.

    Notes
    -----
    Each rank takes batches of the data module's batch size: the batch of a step is as many times
    larger as there are ranks, and there are as many times fewer steps in an epoch. The learning rate
    is not changed; with N ranks, divide the batch size by N to train as on one, or multiply
    ``plan_kwargs["lr"]`` by sqrt(N) (Adam) to N. docs/training.md says more.
    """
    if not isinstance(data, DataModule):
        raise InvalidArgument(f"data must be a penstock.scvi.DataModule, got {described(data)}")
    if isinstance(model, Mapping):
        model = data.create_model(**model)
    models.model_class(model)
    models.check_same_data(model, data)
    in_a_run = find_rank()[1] > 1
    accelerator, processes = _processes(accelerator, devices)
    run = _checked_run(
        model, data, accelerator, early_stopping, max_epochs,
        checkpoint=checkpoint, monitor=checkpoint_monitor, every_n_steps=checkpoint_every_n_steps,
        resume=resume, load_best=load_best, sync_batchnorm=sync_batchnorm,
        check_val=check_val_every_n_epoch, seed=seed, progress=progress,
        plan=dict(plan_kwargs or {}), callbacks=tuple(callbacks), trainer=trainer,
    )  # fmt: skip
    if in_a_run or processes == 1:
        with _detached(model, data):
            result = fit(model, data, run)
        model.best_ = result.get("best")
        data.trainer = None
        return model
    with _detached(model, data), _on_cpu(model):
        results = launch(fit, {"model": model, "data": data, "run": run}, processes)
    return _taken(model, data, results[0])


def _taken(model: Any, data: DataModule, result: Mapping[str, Any]) -> Any:
    """Give the caller's model what rank 0 has made of its copy."""
    model.module.load_state_dict(result["state"])
    model.module.eval()
    model.history_ = result["history"]
    model.best_ = result["best"]
    model.train_indices = data.train_idx
    model.validation_indices = data.val_idx
    model.test_indices = data.test_idx
    model.is_trained_ = True
    return model


def _processes(accelerator: str, devices: int | str) -> tuple[str, int]:
    names = ("auto", "cpu", "gpu", "cuda")
    if accelerator not in names:
        raise InvalidArgument(f"accelerator must be one of {', '.join(names)}, got {accelerator!r}")
    if accelerator == "auto":
        accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    gpus = torch.cuda.device_count()
    if accelerator != "cpu" and not gpus:
        raise InvalidArgument(f"accelerator={accelerator!r}, and torch sees no GPU here")
    if devices == "auto":
        return accelerator, 1
    count = checked_int("devices", devices, least=-1)
    if count == 0:
        raise InvalidArgument("devices must be 1 or more, -1 for all, or 'auto', got 0")
    if count == -1:
        return accelerator, len(os.sched_getaffinity(0)) if accelerator == "cpu" else gpus
    if accelerator != "cpu" and count > gpus:
        raise InvalidArgument(f"devices={count}, and torch sees {gpus} GPUs")
    return accelerator, count


def _checked_run(
    model: Any,
    data: DataModule,
    accelerator: str,
    early_stopping: Any,
    max_epochs: int | None,
    **given: Any,
) -> Run:
    stopping: dict[str, Any] | None = None
    if early_stopping:
        stopping = {**_EARLY_STOPPING}
        if isinstance(early_stopping, Mapping):
            stopping.update(early_stopping)
    folder = None if given["checkpoint"] is None else Path(given["checkpoint"]).absolute()
    plateau = bool(given["plan"].get("reduce_lr_on_plateau"))
    has_val = data.val is not None
    if (stopping or plateau) and not has_val:
        what = "early_stopping" if stopping else "reduce_lr_on_plateau"
        raise InvalidArgument(f"{what} looks at validation, and the data module has no such cells")
    if (given["resume"] or given["load_best"] or given["every_n_steps"]) and folder is None:
        raise InvalidArgument(
            "resume, load_best and checkpoint_every_n_steps need checkpoint=, a folder"
        )
    if given["sync_batchnorm"] and accelerator == "cpu":
        raise InvalidArgument("sync_batchnorm needs GPUs: torch has none such on the CPU")
    check_val = given["check_val"]
    if check_val is None and has_val and (stopping or plateau or folder is not None):
        check_val = 1
    for name in ("strategy", "num_nodes", "datamodule", "devices"):
        if name in given["trainer"]:
            raise InvalidArgument(f"{name} is chosen by penstock.scvi.train: leave it out")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    seed = given["seed"]
    if seed is None:
        seed = int(torch.randint(2**31, ()))
    monitor = given["monitor"]
    return Run(
        max_epochs=_epochs(model, data, max_epochs),
        accelerator=accelerator,
        seed=checked_int("seed", seed, least=0, most=2**63 - 1),
        early_stopping=stopping,
        checkpoint=folder,
        monitor=monitor if has_val else None,
        mode="max" if monitor.endswith(("accuracy", "f1_score")) else "min",
        every_n_steps=given["every_n_steps"],
        resume=last_checkpoint(folder) if given["resume"] and folder is not None else None,
        load_best=given["load_best"],
        sync_batchnorm=given["sync_batchnorm"],
        progress=given["progress"],
        check_val_every_n_epoch=check_val,
        plan=given["plan"],
        trainer=given["trainer"],
        callbacks=given["callbacks"],
    )


def _epochs(model: Any, data: DataModule, max_epochs: int | None) -> int:
    if max_epochs is not None:
        return checked_int("max_epochs", max_epochs, least=1)
    from scvi.model._utils import get_max_epochs_heuristic

    epochs = int(get_max_epochs_heuristic(data.n_obs))
    if getattr(model, "was_pretrained", False):
        epochs = min(10, max(2, round(epochs / 3.0)))
    return epochs


@contextlib.contextmanager
def _detached(model: Any, data: DataModule) -> Iterator[None]:
    """Take off what an earlier run left and no process needs: trainers hold loaders."""
    model.__dict__.pop("trainer", None)
    data.trainer = None
    yield


@contextlib.contextmanager
def _on_cpu(model: Any) -> Iterator[None]:
    """Tensors travel from the CPU; the model is where it was after."""
    device = model.device
    model.to_device("cpu")
    try:
        yield
    finally:
        model.to_device(device)
