"""Training a model of scvi-tools in one call, on one process or several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.plan.shard import find_rank

from ..data import models
from ..data.data_module import DataModule
from ..registry.model_classes import model_class
from .devices import checked_devices, detached, on_cpu
from .fit import fit, from_first_rank
from .launch import launch
from .run_settings import checked_run


def train(
    model: Any,
    data: DataModule | None = None,
    *,
    devices: int | str = "auto",
    accelerator: str = "auto",
    max_epochs: int | None = None,
    early_stopping: bool | Mapping[str, Any] | None = None,
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
        The model to train in place: ``data.create_model()``, or a model that was trained before. A
        mapping gives arguments of `DataModule.create_model`.
    data : DataModule
        The cells; scvi-tools' ``datamodule`` means the same.
    devices : int or "auto"
        Number of processes, one per GPU or on the CPU. -1 means all GPUs or cores, "auto" means
        one. Within an existing run (torchrun, Slurm), the run sets the number.
    accelerator : {"auto", "gpu", "cpu"}
        Device to train on; "auto" uses a GPU if there is one.
    max_epochs : int, optional
        By default as in scvi-tools: 400, and fewer from 20,000 cells on (a third of that, 2 to 10,
        for a SCANVI made from a SCVI); 500 for PEAKVI, POISSONVI and MULTIVI, 300 for CondSCVI.
    early_stopping : bool or mapping, optional
        Whether to stop when the validation ELBO over all ranks no longer improves; PEAKVI,
        POISSONVI and MULTIVI watch the reconstruction loss. By default as in scvi-tools: these three
        and TOTALVI stop early, if there are validation cells. A mapping sets ``monitor``,
        ``patience`` (epochs, 45; 50 for the three), ``min_delta``, ``mode`` (by default as for
        `checkpoint_monitor`) and ``warmup_epochs``. scvi-tools' arguments
        ``early_stopping_patience``, ``early_stopping_monitor`` and the like mean the same, and turn
        it on.
    checkpoint : path, optional
        Folder for the best model (``best/``, as scvi-tools saves it) and the checkpoint to resume
        from (``last.ckpt``). Rank 0 writes them at the end of each epoch. A run that does not
        resume removes those of an earlier run.
    checkpoint_monitor : str
        Validation metric of the best model; lower is better unless its name ends in accuracy or
        f1_score.
    checkpoint_every_n_steps : int, optional
        Steps after which ``last.ckpt`` is written within an epoch, too.
    resume : bool, default False
        Whether to resume from ``checkpoint``; if it holds no checkpoint, training starts.
    load_best : bool, default False
        Whether the model ends with the weights of ``best/`` instead of the last ones.
    sync_batchnorm : bool, default False
        Whether BatchNorm uses the cells of all ranks, on GPUs.
    check_val_every_n_epoch : int, optional
        Epochs between validations; by default 1 if a metric of validation is used, else none.
    seed : int, optional
        Seed of the noise; by default drawn from torch's generator. The Dataset's seed sets the
        order of the cells.
    progress : bool, default True
        Whether rank 0 shows a progress bar; Lightning's ``enable_progress_bar`` means the same.
    plan_kwargs : mapping, optional
        Arguments of scvi-tools' training plan: ``lr``, ``n_epochs_kl_warmup``,
        ``reduce_lr_on_plateau``, …. Defaults are those of the model's own ``train``.
    callbacks : sequence
        Further callbacks of Lightning; their classes may be defined in a notebook.
    **trainer
        Arguments of scvi-tools' Trainer: ``log_every_n_steps``, ``limit_train_batches``, ….

    Returns
    -------
    The model, trained, with `history`, `train_indices`, `validation_indices` and `test_indices`
    (positions among the data module's cells in stored order).

    Raises
    ------
    RankFailed
        A process failed; the message has its traceback.
    InvalidArgument
        Arguments are inconsistent; the model has other genes, batches, covariates or labels; or
        the checkpoint has another model, other cells or more epochs.
    CorruptData
        ``last.ckpt`` cannot be read.

    Notes
    -----
    Each rank uses the data module's batch size: with N ranks, a step trains on N times as many
    cells, and an epoch has a N-th of the steps. The learning rate does not change. Divide the batch
    size by N to train as on one rank, or multiply ``plan_kwargs["lr"]`` by sqrt(N) (Adam) to N. See
    docs/how-to/training.md.
    """
    if data is None:
        data = trainer.pop("datamodule", None)
    if isinstance(model, DataModule):
        raise InvalidArgument("the model comes first: penstock.scvi.train(model, data)")
    if not isinstance(data, DataModule):
        raise InvalidArgument(f"data must be a penstock.scvi.DataModule, got {described(data)}")
    if isinstance(model, Mapping):
        model = data.create_model(**model)
    model_class(model)
    models.check_same_training(model, data)
    data.check_trained_cells()
    world_size = find_rank()[1]
    in_a_run = world_size > 1
    accelerator, processes = checked_devices(accelerator, devices)
    run = checked_run(
        model, data, accelerator, world_size if in_a_run else processes, early_stopping, max_epochs,
        checkpoint=checkpoint, monitor=checkpoint_monitor, every_n_steps=checkpoint_every_n_steps,
        resume=resume, load_best=load_best, sync_batchnorm=sync_batchnorm,
        check_val=check_val_every_n_epoch, seed=seed, progress=progress,
        plan=dict(plan_kwargs or {}), callbacks=tuple(callbacks), trainer=trainer,
    )  # fmt: skip
    if in_a_run or processes == 1:
        with detached(model, data):
            result = fit(model, data, run)
        # Only the logger of rank 0 has the metrics of all ranks.
        model.history_, model.best_ = from_first_rank((result.get("history"), result.get("best")))
        data.trainer = None
        return model
    with detached(model, data), on_cpu(model):
        results = launch(fit, {"model": model, "data": data, "run": run}, processes)
    return _taken(model, data, results[0])


def _taken(model: Any, data: DataModule, result: Mapping[str, Any]) -> Any:
    """Copy the result of rank 0 to the caller's model."""
    model.module.load_state_dict(result["state"])
    model.module.eval()
    model.history_ = result["history"]
    model.best_ = result["best"]
    model.train_indices = data.train_idx
    model.validation_indices = data.val_idx
    model.test_indices = data.test_idx
    model.is_trained_ = True
    return model
