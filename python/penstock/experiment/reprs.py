"""Reprs of experiments, tables, layers and columns, as text and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.base.text import aligned, count, plural, size, table_html, title_html

if TYPE_CHECKING:
    from penstock import _core

_LONGEST_VALUE = 30


def column_type(column: _core.ColumnInfo) -> str:
    """Return the type of a column: 'category of string', 'int64', 'string, nullable'."""
    words = column.type
    if column.enumerated:
        words = f"{'ordered ' if column.ordered else ''}category of {words}"
    if column.nullable:
        words += ", nullable"
    return words + (", index" if column.is_index else "")


def layer_summary(matrix: _core.Matrix) -> str:
    """Return a line that describes an X layer."""
    rows, columns = matrix.shape
    return (
        f"{matrix.value_type}, {count(rows)} × {count(columns)}, {size(matrix.stored_bytes)} in "
        f"{plural(matrix.fragment_count, 'fragment')}"
    )


def matrix_text(matrix: _core.Matrix) -> str:
    """Return the repr of an X layer."""
    return f"Matrix {layer_summary(matrix)}\n  {matrix.layout}\n  {matrix.uri}"


def column_text(column: _core.ColumnInfo) -> str:
    """Return the repr of a column's description."""
    return f"Column {column.name!r}: {column_type(column)}, {size(column.stored_bytes)} stored"


def rows_text(rows: _core.RowSelection) -> str:
    """Return the repr of a set of joinids."""
    held = len(rows)
    if not held:
        return "RowSelection of no joinid"
    ends = f"{rows.at(0)} to {rows.at(held - 1)}" if held > 1 else f"{rows.at(0)}"
    return f"RowSelection of {plural(held, 'joinid')}: {ends}"


def dataframe_text(kind: str, rows: int, schema: Sequence[_core.ColumnInfo]) -> str:
    """Return the repr of obs or var."""
    title = f"{kind}: {plural(rows, 'row')}, {plural(len(schema), 'column')}"
    types = aligned([(column.name, column_type(column)) for column in schema])
    return "\n".join([title, *(f"  {line}" for line in types)])


def dataframe_html(
    kind: str,
    rows: int,
    schema: Sequence[_core.ColumnInfo],
    uri: str,
    first: Mapping[str, Sequence[Any]],
) -> str:
    """Return the HTML repr of obs or var; `first` has the first values of columns."""
    head = ("column", "type", "first values") if first else ("column", "type")
    lines = [
        (column.name, column_type(column), _values_text(first.get(column.name, ())))[: len(head)]
        for column in schema
    ]
    detail = f"{plural(rows, 'row')}, {plural(len(lines), 'column')}, {uri}"
    return title_html(kind, detail) + table_html(lines, head)


def _values_text(values: Sequence[Any]) -> str:
    texts = ("–" if value is None or value != value else _value_text(value) for value in values)
    return ", ".join(texts)


def _value_text(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _experiment_rows(experiment: _core.Experiment) -> list[tuple[str, str]]:
    rows = [("obs", _table_summary(experiment.obs(), "cell"))]
    for name in experiment.measurements():
        rows.append((f"ms/{name}", _table_summary(experiment.var(name), "feature")))
        for layer in experiment.layers(name):
            rows.append((f"ms/{name}/X/{layer}", layer_summary(experiment.x(name, layer))))
    return rows


def _table_summary(table: _core.DataFrame, noun: str) -> str:
    names = [column.name for column in table.columns]
    return f"{plural(table.row_count(), noun)}: {_shortened(names)}"


def _shortened(names: Sequence[str], most: int = 8) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def experiment_text(experiment: _core.Experiment) -> str:
    """Return the repr of an experiment."""
    lines = [f"  {line}" for line in aligned(_experiment_rows(experiment))]
    return "\n".join([f"Experiment {experiment.uri}", *lines])


def experiment_html(experiment: _core.Experiment) -> str:
    """Return the HTML repr of an experiment."""
    return title_html("Experiment", experiment.uri) + table_html(_experiment_rows(experiment))
