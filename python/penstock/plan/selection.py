"""The part of an experiment that a Dataset reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

from .epoch_size import warn_of_no_genes
from .sampling import Sampling
from .settings import GLOBAL, SCATTER, LoaderSettings
from .shard import Shard


@dataclass(frozen=True)
class Selection:
    """Cells and genes of one X layer. Immutable and picklable: a copy opens the layer again."""

    experiment: Experiment
    measurement: str
    layer: str
    rows: _core.RowSelection
    genes: _core.RowSelection
    transforms: Chain | None = None
    var_names_column: str | None = None
    cache: LocalCache | None = None

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
        matrix = self.experiment.x(self.measurement, self.layer)
        return matrix if self.cache is None else self.cache.through(matrix)

    @property
    def obs(self) -> DataFrame:
        """The selected cells with all stored columns."""
        return self.experiment.obs.with_rows(self.rows)

    @property
    def var(self) -> DataFrame:
        """The genes of X's columns, in their order, with all stored columns."""
        var = self.experiment.var(self.measurement)
        chain = self.transforms
        if chain is None or chain.joinids is None:
            return var.with_rows(self.genes)
        there = chain.joinids[chain.joinids >= 0]
        chosen = _core.RowSelection.from_unsorted(np.sort(there))
        return var.with_rows(chosen, None if (np.diff(there) > 0).all() else there)

    @property
    def n_columns(self) -> int:
        """Number of genes that X has columns of."""
        return len(self.genes) if self.transforms is None else self.transforms.columns

    @property
    def gene_names(self) -> GeneNames:
        """Names of genes: of the column that was chosen, else of var's usual ones."""
        return GeneNames(self.experiment.var(self.measurement), self.var_names_column)

    @property
    def var_names(self) -> npt.NDArray[Any]:
        """Names of the columns of X."""
        if self.transforms is None:
            return self.gene_names.of(self.genes)
        return self.transforms.column_names(self.gene_names)

    def with_rows(self, rows: _core.RowSelection) -> Selection:
        """Other cells of the same layer."""
        return replace(self, rows=rows)

    def with_var_names(self, column: str | None) -> Selection:
        """The same with names of genes from another column of var, which is checked."""
        chosen = replace(self, var_names_column=column)
        chosen.gene_names.column()
        return chosen

    def with_transforms(self, transforms: Any, settings: LoaderSettings) -> Selection:
        """The same with other transforms; raises as `make_chain` does, warns where no gene is left."""
        chain = make_chain(self.genes, self.obs, self.gene_names, transforms)
        chain.check_batches(settings.sparse, settings.engine_dtype)
        chosen = replace(self, transforms=chain if chain.steps else None)
        if self.n_columns and not chosen.n_columns:
            warn_of_no_genes(f"the transforms keep none of {len(self.genes):,}")
        return chosen

    def first_rows(self, count: int) -> Selection:
        """The `count` cells with the lowest joinids."""
        return self.with_rows(self.rows.take(np.arange(count, dtype=np.uint64)))

    def loader(
        self, settings: LoaderSettings, shard: Shard, epoch: int, first_batch: int = 0
    ) -> _core.Loader:
        """Plan an epoch from a batch on; nothing is read before its first batch is asked for.

        Raises
        ------
        ResourceExhausted
            The memory budget is too small; the message says the least that works.
        """
        options = self.loader_options(settings, shard, epoch)
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

    def shuffle(self, settings: LoaderSettings) -> str | None:
        """How cells are shuffled: "scatter", "global" or "chunks"; None where they are not.

        A function of the settings and of what the source is, not of what a cache holds at the
        moment: all ranks and workers must find the same. Where that matters the settings come
        from shuffle_choice.py.
        """
        if settings.shuffle is not True:
            return settings.shuffle or None
        by_rows = self.matrix.addresses_rows and settings.sampling is None
        return GLOBAL if by_rows else SCATTER

    def loader_options(
        self, settings: LoaderSettings, shard: Shard, epoch: int
    ) -> _core.LoaderOptions:
        """Options of the engine for these cells and genes, each cell once."""
        genes = self.genes if self.transforms is None else self.transforms.genes
        columns = None if self._is_every_gene(genes) else genes.to_numpy().tolist()
        options = settings.loader_options(shard, epoch, self.rows, columns)
        options.global_shuffle = self.shuffle(settings) == GLOBAL
        options.transforms = self.engine_transforms
        if not self.engine_makes_csr(settings):
            options.layout, options.narrow_values = _core.BatchLayout.dense, False
        return options

    def engine_makes_csr(self, settings: LoaderSettings) -> bool:
        """Whether the engine's batches are CSR: not where transforms make whole rows of them."""
        return settings.engine_makes_csr and not (
            self.transforms is not None and self.transforms.makes_rows
        )

    @cached_property
    def engine_transforms(self) -> _core.TransformPlan | None:
        """The transforms as the engine takes them, totals of the selected cells included."""
        return None if self.transforms is None else self.transforms.engine_plan(self.obs, self.rows)

    def _is_every_gene(self, genes: _core.RowSelection) -> bool:
        stored = self.matrix.shape[1]
        return len(genes) == stored and (stored == 0 or genes.at(stored - 1) == stored - 1)

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("matrix", "_row_weights", "engine_transforms")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
