"""Cells of a dataset, and the format of their batches."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.shared_integers import is_spawning
from penstock.batches.format import BatchFormat
from penstock.batches.matrix import transformed
from penstock.batches.obs import ObsBatches
from penstock.encoders import Encoder
from penstock.epochs.iterator import EpochIterator, EpochProgress
from penstock.plan.device import check_main_process
from penstock.plan.planner import Planner


class Cells:
    """Plan of X, columns of obs and encoders: everything that a batch depends on except its epoch.

    Immutable, except that obs is read and the encoders are fitted on first use. Picklable; a copy
    reads obs again.

    Attributes
    ----------
    planner : Planner
        Cells, genes and settings.
    format : BatchFormat
        Format of X and obs.
    encoders : sequence of Encoder
        Encoders whose output batches have.
    owner : str
        Id of the dataset that fits the encoders; the parts of a dataset share it.
    """

    def __init__(
        self,
        planner: Planner,
        format: BatchFormat,
        encoders: Sequence[Encoder],
    ) -> None:
        self.planner = planner
        self.format = format
        self.encoders = encoders
        self.owner = uuid.uuid4().hex
        self._are_fitted = False
        self._obs: ObsBatches | None = None

    def obs_batches(self) -> ObsBatches:
        """Return the object that makes obs; the first call reads columns and fits encoders."""
        if self._obs is None:
            if not self._are_fitted:
                for encoder in self.encoders:
                    encoder.claim(self.owner)
            self._obs = ObsBatches(
                self.planner.selection.obs,
                self.format.obs_columns,
                self.encoders,
                self.format.obs_format,
                self.format.pad_column,
                fit=not self._are_fitted,
                missing=self.planner.missing_columns,
            )
            self._are_fitted = True
        return self._obs

    def fit(self) -> None:
        """Fit the encoders on these cells, unless they are fitted."""
        if self.encoders and not self._are_fitted:
            self.obs_batches()

    def with_planner(self, planner: Planner) -> Cells:
        """Return these cells with another planner; for other cells, call `fit` first."""
        same = planner.selection is self.planner.selection  # then obs need not be read again
        return self._copy(planner=planner, _obs=self._obs if same else None)

    def with_rows(self, rows: _core.RowSelection) -> Cells:
        """Return other cells of the same layer, with encoders that are fitted on these cells."""
        self.fit()
        return self.with_planner(self.planner.with_rows(rows))

    def with_format(self, format: BatchFormat) -> Cells:
        """Return these cells with another format of batches."""
        return self._copy(format=format)

    def with_encoders(self, encoders: Sequence[Encoder], format: BatchFormat) -> Cells:
        """Return these cells with other encoders, which must not need fitting."""
        return self._copy(encoders=encoders, format=format, _are_fitted=True)

    def _copy(self, **changes: Any) -> Cells:
        made = copy.copy(self)
        made.__dict__.update(changes)
        return made

    def batches(
        self,
        loader: _core.Loader,
        progress: EpochProgress,
        count: Callable[[], None] | None = None,
    ) -> EpochIterator:
        """Return an iterator over the batches (X, obs) of a loader.

        Parameters
        ----------
        loader : Loader
            Loader by this planner, or by a planner of a part of the cells.
        progress : EpochProgress
            Receives the loader and its counts.
        count : callable, optional
            Called for each batch that is yielded.
        """
        settings, arrays = self.planner.settings, self.planner.arrays
        take_obs = self.obs_batches().take
        if self.planner.is_placed:
            check_main_process(settings.device)
            require("torch")
            from penstock.batches.device.copier import DeviceCopier
            from penstock.epochs.device_iterator import DeviceIterator

            return DeviceIterator(loader, DeviceCopier(settings), take_obs, progress, arrays, count)
        take_x = transformed(self.format.format, arrays)
        return EpochIterator(loader, take_x, take_obs, progress, count)

    def __getstate__(self) -> dict[str, Any]:  # also for copies in this process
        state = {**self.__dict__, "_obs": None}
        if is_spawning():  # a DataLoader worker cannot find the rank
            settings = self.planner.settings.with_rank_found()
            state["planner"] = self.planner.with_settings(settings)
        return state
