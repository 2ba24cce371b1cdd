"""What a dataset holds: chosen cells and genes, and how their batches look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy.typing as npt

from penstock.batches.format import BatchFormat
from penstock.batches.obs import ObsBatches
from penstock.encoders import Encoder
from penstock.epochs.iterator import EpochProgress
from penstock.epochs.state import EpochState
from penstock.epochs.worker_stats import WorkerTotal
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment
from penstock.plan.selection import Selection
from penstock.plan.settings import LoaderSettings
from penstock.transforms.chain import Transform


class SelectedCells:
    """Cells and genes of an experiment, and the settings that they are read with."""

    _selection: Selection
    _settings: LoaderSettings
    _batch_format: BatchFormat
    _encoders: list[Encoder]
    _encoders_fitted: bool
    _identity: str  # the encoders' owner: parts of a dataset share it
    _epochs: EpochState
    _obs_batches: ObsBatches | None

    @property
    def n_obs(self) -> int:
        """Number of cells selected, over all ranks."""
        return len(self._selection.rows)

    @property
    def n_vars(self) -> int:
        """Number of genes selected: the columns of X, those of `SelectGenes` where there is one."""
        return self._selection.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """(cells, genes)."""
        return self.n_obs, self.n_vars

    @property
    def obs(self) -> DataFrame:
        """The selected cells, ascending by joinid, with all stored columns."""
        return self._selection.obs

    @property
    def var(self) -> DataFrame:
        """The selected genes, in the order of the columns of X, with all stored columns."""
        return self._selection.var

    @property
    def var_names(self) -> npt.NDArray[Any]:
        """Names of X's columns: from the argument `var_names`, var's usual ones, else joinids."""
        return self._selection.var_names

    @property
    def transforms(self) -> tuple[Transform | Callable[[Any], Any], ...]:
        """What is done to X, as it was given."""
        chain = self._selection.transforms
        return () if chain is None else chain.steps

    @property
    def experiment(self) -> Experiment:
        """The experiment that it reads."""
        return self._selection.experiment

    @property
    def encoders(self) -> dict[str, Encoder]:
        """Name to encoder, fitted on the selected cells."""
        self._fitted_obs()
        return {encoder.name: encoder for encoder in self._encoders}

    @property
    def shuffle(self) -> str | None:
        """How cells are shuffled: "scatter", "global" or "chunks"; None where they are not.

        With `cache_dir` that of the epoch that was begun last, "scatter" before there is one.
        """
        begun = self._epochs.shuffle
        settings = self._settings if begun is None else replace(self._settings, shuffle=begun)
        return self._selection.shuffle(settings)

    @property
    def batch_size(self) -> int:
        """Cells in a full batch."""
        return self._settings.batch_size

    def _fitted_obs(self) -> ObsBatches:
        if self._obs_batches is None:
            fit = not self._encoders_fitted
            if fit:
                for encoder in self._encoders:
                    encoder.claim(self._identity)
            form = self._batch_format
            self._obs_batches = ObsBatches(
                self.obs, form.obs_columns, self._encoders, form.obs_format, form.pad_column, fit
            )
            self._encoders_fitted = True
        return self._obs_batches

    def _part(self, selection: Selection) -> Self:
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._selection = selection
        part._epochs = EpochState()
        part._forget()
        return part

    def _forget(self) -> None:
        """Drop what depends on the rows and is made again when needed."""
        self._obs_batches = None
        self._lengths: dict[tuple[int, int], int] = {}
        self._worker_total = WorkerTotal()
        self._progress = EpochProgress()
        self._warned_of_cost = False
