"""What a trained model says of every cell, in stored order, a batch at a time. Imports torch."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..arguments import checked_int, described
from ..errors import Internal, InvalidArgument
from ..sharding import find_rank
from . import models, outputs
from .data_module import DataModule
from .launch import launch
from .loaders import BATCH, JOINID, X, to_device
from .outputs import Rows
from .train import _detached, _on_cpu, _processes

#: What makes the rows of a batch: (model, tensors) -> (cells,) or (cells, columns).
Infer = Callable[[Any, dict[str, torch.Tensor]], torch.Tensor]


def latent(
    model: Any,
    data: Any,
    *,
    return_dist: bool = False,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
) -> Rows:
    """Mean of the latent variables of each cell.

    Parameters
    ----------
    model : SCVI, LinearSCVI or SCANVI
        Trained.
    data : DataModule, Dataset, or what a `Dataset` takes
        The cells; what is no DataModule is aligned to the model as by `DataModule.from_model`.
    return_dist : bool, default False
        The variances, too, after the means.
    batch_size : int, default 512
        Cells at a time.
    devices, accelerator
        Processes, as of `penstock.scvi.train`: each infers a stretch of the cells.
    out : None, "memory" or path
        Where rows go: an array, a memory-mapped file (``.npy``) or a zarr group (``.zarr``, with
        arrays ``values`` and ``joinids``).
    dataset : dict, optional
        Arguments of `Dataset` when `data` is a path.

    Returns
    -------
    Rows
        ``values`` float32, (cells, latent variables), in stored order; ``joinids``.

    Raises
    ------
    InvalidArgument
        The model is not trained, or of other genes or categories.
    """
    n_latent = int(model.module.n_latent)
    names = [f"Z_{i}" for i in range(n_latent)]
    if return_dist:
        names = [f"{name}_{what}" for what in ("mean", "var") for name in names]
    shape = (len(names),)
    infer = _Latent(return_dist)
    return _rows(
        model, data, infer, shape, "float32", np.array(names), batch_size, devices, accelerator,
        out, dataset,
    )  # fmt: skip


def normalized(
    model: Any,
    data: Any,
    *,
    genes: Sequence[str] | None = None,
    transform_batch: Any = None,
    library_size: float | str = 1,
    seed: int = 0,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
) -> Rows:
    """Decoded expression of each cell, as scvi-tools' ``get_normalized_expression``.

    Parameters
    ----------
    model, data, batch_size, devices, accelerator, out, dataset
        As of `latent`.
    genes : sequence of str, optional
        Which, in this order; the others are never copied from the decoder's batch.
    transform_batch : batch or sequence of batches, optional
        As if cells were of this batch; over several the mean.
    library_size : float or "latent", default 1
        What a cell's expression sums to; "latent" is the model's own.
    seed : int, default 0
        Of the draw of the latent variables, the same for the same batches and processes.

    Returns
    -------
    Rows
        ``values`` float32, (cells, genes); ``columns`` are the genes.

    Raises
    ------
    InvalidArgument
        No such gene or batch.
    """
    if isinstance(library_size, str) and library_size != "latent":
        raise InvalidArgument(f"library_size must be a number or 'latent', got {library_size!r}")
    names = np.asarray(model.get_var_names()).astype(str)
    places = _gene_places(names, genes)
    infer = _Normalized(places, _batch_codes(model, transform_batch), library_size)
    chosen = names if places is None else names[places]
    return _rows(
        model, data, infer, (len(chosen),), "float32", chosen, batch_size, devices, accelerator,
        out, dataset, seed,
    )  # fmt: skip


def elbo(
    model: Any,
    data: Any,
    *,
    seed: int = 0,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
) -> Rows:
    """Evidence lower bound of each cell; higher is better, as scvi-tools' ``get_elbo``.

    ``values`` is float32, (cells,); its mean is that of scvi-tools. Arguments are those of
    `normalized`.
    """
    return _rows(
        model, data, _Elbo(), (), "float32", None, batch_size, devices, accelerator, out, dataset,
        seed,
    )  # fmt: skip


def predict(
    model: Any,
    data: Any,
    *,
    soft: bool = False,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
) -> Rows:
    """Label of each cell by a SCANVI.

    Returns
    -------
    Rows
        ``values`` are labels, (cells,), or with `soft` probabilities, float32, (cells, labels). In
        a file labels are numbers, int32, into ``columns``, the labels.

    Raises
    ------
    InvalidArgument
        The model has no classifier.
    """
    if not hasattr(model.module, "classifier"):
        raise InvalidArgument(f"predict takes a SCANVI, got {type(model).__name__}")
    labels = np.asarray(model._label_mapping)[: model.n_labels]
    infer = _Labels(soft)
    shape, dtype = ((len(labels),), "float32") if soft else ((), "int32")
    rows = _rows(
        model, data, infer, shape, dtype, labels, batch_size, devices, accelerator, out, dataset
    )
    if soft or outputs.checked_out(out) is not None:
        return rows
    return rows._replace(values=labels[rows.values])


# What is done to a batch. Classes of a module, so that they travel to other processes.


@dataclass(frozen=True)
class _Latent:
    return_dist: bool

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        module = model.module
        outputs_ = module.inference(**module._get_inference_input(tensors))
        qz = outputs_["qz"]
        mean = qz.loc
        if self.return_dist:
            return torch.cat([mean, qz.scale.square()], dim=1)
        if getattr(module, "latent_distribution", None) == "ln":
            # The mean has no closed form: scvi-tools' estimate, of as many samples.
            samples = torch.nn.functional.softmax(qz.sample([5_000]), dim=-1)
            return samples.mean(dim=0)
        return mean  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Normalized:
    places: npt.NDArray[np.int64] | None
    batches: Sequence[int | None]
    library_size: float | str

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        total: torch.Tensor | None = None
        key = "mu" if self.library_size == "latent" else "scale"
        for batch in self.batches:
            _, made = model.module.forward(
                tensors=tensors,
                inference_kwargs={"n_samples": 1},
                generative_kwargs=model._get_transform_batch_gen_kwargs(batch),
                compute_loss=False,
            )
            values = made["px"].get_normalized(key)
            if self.places is not None:
                values = values[:, torch.as_tensor(self.places, device=values.device)]
            total = values if total is None else total + values
        assert total is not None
        total = total / len(self.batches) if len(self.batches) > 1 else total
        return total if isinstance(self.library_size, str) else total * self.library_size


class _Elbo:
    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        _, _, losses = model.module(tensors, get_inference_input_kwargs={"full_forward_pass": True})
        return -(_summed(losses.reconstruction_loss) + _summed(losses.kl_local))


@dataclass(frozen=True)
class _Labels:
    soft: bool

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        scores = model.module.classify(
            tensors[X],
            batch_index=tensors[BATCH],
            cat_covs=tensors.get("extra_categorical_covs"),
            cont_covs=tensors.get("extra_continuous_covs"),
            use_posterior_mean=True,
        )
        if not self.soft:
            return scores.argmax(dim=1).to(torch.int32)  # type: ignore[no-any-return]
        if model.module.classifier.logits:
            scores = torch.nn.functional.softmax(scores, dim=-1)
        return scores  # type: ignore[no-any-return]


def _summed(values: Any) -> torch.Tensor:
    return sum(values.values()) if isinstance(values, dict) else values  # type: ignore[return-value]


# Cells and processes


def _rows(
    model: Any,
    data: Any,
    infer: Infer,
    shape: tuple[int, ...],
    dtype: str,
    columns: npt.NDArray[Any] | None,
    batch_size: int,
    devices: int | str,
    accelerator: str,
    out: Any,
    dataset: dict[str, Any] | None,
    seed: int = 0,
) -> Rows:
    models.model_class(model)
    if not model.is_trained_:
        raise InvalidArgument("the model is not trained yet: its answers would be noise")
    path = outputs.checked_out(out)
    cells = _cells(model, data, dataset)
    size = checked_int("batch_size", batch_size, least=1)
    seed = checked_int("seed", seed, least=0, most=2**63 - 1)
    accelerator, processes = _processes(accelerator, devices)
    processes = min(processes, max(1, cells.n_obs))
    if find_rank()[1] > 1:
        raise InvalidArgument(
            "inference starts its own processes: call it on one rank, or before the run"
        )
    rows = (cells.n_obs, *shape)
    with tempfile.TemporaryDirectory(prefix="penstock-rows-") as folder:
        file = path if path is not None and path.suffix == ".npy" else Path(folder) / "rows.npy"
        arguments = {
            "model": model, "data": cells, "infer": infer, "size": size,
            "seed": seed, "accelerator": accelerator,
        }  # fmt: skip
        values: Any
        if processes == 1:
            values = (
                outputs.create(file, rows, dtype) if path is not None else np.empty(rows, dtype)
            )
            _fill(values, **arguments)
        else:
            outputs.create(file, rows, dtype)
            with _detached(model, cells), _on_cpu(model):
                launch(_fill_file, {"file": file, **arguments}, processes)
            values = outputs.open_rows(file)
            if path is None:
                values = np.array(values)
        joinids = cells.joinids
        if path is not None and path.suffix == ".zarr":
            values = outputs.to_zarr(values, joinids, path)
        elif path is not None:
            values.flush()
            np.save(path.with_suffix(".joinids.npy"), joinids)
        return Rows(values, joinids, columns)


def _cells(model: Any, data: Any, dataset: dict[str, Any] | None) -> DataModule:
    if isinstance(data, DataModule):
        if dataset:
            raise InvalidArgument("dataset= is for data that is no DataModule yet")
        models.check_same_data(model, data)
        return data
    return DataModule.from_model(model, data, train_size=1.0, dataset=dataset)


def _fill_file(file: Path, **arguments: Any) -> None:
    values = outputs.open_rows(file)
    _fill(values, **arguments)
    values.flush()


@torch.inference_mode()
def _fill(
    values: npt.NDArray[Any],
    *,
    model: Any,
    data: DataModule,
    infer: Infer,
    size: int,
    seed: int,
    accelerator: str,
) -> None:
    """Write this rank's rows; those of ranks before it come first."""
    rank, world_size = find_rank()
    device = torch.device("cpu" if accelerator == "cpu" else f"cuda:{rank}")
    before = model.device
    with _seeded(seed, rank), _evaluating(model):
        model.to_device(device)
        # Ranks have contiguous stretches, of which the first ones are longer by one.
        share, longer = divmod(data.n_obs, world_size)
        place = rank * share + min(rank, longer)
        for tensors in data.predict_dataloader(size):
            first = int(tensors.pop(JOINID)[0])
            made = infer(model, to_device(tensors, device)).cpu().numpy()
            if first != data.joinid_at(place):
                raise Internal(f"cell {first} came where {data.joinid_at(place)} belongs")
            values[place : place + len(made)] = made
            place += len(made)
    if world_size == 1:
        model.to_device(before)


