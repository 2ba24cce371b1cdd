"""Inference of one row per cell, in stored order: here, on several processes, or on an executor."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from penstock.base.forked_child import keep_torch_from_waiting
from penstock.base.validation import checked_int
from penstock.errors import Internal, InvalidArgument
from penstock.executors.parts import checked_executor, one_in_a_process
from penstock.experiment.bucket import Bucket
from penstock.inference.map_batches import evaluating
from penstock.inference.parts import Parts, fill_parts
from penstock.inference.rows import (
    Rows,
    check_writer,
    checked_out,
    create,
    finished,
    open_rows,
    rows_file,
)
from penstock.plan.shard import find_rank

from ..data import models
from ..data.data_module import DataModule
from ..registry.loaders import JOINID, to_device
from ..registry.model_classes import model_class
from ..run.devices import checked_devices, detached, on_cpu
from ..run.launch import launch
from .row_writers import RowFunction


@dataclass(frozen=True)
class InferenceOptions:
    """Arguments that all inferences share; see `penstock.scvi.latent`."""

    batch_size: int
    devices: int | str
    accelerator: str
    out: Any
    dataset: dict[str, Any] | None
    executor: Any
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
    path = checked_out(options.out)
    cells = aligned_cells(model, data, options.dataset)
    size = checked_int("batch_size", options.batch_size, least=1)
    seed = checked_int("seed", options.seed, least=0, most=2**63 - 1)
    job = _Job(model, cells, infer, size, seed)
    if options.executor is not None:
        executor = checked_executor(options.executor)
        if options.devices not in (1, "auto"):
            raise InvalidArgument(
                f"devices={options.devices!r} asks for processes of this machine, but the executor has "
                "its own: leave devices out"
            )
        processes = 1
    else:
        accelerator, processes = checked_devices(options.accelerator, options.devices)
    _check_run(processes, path)
    processes = min(processes, max(1, job.batches))
    rows = (cells.n_obs, *shape)
    with rows_file(path) as file:
        values: Any
        if processes == 1:
            values = np.empty(rows, dtype) if path is None else create(file, rows, dtype)
        if options.executor is not None:
            with detached(model, cells), on_cpu(model):
                call = job.pickled(), options.accelerator, shape, dtype
            parts = Parts(call, cells.n_obs, size, values[:1].nbytes)
            try:
                fill_parts(values, executor, _infer_part, parts)
            finally:
                _loaded.cache_clear()  # of an executor that has threads
        elif processes == 1:
            job.fill(values, range(job.batches), device_of(accelerator))
        else:
            create(file, rows, dtype)
            with detached(model, cells), on_cpu(model):
                launch(
                    _fill_file, {"file": file, "job": job, "accelerator": accelerator}, processes
                )
            values = open_rows(file)
            if path is None:
                values = np.array(values)
        joinids = cells.joinids
        if path is not None:
            values.flush()
            values = finished(file, joinids, path)
        return Rows(values, joinids, columns, _index_name=cells.dataset.obs.index_name)


@dataclass(frozen=True)
class _Job:
    """A model and the cells to infer, of which any range of batches can be inferred alone."""

    model: Any
    data: DataModule
    infer: RowFunction
    size: int
    seed: int

    @property
    def batches(self) -> int:
        """Number of batches of all cells."""
        return -(-self.data.n_obs // self.size)

    def pickled(self) -> bytes:
        """Return the job as bytes, with what is defined in ``__main__``."""
        import cloudpickle

        made: bytes = cloudpickle.dumps(self)
        return made

    @torch.inference_mode()
    def fill(self, values: npt.NDArray[Any], batches: range, device: torch.device) -> None:
        """Write the rows of some batches, in stored order, to `values`, which begins with the first.

        A batch has the same cells and draws from the same seed in every range.
        """
        first = place = batches.start * self.size
        end = min(batches.stop * self.size, self.data.n_obs)
        before = self.model.device
        with one_in_a_process(), torch.random.fork_rng(), evaluating(self.model.module):
            try:
                self.model.to_device(device)
                for tensors in self.data.stored_batches(self.size, place, end):
                    joinid = int(tensors.pop(JOINID)[0])
                    if joinid != self.data.joinid_at(place):
                        raise Internal(f"got cell {joinid}, expected {self.data.joinid_at(place)}")
                    torch.manual_seed((self.seed + place // self.size) % 2**63)
                    made = self.infer(self.model, to_device(tensors, device)).cpu().numpy()
                    values[place - first : place - first + len(made)] = made
                    place += len(made)
            finally:
                self.model.to_device(before)
        if place != end:
            raise Internal(f"got cells up to {place:,}, expected {end:,}")


def _infer_part(
    first: int, end: int, job: bytes, accelerator: str, shape: tuple[int, ...], dtype: str
) -> npt.NDArray[Any]:
    """Return the rows of a range of cells, on a worker of an executor."""
    keep_torch_from_waiting()
    loaded = _loaded(job)
    values = np.empty((end - first, *shape), dtype)
    batches = range(first // loaded.size, -(-end // loaded.size))
    loaded.fill(values, batches, device_of(accelerator))
    return values


@lru_cache(maxsize=1)
def _loaded(job: bytes) -> _Job:
    return pickle.loads(job)  # type: ignore[no-any-return]


def _fill_file(file: Path, job: _Job, accelerator: str) -> None:
    """Write the batches of this rank to a file that all ranks write."""
    rank, world_size = find_rank()
    values = open_rows(file)
    batches = range(job.batches * rank // world_size, job.batches * (rank + 1) // world_size)
    job.fill(values[batches.start * job.size :], batches, _device(accelerator, rank))
    values.flush()


def _check_run(processes: int, path: Path | Bucket | None) -> None:
    """Refuse several processes, or a file of another rank than 0, within a run of ranks."""
    world_size = find_rank()[1]
    if world_size > 1 and processes > 1:
        raise InvalidArgument(
            f"a rank of a run of {world_size} infers all cells by itself: devices must be 1 or "
            f"'auto', got {processes}"
        )
    check_writer(path)


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


def _device(accelerator: str, number: int | None) -> torch.device:
    """Return the CPU or a GPU, by default the current one."""
    if accelerator == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device() if number is None else number)
