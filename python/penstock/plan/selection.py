"""Selection: the part of an experiment that a Dataset reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment
from penstock.experiment.gene_names import GeneNames
from penstock.experiment.local_cache import LocalCache
from penstock.transforms.chain import Chain, make_chain


@dataclass(frozen=True)
class Selection:
    """Cells and genes of one X layer. Immutable and picklable; a copy opens the layer again."""

    experiment: Experiment
    measurement: str
    layer: str
    rows: _core.RowSelection
    genes: _core.RowSelection
    transforms: Chain | None = None
    var_names_column: str | None = None
    cache: LocalCache | None = None
    #: Cells that stay in memory; selections of other cells and genes of the layer share it.
    kept: _core.KeptRows = field(default_factory=_core.KeptRows, compare=False, repr=False)

    def __post_init__(self) -> None:
        # A missing or unsupported layer raises here, not at the first batch.
        self.matrix.expect_rows()
        cells = self.matrix.shape[0]
        if len(self.rows) and (last := self.rows.at(len(self.rows) - 1)) >= cells:
            raise InvalidArgument(
                f"cells are selected that the layer has no rows for: X ends at {cells}, the last "
                f"joinid is {last}, in {self.matrix.uri}"
            )

    @cached_property
    def matrix(self) -> _core.Matrix:
        """The whole X layer."""
        matrix = self.experiment.x(self.measurement, self.layer)
        return matrix if self.cache is None else self.cache.through(matrix)

    @property
    def obs(self) -> DataFrame:
        """Table of the selected cells, with all stored columns."""
        return self.experiment.obs.with_rows(self.rows)

    @property
    def var(self) -> DataFrame:
        """Table of the genes of X, in the order of its columns, with all stored columns."""
        var = self.experiment.var(self.measurement).named_by(self.var_names_column)
        chain = self.transforms
        if chain is None or chain.joinids is None:
            return var.with_rows(self.genes)
        there = chain.joinids[chain.joinids >= 0]
        chosen = _core.RowSelection.from_unsorted(np.sort(there))
        return var.with_rows(chosen, None if (np.diff(there) > 0).all() else there)

    @property
    def steps(self) -> Any:
        """Transforms of X, as given."""
        return () if self.transforms is None else self.transforms.steps

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return len(self.genes) if self.transforms is None else self.transforms.columns

    @property
    def column_joinids(self) -> npt.NDArray[np.int64]:
        """Joinids of the columns of X, -1 for a requested gene that is not stored."""
        chain = self.transforms
        return self.genes.to_numpy() if chain is None else chain.column_joinids()

    @property
    def gene_names(self) -> GeneNames:
        """Gene names from the chosen column, else from the first usual one of var."""
        return GeneNames(self.experiment.var(self.measurement), self.var_names_column)

    @property
    def var_names(self) -> npt.NDArray[Any]:
        """Names of the columns of X."""
        if self.transforms is None:
            return self.gene_names.of(self.genes)
        return self.transforms.column_names(self.gene_names)

    def with_rows(self, rows: _core.RowSelection) -> Selection:
        """Return a selection of other cells of the same layer."""
        return replace(self, rows=rows)

    def with_var_names(self, column: str | None) -> Selection:
        """Return a selection with gene names from another column of var, which must exist."""
        chosen = replace(self, var_names_column=column)
        chosen.gene_names.column()
        return chosen

    def with_transforms(self, steps: Any) -> Selection:
        """Return a selection with other transforms; errors are those of `make_chain`."""
        chain = make_chain(self.genes, self.obs, self.gene_names, steps)
        return replace(self, transforms=chain if chain.steps else None)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("matrix", "kept")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, kept=_core.KeptRows())
