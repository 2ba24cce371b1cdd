"""What a trained model says of every cell, in stored order, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from penstock.base.validation import described
from penstock.errors import InvalidArgument

from . import model_outputs
from .inference_rows import Asked, rows_of
from .model_outputs import Rows
from .row_writers import Elbo, Labels, Latent, Normalized, batch_codes, gene_places


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
        Processes, as of `penstock.scvi.train`: each infers a stretch of the cells. Within a run of
        several ranks (torchrun, Slurm) a rank that calls infers them all, alone.
    out : None, "memory" or path
        Where rows go: an array, a memory-mapped file (``.npy``, with ``.joinids.npy`` beside it) or
        a zarr group (``.zarr``, with arrays ``values`` and ``joinids``). Those of an inference
        before are replaced; anything else of that name is refused.
    dataset : dict, optional
        Arguments of `Dataset` when `data` is a path.

    Returns
    -------
    Rows
        ``values`` float32, (cells, latent variables), in stored order; ``joinids``.

    Raises
    ------
    InvalidArgument
        The model is not trained, or of other genes or categories; what `out` names is not ours;
        within a run of several ranks more than one process, or a file on another rank than 0.
    """
    n_latent = int(model.module.n_latent)
    names = [f"Z_{i}" for i in range(n_latent)]
    if return_dist:
        names = [f"{name}_{what}" for what in ("mean", "var") for name in names]
    asked = Asked(batch_size, devices, accelerator, out, dataset)
    return rows_of(model, data, Latent(return_dist), asked, (len(names),), columns=np.array(names))


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
        No such gene or batch, or no such library size.
    """
    _check_library_size(library_size)
    names = np.asarray(model.get_var_names()).astype(str)
    places = gene_places(names, genes)
    infer = Normalized(places, batch_codes(model, transform_batch), library_size)
    chosen = names if places is None else names[places]
    asked = Asked(batch_size, devices, accelerator, out, dataset, seed)
    return rows_of(model, data, infer, asked, (len(chosen),), columns=chosen)


def _check_library_size(value: Any) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and float(value) > 0) and not (isinstance(value, str) and value == "latent"):
        raise InvalidArgument(
            f"library_size must be a number above 0 or 'latent', got {described(value)}"
        )


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
    return rows_of(model, data, Elbo(), Asked(batch_size, devices, accelerator, out, dataset, seed))


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
    shape, dtype = ((len(labels),), "float32") if soft else ((), "int32")
    asked = Asked(batch_size, devices, accelerator, out, dataset)
    rows = rows_of(model, data, Labels(soft), asked, shape, dtype, labels)
    if soft or model_outputs.checked_out(out) is not None:
        return rows
    return rows._replace(values=labels[rows.values])
