"""Opening stored experiments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock import _core
from penstock.base.validation import checked_int, checked_path, checked_text, described
from penstock.errors import InvalidArgument

from .data_frame import JOINID, DataFrame
from .reprs import experiment_html, experiment_text
from .storage_options import Texts, credentials_function, storage_texts


class Experiment:
    """A SOMA experiment: obs, and measurements with var and X layers.

    Made by `penstock.open`. Immutable, safe to use from many threads, and picklable: the copy opens
    the same URI at the same timestamp.
    """

    def __init__(
        self,
        core: _core.Experiment,
        timestamp_ms: int | None,
        threads: int,
        storage: Texts | None = None,
    ) -> None:
        self.engine = core
        self._timestamp_ms = timestamp_ms
        self._threads = threads
        self._storage = storage or {}

    @property
    def uri(self) -> str:
        """Where it is stored."""
        return self.engine.uri

    @property
    def timestamp_ms(self) -> int | None:
        """Milliseconds since the epoch that it is read at; None for the newest state."""
        return self._timestamp_ms

    @property
    def obs(self) -> DataFrame:
        """The cells."""
        return DataFrame(self.engine.obs(), "obs")

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return self.engine.obs().row_count()

    @property
    def joined_fingerprint(self) -> int:
        """Of the experiments that are joined and how their genes are matched; 0 for one alone."""
        return 0

    def default_obs_columns(self, obs_format: str) -> list[str]:
        """Columns of obs that batches have when none are named."""
        return [JOINID]

    @property
    def measurements(self) -> list[str]:
        """Names of the measurements, for example ``["RNA"]``."""
        return self.engine.measurements()

    def var(self, measurement: str = "RNA") -> DataFrame:
        """Return the genes (or other features) of a measurement.

        Raises
        ------
        NotFound
            No such measurement; the message lists what there is.
        """
        return DataFrame(self.engine.var(checked_text("measurement", measurement)), "var")

    def layers(self, measurement: str = "RNA") -> list[str]:
        """Names of the X layers of a measurement, for example ``["raw", "normalized"]``."""
        return self.engine.layers(checked_text("measurement", measurement))

    def x(self, measurement: str = "RNA", layer: str = "raw") -> _core.Matrix:
        """Return an X layer: its shape, value type, stored size and layout; read it with `Dataset`.

        Raises
        ------
        NotFound
            No such measurement or layer; the message lists what there is.
        """
        return self.engine.x(checked_text("measurement", measurement), checked_text("layer", layer))

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the experiment as text."""
        return self.engine.metadata()

    def __repr__(self) -> str:
        return experiment_text(self)

    def _repr_html_(self) -> str:
        return experiment_html(self)

    def __reduce__(self) -> Any:
        # With the keys of a remote store, if they were given: the copy must be able to open it.
        return _reopen, (self.uri, self._timestamp_ms, self._threads, self._storage)


def open(
    uri: str | os.PathLike[str],
    timestamp: datetime | int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Experiment:
    """Open a TileDB-SOMA experiment.

    Parameters
    ----------
    uri : str or path
        A folder or ``file://`` URI, ``s3://bucket/key``, or ``https://…`` with an index beside the
        files (``penstock index``). It is shown and written down, so it must have no user, password
        or query; credentials belong in `storage_options`.
    timestamp : datetime or int, optional
        Read what was visible then; an int is milliseconds since 1970-01-01 UTC, a datetime without
        a time zone is UTC.
    threads : int, optional
        For metadata and tables; as many as cores when absent.
    storage_options : dict, optional
        How a remote store is reached. S3: ``anonymous``, ``region``, ``endpoint``,
        ``addressing_style`` (``"auto"``, ``"path"``, ``"virtual"``), ``requester_pays``, ``profile``,
        ``access_key_id``, ``secret_access_key``, ``session_token``, or s3fs's names for them
        (``anon``, ``key``, ``secret``, ``token``, ``endpoint_url``); without keys they are looked
        for as other AWS tools do. http(s): ``headers``, a dict; they are sent to the scheme, host
        and port of `uri` alone. Both: ``max_requests`` (64),
        ``connect_timeout`` (10 s), ``stall_timeout`` (20 s), ``retry_timeout`` (60 s),
        ``max_attempts`` (8).

    Returns
    -------
    Experiment

    Raises
    ------
    NotFound
        Nothing is there.
    InvalidArgument
        It is not a SOMA experiment; the address has a user, password, query or fragment.
    Unsupported
        A scheme of URI that this version does not read; a web server without an index.
    IoError
        A remote store refuses, does not answer, or has no credentials; the message says what to
        check.
    """
    path = checked_path("uri", uri)
    if "://" not in path:  # a later chdir must not change what is read
        path = os.path.abspath(path)  # noqa: PTH100  (links stay links)
    timestamp_ms = _milliseconds(timestamp)
    count = 0 if threads is None else checked_int("threads", threads, least=1, most=1024)
    storage = storage_texts(storage_options)
    core = _core.Experiment.open(path, timestamp_ms, count, storage, credentials_function(path))
    return Experiment(core, timestamp_ms, count, storage)


def _milliseconds(timestamp: datetime | int | None) -> int | None:
    if timestamp is None:
        return None
    if isinstance(timestamp, datetime):
        aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
        # Cut, as tiledbsoma does: rounding up would show writes of the next millisecond.
        since_1970 = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        return checked_int("timestamp", since_1970, least=0)
    if isinstance(timestamp, bool) or not hasattr(timestamp, "__index__"):
        raise InvalidArgument(
            "timestamp must be a datetime or an integer, milliseconds since 1970-01-01 UTC, "
            f"got {described(timestamp)}"
        )
    return checked_int("timestamp", timestamp, least=0)


def _reopen(
    uri: str, timestamp_ms: int | None, threads: int, storage: Texts | None = None
) -> Experiment:
    return open(uri, timestamp_ms, threads or None, storage)
