"""Checks of the arguments of `penstock.scvi.train`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from penstock.base.suggestions import did_you_mean
from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path
from penstock.errors import InvalidArgument

from ..data.data_module import DataModule
from ..registry.model_classes import early_stopping_defaults, training_default
from .fit import Run, last_checkpoint
from .resume_checks import check_resume

#: Refused arguments of scvi-tools' `train` and Trainer, with their replacements.
_OTHERWISE = {
    **dict.fromkeys(
        ("datamodule", "devices", "num_nodes", "strategy"),
        "is chosen by penstock.scvi.train: leave it out",
    ),
    **dict.fromkeys(
        ("batch_size", "train_size", "validation_size", "n_samples_per_label"),
        "is the data module's: give it to DataModule",
    ),
    "shuffle_set_split": "is the data module's: it has split_seed, stratify and group",
    "datasplitter_kwargs": "is for an AnnData: give DataModule its arguments",
    "load_sparse_tensor": "is the data module's: give DataModule sparse=",
    "epochs": "is max_epochs=",
    "max_epoch": "is max_epochs=",
    "n_epochs": "is max_epochs=",
    "lr": "is plan_kwargs={'lr': …}",
    "logger_dir": "is the logger's: give logger= of Lightning",
    "max_steps": "is not counted here: give max_epochs=",
    "use_gpu": "is accelerator='gpu'",
    "enable_checkpointing": "has each rank write the same file: use checkpoint=",
    "ckpt_path": "is checkpoint= with resume=True",
}

#: Arguments of `penstock.scvi.train` that a typing error may have meant.
_OWN = ("accelerator", "checkpoint", "devices", "early_stopping", "load_best", "progress", "resume")


def _check_names(trainer: Mapping[str, Any]) -> None:
    """Refuse an argument that neither scvi-tools' Trainer nor Lightning's has."""
    import scvi.train
    from lightning.pytorch import Trainer

    there = {
        name
        for each in (scvi.train.Trainer, Trainer)
        for name in inspect.signature(each).parameters
    }
    for name in trainer.keys() - there:
        raise TypeError(f"train() has no argument {name!r}{did_you_mean(name, there | {*_OWN})}")


#: Start of scvi-tools' arguments about early stopping.
_STOPPING = "early_stopping_"


def checked_run(
    model: Any,
    data: DataModule,
    accelerator: str,
    world_size: int,
    early_stopping: Any,
    max_epochs: int | None,
    **given: Any,
) -> Run:
    """Return the settings of a run; raise `InvalidArgument` if they are inconsistent."""
    has_val = data.val is not None
    early_stopping = _with_words_of_scvi(early_stopping, given["trainer"])
    if early_stopping is None:
        early_stopping = has_val and training_default(type(model), "early_stopping", False)
    progress = given["trainer"].pop("enable_progress_bar", given["progress"])
    stopping: dict[str, Any] | None = None
    if early_stopping:
        stopping = {**early_stopping_defaults(type(model))}
        if isinstance(early_stopping, Mapping):
            stopping.update(_checked_stopping(early_stopping, tuple(stopping)))
    folder = None
    if given["checkpoint"] is not None:
        folder = Path(checked_local_path("checkpoint", given["checkpoint"])).absolute()
    plateau = bool(given["plan"].get("reduce_lr_on_plateau"))
    if (stopping or plateau) and not has_val:
        what = "early_stopping" if stopping else "reduce_lr_on_plateau"
        raise InvalidArgument(f"{what} needs validation cells, but the data module has none")
    if (given["resume"] or given["load_best"] or given["every_n_steps"]) and folder is None:
        raise InvalidArgument(
            "resume, load_best and checkpoint_every_n_steps need checkpoint=, a folder"
        )
    if given["sync_batchnorm"] and accelerator == "cpu":
        raise InvalidArgument("sync_batchnorm needs GPUs: torch has none such on the CPU")
    check_val = given["check_val"]
    if check_val is None and has_val and (stopping or plateau or folder is not None):
        check_val = 1
    for name in given["trainer"]:
        if name in _OTHERWISE:
            raise InvalidArgument(f"{name} {_OTHERWISE[name]}")
    _check_names(given["trainer"])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    seed = given["seed"]
    if seed is None:
        seed = int(torch.randint(2**31, ()))
    monitor = given["monitor"]
    epochs = _epochs(model, data, max_epochs)
    if given["load_best"] and has_val and check_val is not None and check_val > epochs:
        raise InvalidArgument(
            "load_best needs a validation, but there is none in "
            f"{plural(epochs, 'epoch')} with check_val_every_n_epoch={check_val}: use at most {epochs}"
        )
    resume = last_checkpoint(folder) if given["resume"] and folder is not None else None
    if resume is not None:
        check_resume(resume, model, data, world_size, epochs)
    return Run(
        max_epochs=epochs,
        accelerator=accelerator,
        seed=checked_int("seed", seed, least=0, most=2**63 - 1),
        early_stopping=stopping,
        checkpoint=folder,
        monitor=monitor if has_val else None,
        mode=_mode(monitor),
        every_n_steps=_every(given["every_n_steps"]),
        resume=resume,
        load_best=given["load_best"],
        sync_batchnorm=given["sync_batchnorm"],
        progress=progress,
        check_val_every_n_epoch=check_val,
        plan=given["plan"],
        trainer=given["trainer"],
        callbacks=given["callbacks"],
    )


def _with_words_of_scvi(early_stopping: Any, trainer: dict[str, Any]) -> Any:
    """Return `early_stopping` with scvi-tools' arguments ``early_stopping_patience`` and the like.

    They are taken out of `trainer`, and mean early stopping, too.
    """
    given = {
        name.removeprefix(_STOPPING): trainer.pop(name)
        for name in list(trainer)
        if name.startswith(_STOPPING)
    }
    if not given:
        return early_stopping
    if early_stopping is False:
        first = next(iter(given))
        raise InvalidArgument(f"{_STOPPING}{first} needs early_stopping=True, got False")
    return {**(early_stopping if isinstance(early_stopping, Mapping) else {}), **given}


def _mode(monitor: str) -> str:
    """Return "max" if a higher value of the metric is better, judged by its name, else "min"."""
    return "max" if monitor.endswith(("accuracy", "f1_score")) else "min"


def _every(steps: int | None) -> int | None:
    return None if steps is None else checked_int("checkpoint_every_n_steps", steps, least=1)


def _checked_stopping(given: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    known = (*known, "warmup_epochs")
    for name in given:
        if name not in known:
            raise InvalidArgument(f"early_stopping takes {', '.join(known)}, got {name!r}")
    made = dict(given)
    if "patience" in made:
        made["patience"] = checked_int("early_stopping['patience']", made["patience"], least=0)
    if "monitor" in made:
        made.setdefault("mode", _mode(made["monitor"]))
    return made


def _epochs(model: Any, data: DataModule, max_epochs: int | None) -> int:
    if max_epochs is not None:
        return checked_int("max_epochs", max_epochs, least=1)
    from scvi.model._utils import get_max_epochs_heuristic

    epochs = training_default(type(model), "max_epochs", None)
    if epochs is not None:
        return int(epochs)
    epochs = int(get_max_epochs_heuristic(data.n_obs))
    if getattr(model, "was_pretrained", False):
        epochs = min(10, max(2, round(epochs / 3.0)))
    return epochs
