"""Chain of a Dataset's transforms, resolved against its genes, for the engine."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.suggestions import did_you_mean
from penstock.base.text import plural
from penstock.base.validation import checked_items, checked_text, described
from penstock.errors import InvalidArgument, NotFound
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.gene_names import GeneNames
from penstock.experiment.labels import (
    by_index,
    check_series,
    is_index_of_integers,
    joinids_of,
    text_labels,
    variable_genes,
)
from penstock.experiment.places import as_mask
from penstock.experiment.row_lists import (
    is_anndata_table,
    rows_of,
    rows_of_selection,
    selected_table,
)
from penstock.experiment.value_hints import column_that_has

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Call:
    """Call of a method of `_core.TransformPlan`; `totals` is the obs column of the row totals."""

    method: str
    arguments: tuple[Any, ...]
    takes_totals: bool = False
    totals: str | None = None
    last: tuple[Any, ...] = ()

    def describe(self) -> Iterable[bytes]:
        yield f"{self.method} {self.totals}".encode()
        for argument in (*self.arguments, *self.last):
            if isinstance(argument, np.ndarray):
                yield argument.dtype.str.encode() + argument.tobytes()
            else:
                yield repr(argument).encode()


class Transform(ABC):
    """A step of the engine. Each step gets the genes and values of the step before."""

    @abstractmethod
    def add_to(self, chain: Chain) -> None:
        """Check the step against the genes of the chain, and add it."""


@dataclass
class Chain:
    """Steps as calls of the engine's plan. Picklable; does not depend on the cells.

    Attributes
    ----------
    steps : tuple
        Steps as given by the user.
    genes : RowSelection
        Genes to read.
    joinids, names : ndarray, optional
        Joinids of the columns of X in order (-1 for a missing gene), and names if they were given.
        None while the columns are `genes`.
    callables : tuple
        Python callables, called with X of each batch.
    """

    genes: _core.RowSelection
    steps: tuple[Any, ...] = ()
    joinids: Array | None = None
    given_names: Array | None = None
    callables: tuple[Callable[[Any], Any], ...] = ()
    max_tokens: int | None = None
    is_centred: bool = False
    _calls: list[_Call] = field(default_factory=list)
    _fingerprint: int | None = None
    _tables: tuple[DataFrame, GeneNames] | None = None  # obs and var, while the chain is being made

    # Called by steps

    def add(
        self, method: str, *arguments: Any, last: tuple[Any, ...] = (), **totals: str | None
    ) -> None:
        """Add a call of the engine's plan."""
        if self.max_tokens is not None:
            raise InvalidArgument("RankTokens must be the last step of the engine")
        if self.is_centred and method == "normalize_total":
            raise InvalidArgument("NormalizeTotal must come before a centring Scale (mean=)")
        self._calls.append(_Call(method, arguments, "totals" in totals, totals.get("totals"), last))

    def check_totals(self, column: str) -> None:
        """Check that an obs column has numbers."""
        obs, _ = self._stored
        obs.checked_columns([checked_text("totals", column)], "totals")
        kind = next(each.type for each in obs.schema if each.name == column)
        if not kind.startswith(("int", "uint", "float")):
            raise InvalidArgument(f"totals must be an obs column of numbers, {column!r} is {kind}")

    def by_gene(self, what: str, values: Any) -> Array:
        """Return one float64 for each column, from an array or by name from a mapping."""
        mapping = _as_mapping(values)
        if mapping is not None:
            names = self.names()
            missing = [name for name in names if name not in mapping]
            if missing:
                raise InvalidArgument(
                    f"{what} has no number for {len(missing)} of {plural(len(names), 'gene')}, the first is "
                    f"{missing[0]!r}"
                )
            values = [mapping[name] for name in names]
        try:
            array = np.ascontiguousarray(values, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument(f"{what} must be numbers, got {described(values)}") from None
        if array.shape != (self.columns,):
            raise InvalidArgument(
                f"{what} must have one number for each gene, got shape {array.shape} for "
                f"{plural(self.columns, 'gene')}"
            )
        if not np.isfinite(array).all():
            where = int(np.flatnonzero(~np.isfinite(array))[0])
            raise InvalidArgument(f"{what} must be finite, got {array[where]} for gene {where}")
        return array

    def by_label(self, genes: Any) -> Any:
        """Return names or joinids of a table of pandas; of a Series of bools those by column."""
        table = selected_table(genes, "var")
        if isinstance(table, DataFrame):
            # Refuses a table of another experiment, whose joinids are other genes.
            rows_of_selection(self._stored[1].var, table, "SelectGenes(genes)")
            return table.read([JOINID])[JOINID].to_numpy()
        if table is not None:
            return self._of_pandas(variable_genes(table))
        mask = as_mask(genes)
        if mask is None:
            if getattr(getattr(genes, "dtype", None), "kind", "") in ("i", "u"):
                check_series(genes, "SelectGenes(genes)")
                if is_index_of_integers(genes):
                    rows_of(self._stored[1].var, genes, "SelectGenes(genes)")  # refuses places
            return genes
        if len(mask) != self.columns:
            return genes
        return by_index(
            genes,
            mask,
            "the mask of genes",
            lambda: [self.names(), *map(self.names, self._stored[1].usual())],
            self.column_joinids,
        )

    def _of_pandas(self, table: Any) -> Any:
        """Return the names of the genes of a table, or their joinids if none of the names is there."""
        if not len(table):
            return []
        names = text_labels(table)
        if names is not None and (
            JOINID not in table
            or is_anndata_table(self._stored[1].var)
            or set(names) & set(self._keys(names, None).tolist())
        ):
            return names
        return np.asarray(joinids_of(table, "SelectGenes(genes)"))

    def select_genes(self, wanted: list[Any], column: str | None, fill: bool) -> None:
        """Replace the columns by the `wanted` genes, in their order."""
        if self.is_centred:
            raise InvalidArgument("SelectGenes must come before a Scale with mean=")
        there = self.column_joinids()
        if wanted and all(isinstance(each, (bool, np.bool_)) for each in wanted):
            if len(wanted) != len(there):
                raise InvalidArgument(
                    f"SelectGenes needs a bool for each of the {plural(len(there), 'column')} of X, got "
                    f"{len(wanted):,}"
                )
            places = np.flatnonzero(wanted)
            if fill := bool((there[places] < 0).any()):
                wanted = self.names()[places].tolist()
            else:
                wanted = there[places].tolist()
        by_joinid = all(isinstance(each, (int, np.integer)) for each in wanted)
        keys = there if by_joinid else self._keys(wanted, column)
        places = _places(keys, wanted, fill, "joinid" if by_joinid else "name", self._stored[1].var)
        new = np.full(len(wanted), -1, np.int64)
        taken = places >= 0
        new[places[taken]] = there[taken]
        given = None if by_joinid else _objects(wanted)
        if not self._calls and self.joinids is None:
            kept = np.sort(new[new >= 0])
            self.genes = _core.RowSelection.from_unsorted(kept)
            places = _positions_in(new, kept)
        ordered = len(places) == len(wanted) and bool((places == np.arange(len(wanted))).all())
        self.joinids, self.given_names = new, given
        if not ordered:
            self.add("columns", places.astype(np.int32), len(wanted))

    def _keys(self, wanted: list[Any], column: str | None) -> Array:
        """Return the names of the columns: without `column`, from the first that has all `wanted`."""
        usual = self.names(column)
        names = self._stored[1]
        if column is not None or names.chosen is not None or self.given_names is not None:
            return usual
        if not all(isinstance(each, str) for each in wanted) or set(wanted) <= set(usual.tolist()):
            return usual
        for other in names.usual():
            keys = self.names(other)
            if set(wanted) <= set(keys.tolist()):
                return keys
        return usual

    def gene_tokens(
        self, medians: Any, tokens: Any, column: str | None, most: int
    ) -> tuple[Array, Array]:
        """Return the medians (0: no token) and tokens of the columns."""
        found_medians, found_tokens = _as_mapping(medians), _as_mapping(tokens)
        if found_medians is None or found_tokens is None:
            raise InvalidArgument(
                "RankTokens takes medians and tokens as mappings by the name of the gene, got "
                f"{described(medians if found_medians is None else tokens)}"
            )
        if self.is_centred:
            raise InvalidArgument("RankTokens takes counts, so it cannot follow a Scale with mean=")
        names = self.names(column)
        values = np.array([float(found_medians.get(name, 0)) for name in names], np.float64)
        ids = np.zeros(len(names), np.int64)
        for i, name in enumerate(names):
            token = found_tokens.get(name) if values[i] > 0 else None
            if token is None:
                values[i] = 0
            else:
                ids[i] = _token(name, token, most)
        if len(names) and not (values > 0).any():
            raise InvalidArgument(
                f"no gene has a median and a token: {self.column_name(column)!r} of var has names "
                f"such as {names[0]!r}, the medians such as {next(iter(found_medians), None)!r}; "
                "choose another column="
            )
        return values, ids

    # State

    @property
    def makes_rows(self) -> bool:
        """Whether X is dense: tokens, or centred values."""
        return self.max_tokens is not None or self.is_centred

    @property
    def _stored(self) -> tuple[DataFrame, GeneNames]:
        assert self._tables is not None
        return self._tables

    @property
    def columns(self) -> int:
        """Number of columns of X."""
        return len(self.genes) if self.joinids is None else len(self.joinids)

    def column_joinids(self) -> Array:
        """Return the joinids of the columns, -1 for a missing gene."""
        return self.genes.to_numpy() if self.joinids is None else self.joinids

    def column_name(self, column: str | None) -> str:
        """Return the column of var that names are matched to."""
        return self._stored[1].column(column)

    def names(self, column: str | None = None) -> Array:
        """Return the names of the columns."""
        return self.column_names(self._stored[1], column)

    # Results

    def made(self) -> Chain:
        """Return the chain without the tables that were used to make it."""
        self._tables = None
        return self

    def column_names(self, names: GeneNames, column: str | None = None) -> Array:
        """Return the names of the columns of X; a missing gene keeps the requested name."""
        stored = names.of(self.genes, column)
        if self.joinids is None:
            return stored
        missing = self.joinids < 0
        result = np.empty(len(self.joinids), object)
        result[~missing] = stored[np.searchsorted(self.genes.to_numpy(), self.joinids[~missing])]
        if missing.any():
            given = self.given_names
            result[missing] = None if given is None else given[missing]
            return result
        return result if stored.dtype == object else result.astype(stored.dtype)

    def engine_plan(self, obs: DataFrame, rows: _core.RowSelection) -> _core.TransformPlan | None:
        """Return the plan for the engine; read the totals of the cells if steps need them."""
        if not self._calls:
            return None
        plan = _core.TransformPlan()
        for call in self._calls:
            arguments = [*call.arguments]
            if call.takes_totals:
                arguments.append(_row_totals(obs, rows, call.totals))
            getattr(plan, call.method)(*arguments, *call.last)
        return plan

    def fingerprint(self) -> int:
        """Return a 64-bit fingerprint of all steps, 0 without steps. A callable counts by name."""
        if self._fingerprint is None:
            self._fingerprint = self._digest() if self.steps else 0
        return self._fingerprint

    def _digest(self) -> int:
        digest = hashlib.sha256(self.column_joinids().tobytes())
        for call in self._calls:
            for part in call.describe():
                digest.update(len(part).to_bytes(8, "little") + part)
        for each in self.callables:
            name = getattr(each, "__qualname__", type(each).__qualname__)
            digest.update(f"{getattr(each, '__module__', '')}.{name}".encode())
        return int.from_bytes(digest.digest()[:8], "little")

    def check_batches(self, sparse: str | None, dtype: str) -> None:
        """Refuse a layout or dtype that cannot hold the result."""
        if self.max_tokens is not None:
            if sparse is not None:
                raise InvalidArgument("RankTokens gives a padded matrix: sparse must be False")
            return
        if self.is_centred and sparse is not None:
            raise InvalidArgument(
                "Scale with mean= makes every zero a value: sparse must be False, or leave mean out"
            )
        computing = [call.method for call in self._calls if call.method != "columns"]
        if computing and not dtype.startswith("float"):
            raise InvalidArgument(
                f"transforms that compute need dtype='float32' or 'float64', or with format='torch' "
                f"'bfloat16' or 'float16', got {dtype!r}"
            )


def make_chain(
    genes: _core.RowSelection, obs: DataFrame, gene_names: GeneNames, transforms: Any
) -> Chain:
    """Resolve the steps of a user against the selected genes and cells.

    Raises
    ------
    InvalidArgument
        A step is not valid, or not valid at its position.
    NotFound
        A gene or column does not exist.
    """
    if isinstance(transforms, Transform) or callable(transforms):
        transforms = [transforms]  # one step may stand for a list of it
    steps = tuple(checked_items("transforms", transforms, "a list of steps such as ps.Log1p()"))
    chain = Chain(genes, steps, _tables=(obs, gene_names))
    for step in steps:
        if isinstance(step, Transform):
            if chain.callables:
                raise InvalidArgument(
                    f"{type(step).__name__} is a step of the engine and must come before Python "
                    "callables"
                )
            step.add_to(chain)
        elif isinstance(step, type) and issubclass(step, Transform):
            raise InvalidArgument(
                f"transforms has the class {step.__name__}, not {step.__name__}()"
            )
        elif callable(step):
            chain.callables += (step,)
        else:
            raise InvalidArgument(
                f"each of transforms must be a step such as ps.Log1p() or a callable, "
                f"got {described(step)}"
            )
    return chain.made()


def _row_totals(obs: DataFrame, rows: _core.RowSelection, column: str | None) -> Array | None:
    if column is None:
        return None
    totals = obs.read([column])[column].to_numpy()
    totals = np.ascontiguousarray(totals, np.float64)
    if not (np.isfinite(totals) & (totals >= 0)).all():
        bad = int(np.flatnonzero(~(np.isfinite(totals) & (totals >= 0)))[0])
        raise InvalidArgument(
            f"totals must be 0 or more, got {totals[bad]}, of cell {rows.at(bad)} in the "
            f"obs column {column!r}"
        )
    return totals


def _places(
    keys: Array,
    wanted: list[Any],
    fill: bool,
    kind: str,
    var: DataFrame,
) -> Array:
    """Return the position of each key in `wanted`, or -1."""
    try:
        place = {each: i for i, each in enumerate(wanted)}
    except TypeError:  # a list within the list
        raise InvalidArgument(
            f"SelectGenes takes a list of names or joinids, got {described(wanted)}"
        ) from None
    if len(place) != len(wanted):
        twice = next(each for i, each in enumerate(wanted) if place[each] != i)
        raise InvalidArgument(f"SelectGenes has the {kind} {twice!r} twice")
    places = np.fromiter((place.get(key, -1) for key in keys.tolist()), np.int64, len(keys))
    found = np.sort(places[places >= 0])
    if len(found) > 1 and (found[1:] == found[:-1]).any():
        name = wanted[int(found[1:][found[1:] == found[:-1]][0])]
        raise InvalidArgument(
            f"several genes have the name {name!r}; choose a column of var that tells them apart by "
            "ps.SelectGenes(names, column=…), or give numbers: ds[:, places] or ps.SelectGenes(joinids)"
        )
    if len(found) < len(wanted) and not fill:
        missing = np.setdiff1d(np.arange(len(wanted)), found)
        first = wanted[int(missing[0])]
        what = f"{len(missing)} of {plural(len(wanted), 'gene')} not found, the first is {first!r}"
        column = column_that_has(var, first) if isinstance(first, str) else None
        if column is not None:
            raise NotFound(
                f"{what}; the column {column!r} of var has it: "
                f"transforms=[ps.SelectGenes(names, column={column!r})]"
            )
        texts = [key for key in keys.tolist() if isinstance(key, str)]
        meant = did_you_mean(first, texts) if isinstance(first, str) else ""
        raise NotFound(
            what
            + (f"{meant} SelectGenes with" if meant else "; SelectGenes with")
            + " missing='zero' gives them a column of zeros"
        )
    return places


def _positions_in(new: Array, kept: Array) -> Array:
    """Return the position in `new` of each of `kept`, which ascends."""
    places = np.empty(len(kept), np.int64)
    there = np.flatnonzero(new >= 0)
    places[np.searchsorted(kept, new[there])] = there
    return places


def _token(name: Any, token: Any, most: int) -> int:
    number = int(token)
    if number != token or not -most - 1 <= number <= most:
        raise InvalidArgument(
            f"a token must be an integer of the dtype, got {token!r} for {name!r}"
        )
    return number


def _as_mapping(values: Any) -> Mapping[Any, Any] | None:
    if isinstance(values, Mapping):
        return values
    if hasattr(values, "index") and hasattr(values, "to_dict"):  # a pandas Series
        return dict(values.to_dict())
    return None


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array
