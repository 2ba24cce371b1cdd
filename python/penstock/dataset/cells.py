"""Cells of a dataset, and what their batches are made into."""

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
    """A plan of X, columns of obs and encoders: all that a batch depends on but its epoch.

    Does not change, but that obs is read and the encoders are fitted when they are needed first.
    Picklable; a copy reads obs again.

    Attributes
    ----------
    planner : Planner
        Which cells and genes, and the settings.
    format : BatchFormat
        How X and obs look.
    encoders : sequence of Encoder
        What comes encoded.
    owner : str
        Whose encoders they are: parts of one dataset share it.
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
        """What gives the obs of a batch; reads the columns and fits the encoders at the first call."""
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
            )
            self._are_fitted = True
        return self._obs

    def fit(self) -> None:
        """Fit the encoders on these cells, where there are any and they are not fitted."""
        if self.encoders and not self._are_fitted:
            self.obs_batches()

    def with_planner(self, planner: Planner) -> Cells:
        """The same cells with other settings or genes; for other cells, `fit` these before."""
        same = planner.selection is self.planner.selection  # then obs need not be read again
        return self._copy(planner=planner, _obs=self._obs if same else None)

    def with_rows(self, rows: _core.RowSelection) -> Cells:
        """Other cells of the same layer; the encoders are fitted on these cells."""
        self.fit()
        return self.with_planner(self.planner.with_rows(rows))

    def with_format(self, format: BatchFormat) -> Cells:
        """The same cells; their batches look otherwise."""
        return self._copy(format=format)

    def with_encoders(self, encoders: Sequence[Encoder], format: BatchFormat) -> Cells:
        """The same cells with encoders that need no fit, or none."""
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
        """Yield (X, obs) of what a loader reads of these cells.

        Parameters
        ----------
        loader : Loader
            Made by this planner, or one of its parts.
        progress : EpochProgress
            Gets the loader and its counts.
        count : callable, optional
            Called for each batch that is handed over.
        """
        settings, chain = self.planner.settings, self.planner.selection.transforms
        take_obs = self.obs_batches().take
        if settings.is_placed:
            check_main_process(settings.device)
            require("torch")
            from penstock.batches.device.copier import DeviceCopier
            from penstock.epochs.device_iterator import DeviceIterator

            return DeviceIterator(loader, DeviceCopier(settings), take_obs, progress, count, chain)
        take_x = transformed(self.format.format, settings.sparse, chain)
        return EpochIterator(loader, take_x, take_obs, progress, count)

    def __getstate__(self) -> dict[str, Any]:  # of copies in this process, too
        state = {**self.__dict__, "_obs": None}
        if is_spawning():  # a DataLoader worker has no rank of its own to find
            settings = self.planner.settings.with_rank_found()
            state["planner"] = self.planner.with_settings(settings)
        return state
