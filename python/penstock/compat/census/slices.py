"""Slices of the Census in memory: cellxgene_census.get_anndata, get_obs, get_var."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.validation import checked_names, checked_text
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument, Unsupported
from penstock.experiment.axis_query import AxisQuery, resolve
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment

if TYPE_CHECKING:
    import anndata
    import pandas as pd

#: Most bytes of X: what is asked for is read whole, as the original does.
_MOST = 2**62


def get_anndata(
    census: Any,
    organism: str,
    measurement_name: str = "RNA",
    X_name: str = "raw",
    X_layers: Sequence[str] | None = (),
    obs_value_filter: str | None = None,
    obs_coords: Any = None,
    var_value_filter: str | None = None,
    var_coords: Any = None,
    column_names: Mapping[str, Sequence[str]] | None = None,
    obs_column_names: Sequence[str] | None = None,
    var_column_names: Sequence[str] | None = None,
    **layers: Any,
) -> anndata.AnnData:
    """Read a slice of the Census into an AnnData, by Penstock's engine.

    Parameters
    ----------
    census : tiledbsoma.Collection or penstock.Experiment
        What ``cellxgene_census.open_soma`` returned, or what `penstock.open_census` did; the latter
        is of one organism.
    organism : str
        "Homo sapiens", "homo_sapiens", …
    measurement_name, X_name : str, default "RNA", "raw"
        Measurement and layer of X.
    X_layers : sequence of str
        Further layers of X, which become ``layers``.
    obs_value_filter, var_value_filter : str, optional
        tiledbsoma's ``value_filter`` of cells and genes.
    obs_coords, var_coords : int, slice or sequence of int, optional
        joinids of cells and genes.
    column_names : dict, optional
        Columns of obs and var, by the keys "obs" and "var".
    obs_column_names, var_column_names : sequence of str, optional
        The same, as later versions have it.
    **layers
        `obsm_layers` and other arguments of the original must be empty.

    Returns
    -------
    anndata.AnnData
        Cells and genes by ascending joinid. The names of both are "0", "1", …, as in the original.
        The columns of a filter follow the columns that are named.

    Raises
    ------
    NotFound
        There is no such layer or column. Also a KeyError.
    InvalidArgument
        There is no such organism, or a filter or a joinid is invalid. Also a ValueError.
    Unsupported
        Embeddings or pairs of cells or genes are asked for.
    MissingPackage
        anndata is not installed.
    """
    require("pandas", "scipy", "anndata", extra="anndata")
    import anndata

    for name, value in layers.items():
        if not name.endswith(("_layers", "_embeddings")):
            raise TypeError(f"get_anndata() got an unexpected keyword argument {name!r}")
        if value:
            raise Unsupported(
                f"{name} is not read by penstock: query.to_anndata({name}=…) of tiledbsoma reads it"
            )
    columns = dict(column_names or {})
    if unknown := columns.keys() - {"obs", "var"}:
        raise InvalidArgument(f"column_names has the keys obs and var, got {sorted(unknown)}")
    with missing_names():
        wanted = {"obs": (obs_value_filter, obs_coords), "var": (var_value_filter, var_coords)}
        ds = dataset_of(census, organism, measurement_name, X_name, **wanted)
        obs = _read(ds.obs, columns.get("obs", obs_column_names), obs_value_filter)
        var = _read(ds.var, columns.get("var", var_column_names), var_value_filter)
        for frame in (obs, var):
            frame.index = frame.index.astype(str)
        made = anndata.AnnData(ds.to_anndata(max_size=_MOST).X, obs, var)
        for layer in X_layers or ():
            other = dataset_of(ds.experiment, organism, measurement_name, layer, **wanted)
            made.layers[layer] = other.to_anndata(max_size=_MOST).X
    return made


def get_obs(
    census: Any,
    organism: str,
    *,
    value_filter: str | None = None,
    coords: Any = None,
    column_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read obs of an organism of the Census, or some cells and columns of it.

    Parameters
    ----------
    census, organism
        As for `get_anndata`.
    value_filter : str, optional
        tiledbsoma's ``value_filter``.
    coords : int, slice or sequence of int, optional
        joinids.
    column_names : sequence of str, optional
        Columns; by default all. The columns of the filter follow them, as in the original.

    Returns
    -------
    pandas.DataFrame
        A row for each cell, by ascending joinid.

    Raises
    ------
    NotFound
        There is no such column. Also a KeyError.
    InvalidArgument
        There is no such organism, or the filter or a joinid is invalid. Also a ValueError.
    MissingPackage
        pandas is not installed.
    """
    with missing_names():
        table = _experiment_of(census, organism).obs
        return _rows(table, "obs", value_filter, coords, column_names)


def get_var(
    census: Any,
    organism: str,
    *,
    value_filter: str | None = None,
    coords: Any = None,
    column_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read the genes of an organism of the Census; see `get_obs`."""
    with missing_names():
        table = _experiment_of(census, organism).var("RNA")
        return _rows(table, "var", value_filter, coords, column_names)


def _rows(
    table: DataFrame,
    kind: str,
    value_filter: str | None,
    coords: Any,
    column_names: Sequence[str] | None,
) -> pd.DataFrame:
    rows = resolve(table, _query(value_filter, coords), f"{kind}_query")
    return _read(table.with_rows(rows), column_names, value_filter)


def _read(
    table: DataFrame, column_names: Sequence[str] | None, value_filter: str | None
) -> pd.DataFrame:
    """Read columns, and after them those of the filter, as tiledbsoma does; its index has no name."""
    if column_names is None:
        return table.to_pandas().rename_axis(None)
    names = checked_names("column names", column_names)
    filtered = _core.filter_columns(value_filter) if value_filter else []
    columns = [*names, *(each for each in filtered if each not in names)]
    return table.to_pandas(columns).rename_axis(None)


def dataset_of(
    census: Any,
    organism: str,
    measurement_name: str,
    X_name: str,
    *,
    obs: tuple[str | None, Any],
    var: tuple[str | None, Any],
) -> Dataset:
    """Return a Dataset of an organism's cells and genes, each by a filter and joinids."""
    return Dataset(
        _source_of(census, organism),
        measurement=measurement_name,
        layer=X_name,
        obs_query=_query(*obs),
        var_query=_query(*var),
        obs_columns=[],
        sparse=True,
        keep=False,
    )


def _experiment_of(census: Any, organism: str) -> Experiment:
    source = _source_of(census, organism)
    return source if isinstance(source, Experiment) else Dataset(source, obs_columns=[]).experiment


def _source_of(census: Any, organism: str) -> Any:
    if isinstance(census, (Experiment, str, os.PathLike)):
        return census
    tiledbsoma: Any = sys.modules.get("tiledbsoma")
    if tiledbsoma is not None and isinstance(census, tiledbsoma.Experiment):
        return census
    name = checked_text("organism", organism).strip().lower().replace(" ", "_")
    experiments = census["census_data"]
    if name not in experiments:
        raise InvalidArgument(
            f"the Census has no organism {organism!r}, but {', '.join(sorted(experiments))}"
        )
    return experiments[name]


def _query(value_filter: str | None, coords: Any) -> AxisQuery:
    return AxisQuery(value_filter, (slice(None) if coords is None else coords,))
