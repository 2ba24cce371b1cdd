"""Experiments over AnnData objects in memory."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.call_site import caller_level
from penstock.errors import InvalidArgument, NotFound, PenstockError, Unsupported

from .experiment import Experiment, open_stored

Array = npt.NDArray[Any]

#: Measurements of an AnnData: X and layers, and raw.
MAIN, RAW = "RNA", "raw"
#: The layer of X.
X = "X"

#: Experiments of a join that are examined for fractions.
MOST_EXAMINED = 8


def is_anndata(source: Any) -> bool:
    """Return whether the source is an AnnData object. It can be one only if anndata is imported."""
    anndata: Any = sys.modules.get("anndata")
    return anndata is not None and isinstance(source, anndata.AnnData)


class AnnDataExperiment(Experiment):
    """An AnnData object in memory, read in place.

    CSR and dense matrices are not copied, so changes to their values are seen. obs and var are
    those of the time when this was made. A pickle has a copy of the AnnData object. A matrix that
    cannot be read in place is an error when it is asked for.
    """

    def __init__(self, adata: Any) -> None:
        self._unreadable: dict[tuple[str, str], PenstockError] = {}
        super().__init__(_open(adata, self._unreadable), None, 0)
        self.adata = adata
        self._shape = adata.shape

    def default_layer(self, measurement: str = MAIN) -> str:
        """Return "X", or the only layer; raise `Unsupported` if X cannot be read in place."""
        self._check_readable(measurement, X)
        layers = self.layers(measurement)
        if len(layers) > 1 and X not in layers:
            raise NotFound(
                f"there is no X; choose from {', '.join(layers)} with layer=, in {self.uri}"
            )
        return super().default_layer(measurement)

    def x(self, measurement: str = MAIN, layer: str | None = None) -> _core.Matrix:
        """Return a description of a layer; raise `Unsupported` if it cannot be read in place."""
        self._check_readable(measurement, X if layer is None else layer)
        return super().x(measurement, layer)

    def check_all_readable(self, measurements: Sequence[str], layers: Sequence[str]) -> None:
        """Raise `Unsupported` if one of these cannot be read in place; no names are all."""
        for (measurement, layer), error in self._unreadable.items():
            if measurements and measurement not in measurements:
                continue
            if layers and layer not in layers:
                continue
            raise type(error)(f"{error}; or choose other measurements= and layers=")

    def _check_readable(self, measurement: str, layer: str) -> None:
        if (measurement, layer) in self._unreadable:
            raise self._unreadable[measurement, layer]

    def __reduce__(self) -> Any:
        if self.adata.shape != self._shape:
            raise InvalidArgument(
                f"the AnnData object has {self.adata.n_obs} cells x {self.adata.n_vars} genes, it had "
                f"{self._shape[0]} x {self._shape[1]} when it was opened: open it again before it is "
                f"pickled, {self.uri}"
            )
        return AnnDataExperiment, (self.adata,)


def from_anndata(adata: Any) -> Experiment:
    """Return an experiment over an AnnData object. Of a backed one the file is read, as it was written last.

    Raises
    ------
    Unsupported
        A matrix is stored by genes, or is of a kind that is not read in place. Or the object is a
        view of a backed one.
    InvalidArgument
        A matrix contradicts itself.
    """
    if not adata.isbacked:
        return AnnDataExperiment(adata)
    if adata.is_view:
        raise Unsupported(
            "a view of a backed AnnData is not read in place: give the whole object and choose cells with "
            f"obs_query, or load the view with view.to_memory(), {adata.filename}"
        )
    experiment = open_stored(adata.filename)
    if experiment.metadata.get("encoding-type") == "MuData":
        raise Unsupported(
            "a backed modality does not say which one of its file it is: give its path, "
            f"{adata.filename}/mod/NAME"
        )
    return experiment


def raw_of(experiment: Experiment) -> tuple[str, str]:
    """Return measurement and layer of ``layer="raw"``: of an AnnData its ``raw``, if it has one.

    Raises
    ------
    InvalidArgument
        A layer of an AnnData has that name, too.
    """
    if RAW not in experiment.measurements:
        return MAIN, RAW
    # Of an AnnData object it may be there and not readable, which the matrix says.
    if X not in experiment.layers(RAW) and not isinstance(experiment, AnnDataExperiment):
        return MAIN, RAW
    if MAIN in experiment.measurements and RAW in experiment.layers(MAIN):
        raise InvalidArgument(
            "layer='raw' is both layers['raw'] and raw.X: rename the first, or give measurement='raw' "
            f"for the second, in {experiment.uri}"
        )
    return RAW, X


def warn_of_fractions(parts: Sequence[tuple[Experiment, str, str]]) -> None:
    """Warn once if X of an AnnData is not counts, but another layer or raw has counts.

    `parts` are experiments that are read together, each with its measurement and layer. A few rows
    of at most `MOST_EXAMINED` of them are read.
    """
    for part in _spread(parts):
        counts = _counts_instead(*part)
        if not counts:
            continue
        warnings.warn(
            f"X has fractions, so it is not counts. Counts are in {' and '.join(counts)}: choose one, or "
            f"layer='X' to read X without this warning, in {part[0].uri}",
            UserWarning,
            stacklevel=caller_level(),
        )
        return


def _spread(parts: Sequence[Any]) -> list[Any]:
    count = min(len(parts), MOST_EXAMINED)
    return [parts[i * len(parts) // count] for i in range(count)]


def _counts_instead(experiment: Experiment, measurement: str, layer: str) -> list[str]:
    """Return the arguments that choose counts; none unless X is read, and has fractions."""
    raw = RAW if measurement == MAIN else f"{measurement}:{RAW}"  # the second of a MuData
    is_raw = measurement.split(":")[-1] == RAW
    if is_raw or layer != X or "obs_names" not in experiment.obs.columns:
        return []
    if not experiment.x(measurement, X).has_fractions():
        return []
    counts = [
        f"layer={name!r}"
        for name in experiment.layers(measurement)
        if name != X and _has_counts(experiment, measurement, name)
    ]
    if raw in experiment.measurements and _has_counts(experiment, raw, X):
        counts.append("layer='raw'" if raw == RAW else f"measurement={raw!r}")
    return counts


def _has_counts(experiment: Experiment, measurement: str, layer: str) -> bool:
    try:
        return not experiment.x(measurement, layer).has_fractions()
    except (Unsupported, NotFound):  # such as a layer by genes
        return False


def _open(adata: Any, unreadable: dict[tuple[str, str], PenstockError]) -> _core.Experiment:
    """Make the engine's experiment; put what is wrong with other matrices into `unreadable`."""
    source, view_rows, view_columns = _unviewed(adata)
    var, unread = _columns(adata.var, "var_names", "adata.var")
    main = _core.MemoryMeasurement(MAIN, var, adata.n_vars, unread)
    for name, place, matrix in _matrices(source):
        try:
            main.add_layer(name, _matrix(matrix, place, view_rows, view_columns))
        except PenstockError as error:
            unreadable[MAIN, name] = _told_where(error, place)
    measurements = [main]
    raw = source.raw
    if raw is not None:
        var, unread = _columns(raw.var, "var_names", "adata.raw.var")
        part = _core.MemoryMeasurement(RAW, var, raw.shape[1], unread)
        try:
            part.add_layer(X, _matrix(raw.X, "adata.raw.X", view_rows, None))
        except PenstockError as error:
            unreadable[RAW, X] = _told_where(error, "adata.raw.X")
        measurements.append(part)
    name = f"AnnData of {adata.n_obs} cells x {adata.n_vars} genes"
    obs, unread = _columns(adata.obs, "obs_names", "adata.obs")
    return _core.open_in_memory(name, obs, adata.n_obs, measurements, unread)


