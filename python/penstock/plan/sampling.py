"""Sampling: epochs of cells that are drawn at random; docs/guides/sampling.md."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.call_site import caller_level
from penstock.base.text import plural
from penstock.base.validation import (
    checked_bool,
    checked_int,
    checked_number,
    checked_text,
    described,
)
from penstock.errors import InvalidArgument
from penstock.experiment.columns import Array, ColumnValues
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.factorize import factorize, unique_rows
from penstock.experiment.labels import of_table

#: Arguments of `penstock.Dataset` that define a `Sampling`.
ARGUMENTS = ("weights", "balance", "replacement", "num_samples")


class Balance:
    """Sampling frequency of classes of cells, which are the values of a column of obs.

    Within a class every cell is equally likely. Cells without a value form a class.

    Parameters
    ----------
    column : str
        Column of obs with the classes.
    temperature : float, default inf
        A class of n cells is drawn in proportion to ``n ** (1 / temperature)``, from 1 up: 1 keeps
        the frequencies, and inf makes all classes equally frequent. (N. Arivazhagan et al.,
        "Massively multilingual neural machine translation in the wild", 2019, for languages.)
    shares : mapping of value to float, optional
        Share of each class, in any unit, instead of `temperature`. Other classes are not drawn.

    Raises
    ------
    InvalidArgument
        The temperature is below 1, a share is negative or not a number, or both are given.
    """

    def __init__(
        self,
        column: str,
        *,
        temperature: float = math.inf,
        shares: Mapping[Any, float] | None = None,
    ) -> None:
        self.column = checked_text("column", column)
        self.temperature = checked_number("temperature", temperature)
        if not self.temperature >= 1:
            raise InvalidArgument(f"temperature must be 1 or more, got {described(temperature)}")
        self.shares = None if shares is None else _checked_shares(shares)
        if shares is not None and self.temperature != math.inf:
            raise InvalidArgument("shares say how often classes are drawn: give no temperature")

    def __repr__(self) -> str:
        more = "" if self.temperature == math.inf else f", temperature={self.temperature:g}"
        if self.shares is not None:
            more = f", shares={self.shares}"
        return f"Balance({self.column!r}{more})"

    def check_classes(self, obs: DataFrame) -> None:
        """Raise `InvalidArgument` if a class of `shares` has no cells, or `NotFound`."""
        if self.shares is None:
            return
        columns = self._read(obs)
        values = _classes(columns, len(factorize(columns)[1]))
        empty = [value for value in self.shares if value not in values]
        if empty:
            listed = ", ".join(repr(value) for value in values[:20])
            raise InvalidArgument(
                f"balance: no selected cell has {self.column} {empty[0]!r}; its values are {listed}"
                + (", …" if len(values) > 20 else "")
            )

    def class_weights(self, obs: DataFrame) -> tuple[Array, npt.NDArray[np.float64]]:
        """Return the class of each cell of `obs`, and the weight of a cell of each class.

        Raises
        ------
        InvalidArgument
            The column is ``soma_joinid``.
        NotFound
            The column does not exist.
        """
        columns = self._read(obs)
        codes, counts = factorize(columns)
        if self.shares is None:
            share_of_class = counts.astype(np.float64) ** (1 / self.temperature)
        else:
            values = _classes(columns, len(counts))
            share_of_class = np.array([self.shares.get(value, 0.0) for value in values])
        # Rounded, since the last bit of powers may differ between machines.
        return codes, (share_of_class / counts).astype(np.float32).astype(np.float64)

    def _read(self, obs: DataFrame) -> dict[str, ColumnValues]:
        (name,) = obs.checked_columns([self.column], "balance")
        if name == JOINID:
            raise InvalidArgument(f"balance cannot be {JOINID}, which no two cells share")
        return obs.read([name])


def _classes(columns: Mapping[str, ColumnValues], count: int) -> list[Any]:
    """Return the values of the `count` classes of a column, a missing value first."""
    (values,) = unique_rows(columns).values()
    return [None] * (count - len(values)) + list(values.tolist())


def _checked_shares(shares: Mapping[Any, float]) -> dict[Any, float]:
    if not isinstance(shares, Mapping) or not shares:
        raise InvalidArgument(f"shares must map classes to numbers, got {described(shares)}")
    checked = {}
    for value, share in shares.items():
        try:
            checked[value] = float(share)
        except (TypeError, ValueError):
            checked[value] = math.nan
        if not 0 <= checked[value] < math.inf:
            raise InvalidArgument(
                f"the share of {value!r} must be a number, 0 or more, got {described(share)}"
            )
    if not any(checked.values()):
        raise InvalidArgument("all shares are 0, so that no cell is drawn")
    return checked


class CellWeights:
    """Weights by the user, for the cells that were selected when they were given."""

    def __init__(self, values: npt.NDArray[np.float64], rows: _core.RowSelection) -> None:
        self._weights = values
        self._rows = rows

    def row_weights(self, rows: _core.RowSelection) -> _core.RowWeights:
        """Return the weights of a part of these cells."""
        return _core.RowWeights.from_values(_of_part(self._weights, self._rows, rows))


class ClassWeights(CellWeights):
    """Weights from a `Balance`, for the cells that were selected when they were computed."""

    def __init__(
        self, codes: Array, values: npt.NDArray[np.float64], rows: _core.RowSelection
    ) -> None:
        super().__init__(values, rows)
        self._codes = codes

    def row_weights(self, rows: _core.RowSelection) -> _core.RowWeights:
        """Return the weights of a part of these cells, as they are among all of them."""
        codes = _of_part(self._codes, self._rows, rows)
        return _core.RowWeights.from_classes(codes.astype(np.int32), self._weights)


def _of_part(values: Array, rows: _core.RowSelection, part: _core.RowSelection) -> Array:
    if part == rows:
        return values
    return values[np.searchsorted(rows.to_numpy(), part.to_numpy())]


@dataclass(frozen=True)
class Sampling:
    """Checked arguments of `penstock.Dataset` about sampling."""

    weights: str | CellWeights | None
    balance: Balance | None
    replacement: bool
    num_samples: int | None  # None: as many as can be drawn

    @classmethod
    def checked(
        cls,
        arguments: Mapping[str, Any],
        obs: DataFrame,
        rows: _core.RowSelection,
        *,
        keeps_balance: bool = False,
    ) -> Sampling | None:
        """Check the four arguments; return None without sampling.

        With `keeps_balance` the balance may be of more cells, so classes may be empty here.

        Raises
        ------
        InvalidArgument
            An argument is not valid, or does not fit the selected cells.
        NotFound
            A column does not exist.
        """
        weights, balance = arguments["weights"], arguments["balance"]
        replacement, num_samples = arguments["replacement"], arguments["num_samples"]
        if weights is not None and balance is not None:
            raise InvalidArgument(
                "weights and balance both say how often cells are drawn: give one"
            )
        drawn = weights is not None or balance is not None
        if replacement is not None:
            replacement = checked_bool("replacement", replacement)
        if not drawn and num_samples is None and not replacement:
            return None
        if isinstance(weights, str):
            obs.checked_columns([weights], "weights")
        elif weights is not None and not isinstance(weights, CellWeights):
            values = _checked_values(weights, len(rows))
            weights = CellWeights(of_table(obs.with_rows(rows), weights, values, "weights"), rows)
        if balance is not None and not isinstance(balance, Balance):
            if not isinstance(balance, str):
                raise InvalidArgument(
                    f"balance must be a column of obs or a Balance, got {described(balance)}"
                )
            balance = Balance(balance)
        if balance is not None and not keeps_balance and len(rows):
            balance.check_classes(obs)
        if num_samples is not None:
            num_samples = checked_int("num_samples", num_samples, least=1, most=2**32 - 1)
        return cls(weights, balance, drawn if replacement is None else replacement, num_samples)

    def for_cells(
        self, cells: int, weights_of_cells: Callable[[], _core.RowWeights | None]
    ) -> _core.RowSampling | None:
        """Return the sampling for the engine; None without cells.

        `weights_of_cells` is called if weights are needed.

        Raises
        ------
        InvalidArgument
            `num_samples` exceeds the cells that can be drawn.
        """
        if cells == 0 and not self.num_samples:
            return None
        if self.num_samples == 0:  # a resumed epoch with nothing left
            return _core.RowSampling(None, 0, self.replacement)
        weights = weights_of_cells()
        can_be = cells if weights is None else weights.positive_count
        samples = self.num_samples
        if samples is None:
            samples = cells if self.replacement else can_be
        if not self.replacement and samples > can_be:
            more = "" if weights is None else " whose weight is above 0"
            raise InvalidArgument(
                f"num_samples is {samples}, but without replacement it must be at most the "
                f"{plural(can_be, 'cell')}{more}; draw fewer, or with replacement=True"
            )
        if cells == 0:
            raise InvalidArgument(f"num_samples is {samples}, but no cell is selected to draw from")
        return _core.RowSampling(weights, samples, self.replacement)

    def for_the_rest(self, obs: DataFrame, rows: _core.RowSelection, num_samples: int) -> Sampling:
        """Return the sampling for the rest of an epoch; cells keep their weights."""
        rest = replace(self, num_samples=num_samples)
        if self.balance is None or self.replacement or num_samples == 0:
            return rest
        weights = ClassWeights(*self.balance.class_weights(obs), rows)
        return replace(rest, balance=None, weights=weights)

    def row_weights(self, obs: DataFrame, rows: _core.RowSelection) -> _core.RowWeights | None:
        """Return the weights of the selected cells; None if all are equal."""
        if self.balance is not None:
            return ClassWeights(*self.balance.class_weights(obs), rows).row_weights(rows)
        if isinstance(self.weights, CellWeights):
            return self.weights.row_weights(rows)
        if self.weights is None:
            return None
        values = obs.read([self.weights])[self.weights].to_numpy()
        try:
            return _core.RowWeights.from_values(_as_floats(values))
        except (InvalidArgument, ValueError, TypeError) as error:
            raise InvalidArgument(f"weights={self.weights!r}: {error}") from None


def _as_floats(values: Any) -> npt.NDArray[np.float64]:
    floats = np.asarray(values)
    if floats.dtype.kind not in "biuf":
        raise InvalidArgument(f"a weight must be a number, got values of dtype {floats.dtype}")
    return np.ascontiguousarray(floats, dtype=np.float64)


def _checked_values(weights: Any, cells: int) -> npt.NDArray[np.float64]:
    try:
        values = _as_floats(weights)
    except (InvalidArgument, ValueError, TypeError):
        raise InvalidArgument(
            "weights must be a column of obs or an array with a number for each selected cell, got "
            + described(weights)
        ) from None
    if values.shape != (cells,):
        raise InvalidArgument(
            f"weights must have one number for each of the {cells} selected cells, in the order of "
            f"Dataset.obs, got an array of shape {values.shape}"
        )
    return values.copy()


def changed(sampling: Sampling | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `sampling`, with changes.

    Unchanged arguments are kept unless `weights` or `balance` changes; then they are the defaults.
    """
    given = {name: changes.get(name) for name in ARGUMENTS}
    if sampling is None or "weights" in changes or "balance" in changes:
        return given
    return {name: changes.get(name, getattr(sampling, name)) for name in ARGUMENTS}


def warn_of_drawn_parts(sampling: Sampling | None) -> None:
    """Warn that parts of a split draw their cells by weights or a balance, also held-out parts."""
    if sampling is None or (sampling.weights is None and sampling.balance is None):
        return
    name = "weights" if sampling.balance is None else "balance"
    warnings.warn(
        f"this Dataset has {name}=, so every part of the split draws its cells by it, also those that "
        f"are held out. Split a Dataset without {name}, then train.with_settings({name}=…) draws the "
        "training cells alone; test.with_settings(shuffle=False) gives each cell of a part once",
        stacklevel=caller_level(),
    )
