"""Reprs of a Dataset, as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.base.text import aligned, count, plural, size, table_html, title_html
from penstock.errors import PenstockError
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.selection import Selection
from penstock.plan.x_array import XArray
from penstock.transforms import NormalizeTotal, SelectGenes

from .reader import Reader


def _dataset_title(reader: Reader) -> str:
    selection = reader.selection
    return f"{plural(len(selection.rows), 'cell')} × {plural(selection.n_columns, 'gene')}"


def _dataset_rows(reader: Reader) -> list[tuple[str, str]]:
    settings, selection, form = reader.settings, reader.selection, reader.format
    order = "in joinid order"
    if settings.shuffle:
        order = f"{reader.shuffle} shuffle, seed {settings.seed}"
    obs = [
        *form.obs_columns,
        *(repr(encoder) for encoder in reader.cells.encoders),
        *reader.planner.missing_columns,
    ]
    return [
        ("source", selection.experiment.uri),
        *_layer_rows(reader),
        ("batches", _batches(reader)),
        ("order", f"{order}, next epoch {reader.epochs.next}"),
        *_rank_rows(reader),
        *_sampling_rows(reader),
        *_x_rows(reader),
        ("obs", f"{', '.join(obs) or 'nothing'} as {form.obs_format}"),
        ("memory", f"at most {size(settings.memory_budget)}"),
        *_kept_rows(reader),
    ]


def _rank_rows(reader: Reader) -> list[tuple[str, str]]:
    rank, world_size = reader.rank_and_world_size
    return [("rank", f"{rank} of {world_size}")] if world_size > 1 else []


def _kept_rows(reader: Reader) -> list[tuple[str, str]]:
    kept = reader.selection.kept
    if not reader.settings.keep or not kept.rows():
        return []
    rows, packed = kept.rows(), kept.packed_rows()
    form = f", {'' if packed >= rows else f'{count(packed)} of them '}bit-packed" if packed else ""
    return [("kept", f"{plural(rows, 'cell')} in {size(kept.bytes())}{form}")]


def _sampling_rows(reader: Reader) -> list[tuple[str, str]]:
    """Return how cells are drawn, if they are; nothing for an order that has every cell once."""
    sampling = reader.settings.sampling
    if sampling is None:
        return []
    how = "with replacement" if sampling.replacement else "without replacement"
    drawn = f"{count(reader.planner.epoch_cells)} cells {how}"
    if sampling.balance is not None:
        drawn += f", by {sampling.balance!r}"
    if sampling.weights is not None:
        drawn += (
            f", by weights of {sampling.weights!r}"
            if isinstance(sampling.weights, str)
            else ", by weights"
        )
    return [("drawn", drawn)]


def _batches(reader: Reader) -> str:
    try:
        number = count(reader.batches_of_rank())
    except PenstockError as error:  # iterating would raise the same
        return f"none: {error}"
    return f"{number} of {plural(reader.settings.batch_size, 'cell')}"


def _selections(reader: Reader) -> list[Selection]:
    selection = reader.selection
    if isinstance(selection, SeveralMeasurements):
        return [part.selection for part in selection.parts.values()]
    return [selection]


def _layer_rows(reader: Reader) -> list[tuple[str, str]]:
    return [("layer", f"ms/{each.measurement}/X/{each.layer}") for each in _selections(reader)]


def _x_rows(reader: Reader) -> list[tuple[str, str]]:
    """Return type and transforms of X, or of X of each measurement."""
    arrays = reader.planner.arrays
    rows = []
    named = arrays.items() if isinstance(arrays, dict) else [(None, arrays)]
    for (name, array), selection in zip(named, _selections(reader), strict=True):
        of = "" if name is None else f" {name}"
        rows.append((f"X{of}", _x_text(reader, array)))
        steps = () if array.chain is None else array.chain.steps
        names = [_step_name(step) for step in steps]
        if names:
            rows.append((f"transforms{of}", ", ".join(names) + _totals(selection, steps)))
    return rows


def _step_name(step: Any) -> str:
    if isinstance(step, SelectGenes):
        return "SelectGenes"
    return str(getattr(step, "__name__", type(step).__name__))


def _totals(selection: Selection, steps: Sequence[Any]) -> str:
    """Return what `NormalizeTotal` divides by, where that is not the total of all genes."""
    chosen = len(selection.genes) < len(selection.experiment.var(selection.measurement))
    for step in steps:
        if isinstance(step, NormalizeTotal) and chosen:
            return "; totals are of the chosen genes"
        chosen = chosen or isinstance(step, SelectGenes)
    return ""


def _x_text(reader: Reader, array: XArray) -> str:
    library = {
        ("numpy", None): "numpy.ndarray",
        ("numpy", "csr"): "scipy.sparse.csr_matrix",
        ("numpy", "coo"): "scipy.sparse.coo_matrix",
        ("torch", None): "torch.Tensor",
        ("torch", "csr"): "torch.Tensor (sparse CSR)",
        ("torch", "coo"): "torch.Tensor (sparse COO)",
    }[reader.format.format, array.sparse]
    device = reader.settings.device
    return f"{array.dtype} {library}" + ("" if device is None else f" on {device}")


def dataset_text(reader: Reader) -> str:
    """Return the repr of a dataset."""
    lines = [f"  {line}" for line in aligned(_dataset_rows(reader))]
    return "\n".join([f"Dataset {_dataset_title(reader)}", *lines])


def dataset_html(reader: Reader) -> str:
    """Return the HTML repr of a dataset."""
    return title_html("Dataset", _dataset_title(reader)) + table_html(_dataset_rows(reader))
