"""Location of an X layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.base.missing_package import require


@dataclass(frozen=True, kw_only=True)
class XLocator:
    """Location of an X layer of a stored experiment at a timestamp. Picklable."""

    uri: str
    measurement_name: str
    layer_name: str
    tiledb_timestamp_ms: int | None
    tiledb_config: Mapping[str, str | float] = field(repr=False)  # may hold keys

    @classmethod
    def create(cls, experiment: Any, measurement_name: str, layer_name: str) -> XLocator:
        """Return the location of a layer of an open tiledbsoma Experiment."""
        return cls(
            uri=experiment.uri,
            measurement_name=measurement_name,
            layer_name=layer_name,
            tiledb_timestamp_ms=experiment.tiledb_timestamp_ms,
            tiledb_config=experiment.context.tiledb_config,
        )

    @contextmanager
    def open(self) -> Iterator[tuple[Any, Any]]:
        """Open the layer and obs with tiledbsoma: (SparseNDArray, DataFrame)."""
        require("tiledbsoma")
        import tiledbsoma

        context = tiledbsoma.SOMATileDBContext(tiledb_config=dict(self.tiledb_config))
        with tiledbsoma.Experiment.open(
            self.uri, tiledb_timestamp=self.tiledb_timestamp_ms, context=context
        ) as experiment:
            yield experiment.ms[self.measurement_name].X[self.layer_name], experiment.obs
