"""Training a model of scvi-tools in one call, on one process or several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.plan.shard import find_rank

from . import models
from .data_module import DataModule
from .devices import checked_devices, detached, on_cpu
from .fit import fit, from_first_rank
from .launch import launch
from .run_settings import checked_run


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
        ``patience`` (epochs, 45), ``min_delta``, ``mode`` (as of `checkpoint_monitor`) and
        ``warmup_epochs``.
    checkpoint : path, optional
        A folder for the best model (``best/``, as scvi-tools saves it) and to resume from
        (``last.ckpt``), written at the end of each epoch, by rank 0. A run that does not go on
        from it removes what an earlier one left there.
    checkpoint_monitor : str
        What the best model is best in, of validation; lower is better unless its name ends in
        accuracy or f1_score.
    checkpoint_every_n_steps : int, optional
        Write ``last.ckpt`` within epochs, too.
    resume : bool, default False
        Resume from ``checkpoint`` where it has something; begin otherwise.
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
        Arguments that do not go together, a model of other genes, batches, covariates or labels,
        or a checkpoint of another model, of other cells or of more epochs.
    CorruptData
        ``last.ckpt`` cannot be read.

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
        # The logger of rank 0 alone has kept what all ranks measured.
        model.history_, model.best_ = from_first_rank((result.get("history"), result.get("best")))
        data.trainer = None
        return model
    with detached(model, data), on_cpu(model):
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
