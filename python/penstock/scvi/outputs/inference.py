"""Outputs of a trained model for every cell, in stored order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.base.suggestions import suggests
from penstock.errors import InvalidArgument
from penstock.inference.rows import Rows, checked_out

from ..data.hints import OF_OUTPUTS
from ..registry.loaders import FINE_LABELS
from ..registry.registration import Registration
from .decoded_features import decoded_features
from .decoders import ProteinOptions
from .inference_rows import InferenceOptions, rows_of
from .row_writers import Elbo, FineLabels, Labels, Latent


@suggests(OF_OUTPUTS)
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
    executor: Any = None,
) -> Rows:
    """Return the mean of the latent variables of each cell; for MRVI, of ``u``.

    Parameters
    ----------
    model : model of scvi-tools
        The trained model.
    data : DataModule, Dataset, or what a `Dataset` takes
        The cells. All but a DataModule are aligned to the model with `DataModule.from_model`.
    return_dist : bool, default False
        Whether to append the variances to the means.
    batch_size : int, default 512
        Cells in a batch.
    devices, accelerator
        Processes, as in `penstock.scvi.train`; each infers a contiguous part of the cells. Within a
        run of several ranks (torchrun, Slurm), a rank that calls this infers all cells alone.
    out : None, "memory" or path
        Destination: an array, a memory-mapped file (``.npy``, with ``.joinids.npy`` beside it) or a
        zarr group (``.zarr``, with arrays ``values`` and ``joinids``), also in a bucket
        (``s3://bucket/latent.zarr``, docs/how-to/training.md). Rows of an earlier inference are replaced;
        any other file of that name is an error.
    dataset : dict, optional
        Arguments of `Dataset` when `data` is a path.
    executor : concurrent.futures.Executor, optional
        Where parts of the cells are inferred, in place of `devices`: a process pool, a Client of
        Dask, `penstock.executors.RayExecutor`, … (docs/how-to/executors.md). Each worker
        opens `data` by its path. This process writes the rows, of which it holds some 512 MiB.

    Returns
    -------
    Rows
        ``values`` float32, (cells, latent variables), in stored order; ``joinids``. On a CPU the bits
        are the same for any number of processes and parts.

    Raises
    ------
    InvalidArgument
        The model is not trained or has other genes or categories; `out` exists and holds no such
        rows; or, within a run of several ranks, `devices` is not one process or a rank other than
        0 writes a file.
    penstock.executors.PartFailed
        The executor lost a part of the cells, for example because a worker was killed.
    """
    n_latent = int(getattr(model.module, "n_latent_u", None) or model.module.n_latent)
    names = [f"Z_{i}" for i in range(n_latent)]
    if return_dist:
        names = [f"{name}_{what}" for what in ("mean", "var") for name in names]
    options = InferenceOptions(batch_size, devices, accelerator, out, dataset, executor)
    return rows_of(
        model, data, Latent(return_dist), options, (len(names),), columns=np.array(names)
    )


@suggests(OF_OUTPUTS)
def normalized(
    model: Any,
    data: Any,
    *,
    of: str | None = None,
    genes: Sequence[str] | None = None,
    transform_batch: Any = None,
    library_size: float | str = 1,
    sample_protein_mixing: bool = False,
    scale_protein: bool = False,
    include_protein_background: bool = False,
    seed: int = 0,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
    executor: Any = None,
) -> Rows:
    """Return the decoded expression of each cell, like scvi-tools' ``get_normalized_expression``.

    One call decodes one kind of features:

    ==========  =====================  ==========================================================
    `of`        model                  scvi-tools' call
    ==========  =====================  ==========================================================
    "genes"     all but PEAKVI and     ``get_normalized_expression``; the first of TOTALVI's pair.
                POISSONVI              A MRVI decodes each cell in its own sample.
    "proteins"  TOTALVI                ``get_normalized_expression``, the second of the pair
    "regions"   PEAKVI, POISSONVI,     ``get_normalized_accessibility``: for PEAKVI and MULTIVI,
                MULTIVI                the probability that a region is accessible
    ==========  =====================  ==========================================================

    Of PEAKVI and MULTIVI the means of the latent variables are decoded, of other models a sample.
    Calls with the same seed and batch size decode the same samples, so the proteins of a TOTALVI
    belong to its genes.

    Parameters
    ----------
    model, data, batch_size, devices, accelerator, out, dataset, executor
        See `latent`.
    of : {"genes", "proteins", "regions"}, optional
        What to decode; by default genes, or regions if the model has no genes.
    genes : sequence of str, optional
        Genes to return, or proteins or regions, in this order; others are dropped from each batch.
    transform_batch : batch or sequence of batches, optional
        Batch to decode all cells in; for several batches, the mean is returned.
    library_size : float or "latent", default 1
        Sum of a cell's expression; "latent" uses the model's library size. It must be 1 for PEAKVI,
        for MULTIVI and for proteins.
    sample_protein_mixing, scale_protein, include_protein_background : bool, default False
        For proteins, as in scvi-tools: draw whether a count is background, in place of its
        probability; make the proteins of a cell sum to 1; add the background.
    seed : int, default 0
        Seed of the sampled latent variables. Results depend on the batch size, too: batch k draws from
        ``seed + k``.

    Returns
    -------
    Rows
        ``values`` float32, (cells, features); ``columns`` are the genes, proteins or regions.

    Raises
    ------
    InvalidArgument
        The model does not decode these features, a gene or batch is unknown, the library size is
        invalid, or an argument does not apply to the features.
    """
    options = ProteinOptions(sample_protein_mixing, scale_protein, include_protein_background)
    decoded = decoded_features(model, of, genes, transform_batch, library_size, options)
    names = decoded.names
    how = InferenceOptions(batch_size, devices, accelerator, out, dataset, executor, seed)
    return rows_of(model, data, decoded.decoder, how, (len(names),), columns=names)


@suggests(OF_OUTPUTS)
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
    executor: Any = None,
) -> Rows:
    """Return the evidence lower bound of each cell; higher is better.

    ``values`` is float32, (cells,); its mean is scvi-tools' ``get_elbo``. For the arguments, see
    `normalized`.

    Raises
    ------
    Unsupported
        The model is a MRVI with labels, for which scvi-tools has no ELBO of a cell.
    """
    return rows_of(
        model,
        data,
        Elbo(),
        InferenceOptions(batch_size, devices, accelerator, out, dataset, executor, seed),
    )


@suggests(OF_OUTPUTS)
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
    executor: Any = None,
) -> Rows:
    """Return the label of each cell that a SCANVI predicts, or the fine label of a CondSCVI.

    Returns
    -------
    Rows
        ``values`` are labels, (cells,), or with `soft` probabilities, float32, (cells, labels). A
        file holds labels as int32 indices into ``columns``.

    Raises
    ------
    InvalidArgument
        The model has no classifier.
    """
    if getattr(model.module, "classifier", None) is None:
        raise InvalidArgument(
            "predict takes a SCANVI, or a CondSCVI with fine labels, got "
            f"{type(model).__name__} without a classifier"
        )
    if getattr(model, "n_fine_labels", None) is None:
        infer, labels = Labels(soft), np.asarray(model._label_mapping)[: model.n_labels]
    else:
        infer, labels = FineLabels(soft), Registration(None, model.registry).categories(FINE_LABELS)
    shape, dtype = ((len(labels),), "float32") if soft else ((), "int32")
    options = InferenceOptions(batch_size, devices, accelerator, out, dataset, executor)
    rows = rows_of(model, data, infer, options, shape, dtype, labels)
    if soft or checked_out(out) is not None:
        return rows
    return replace(rows, values=labels[rows.values])