def _told_where(error: PenstockError, place: str) -> PenstockError:
    return error if place in str(error) else type(error)(f"{error}, in {place}")


def _unviewed(adata: Any) -> tuple[Any, Array | None, Array | None]:
    """Return the AnnData that holds the arrays, and the rows and columns of it that are shown."""
    if not adata.is_view:
        return adata, None, None
    parent, rows, columns = (
        getattr(adata, name, None) for name in ("_adata_ref", "_oidx", "_vidx")
    )
    if parent is None or parent.is_view or rows is None or columns is None:
        warnings.warn(
            "this view of an AnnData is copied, since its parent is not known; "
            "`adata = adata.copy()` avoids a copy each time",
            UserWarning,
            stacklevel=2,
        )
        return adata.copy(), None, None
    return parent, _shown(rows, parent.n_obs), _shown(columns, parent.n_vars)


def _shown(index: Any, count: int) -> Array | None:
    """Return the numbers that an index of anndata selects, or None for all in order."""
    numbers = np.atleast_1d(np.arange(count)[index]).astype(np.int64)
    return None if np.array_equal(numbers, np.arange(count)) else np.ascontiguousarray(numbers)


def _matrices(adata: Any) -> list[tuple[str, str, Any]]:
    """Return X, if there is one, and the layers, each with its name, and how messages call it."""
    has_x = adata.X is not None
    found = [(X, "adata.X", adata.X)] if has_x else []
    second_x = "layers.X"
    while second_x in adata.layers:
        second_x = f"layers.{second_x}"
    for name in adata.layers:
        if name is not None:
            own = second_x if has_x and name == X else str(name)
            found.append((own, f"adata.layers[{name!r}]", adata.layers[name]))
    return found


