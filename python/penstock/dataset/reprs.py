"""Reprs of a Dataset, as text and HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.text import aligned, count, plural, size, table_html, title_html
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from .dataset import Dataset


def _dataset_title(dataset: Dataset) -> str:
    return f"{plural(dataset.n_obs, 'cell')} × {plural(dataset.n_vars, 'gene')}"


def _dataset_rows(dataset: Dataset) -> list[tuple[str, str]]:
    reader = dataset.reader
    settings, selection, form = reader.settings, reader.selection, reader.format
    order = "in joinid order"
    if settings.shuffle:
        order = f"{dataset.shuffle} shuffle, seed {settings.seed}"
    library = {
        ("numpy", None): "numpy.ndarray",
        ("numpy", "csr"): "scipy.sparse.csr_matrix",
        ("numpy", "coo"): "scipy.sparse.coo_matrix",
        ("torch", None): "torch.Tensor",
        ("torch", "csr"): "torch.Tensor (sparse CSR)",
        ("torch", "coo"): "torch.Tensor (sparse COO)",
    }[form.format, settings.sparse]
    place = "" if settings.device is None else f" on {settings.device}"
    obs = [*form.obs_columns, *(repr(encoder) for encoder in reader.cells.encoders)]
    return [
        ("source", dataset.experiment.uri),
        ("layer", f"ms/{selection.measurement}/X/{selection.layer}"),
        ("batches", _batches(dataset)),
        ("order", f"{order}, next epoch {dataset.epoch}"),
        ("X", f"{settings.dtype} {library}{place}"),
        *_transform_rows(dataset),
        ("obs", f"{', '.join(obs) or 'nothing'} as {form.obs_format}"),
        ("memory", f"at most {size(settings.memory_budget)}"),
    ]


def _batches(dataset: Dataset) -> str:
    try:
        number = count(len(dataset))
    except PenstockError as error:  # iterating would raise the same
        return f"none: {error}"
    return f"{number} of {plural(dataset.batch_size, 'cell')}"


def _transform_rows(dataset: Dataset) -> list[tuple[str, str]]:
    names = [getattr(step, "__name__", type(step).__name__) for step in dataset.transforms]
    return [("transforms", ", ".join(names))] if names else []


def dataset_text(dataset: Dataset) -> str:
    """Return the repr of a dataset."""
    lines = [f"  {line}" for line in aligned(_dataset_rows(dataset))]
    return "\n".join([f"Dataset {_dataset_title(dataset)}", *lines])


def dataset_html(dataset: Dataset) -> str:
    """Return the HTML repr of a dataset."""
    return title_html("Dataset", _dataset_title(dataset)) + table_html(_dataset_rows(dataset))
