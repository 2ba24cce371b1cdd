"""Slices of the Census in memory (cellxgene_census.get_anndata)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import require
from penstock.base.validation import checked_names, checked_text
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument, Unsupported
from penstock.experiment.axis_query import AxisQuery
from penstock.experiment.experiment import Experiment

if TYPE_CHECKING:
    import anndata

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
        obs = ds.obs.to_pandas(columns=_chosen(columns.get("obs", obs_column_names)))
        var = ds.reader.selection.var.to_pandas(
            columns=_chosen(columns.get("var", var_column_names))
        )
        for frame in (obs, var):
            frame.index = frame.index.astype(str)
        made = anndata.AnnData(ds.to_anndata(max_size=_MOST).X, obs, var)
        for layer in X_layers or ():
            other = dataset_of(ds.experiment, organism, measurement_name, layer, **wanted)
            made.layers[layer] = other.to_anndata(max_size=_MOST).X
    return made


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
        _experiment_of(census, organism),
        measurement=measurement_name,
        layer=X_name,
        obs_query=_query(*obs),
        var_query=_query(*var),
        obs_columns=[],
        sparse=True,
        keep=False,
    )


def _experiment_of(census: Any, organism: str) -> Any:
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


def _chosen(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else checked_names("column names", names)
