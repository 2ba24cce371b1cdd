"""`write_dataframe` keeps all categories of a table with any version of tiledbsoma."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def write_dataframe(
    parent: Any, name: str, tables: Iterable[pa.Table], n_rows: int, config: dict[str, Any]
) -> tuple[str, int]:
    """Add a dataframe to the collection, write the tables, and return its URI and their number.

    Joinids are below `n_rows`. Columns that `config` does not name get no filters. Without tables,
    nothing is added.

    Each table is written through a new handle, because a handle of tiledbsoma 2.x only knows the
    categories from when it was opened. The handle of `add_new_dataframe` would store none, and a
    second table with new categories would get wrong codes.
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