@contextlib.contextmanager
def _seeded(seed: int, rank: int) -> Iterator[None]:
    """Draw from a seed, and leave the caller's generator where it was."""
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


def _gene_places(
    names: npt.NDArray[Any], genes: Iterable[str] | None
) -> npt.NDArray[np.int64] | None:
    if genes is None:
        return None
    if isinstance(genes, str):
        raise InvalidArgument(f"genes must be a list of names, got {described(genes)}")
    wanted = [str(gene) for gene in genes]
    places = {name: place for place, name in enumerate(names.tolist())}
    unknown = [gene for gene in wanted if gene not in places]
    if unknown:
        raise InvalidArgument(
            f"the model has no gene {', '.join(map(repr, unknown[:5]))}; its genes are named such as "
            f"{names[0]!r}"
        )
    return np.array([places[gene] for gene in wanted], np.int64)


def _batch_codes(model: Any, batches: Any) -> Sequence[int | None]:
    if batches is None:
        return [None]
    wanted = (
        [batches]
        if isinstance(batches, (str, int)) or not isinstance(batches, Iterable)
        else list(batches)
    )
    state = model.registry["field_registries"]["batch"]["state_registry"]
    known = np.asarray(state["categorical_mapping"]).tolist()
    for batch in wanted:
        if batch is not None and batch not in known:
            listed = ", ".join(map(repr, known[:5]))
            raise InvalidArgument(f"the model has no batch {batch!r}; it has {listed}, …")
    return [None if batch is None else known.index(batch) for batch in wanted]
