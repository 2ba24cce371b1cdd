"""Match the genes of each experiment to the columns of the join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.base.validation import checked_names, described
from penstock.errors import InvalidArgument
from penstock.experiment.columns import objects

_NAMED_IN_ERRORS = 5


@dataclass(frozen=True)
class GeneMatch:
    """Genes of a join, and their positions in each experiment.

    Attributes
    ----------
    names : ndarray of object
        Names of the genes, in the order of the columns of X.
    joinids : list of ndarray of int64
        For each experiment, the joinids of its matched genes in its var, ascending.
    places : list of ndarray of uint32
        For each experiment, the column of X of each of these genes.
    """

    names: npt.NDArray[Any]
    joinids: list[npt.NDArray[np.int64]]
    places: list[npt.NDArray[np.uint32]]

    def missing(self, part: int) -> npt.NDArray[Any]:
        """Return the names of the genes that an experiment lacks; X is zero for them."""
        there = np.zeros(len(self.names), bool)
        there[self.places[part]] = True
        return self.names[~there]


def match_genes(
    tables: Iterable[tuple[str, npt.NDArray[Any], npt.NDArray[np.int64]]], genes: Any, column: str
) -> GeneMatch:
    """Match genes by name.

    Parameters
    ----------
    tables : iterable of (str, ndarray, ndarray)
        For each experiment the name that errors give it, the names of its genes, and their joinids,
        ascending. A gene without a name matches no other. The tables are taken one by one: what
        stays of each is a number for each gene.
    genes : {"inner", "outer"} or sequence of str
        "inner" takes the genes of all experiments, in the order of the first. "outer" takes the
        genes of any, those of the first experiment first. A list takes its genes.
    column : str
        Column of the names, for errors.

    Raises
    ------
    InvalidArgument
        A name comes twice in an experiment or the list, or an experiment shares no gene with the
        others.
    """
    numbered = _NumberedGenes(column)
    joinids = []
    for source, own_names, ids in tables:
        numbered.add(source, own_names)
        joinids.append(ids)
    if isinstance(genes, str):
        if genes not in ("inner", "outer"):
            raise InvalidArgument(
                f'genes must be "inner", "outer" or a list of names, got {described(genes)}'
            )
        numbers = numbered.inner() if genes == "inner" else np.arange(len(numbered.numbers))
        if len(joinids) > 1:
            numbered.check_in_common(genes, len(numbers))
        names = objects(list(numbered.numbers))[numbers]
    else:
        chosen = checked_names("genes", genes)
        if len(set(chosen)) != len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise InvalidArgument(f"genes names a gene twice, got {twice!r}")
        numbers = np.array([numbered.numbers.get(name, -1) for name in chosen], np.int64)
        numbered.check_has_some(chosen, numbers)
        names = objects(chosen)
    # The last one is of genes without a name, whose number is -1.
    places = np.full(len(numbered.numbers) + 1, -1, np.int64)
    known = np.flatnonzero(numbers >= 0)
    places[numbers[known]] = known
    found_joinids, found_places = [], []
    for own, ids in zip(numbered.rows.values(), joinids, strict=True):
        place = places[own]
        found_joinids.append(ids[place >= 0])
        found_places.append(place[place >= 0].astype(np.uint32))
    return GeneMatch(names, found_joinids, found_places)


class _NumberedGenes:
    """Genes of several experiments, numbered by name in the order in which they first come."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.numbers: dict[Any, int] = {}
        #: For each experiment the numbers of its genes, -1 for those without a name.
        self.rows: dict[str, npt.NDArray[np.int64]] = {}

    def add(self, source: str, names: npt.NDArray[Any]) -> None:
        """Number the genes of an experiment."""
        numbers = self.numbers
        rows = np.fromiter(
            (
                -1 if name is None or name != name else numbers.setdefault(name, len(numbers))
                for name in names.tolist()
            ),
            np.int64,
            len(names),
        )
        _, firsts = np.unique(rows[rows >= 0], return_index=True)
        if len(firsts) < np.count_nonzero(rows >= 0):
            again = np.delete(names[rows >= 0], firsts)[0]
            raise InvalidArgument(
                f"var column {self.column!r} of the experiment {source!r} names a gene twice, "
                f"{again!r}: choose a var_column whose names are unique"
            )
        self.rows[source] = rows

    def inner(self) -> npt.NDArray[np.int64]:
        """Return the genes of all experiments, in the order of the first."""
        first = next(iter(self.rows.values()))
        first = first[first >= 0]
        everywhere: npt.NDArray[np.int64] = first[self._counts()[first] == len(self.rows)]
        return everywhere

    def check_in_common(self, genes: str, chosen: int) -> None:
        """Raise InvalidArgument if an experiment shares no gene with any other, or "inner" chose none."""
        if genes == "inner" and chosen:
            return
        counts = self._counts()
        for source, own in self.rows.items():
            if (counts[own[own >= 0]] > 1).any():
                continue
            other = next(name for name in self.rows if name != source)
            raise InvalidArgument(
                f"the experiment {source!r} has no gene in common with the others by var column "
                f"{self.column!r}: it has {self._some_of(source)}, {other!r} has "
                f"{self._some_of(other)}; choose another var_column, or give a list of genes"
            )
        if genes == "inner":
            raise InvalidArgument(
                f"no gene is in all {len(self.rows)} experiments by var column {self.column!r}; use "
                'genes="outer" or a list of genes'
            )

    def check_has_some(self, names: Sequence[str], numbers: npt.NDArray[np.int64]) -> None:
        """Raise InvalidArgument if an experiment has none of the genes."""
        for source, own in self.rows.items():
            if np.isin(own[own >= 0], numbers).any():
                continue
            raise InvalidArgument(
                f"the experiment {source!r} has none of {plural(len(names), 'gene')}: var column "
                f"{self.column!r} has {self._some_of(source)}, genes has {_some(names)}; choose "
                "another var_column, or leave the experiment out"
            )

    def _counts(self) -> npt.NDArray[np.int64]:
        counts = np.zeros(len(self.numbers), np.int64)
        for own in self.rows.values():
            counts[own[own >= 0]] += 1
        return counts

    def _some_of(self, source: str) -> str:
        own = self.rows[source]
        return _some(objects(list(self.numbers))[own[own >= 0]])


def _some(names: Any) -> str:
    listed = list(names)
    text = ", ".join(map(repr, listed[:_NAMED_IN_ERRORS]))
    return f"{text}, … ({len(listed)})" if len(listed) > _NAMED_IN_ERRORS else text or "none"
