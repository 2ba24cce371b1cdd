"""An experiment made of several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy.typing as npt

from .. import _core, display
from ..errors import NotFound, ResourceExhausted
from ..experiment import Experiment
from ..selection_fingerprint import digest64
from ..table import JOINID, DataFrame
from .genes import GeneMatch
from .tables import JoinedObs, JoinedVar

_WORD = 2**32


class JoinedExperiment(Experiment):
    """Several experiments as one: the cells of all, the genes matched.

    Made by `penstock.join`. A `Dataset` of it shuffles the cells of all experiments together, within
    one memory budget. Immutable and picklable; the experiments are opened again at the same
    timestamps.

    Attributes
    ----------
    experiments : dict of str to Experiment
        By the names in the source column.
    measurement, layer : str
        Under which the join has its X.
    """

    def __init__(
        self,
        experiments: Mapping[str, Experiment],
        measurements: Mapping[str, str],
        layers: Mapping[str, str],
        match: GeneMatch,
        var_column: str,
        source_name: str,
        arguments: tuple[Any, ...],
    ) -> None:
        self.experiments = dict(experiments)
        self.measurement = _common(measurements.values())
        self.layer = _common(layers.values())
        self._measurements, self._layers = dict(measurements), dict(layers)
        self._match = match
        self._var_column = var_column
        self._source_name = source_name
        self._arguments = arguments
        self._row_ends = [_row_end(each.obs) for each in experiments.values()]
        self._offsets = _offsets(self._row_ends)
        obs = {source: each.obs for source, each in self.experiments.items()}
        self._obs = JoinedObs(obs, self._offsets, source_name)
        self._timestamp_ms = None
        self._threads = 0
        self._core: Any = _JoinedCore(self)  # what others ask the engine for

    @property
    def source_column(self) -> str:
        """Name of the obs column that says which experiment a cell is from."""
        return self._source_name

    def default_obs_columns(self, obs_format: str) -> list[str]:
        """Columns of obs that batches have when none are named; texts have no tensor."""
        return [JOINID] if obs_format == "torch" else [JOINID, self._source_name]

    @property
    def missing_genes(self) -> dict[str, npt.NDArray[Any]]:
        """Name of each experiment to the genes that it lacks: their columns are zeros in its cells."""
        return {source: self._match.missing(i) for i, source in enumerate(self.experiments)}

    @property
    def gene_names(self) -> npt.NDArray[Any]:
        """Names of the genes, as they were matched."""
        return self._match.names

    @cached_property
    def joined_fingerprint(self) -> int:
        """Of the names of sources and genes, and where each source has its genes; not of paths."""
        match = self._match
        names = [
            match.names.tolist(),
            [
                (source, self._measurements[source], self._layers[source])
                for source in self.experiments
            ],
        ]
        where = [ids.tobytes() for ids in match.joinids] + [p.tobytes() for p in match.places]
        return digest64(json.dumps(names, default=repr).encode(), *where)

    @cached_property
    def _matrix(self) -> _core.Matrix:
        parts = [
            _core.JoinPart(
                experiment.x(self._measurements[source], self._layers[source]),
                offset,
                end,
                joinids.tolist(),
                places.tolist(),
            )
            for (source, experiment), offset, end, joinids, places in zip(
                self.experiments.items(),
                self._offsets,
                self._row_ends,
                self._match.joinids,
                self._match.places,
                strict=True,
            )
        ]
        return _core.join_matrices(parts, len(self._match.names))

    @cached_property
    def _var(self) -> JoinedVar:
        tables = {s: e.var(self._measurements[s]) for s, e in self.experiments.items()}
        return JoinedVar(tables, self._match, self._var_column)

    def _rows(self) -> list[tuple[str, str]]:
        """What the reprs show."""
        missing = self.missing_genes
        lines = []
        for source, experiment in self.experiments.items():
            lacks = len(missing[source])
            lines.append(
                (
                    source,
                    display.plural(experiment.n_obs, "cell")
                    + (f", lacks {display.plural(lacks, 'gene')}" if lacks else "")
                    + f", {experiment.uri}",
                )
            )
        genes = f"{display.plural(len(self._match.names), 'gene')}, matched by {self._var_column!r}"
        return [*lines, (f"ms/{self.measurement}/X/{self.layer}", genes)]

    def __repr__(self) -> str:
        lines = [f"  {line}" for line in display.aligned(self._rows())]
        title = f"{self._title()}, {display.plural(self.n_obs, 'cell')}"
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        cells = display.plural(self.n_obs, "cell")
        return display.block_html(self._title(), cells, self._rows())

    def _title(self) -> str:
        return display.plural(len(self.experiments), "experiment")

    def __reduce__(self) -> Any:
        from .join import join_opened

        return join_opened, self._arguments


class _JoinedCore:
    """What the engine's Experiment offers, of a join."""

    def __init__(self, experiment: JoinedExperiment) -> None:
        self._experiment = experiment

    @property
    def uri(self) -> str:
        return " + ".join(each.uri for each in self._experiment.experiments.values())

    def obs(self) -> JoinedObs:
        return self._experiment._obs

    def var(self, measurement: str) -> JoinedVar:
        self._check("measurement", measurement, self._experiment.measurement)
        return self._experiment._var

    def measurements(self) -> list[str]:
        return [self._experiment.measurement]

    def layers(self, measurement: str) -> list[str]:
        self._check("measurement", measurement, self._experiment.measurement)
        return [self._experiment.layer]

    def x(self, measurement: str, layer: str) -> _core.Matrix:
        self._check("measurement", measurement, self._experiment.measurement)
        self._check("layer", layer, self._experiment.layer)
        return self._experiment._matrix

    def metadata(self) -> dict[str, str]:
        return {}

    def _check(self, what: str, name: str, there: str) -> None:
        if name != there:
            raise NotFound(f"there is no {what} {name!r}; the join has {there!r}, in {self.uri}")


def _common(names: Any) -> str:
    """The name that all have, else "joined"."""
    (first, *others) = dict.fromkeys(names)
    return "joined" if others else first


def _row_end(obs: DataFrame) -> int:
    rows = obs.select()
    return rows.at(len(rows) - 1) + 1 if len(rows) else 0


def _offsets(row_ends: list[int]) -> list[int]:
    offsets = [0]
    for end in row_ends:
        offsets.append(offsets[-1] + max(1, -(-end // _WORD)) * _WORD)
    if offsets[-1] > 2**63 - 1:
        raise ResourceExhausted(f"joinids are too large to be joined, they end at {row_ends}")
    return offsets[:-1]
