"""Open an experiment from a path, an AnnData object, or an opened experiment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument

from .anndata_source import from_anndata, is_anndata
from .experiment import Experiment, open
from .storage_options import of_context


def open_source(
    source: Any, threads: int | None, storage_options: Mapping[str, Any] | None = None
) -> Experiment:
    """Open an experiment from a source.

    Raises
    ------
    InvalidArgument
        The source is of another type.
    NotFound
        The source does not exist.
    """
    tiledbsoma: Any = sys.modules.get("tiledbsoma")
    if tiledbsoma is not None and isinstance(source, tiledbsoma.Experiment):
        check_for_uri(source, storage_options)
        return reopen(source, threads)
    if isinstance(source, Experiment):
        check_for_uri(source, storage_options)
        return source
    if is_anndata(source):
        check_for_uri(source, storage_options)
        return from_anndata(source)
    if isinstance(source, (str, os.PathLike)):
        return open(source, threads=threads, storage_options=storage_options)
    raise InvalidArgument(
        "a Dataset is made from a path or URI, an AnnData object, a penstock Experiment, a "
        "tiledbsoma Experiment or ExperimentAxisQuery, or a list of such, "
        f"got {described(source)}"
    )


def check_for_uri(source: Any, storage_options: Mapping[str, Any] | None) -> None:
    """Raise `InvalidArgument` if options are given for a source that is already open."""
    if storage_options is not None:
        raise InvalidArgument(
            f"storage_options say how a URI is reached; {type(source).__name__} is opened already"
        )


def reopen(opened: Any, threads: int | None) -> Experiment:
    """Open the URI of a tiledbsoma Experiment at its timestamp."""
    if opened.mode != "r":
        raise InvalidArgument(
            f"the tiledbsoma Experiment must be open for reading, mode {opened.mode!r}"
        )
    # Without a timestamp by the user, it is the time of opening: later writes are not visible.
    storage = of_context(opened.uri, opened.context.tiledb_config)
    return open(opened.uri, opened.tiledb_timestamp_ms, threads, storage)