def _matrix(
    matrix: Any, name: str, view_rows: Array | None, view_columns: Array | None
) -> _core.MemoryMatrix:
    layout = getattr(matrix, "format", None)
    if layout == "csr" and hasattr(matrix, "indptr"):
        _check_numbers(matrix.data, name)
        if view_columns is not None and len(np.unique(view_columns)) < len(view_columns):
            raise Unsupported(
                f"{name} is a CSR matrix in a view that shows a gene twice: copy the view, `view.copy()`"
            )
        _check_offsets(matrix.indptr, min(len(matrix.data), len(matrix.indices)), name)
        return _core.MemoryMatrix.csr(
            np.ascontiguousarray(matrix.data),
            np.ascontiguousarray(matrix.indices),
            np.ascontiguousarray(matrix.indptr),
            matrix.shape[0],
            matrix.shape[1],
            view_rows,
            view_columns,
        )
    if layout == "csc":
        raise Unsupported(
            f"{name} is stored by genes (CSC), so that each batch would read all of it; "
            f"convert it with {name}.tocsr()"
        )
    if isinstance(matrix, np.ma.MaskedArray):
        raise Unsupported(f"{name} is a masked array; fill it: `{name}.filled(0)`")
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2:
        _check_numbers(matrix, name)
        return _core.MemoryMatrix.dense(np.asarray(matrix), view_rows, view_columns)
    convert = f"convert it: `scipy.sparse.csr_matrix({name})`"
    if type(matrix).__module__.split(".")[0] in ("anndata", "dask", "h5py", "zarr"):
        convert = "give the path of its file, or load it: `adata = adata.to_memory()`"
    raise Unsupported(
        f"{name} must be a CSR matrix of scipy or a numpy array, got {type(matrix).__name__}; {convert}"
    )


def _check_offsets(indptr: Array, entries: int, name: str) -> None:
    if len(indptr) and indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] <= entries:
        return
    raise InvalidArgument(
        f"indptr must begin with 0, not fall, and end at {entries} or before, in {name}"
    )


def _check_numbers(values: Array, name: str) -> None:
    dtype = values.dtype
    if dtype.kind in "iufb" and dtype.isnative and (dtype.kind != "f" or dtype.itemsize in (4, 8)):
        return
    raise Unsupported(
        f"{name} has values of type {dtype.str!r}; convert them to integers, float32 or float64 of this "
        f"machine: `{name} = {name}.astype('float32')`"
    )


def _columns(table: Any, names: str, place: str) -> tuple[list[_core.MemoryColumn], dict[str, str]]:
    """Return the columns of obs or var that are numbers, booleans, strings or categories; why not the others."""
    index = names if names not in table.columns else str(table.index.name or "_index")
    try:
        columns = [_strings(index, np.asarray(table.index.astype(str), dtype=object))]
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{place.replace('adata.', '')}_names must be text: {error}"
        ) from None
    unread = {}
    for number, name in enumerate(table.columns):
        series = table.iloc[:, number]
        try:
            column = _column(str(name), series)
        except (TypeError, UnicodeEncodeError):  # lists, dicts, texts that are not Unicode
            column = None
        if column is not None:
            columns.append(column)
            continue
        unread[str(name)] = (
            f"{place}[{str(name)!r}] has values of type {series.dtype}, which are neither numbers, bools, "
            f"strings nor categories of them; convert it: {place}[{str(name)!r}].astype(str)"
        )
    return columns, unread


def _column(name: str, series: Any) -> _core.MemoryColumn | None:
    import pandas as pd

    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        values = series.cat.categories
        categories: Any = _numbers(values)
        if categories is None:
            if not all(isinstance(value, str) for value in values):
                return None
            categories = [str(value) for value in values]
            "".join(categories).encode()
        codes = np.ascontiguousarray(series.cat.codes)
        return _core.MemoryColumn.codes(name, codes, categories, bool(dtype.ordered), False)
    numbers = _numbers(series)
    if numbers is not None:
        return _core.MemoryColumn.numbers(name, numbers, None)
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.kind in "iufb":
        values = series.array
        kind = np.dtype(f"{dtype.kind}{dtype.itemsize}") if dtype.kind != "b" else np.dtype(bool)
        valid = np.ascontiguousarray(~np.asarray(values.isna(), bool))
        filled = np.ascontiguousarray(values.to_numpy(kind, na_value=kind.type(0)))
        return _core.MemoryColumn.numbers(name, filled, None if valid.all() else valid)
    codes, values = pd.factorize(series.to_numpy(object))
    if not all(isinstance(value, str) for value in values):
        return None
    "".join(values).encode()
    if len(values) * 2 > len(codes) and (codes >= 0).all():
        return _strings(name, series.to_numpy(object))
    narrow = np.min_scalar_type(-max(1, len(values)))
    return _core.MemoryColumn.codes(name, codes.astype(narrow), list(values), False, True)


def _numbers(values: Any) -> Array | None:
    """Return a numpy array of numbers or booleans that the engine reads, or None."""
    dtype = values.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iufb":
        return None
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return None
    return np.ascontiguousarray(values.to_numpy(), dtype=dtype.newbyteorder("="))


def _strings(name: str, values: Array) -> _core.MemoryColumn:
    encoded = [str(value).encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.uint64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return _core.MemoryColumn.strings(name, b"".join(encoded), offsets)
