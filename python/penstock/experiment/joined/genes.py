"""Match the genes of each experiment to the columns of the join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    names: Mapping[str, npt.NDArray[Any]],
    joinids: Sequence[npt.NDArray[np.int64]],
    genes: Any,
    column: str,
) -> GeneMatch:
    """Match genes by name.

    Parameters
    ----------
    names : dict of str to ndarray
        For each experiment the names of its genes, by ascending joinid. A gene without a name
        matches no other.
    joinids : sequence of ndarray
        For each experiment the joinids of its genes, ascending.
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
    rows = {source: _rows_of_names(source, own, column) for source, own in names.items()}
    if isinstance(genes, str):
        if genes not in ("inner", "outer"):
            raise InvalidArgument(
                f'genes must be "inner", "outer" or a list of names, got {described(genes)}'
            )
        chosen = _inner(rows) if genes == "inner" else list(dict.fromkeys(_all(rows)))
        if len(rows) > 1:
            _check_in_common(rows, chosen, genes, column)
    else:
        chosen = checked_names("genes", genes)
        if len(set(chosen)) != len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise InvalidArgument(f"genes names a gene twice, got {twice!r}")
        for source, own in rows.items():
            if not any(name in own for name in chosen):
                raise InvalidArgument(
                    f"the experiment {source!r} has none of {plural(len(chosen), 'gene')}: var column "
                    f"{column!r} has {_some(own)}, genes has {_some(chosen)}; choose another "
                    "var_column, or leave the experiment out"
                )
    found_joinids, found_places = [], []
    for own, ids in zip(rows.values(), joinids, strict=True):
        place = np.array([i for i, name in enumerate(chosen) if name in own], np.uint32)
        stored = ids[np.array([own[chosen[i]] for i in place], np.int64)]
        order = np.argsort(stored)
        found_joinids.append(stored[order])
        found_places.append(place[order])
    return GeneMatch(objects(chosen), found_joinids, found_places)


def _rows_of_names(source: str, names: npt.NDArray[Any], column: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, name in enumerate(names.tolist()):
        if name is None or name != name:
            continue
        if name in rows:
            raise InvalidArgument(
                f"var column {column!r} of the experiment {source!r} names a gene twice, "
                f"{name!r}: choose a var_column whose names are unique"
            )
        rows[name] = row
    return rows


def _inner(rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    (first, *others) = rows.values()
    return [name for name in first if all(name in other for other in others)]


def _all(rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [name for own in rows.values() for name in own]


def _check_in_common(
    rows: Mapping[str, Mapping[str, int]], chosen: Sequence[str], genes: str, column: str
) -> None:
    if genes == "inner" and chosen:
        return
    for source, own in rows.items():
        others = [other for name, other in rows.items() if name != source]
        if any(name in other for other in others for name in own):
            continue
        raise InvalidArgument(
            f"the experiment {source!r} has no gene in common with the others by var column "
            f"{column!r}: it has {_some(own)}, {next(name for name in rows if name != source)!r} "
            f"has {_some(others[0])}; choose another var_column, or give a list of genes"
        )
    if genes == "inner":
        raise InvalidArgument(
            f"no gene is in all {len(rows)} experiments by var column {column!r}; use "
            'genes="outer" or a list of genes'
        )


def _some(names: Any) -> str:
    listed = list(names)
    text = ", ".join(map(repr, listed[:_NAMED_IN_ERRORS]))
    return f"{text}, … ({len(listed)})" if len(listed) > _NAMED_IN_ERRORS else text or "none"
