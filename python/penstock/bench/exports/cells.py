"""The cells of an experiment in joinid order, as CSR, a few thousand at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 4096


@dataclass(frozen=True)
class Cells:
    """A selection of cells and genes of a layer."""

    source: str
    measurement: str = "RNA"
    layer: str = "raw"
    obs_filter: str | None = None
    n_vars: int | None = None

    def _dataset(self) -> Any:
        import penstock

        var_query = None
        if self.n_vars is not None:
            var_query = penstock.AxisQuery(coords=(slice(0, self.n_vars - 1),))
        return penstock.Dataset(
            self.source,
            measurement=self.measurement,
            layer=self.layer,
            obs_query=self.obs_filter,
            var_query=var_query,
            obs_columns=["soma_joinid"],
            batch_size=_ROWS,
            shuffle=False,
            shard=False,
            sparse=True,
        )

    def shape(self) -> tuple[int, int]:
        """Numbers of cells and genes."""
        dataset = self._dataset()
        return dataset.n_obs, dataset.n_vars

    def matrices(self) -> Iterator[Any]:
        """Yield CSR matrices of float32 with int32 indices, rows in joinid order."""
        for x, _ in self._dataset():
            yield x

    def obs(self) -> pd.DataFrame:
        """Return ``obs`` of the cells in memory, with joinids as text for index."""
        import penstock

        frame = penstock.open(self.source).obs.to_pandas(value_filter=self.obs_filter)
        return _named_by_joinid(frame)

    def var(self) -> pd.DataFrame:
        """Return ``var`` of the genes, with ``feature_id`` for index if it exists."""
        import penstock

        frame = penstock.open(self.source).var(self.measurement).to_pandas()
        if self.n_vars is not None:
            frame = frame[frame["soma_joinid"] < self.n_vars]
        if "feature_id" in frame:
            return frame.set_index(frame["feature_id"].astype(str).rename(None))
        return _named_by_joinid(frame)


def _named_by_joinid(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index(frame["soma_joinid"].astype(str).rename(None))
