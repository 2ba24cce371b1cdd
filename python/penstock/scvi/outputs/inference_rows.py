"""Inference of one row per cell, in stored order, on one process or several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from penstock.base.validation import checked_int
from penstock.errors import Internal, InvalidArgument
from penstock.plan.shard import find_rank

from ..data import models
from ..data.data_module import DataModule
from ..registry.loaders import JOINID, to_device
from ..registry.model_classes import model_class
from ..run.devices import checked_devices, detached, on_cpu
from ..run.launch import launch
from . import model_outputs
from .model_outputs import Rows
from .row_writers import RowFunction


@dataclass(frozen=True)
class InferenceOptions:
    """Arguments that all inferences share; see `penstock.scvi.latent`."""

    batch_size: int
    devices: int | str
    accelerator: str
    out: Any
    dataset: dict[str, Any] | None
    seed: int = 0


def rows_of(
    model: Any,
    data: Any,
    infer: RowFunction,
    options: InferenceOptions,
    shape: tuple[int, ...] = (),
    dtype: str = "float32",
    columns: npt.NDArray[Any] | None = None,
) -> Rows:
    """Infer one row of `shape` for each cell."""
    model_class(model)
    check_trained(model)
    path = model_outputs.checked_out(options.out)
    cells = aligned_cells(model, data, options.dataset)
    size = checked_int("batch_size", options.batch_size, least=1)
    seed = checked_int("seed", options.seed, least=0, most=2**63 - 1)
    accelerator, processes = checked_devices(options.accelerator, options.devices)
    processes = min(processes, max(1, cells.n_obs))
    _check_run(processes, path)
    rows = (cells.n_obs, *shape)
    with model_outputs.rows_file(path) as file:
        arguments = {
            "model": model, "data": cells, "infer": infer, "size": size,
            "seed": seed, "accelerator": accelerator,
        }  # fmt: skip
        values: Any
        if processes == 1:
            values = (
                model_outputs.create(file, rows, dtype)
                if path is not None
                else np.empty(rows, dtype)
            )
            _fill(values, **arguments, alone=True)
        else:
            model_outputs.create(file, rows, dtype)
            with detached(model, cells), on_cpu(model):
                launch(_fill_file, {"file": file, **arguments}, processes)
            values = model_outputs.open_rows(file)
            if path is None:
                values = np.array(values)
        joinids = cells.joinids
        if path is not None:
            values.flush()
            values = model_outputs.finished(file, joinids, path)
        return Rows(values, joinids, columns)


def _check_run(processes: int, path: Path | None) -> None:
    """Refuse several processes, or a file of another rank than 0, within a run of ranks."""
    rank, world_size = find_rank()
    if world_size == 1:
        return
    if processes > 1:
        raise InvalidArgument(
            f"a rank of a run of {world_size} infers all cells by itself: devices must be 1 or "
            f"'auto', got {processes}"
        )
    if rank > 0 and path is not None:
        raise InvalidArgument(
            f"only rank 0 can write {path.name}, but this is rank {rank} of {world_size}: pass out= "
            "on rank 0 only"
        )


def check_trained(model: Any) -> None:
    """Raise `InvalidArgument` if a model is not trained."""
    if not model.is_trained_:
        raise InvalidArgument("the model is not trained yet: its answers would be noise")


def device_of(accelerator: str) -> torch.device:
    """Return the device for one process: the CPU, or the current GPU."""
    return _device(checked_devices(accelerator, 1)[0], None)


def aligned_cells(model: Any, data: Any, dataset: dict[str, Any] | None) -> DataModule:
    """Return the cells as a data module for the model."""
    if isinstance(data, DataModule):
        if dataset:
            raise InvalidArgument("dataset= is for data that is no DataModule yet")
        models.check_same_data(model, data)
        return data
    models.check_weights(model)
    return DataModule.from_model(model, data, train_size=1.0, dataset=dataset)


def _fill_file(file: Path, **arguments: Any) -> None:
    values = model_outputs.open_rows(file)
    _fill(values, **arguments, alone=False)
    values.flush()


@torch.inference_mode()
def _fill(
    values: npt.NDArray[Any],
    *,
    model: Any,
    data: DataModule,
    infer: RowFunction,
    size: int,
    seed: int,
    accelerator: str,
    alone: bool,
) -> None:
    """Write all rows, or the rows of this rank after those of the ranks before it."""
    rank, world_size = (0, 1) if alone else find_rank()
    device = _device(accelerator, None if alone else rank)
    before = model.device
    with _seeded(seed, rank), _evaluating(model):
        model.to_device(device)
        # Ranks have contiguous parts; the first `longer` ranks have one cell more.
        share, longer = divmod(data.n_obs, world_size)
        place = rank * share + min(rank, longer)
        for tensors in data.stored_batches(size, alone):
            first = int(tensors.pop(JOINID)[0])
            made = infer(model, to_device(tensors, device)).cpu().numpy()
            if first != data.joinid_at(place):
                raise Internal(f"got cell {first}, expected {data.joinid_at(place)}")
            values[place : place + len(made)] = made
            place += len(made)
    if world_size == 1:
        model.to_device(before)


def _device(accelerator: str, number: int | None) -> torch.device:
    """Return the CPU or a GPU, by default the current one."""
    if accelerator == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device() if number is None else number)


@contextlib.contextmanager
def _seeded(seed: int, rank: int) -> Iterator[None]:
    """Seed torch, and restore the state of its generators afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed + rank)
        yield


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    was = model.module.training
    model.module.eval()
    try:
        yield
    finally:
        model.module.train(was)
