"""A join of several experiments."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy.typing as npt

from penstock import _core
from penstock.base.digest import digest64
from penstock.base.text import aligned, block_html, plural
from penstock.errors import InvalidArgument, NotFound, ResourceExhausted
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.experiment import Experiment
from penstock.experiment.labels import VAR_NAME_COLUMNS

from .genes import GeneMatch, match_genes
from .tables import JoinedObs, JoinedObsFrame, JoinedVar

_WORD = 2**32


class JoinedExperiment(Experiment):
    """Several experiments joined into one: the cells of all, with matched genes.

    `penstock.join` returns it. A `Dataset` of it shuffles the cells of all experiments together,
    within one memory budget. Immutable and picklable; a copy opens the experiments at the same
    timestamps.

    Attributes
    ----------
    experiments : dict of str to Experiment
        Experiments by their names in the source column.
    measurement, layer : str
        Names of the measurement and layer of the joined X.
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
        self._timestamp_ms = None
        self._threads = 0
        self.engine: Any = _JoinedEngine(
            self.experiments, self._measurements, self._layers, match, var_column, source_name
        )

    @property
    def obs(self) -> DataFrame:
        """Table of the cells of all experiments."""
        return JoinedObsFrame(self.engine.obs(), "obs")

    @property
    def source_column(self) -> str:
        """Name of the obs column that says which experiment a cell is from."""
        return self._source_name

    def default_obs_columns(self, obs_format: str) -> list[str]:
        """Return the columns of obs in batches, if none are named; tensors hold no source."""
        return [JOINID] if obs_format == "torch" else [JOINID, self._source_name]

    @property
    def missing_genes(self) -> dict[str, npt.NDArray[Any]]:
        """Genes that each experiment lacks, by its name; X is zero for them in its cells."""
        return {source: self._match.missing(i) for i, source in enumerate(self.experiments)}

    @property
    def gene_names(self) -> npt.NDArray[Any]:
        """Names by which the genes were matched."""
        return self._match.names

    @cached_property
    def joined_fingerprint(self) -> int:
        """Fingerprint of the names and positions of sources and genes; paths do not count."""
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

    def _rows(self) -> list[tuple[str, str]]:
        """Return the rows of the reprs."""
        missing = self.missing_genes
        lines = []
        for source, experiment in self.experiments.items():
            lacks = len(missing[source])
            lines.append(
                (
                    source,
                    plural(experiment.n_obs, "cell")
                    + (f", lacks {plural(lacks, 'gene')}" if lacks else "")
                    + f", {experiment.uri}",
                )
            )
        genes = f"{plural(len(self._match.names), 'gene')}, matched by {self._var_column!r}"
        return [*lines, (f"ms/{self.measurement}/X/{self.layer}", genes)]

    def __repr__(self) -> str:
        lines = [f"  {line}" for line in aligned(self._rows())]
        title = f"{self._title()}, {plural(self.n_obs, 'cell')}"
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        cells = plural(self.n_obs, "cell")
        return block_html(self._title(), cells, self._rows())

    def _title(self) -> str:
        return plural(len(self.experiments), "experiment")

    def __reduce__(self) -> Any:
        return join_opened, self._arguments


class _JoinedEngine:
    """Join with the interface of the engine's Experiment."""

    def __init__(
        self,
        experiments: dict[str, Experiment],
        measurements: dict[str, str],
        layers: dict[str, str],
        match: GeneMatch,
        var_column: str,
        source_name: str,
    ) -> None:
        self._experiments, self._measurements, self._layers = experiments, measurements, layers
        self._match, self._var_column = match, var_column
        self._row_ends = [_row_end(each.obs) for each in experiments.values()]
        self._offsets = _offsets(self._row_ends)
        obs = {source: each.obs for source, each in experiments.items()}
        self._obs = JoinedObs(obs, self._offsets, source_name)

    @property
    def uri(self) -> str:
        return " + ".join(each.uri for each in self._experiments.values())

    def obs(self) -> JoinedObs:
        return self._obs

    def var(self, measurement: str) -> JoinedVar:
        self._check("measurement", measurement, self._measurements)
        return self._var

    def measurements(self) -> list[str]:
        return [_common(self._measurements.values())]

    def layers(self, measurement: str) -> list[str]:
        self._check("measurement", measurement, self._measurements)
        return [_common(self._layers.values())]

    def default_layer(self, measurement: str) -> str:
        return self.layers(measurement)[0]

    def x(self, measurement: str, layer: str) -> _core.Matrix:
        self._check("measurement", measurement, self._measurements)
        self._check("layer", layer, self._layers)
        return self._matrix

    def metadata(self) -> dict[str, str]:
        return {}

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
                self._experiments.items(),
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
        tables = {s: e.var(self._measurements[s]) for s, e in self._experiments.items()}
        return JoinedVar(tables, self._match, self._var_column)

    def _check(self, what: str, name: str, names: Mapping[str, str]) -> None:
        there = _common(names.values())
        if name != there:
            raise NotFound(f"there is no {what} {name!r}; the join has {there!r}, in {self.uri}")


def _common(names: Any) -> str:
    """Return the name that all share, else "joined"."""
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


def join_opened(
    experiments: dict[str, Experiment],
    genes: str | list[str],
    var_column: str | None,
    measurements: list[str],
    layers: list[str],
    source_column: str,
) -> JoinedExperiment:
    """Join opened experiments, with checked arguments; see `join`."""
    arguments = (experiments, genes, var_column, measurements, layers, source_column)
    measurement_of = dict(zip(experiments, measurements, strict=True))
    layer_of = dict(zip(experiments, layers, strict=True))
    for source, experiment in experiments.items():
        experiment.x(measurement_of[source], layer_of[source])
        if source_column in experiment.obs.columns:
            raise InvalidArgument(
                f"obs of the experiment {source!r} has a column {source_column!r} already; name "
                "another source_column"
            )
    var = {source: each.var(measurement_of[source]) for source, each in experiments.items()}
    column = _var_column(var, var_column)

    def tables() -> Iterator[tuple[str, Any, Any]]:
        for source, table in var.items():
            read = table.read([column, JOINID])
            yield source, read[column].to_numpy(), read[JOINID].to_numpy()

    match = match_genes(tables(), genes, column)
    joined = JoinedExperiment(
        experiments, measurement_of, layer_of, match, column, source_column, arguments
    )
    if not isinstance(genes, str):
        _warn_of_strangers(joined)
    return joined


def _var_column(var: Mapping[str, Any], column: str | None) -> str:
    if column == JOINID:
        raise InvalidArgument(
            f"genes are matched by names, and {JOINID} is the number of a row: give a column of names "
            "as var_column, or none for the usual one"
        )
    if column is not None:
        for table in var.values():
            table.checked_columns([column], "var_column")
        return column
    for name in VAR_NAME_COLUMNS:
        if all(name in table.columns for table in var.values()):
            return name
    there = "; ".join(f"{source}: {', '.join(table.columns)}" for source, table in var.items())
    raise NotFound(
        f"no column of var with names of genes is in all experiments; name one as var_column ({there})"
    )


def _warn_of_strangers(joined: JoinedExperiment) -> None:
    nowhere = set(joined.gene_names.tolist())
    for names in joined.missing_genes.values():
        nowhere &= set(names.tolist())
    if nowhere:
        some = ", ".join(map(repr, sorted(nowhere)[:5]))
        warnings.warn(
            f"{len(nowhere)} of {plural(len(joined.gene_names), 'gene')} are in no experiment, their "
            f"columns are zeros: {some}{', …' if len(nowhere) > 5 else ''}",
            stacklevel=4,
        )
