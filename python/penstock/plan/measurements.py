"""Selection of several measurements of the same cells, which come side by side in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from penstock import _core
from penstock.errors import InvalidArgument, NotFound, Unsupported
from penstock.experiment.gene_names import GeneNames
from penstock.transforms.chain import Chain

from .selection import Selection
from .settings import LoaderSettings


@dataclass(frozen=True)
class Measurement:
    """One measurement of a `SeveralMeasurements`.

    Attributes
    ----------
    selection : Selection
        Its layer and genes, with the cells of all.
    given : mapping
        Its own `sparse` and `dtype`, checked; other settings are those of the dataset.
    """

    selection: Selection
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chain(self) -> Chain | None:
        """Transforms of its X."""
        return self.selection.transforms

    def settings(self, settings: LoaderSettings) -> LoaderSettings:
        """Return the settings of the dataset with those of its own."""
        return replace(settings, **self.given)

    @property
    def chosen(self) -> _core.RowSelection:
        """Joinids of the genes to read."""
        chain = self.chain
        return self.selection.genes if chain is None else chain.genes


@dataclass(frozen=True)
class SeveralMeasurements(Selection):
    """Cells of one experiment with several measurements. X of a batch is a dict of arrays.

    `measurement` and `layer` are the names of all, for messages. `genes` are columns of the matrix
    in which the measurements stand beside one another.
    """

    parts: Mapping[str, Measurement] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Mapping[str, Measurement]) -> SeveralMeasurements:
        """Return the selection of these parts, which have the same cells."""
        selections = [part.selection for part in parts.values()]
        return cls(
            experiment=selections[0].experiment,
            measurement=" + ".join(parts),
            layer=" + ".join(selection.layer for selection in selections),
            rows=selections[0].rows,
            genes=_beside([part.selection.genes.to_numpy() for part in parts.values()], selections),
            cache=selections[0].cache,
            parts=dict(parts),
        )

    @cached_property
    def matrix(self) -> _core.Matrix:
        """The layers of all measurements beside one another."""
        return _core.beside([part.selection.matrix for part in self.parts.values()])

    def columns(self) -> list[int] | None:
        """Return the columns of the matrix to read; None for all."""
        selections = [part.selection for part in self.parts.values()]
        read_all = all(
            len(part.chosen) == part.selection.matrix.shape[1] for part in self.parts.values()
        )
        if read_all:
            return None
        read = _beside([part.chosen.to_numpy() for part in self.parts.values()], selections)
        joinids: list[int] = read.to_numpy().tolist()
        return joinids

    @property
    def var(self) -> Any:
        """Table of the genes of each measurement, by name."""
        return {name: part.selection.var for name, part in self.parts.items()}

    @property
    def steps(self) -> Any:
        """Transforms of each measurement, as given, by name."""
        return {name: part.selection.steps for name, part in self.parts.items()}

    @property
    def n_columns(self) -> int:
        """Number of columns of X of all measurements."""
        return sum(part.selection.n_columns for part in self.parts.values())

    @property
    def gene_names(self) -> GeneNames:
        """Not known, since genes of several measurements have no common names."""
        self.refuse("gene names")

    @property
    def var_names(self) -> Any:
        """Names of the columns of X of each measurement, by name."""
        return {name: part.selection.var_names for name, part in self.parts.items()}

    def refuse(self, what: str) -> NoReturn:
        """Raise an error that says that `what` needs a dataset of one measurement."""
        raise InvalidArgument(
            f"{what} are of one measurement, but this dataset has {', '.join(self.parts)}: make a "
            f"Dataset with measurement={next(iter(self.parts))!r}"
        )

    def with_rows(self, rows: _core.RowSelection) -> SeveralMeasurements:
        """Return a selection of other cells of the same layers."""
        return replace(
            self,
            rows=rows,
            parts={
                name: replace(part, selection=part.selection.with_rows(rows))
                for name, part in self.parts.items()
            },
        )

    def with_transforms(self, steps: Any) -> Selection:
        """Return this selection: each measurement has transforms of its own."""
        return self


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let errors about the arguments of a measurement begin with its name."""
    try:
        yield
    except (InvalidArgument, NotFound, Unsupported) as error:
        raise type(error)(f"measurement {name!r}: {error}") from None


def _beside(joinids: list[Any], selections: list[Selection]) -> _core.RowSelection:
    """Return the columns of genes in the matrix in which the layers stand beside one another."""
    first = 0
    columns = []
    for own, selection in zip(joinids, selections, strict=True):
        columns.append(np.asarray(own, np.int64) + first)
        first += selection.matrix.shape[1]
    return _core.RowSelection.from_unsorted(np.concatenate(columns))
