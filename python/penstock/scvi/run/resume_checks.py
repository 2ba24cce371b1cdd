"""Checks of the checkpoint that a run resumes from. Imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from penstock.base.text import plural
from penstock.errors import CorruptData, InvalidArgument

from ..data.data_module import DataModule
from .checkpoint import RUN


def check_resume(
    path: Path, model: Any, data: DataModule, world_size: int, max_epochs: int
) -> None:
    """Refuse a checkpoint that this run cannot resume.

    Raises
    ------
    CorruptData
        The checkpoint cannot be read.
    InvalidArgument
        The checkpoint has another model, other cells or more epochs; or it is within an epoch that
        had another number of processes or another batch size.
    """
    saved = _read(path)
    _check_weights(path, saved, model)
    begun = int(saved["epoch"]) + 1
    if begun > max_epochs:
        raise InvalidArgument(
            f"{path} is of epoch {begun}, but max_epochs={max_epochs}: use max_epochs={begun} or more, "
            "or start over with resume=False"
        )
    _check_cells(path, saved, data)
    _check_rest_of_epoch(path, saved.get(RUN, {}), data, world_size)


def _read(path: Path) -> dict[str, Any]:
    try:
        saved = torch.load(path, map_location="cpu", weights_only=False)
        if not {"epoch", "state_dict", "loops"} <= set(saved):
            raise ValueError("it is no checkpoint")
    except Exception as error:
        raise CorruptData(
            f"{path} cannot be read ({type(error).__name__}: {error}): remove it to start over"
        ) from None
    return dict(saved)


def _check_weights(path: Path, saved: dict[str, Any], model: Any) -> None:
    theirs = {
        name.removeprefix("module.").removeprefix("_orig_mod."): tuple(each.shape)
        for name, each in saved["state_dict"].items()
        if name.startswith("module.")
    }
    ours = {name: tuple(each.shape) for name, each in model.module.state_dict().items()}
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            raise InvalidArgument(
                f"{path} is of another model: its {name} has the shape {theirs.get(name)}, but "
                f"the {type(model).__name__} has {ours.get(name)}; make the model as before, or start "
                "over with resume=False"
            )


def _check_cells(path: Path, saved: dict[str, Any], data: DataModule) -> None:
    """Compare the cells: between epochs, a run resumes without the loader's state."""
    states = saved["loops"].get("fit_loop", {}).get("state_dict", {}).get("combined_loader", [])
    for state in states:
        if "cells" not in state and "selection" not in state:
            continue  # of a user's own loader
        try:
            data.train.reader.checked_position(state.get("cells", state))
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{path} is of other training cells: {error}; make the data module as before, or "
                "start over with resume=False"
            ) from None


def _check_rest_of_epoch(
    path: Path, run: dict[str, Any], data: DataModule, world_size: int
) -> None:
    """Refuse another number of batches, with which Lightning misses the end of the epoch."""
    if not run.get("within_epoch"):
        return
    before = run["world_size"], run["batch_size"]
    now = world_size, data.train.batch_size
    if before != now:
        raise InvalidArgument(
            f"{path} is within an epoch of {plural(before[0], 'process')} with batch_size={before[1]}, but "
            f"this run has {plural(now[0], 'process')} with batch_size={now[1]}: use the same as before, "
            "or start over with resume=False; at the end of an epoch both can be changed"
        )
