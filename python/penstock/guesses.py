"""Names of scanpy, anndata and torch that the package does not have, and what replaces them."""

from __future__ import annotations

_READ = "ps.Dataset({what}) reads it in place, and ps.open({what}) shows what it holds"
_INSTEAD = {
    "AnnData": "ps.Dataset(adata) reads an AnnData in place",
    "DataLoader": "use ps.dataloader(ds)",
    "DataModule": "use penstock.lightning.DataModule, or penstock.scvi.DataModule for scvi-tools",
    "ExperimentAxisQueryPipe": "import penstock.compat.tiledbsoma_ml, or use ps.Dataset",
    "ExperimentDataPipe": "import penstock.compat.census, or use ps.Dataset",
    "ExperimentDataset": "import penstock.compat.tiledbsoma_ml, or use ps.Dataset",
    "Loader": "use ps.Dataset, or ps.dataloader(ds) for torch",
    "bench": "`penstock bench` compares loaders at the command line",
    "benchmark": "print(ds.stats) after an epoch; `penstock bench` compares loaders",
    "class_weights": 'ps.Dataset(…, balance="cell_type") draws its classes equally often',
    "concat": "ps.join([…]) or ps.Dataset([…]) reads several sources as one",
    "experimental": "import penstock.compat.census, or use ps.Dataset",
    "experiment_dataloader": "use ps.dataloader(ds)",
    "from_anndata": _READ.format(what="adata"),
    "from_h5ad": _READ.format(what="'cells.h5ad'"),
    "get_anndata": (
        "use ps.Dataset(exp, obs_query=…, var_query=…).to_anndata(obs_columns=[…]), or "
        "penstock.compat.census.get_anndata, which has the Census's arguments"
    ),
    "get_obs": "ps.open_census(organism).obs.to_pandas(columns=[…], value_filter=…)",
    "get_var": "ps.open_census(organism).var().to_pandas(columns=[…], value_filter=…)",
    "hvg": "use ps.highly_variable_genes(ds)",
    "load": _READ.format(what="path"),
    "log_normalize": "transforms=[ps.NormalizeTotal(1e4), ps.Log1p()]",
    "mean_variance": "ps.gene_statistics(ds) has the mean and variance of each gene",
    "normalize_total": "transforms=[ps.NormalizeTotal(1e4), ps.Log1p()]",
    "open_soma": "ps.open_census(organism, census_version=…), or ps.open(path)",
    "pl": "plots of cells are scanpy's: sc.pl, of ps.Dataset(…).to_anndata()",
    "pp": (
        "transforms=[ps.NormalizeTotal(), ps.Log1p()] normalise batches, and "
        "ps.highly_variable_genes(ds) finds genes; ps.gene_statistics(ds) has means and variances"
    ),
    "predict": "ps.map_batches(model, ds) gives a row for each cell, in the order of ds.obs",
    "read": _READ.format(what="path"),
    "read_10x_h5": _READ.format(what="'cells.h5'"),
    "read_h5ad": _READ.format(what="'cells.h5ad'"),
    "read_h5mu": _READ.format(what="'cells.h5mu'"),
    "read_soma": _READ.format(what="path"),
    "read_zarr": _READ.format(what="'cells.zarr'"),
    "tl": "ps.Dataset(…).to_anndata() gives scanpy an AnnData",
    "train_test_split": "use ps.random_split(ds, 0.8, 0.2)",
}
#: Modules that are imported when they are used.
MODULES = ("compat", "executors", "lightning", "scvi")


def message(name: str, there: list[str]) -> str:
    """Return the message about a name that the package does not have."""
    from .base.suggestions import did_you_mean

    text = f"module 'penstock' has no attribute {name!r}"
    return f"{text}: {_INSTEAD[name]}" if name in _INSTEAD else text + did_you_mean(name, there)
