"""Open an experiment from a path, an AnnData object, or an opened experiment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.base.validation import described
from penstock.errors import InvalidArgument

from .anndata_source import from_anndata, is_anndata
from .experiment import Experiment, open_stored
from .globs import check_one_path
from .storage_options import of_context


def open(
    uri: str | os.PathLike[str] | Any,
    timestamp: datetime | int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Experiment:
    """Open a SOMA experiment, a pack, an AnnData file or store, or an AnnData object in memory.

    Parameters
    ----------
    uri : str, path or AnnData
        A folder or ``file://`` URI, an h5ad, h5mu or 10x file, a zip archive of a zarr store,
        ``s3://bucket/key``, or ``https://…``: a file, or a folder with an index beside its files
        (``penstock index``). A path may lead into a file: ``cells.h5mu/mod/rna``. It must have no
        user, password or query, since it is shown and logged; credentials belong in
        `storage_options`. An AnnData object is read in place, as `Dataset` does; the other
        arguments are not for it.
    timestamp : datetime or int, optional
        Read the state at this time. An int is milliseconds since 1970-01-01 UTC; a datetime
        without a time zone is UTC. By default the newest state.
    threads : int, optional
        Threads that read metadata and tables. As many as cores by default.
    storage_options : dict, optional
        Access to a remote store.
        S3: ``anonymous``, ``region``, ``endpoint``, ``addressing_style`` (``"auto"``, ``"path"``,
        ``"virtual"``), ``requester_pays``, ``profile``, ``access_key_id``, ``secret_access_key``,
        ``session_token``, or s3fs's names for them (``anon``, ``key``, ``secret``, ``token``,
        ``endpoint_url``). Without keys, credentials are found as in other AWS tools.
        http(s): ``headers``, a dict, sent only to the scheme, host and port of `uri`.
        Both: ``max_requests`` (64), ``connect_timeout`` (10 s), ``stall_timeout`` (20 s),
        ``retry_timeout`` (60 s), ``max_attempts`` (8).

    Returns
    -------
    Experiment
        Its tables and layers are read when they are used.

    Raises
    ------
    NotFound
        The URI does not exist.
    InvalidArgument
        Nothing that can be opened is there, `uri` is a pattern, or the URI has a user, password, query or fragment. Or
        a timestamp or storage options are given for an AnnData object.
    Unsupported
        This version does not read the scheme of the URI, or the web server has no index.
    IoError
        The remote store refuses, does not answer, or needs credentials; the message says what to
        check.
    """
    if not is_anndata(uri):
        check_one_path(uri)
        return open_stored(uri, timestamp, threads, storage_options)
    check_for_uri(uri, storage_options)
    if timestamp is not None:
        raise InvalidArgument("an AnnData object has no earlier states: leave timestamp out")
    return from_anndata(uri)


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
        check_one_path(source)
        return open_stored(source, threads=threads, storage_options=storage_options)
    if hasattr(source, "with_settings"):
        raise InvalidArgument(
            "this takes the source of a Dataset, got the Dataset: give ds.experiment, or choose cells by "
            "ds[…] and other arguments by ds.with_settings(…)"
        )
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
    return open_stored(opened.uri, opened.tiledb_timestamp_ms, threads, storage)
