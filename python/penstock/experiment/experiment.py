"""Open stored experiments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from penstock import _core
from penstock.base.suggestions import did_you_mean
from penstock.base.validation import checked_int, checked_path, checked_text, described
from penstock.errors import InvalidArgument, NotFound

from .data_frame import JOINID, DataFrame
from .reprs import experiment_html, experiment_text
from .storage_options import Texts, credentials_function, storage_texts
from .table_method import table_method

_DATASET = "penstock.Dataset(exp).{name} has it, for the cells and genes that the Dataset selects"
#: Attributes that people try, and what replaces them.
_HINTS = {
    "X": "exp.x() describes it, and penstock.Dataset(exp) reads it",
    "axis_query": "penstock.Dataset(exp, obs_query=…, var_query=…) selects cells and genes",
    "ms": "exp.measurements lists them; exp.var(name), exp.layers(name) and exp.x(name) read one",
    "n_vars": "len(exp.var()) is the number of genes",
    **{
        name: _DATASET.format(name=name)
        for name in ("head", "obs_names", "shape", "to_anndata", "var_names")
    },
}


class Experiment:
    """A stored experiment: obs, and measurements with var and X layers.

    `penstock.open` returns it. Immutable, thread-safe, and picklable: a copy opens the same URI at
    the same timestamp.
    """

    def __init__(
        self,
        core: _core.Experiment,
        timestamp_ms: int | None = None,
        threads: int = 0,
        storage: Texts | None = None,
    ) -> None:
        if isinstance(core, (str, os.PathLike)):
            raise InvalidArgument(f"penstock.open({core!r}) opens an experiment")
        self.engine = core
        self._timestamp_ms = timestamp_ms
        self._threads = threads
        self._storage = storage or {}

    @property
    def uri(self) -> str:
        """URI or path of the experiment."""
        return self.engine.uri

    @property
    def timestamp_ms(self) -> int | None:
        """Timestamp, in milliseconds since 1970-01-01 UTC; None for the newest state."""
        return self._timestamp_ms

    @property
    def obs(self) -> DataFrame:
        """Table of the cells."""
        return DataFrame(self.engine.obs(), "obs")

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return self.engine.obs().row_count()

    @property
    def joined_fingerprint(self) -> int:
        """Fingerprint of the joined experiments and the gene matching; 0 for one experiment."""
        return 0

    def default_obs_columns(self, obs_format: str) -> list[str]:
        """Return the columns of obs in batches, if none are named."""
        return [JOINID]

    @property
    def measurements(self) -> list[str]:
        """Names of the measurements, for example ``["RNA"]``."""
        return self.engine.measurements()

    @table_method
    def var(self, measurement: str = "RNA") -> DataFrame:
        """Return the genes (or other features) of a measurement.

        Parameters
        ----------
        measurement : str, default "RNA"
            Name of the measurement.

        Returns
        -------
        DataFrame
            Table of the genes.

        Raises
        ------
        NotFound
            The measurement does not exist; the message lists those that do.
        """
        name = checked_text("measurement", measurement)
        with self._suggesting(name, lambda: self.measurements):
            return DataFrame(self.engine.var(name), "var")

    def layers(self, measurement: str = "RNA") -> list[str]:
        """Return the names of the X layers of a measurement.

        Parameters
        ----------
        measurement : str, default "RNA"
            Name of the measurement.

        Returns
        -------
        list of str
            Names of the layers, for example ``["raw", "normalized"]``.

        Raises
        ------
        NotFound
            The measurement does not exist; the message lists those that do.
        """
        name = checked_text("measurement", measurement)
        with self._suggesting(name, lambda: self.measurements):
            return self.engine.layers(name)

    def default_layer(self, measurement: str = "RNA") -> str:
        """Return the X layer that is read if no layer is named.

        Parameters
        ----------
        measurement : str, default "RNA"
            Name of the measurement.

        Returns
        -------
        str
            "raw" of a SOMA experiment, "X" of an AnnData, or the name of the only layer.

        Raises
        ------
        NotFound
            The measurement does not exist, or has several layers without the usual one; the message
            lists those that exist.
        """
        name = checked_text("measurement", measurement)
        with self._suggesting(name, lambda: self.measurements):
            return self.engine.default_layer(name)

    def x(self, measurement: str = "RNA", layer: str | None = None) -> _core.Matrix:
        """Return a description of an X layer; a `Dataset` reads its values.

        Parameters
        ----------
        measurement : str, default "RNA"
            Name of the measurement.
        layer : str, optional
            Name of the layer; by default `default_layer`.

        Returns
        -------
        Matrix
            Shape (cells, genes), value type, stored size in bytes and layout.

        Raises
        ------
        NotFound
            The measurement or layer does not exist; the message lists those that do.
        """
        chosen = self.default_layer(measurement) if layer is None else checked_text("layer", layer)
        name = checked_text("measurement", measurement)
        with self._suggesting(chosen, lambda: self.layers(name)):
            return self.engine.x(name, chosen)

    @contextmanager
    def _suggesting(self, name: str, there: Callable[[], list[str]]) -> Iterator[None]:
        """Add to the error about a name the nearest of those that exist."""
        try:
            yield
        except NotFound as error:
            said = str(error)
            meant = did_you_mean(name, there()) if f"{name!r}; choose" in said else ""
            if not meant:
                raise
            raise NotFound(said.replace("; choose", f"{meant} Choose", 1)) from None

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the experiment as text."""
        return self.engine.metadata()

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes. Copying asks for names with underscores.
        if name.startswith("_") or name == "engine":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        there = [each for each in dir(type(self)) if not each.startswith("_")]
        hint = _HINTS.get(name)
        raise AttributeError(
            f"an Experiment has no attribute {name!r}"
            + (f": {hint}" if hint else did_you_mean(name, there))
        )

    def __getitem__(self, name: Any) -> Any:
        raise TypeError(
            f"an Experiment has attributes, not items, got exp[{name!r:.40}]: exp.obs, exp.var(), "
            "exp.x(); penstock.Dataset(exp)[cells, genes] selects cells and genes"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: an experiment keeps nothing open."""

    def __repr__(self) -> str:
        return experiment_text(self.engine)

    def _repr_html_(self) -> str:
        return experiment_html(self.engine)

    def __reduce__(self) -> Any:
        # The copy needs the keys of a remote store to open it.
        return _reopen, (self.uri, self._timestamp_ms, self._threads, self._storage)


def open_stored(
    uri: str | os.PathLike[str],
    timestamp: datetime | int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Experiment:
    """Open a path or URI; see `penstock.open`."""
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
        # Rounded down as in tiledbsoma: rounding up would show writes of the next millisecond.
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
    return open_stored(uri, timestamp_ms, threads or None, storage)
