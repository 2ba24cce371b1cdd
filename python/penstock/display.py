"""What experiments, tables and datasets look like at a prompt and in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .errors import PenstockError

if TYPE_CHECKING:
    from . import _core
    from .dataset import Dataset
    from .experiment import Experiment
    from .table import DataFrame

# Follows the colours of the page, dark or light.
_STYLE = (
    "border-collapse:collapse;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;"
    "margin:4px 0 8px 0"
)
_CELL = "text-align:left;padding:2px 14px 2px 0;border:none;vertical-align:top"
_HEAD = f"{_CELL};opacity:.6;font-weight:normal;border-bottom:1px solid rgba(128,128,128,.4)"
_TITLE = "font-family:system-ui,sans-serif;font-size:13px;margin:2px 0"


def count(number: int) -> str:
    """12,345."""
    return f"{number:,}"


def size(n_bytes: float, *, up: bool = False) -> str:
    """Bytes for people: 512 B, 1.5 MiB; rounded `up` where as many are needed."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        shown = math.ceil(n_bytes * 10) / 10 if up else round(n_bytes, 1)
        if shown < 1024 or unit == "TiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.0f} B" if unit == "B" else f"{shown:.1f} {unit}"


def column_type(column: _core.ColumnInfo) -> str:
    """A column's type in words: 'category of string', 'int64', 'string, nullable'."""
    words = column.type
    if column.enumerated:
        words = f"{'ordered ' if column.ordered else ''}category of {words}"
    if column.nullable:
        words += ", nullable"
    return words + (", index" if column.is_index else "")


def aligned(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of a table whose columns line up; those in `right` are set to the right."""
    cells = [list(row) for row in rows]
    right = set(right)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def layer_summary(matrix: _core.Matrix) -> str:
    """One line on an X layer."""
    rows, columns = matrix.shape
    return (
        f"{matrix.value_type}, {count(rows)} × {count(columns)}, {size(matrix.stored_bytes)} in "
        f"{plural(matrix.fragment_count, 'fragment')}"
    )


def matrix_text(matrix: _core.Matrix) -> str:
    """Repr of an X layer."""
    return f"Matrix {layer_summary(matrix)}\n  {matrix.layout}\n  {matrix.uri}"


def column_text(column: _core.ColumnInfo) -> str:
    """Repr of what a column is."""
    return f"Column {column.name!r}: {column_type(column)}, {size(column.stored_bytes)} stored"


def rows_text(rows: _core.RowSelection) -> str:
    """Repr of a set of joinids."""
    held = len(rows)
    if not held:
        return "RowSelection of no joinid"
    ends = f"{rows.at(0)} to {rows.at(held - 1)}" if held > 1 else f"{rows.at(0)}"
    return f"RowSelection of {plural(held, 'joinid')}: {ends}"


def plural(number: int, noun: str) -> str:
    """1 fragment, 1,234 fragments, 2 batches."""
    if number == 1:
        return f"1 {noun}"
    return f"{count(number)} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def _table_html(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    lines = [f'<table style="{_STYLE}">']
    if head:
        cells = "".join(f'<th style="{_HEAD}">{html.escape(cell)}</th>' for cell in head)
        lines.append(f"<tr>{cells}</tr>")
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row)
        lines.append(f'<tr style="background:none">{cells}</tr>')
    return "".join([*lines, "</table>"])


def _title_html(title: str, detail: str) -> str:
    return (
        f'<div style="{_TITLE}"><b>{html.escape(title)}</b> '
        f'<span style="opacity:.7">{html.escape(detail)}</span></div>'
    )


def block_html(title: str, detail: str, rows: Sequence[Sequence[str]]) -> str:
    """HTML repr of something with a title and rows of facts."""
    return _title_html(title, detail) + _table_html(rows)


# Tables


def dataframe_text(kind: str, frame: DataFrame) -> str:
    """Repr of obs or var."""
    lines = [f"{kind}: {plural(len(frame), 'row')}, {plural(len(frame.columns), 'column')}"]
    rows = [(column.name, column_type(column)) for column in frame.schema]
    return "\n".join(lines + [f"  {line}" for line in aligned(rows)])


def dataframe_html(kind: str, frame: DataFrame) -> str:
    """HTML repr of obs or var."""
    rows = [(column.name, column_type(column)) for column in frame.schema]
    detail = f"{plural(len(frame), 'row')}, {plural(len(rows), 'column')}, {frame.uri}"
    return _title_html(kind, detail) + _table_html(rows, ("column", "type"))


# Experiments


def _experiment_rows(experiment: Experiment) -> list[tuple[str, str]]:
    obs = experiment.obs
    rows = [("obs", f"{plural(len(obs), 'cell')}: {_shortened(obs.columns)}")]
    for name in experiment.measurements:
        var = experiment.var(name)
        rows.append((f"ms/{name}", f"{plural(len(var), 'feature')}: {_shortened(var.columns)}"))
        for layer in experiment.layers(name):
            rows.append((f"ms/{name}/X/{layer}", layer_summary(experiment.x(name, layer))))
    return rows


def _shortened(names: Sequence[str], most: int = 8) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def experiment_text(experiment: Experiment) -> str:
    """Repr of an experiment."""
    lines = [f"  {line}" for line in aligned(_experiment_rows(experiment))]
    return "\n".join([f"Experiment {experiment.uri}", *lines])


def experiment_html(experiment: Experiment) -> str:
    """HTML repr of an experiment."""
    return _title_html("Experiment", experiment.uri) + _table_html(_experiment_rows(experiment))


# Datasets


def _dataset_title(dataset: Dataset) -> str:
    return f"{plural(dataset.n_obs, 'cell')} × {plural(dataset.n_vars, 'gene')}"


def _dataset_rows(dataset: Dataset) -> list[tuple[str, str]]:
    settings, selection = dataset._settings, dataset._selection
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
    }[dataset._batch_format.format, settings.sparse]
    place = "" if settings.device is None else f" on {settings.device}"
    obs = [*dataset._batch_format.obs_columns, *(repr(encoder) for encoder in dataset._encoders)]
    return [
        ("source", dataset.experiment.uri),
        ("layer", f"ms/{selection.measurement}/X/{selection.layer}"),
        ("batches", _batches(dataset)),
        ("order", f"{order}, next epoch {dataset.epoch}"),
        ("X", f"{settings.dtype} {library}{place}"),
        *_transform_rows(dataset),
        ("obs", f"{', '.join(obs) or 'nothing'} as {dataset._batch_format.obs_format}"),
        ("memory", f"at most {size(settings.memory_budget)}"),
    ]


def _batches(dataset: Dataset) -> str:
    try:
        number = count(len(dataset))
    except PenstockError as error:  # what iterating would raise, too
        return f"none: {error}"
    return f"{number} of {plural(dataset.batch_size, 'cell')}"


def _transform_rows(dataset: Dataset) -> list[tuple[str, str]]:
    names = [getattr(step, "__name__", type(step).__name__) for step in dataset.transforms]
    return [("transforms", ", ".join(names))] if names else []


def dataset_text(dataset: Dataset) -> str:
    """Repr of a dataset."""
    lines = [f"  {line}" for line in aligned(_dataset_rows(dataset))]
    return "\n".join([f"Dataset {_dataset_title(dataset)}", *lines])


def dataset_html(dataset: Dataset) -> str:
    """HTML repr of a dataset."""
    return _title_html("Dataset", _dataset_title(dataset)) + _table_html(_dataset_rows(dataset))
