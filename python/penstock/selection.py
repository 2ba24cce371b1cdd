"""The part of an experiment that a Dataset reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .errors import InvalidArgument
from .experiment import Experiment
from .loader_settings import LoaderSettings
from .sampling import Sampling
from .sharding import Share
from .table import DataFrame

#: Columns of var that hold names, best first.
_NAME_COLUMNS = ("var_id", "feature_id", "gene_id", "feature_name", "gene_name", "index")


@dataclass(frozen=True)
class Selection:
    """Cells and genes of one X layer. Immutable and picklable: a copy opens the layer again."""

    experiment: Experiment
    measurement: str
    layer: str
    rows: _core.RowSelection
    genes: _core.RowSelection

    def __post_init__(self) -> None:
        # A layer that is not there, or not read, is an error now and not at the first batch.
        cells = self.matrix.shape[0]
        if len(self.rows) and (last := self.rows.at(len(self.rows) - 1)) >= cells:
            raise InvalidArgument(
                f"cells are selected that the layer has no rows for: X ends at {cells}, the last "
                f"joinid is {last}, in {self.matrix.uri}"
            )

    @cached_property
    def matrix(self) -> _core.Matrix:
        """The X layer, whole."""
        return self.experiment.x(self.measurement, self.layer)

    @property
    def obs(self) -> DataFrame:
        """The selected cells with all stored columns."""
        return DataFrame(self.experiment._core.obs(), "obs", self.rows)

    @property
    def var(self) -> DataFrame:
        """The selected genes with all stored columns."""
        return DataFrame(self.experiment._core.var(self.measurement), "var", self.genes)

    @property
    def var_names(self) -> npt.NDArray[Any]:
        """Names of the genes: the first of var's usual name columns, else joinids."""
        there = self.var.columns
        for name in _NAME_COLUMNS:
            if name in there:
                return self.var.read([name])[name].to_numpy()
        return self.genes.to_numpy()

    def with_rows(self, rows: _core.RowSelection) -> Selection:
        """Other cells of the same layer."""
        return replace(self, rows=rows)

    def first_rows(self, count: int) -> Selection:
        """The `count` cells with the lowest joinids."""
        return self.with_rows(self.rows.take(np.arange(count, dtype=np.uint64)))

    def loader(
        self, settings: LoaderSettings, share: Share, epoch: int, first_batch: int = 0
    ) -> _core.Loader:
        """Plan an epoch from a batch on; nothing is read before its first batch is asked for."""
        genes = None if self._has_every_gene() else self.genes.to_numpy().tolist()
        options = settings.loader_options(share, epoch, self.rows, genes)
        options.first_batch = first_batch
        if settings.sampling is not None:
            options.sampling = settings.sampling.for_cells(self)
        return _core.Loader(self.matrix, options)

    def row_weights(self, sampling: Sampling) -> _core.RowWeights | None:
        """Weights of the cells, made once."""
        key = (sampling.weights, sampling.balance)
        made = self.__dict__.setdefault("_row_weights", {})
        if key not in made:
            made[key] = sampling.row_weights(self.obs, self.rows)
        weights: _core.RowWeights | None = made[key]
        return weights

    def epoch_cells(self, settings: LoaderSettings) -> int:
        """Cells of an epoch over all ranks, before what `uneven` leaves out or repeats."""
        if settings.sampling is None:
            return len(self.rows)
        drawn = settings.sampling.for_cells(self)
        return 0 if drawn is None else drawn.samples

    def sampling_fingerprint(self, settings: LoaderSettings) -> int:
        """Of what is drawn and how, the same on every machine; 0 where every cell comes once."""
        drawn = None if settings.sampling is None else settings.sampling.for_cells(self)
        return 0 if drawn is None else drawn.fingerprint()

    def _has_every_gene(self) -> bool:
        stored = self.matrix.shape[1]
        return len(self.genes) == stored and (
            stored == 0 or self.genes.at(stored - 1) == stored - 1
        )

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("matrix", "_row_weights")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
