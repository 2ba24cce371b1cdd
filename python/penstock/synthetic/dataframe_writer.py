"""`write_dataframe`: a table with all its categories, whatever version of tiledbsoma writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def write_dataframe(
    parent: Any, name: str, tables: Iterable[pa.Table], n_rows: int, config: dict[str, Any]
) -> tuple[str, int]:
    """Add a dataframe to the collection, write the tables, return its URI and how many they were.

    Joinids are below `n_rows`. Columns that `config` does not name get no filters. Without tables
    nothing is added.

    Each table is written through a handle that is opened for it. tiledbsoma 2.x keeps the categories
    that a handle saw when it was opened: through the handle of `add_new_dataframe` it stores none,
    and through one handle a second table with new categories gets wrong codes.
    """
    import tiledbsoma

    uri, n_tables = "", 0
    for table in tables:
        if not n_tables:
            frame = parent.add_new_dataframe(
                name,
                schema=table.schema,
                index_column_names=["soma_joinid"],
                platform_config=_of_columns(config, table.column_names),
                domain=[(0, n_rows - 1)],
            )
            frame.close()
            uri = frame.uri
        with tiledbsoma.DataFrame.open(uri, "w", context=parent.context) as frame:
            frame.write(table)
        n_tables += 1
    return uri, n_tables


def _of_columns(config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    create = config["tiledb"]["create"]
    known = {name: value for name, value in create["attrs"].items() if name in names}
    return {"tiledb": {"create": {**create, "attrs": known}}}
