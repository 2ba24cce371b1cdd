"""Words of anndata, scanpy and torch that a Dataset does not have, and what replaces them."""

from __future__ import annotations

from penstock.base.suggestions import did_you_mean

_NOT_READ = "a Dataset has X, obs and var; read {name} with anndata or tiledbsoma"
_CHOSEN = "ds[\"sex == 'female'\"], ds[mask] or obs_query= choose cells"

_SPLIT = "use ds.random_split(0.8, 0.2), or with group='donor_id' to keep donors together"
_BUDGET = "memory_budget='2GiB'"
_TRANSFORMS = "transforms=[ps.NormalizeTotal(1e4), ps.Log1p()]"

#: Attributes that people try.
_ATTRIBUTES = {
    "X": "a Dataset reads X batch by batch: `for X, obs in ds`, ds.head() or ds.to_anndata().X",
    "batches": "`for X, obs in ds` yields the batches",
    "balance": 'ds.with_settings(balance="cell_type") draws its classes equally often',
    "batch": "ds.with_settings(batch_size=…) makes batches of another size",
    "class_names": "ds.encoders[name].classes_ has the classes in the order of their codes",
    "classes": "ds.encoders[name].classes_ has the classes in the order of their codes",
    "classes_": "ds.encoders[name].classes_ has the classes in the order of their codes",
    "benchmark": "ds.stats has the counts of an epoch; `penstock bench` compares loaders",
    "chunked_X": "`for X, obs in ds` yields batches of cells",
    "columns": "ds.obs.columns has the columns of obs",
    "copy": "a Dataset never changes: use it again, or ds.with_settings(…) for other arguments",
    "filter": _CHOSEN,
    "groupby": "ds.obs.to_pandas([…]).groupby has it",
    "is_view": (
        "scanpy's functions take ds.to_anndata(); for batches give the Dataset transforms=["
        "ps.NormalizeTotal(), ps.Log1p()], and ps.highly_variable_genes(ds) finds genes"
    ),
    "kfold": "ds.random_split(0.2, 0.2, 0.2, 0.2, 0.2) gives five parts",
    "layers": "ds.experiment.layers() lists them, and layer= chooses one",
    "map": "transforms=[…] takes functions of X; penstock.dataloader(ds, collate_fn=…) of (X, obs)",
    "n_cells": "ds.n_obs is the number of cells",
    "n_genes": "ds.n_vars is the number of genes",
    "num_classes": "len(ds.encoders[name].classes_) is the number of classes",
    "obs_keys": "ds.obs.columns has the columns of obs",
    "obs_encoders": (
        "encoders=[ps.LabelEncoder(column)] of the Dataset makes codes, and ds.encoders[column] "
        "turns them back"
    ),
    "prefetch": "the engine reads ahead within memory_budget",
    "query": _CHOSEN,
    "raw": "layer='raw' reads it",
    "sample": "ds.random_split(n, ds.n_obs - n)[0] has n random cells",
    "sel": _CHOSEN,
    "shard": "ps.Dataset(…, rank=…, world_size=…) divides the cells; under torchrun both are found",
    "skip": "ds[n:] leaves out the first n cells",
    "split": _SPLIT,
    "subset": _CHOSEN,
    "take": "ds[:n] has the first n cells, ds.head(n) reads them",
    "to": "ds.with_settings(device='cuda', format='torch') puts batches on a device",
    "to_adata": "use ds.to_anndata()",
    "to_df": "ds.to_anndata().to_df() has X as a table, ds.obs.to_pandas() has obs",
    "to_memory": "use ds.to_anndata()",
    "to_pandas": "ds.obs.to_pandas() has obs, ds.to_anndata().to_df() has X",
    "throughput": "print(ds.stats) shows cells per second and how long the loop waited",
    "train_test_split": _SPLIT,
    "uns": (
        "a Dataset has X, obs and var; read uns with anndata or tiledbsoma. For models of scvi-tools "
        "penstock.scvi.DataModule(ds) replaces setup_anndata"
    ),
    "var_keys": "ds.var.columns has the columns of var",
    "write": "penstock.pack(…) writes a pack, ds.to_anndata().write_h5ad(…) an h5ad file",
    "write_h5ad": "use ds.to_anndata().write_h5ad(…)",
    **{name: _NOT_READ.format(name=name) for name in ("obsm", "obsp", "varm", "varp")},
}

#: Arguments that people try.
ARGUMENTS = {
    "X_layer": "layer=",
    "X_name": "layer=",
    "as_torch": "format='torch'",
    "batch_key": "obs_columns=[…] or encoders=[ps.LabelEncoder(…)]",
    "cells": "obs_query=[names] or a filter",
    "class_weights": "balance=column, which draws its classes equally often",
    "classes": "encoders=[ps.LabelEncoder(column, classes=…)]",
    "collate_fn": "transforms=[…] for X, or penstock.dataloader(ds, collate_fn=…) for (X, obs)",
    "filter": "obs_query=",
    "genes": "var_query=[names], or ds[:, names]",
    "label": "encoders=[ps.LabelEncoder(column)]",
    "label_key": "encoders=[ps.LabelEncoder(column)]",
    "labels": "encoders=[ps.LabelEncoder(column)]",
    "labels_key": "encoders=[ps.LabelEncoder(column)]",
    "label_column": "encoders=[ps.LabelEncoder(column)]",
    "layer_name": "layer=",
    "load_sparse_tensor": "sparse=True",
    "local_rank": "rank=, the number among all processes, and device=",
    "log1p": _TRANSFORMS,
    "max_memory": _BUDGET,
    "measurement_name": "measurement=",
    "memory_limit": _BUDGET,
    "method": "sparse='csr' or sparse='coo'",
    "n_top_genes": "ps.highly_variable_genes(ds, n_top_genes=…), and var_query= or ds[:, hvg]",
    "normalize": _TRANSFORMS,
    "normalize_total": _TRANSFORMS,
    "num_replicas": "world_size=",
    "num_workers": "penstock.dataloader(ds, num_workers=…); threads= sets the engine's threads",
    "obs": "obs_columns=[…] for what comes with a batch, obs_query= for which cells",
    "obs_cols": "obs_columns=",
    "obs_column_names": "obs_columns=",
    "obs_filter": "obs_query=",
    "obs_keys": "obs_columns=",
    "obs_names": "obs_query=[…] to choose cells by name",
    "obs_value_filter": "obs_query=",
    "output": "format='torch', or 'numpy'",
    "organism": "ps.open_census(organism) as the source",
    "pin_memory": "penstock.dataloader(ds, pin_memory=True), or device='cuda'",
    "preload_nchunks": "memory_budget=",
    "prefetch_factor": "penstock.dataloader(ds, prefetch_factor=…)",
    "query": "obs_query=",
    "random_state": "seed=",
    "return_sparse_X": "sparse=True",
    "sampler": "weights= or balance= to draw cells unevenly",
    "shuffle_chunk_count": "memory_budget=: more memory mixes better",
    "soma_chunk_size": "memory_budget=: more memory mixes better",
    "target": "encoders=[ps.LabelEncoder(column)]",
    "target_sum": _TRANSFORMS,
    "to_torch": "format='torch'",
    "transform": "transforms=[…]",
    "value_filter": "obs_query=",
    "var_filter": "var_query=",
    "var_value_filter": "var_query=",
}

_FRACTIONS = "fractions without a name, such as 0.8, 0.2"
#: Arguments of `Dataset.random_split` that people try.
SPLIT_ARGUMENTS = {
    "by": "group=",
    "fractions": _FRACTIONS,
    "lengths": _FRACTIONS,
    "parts": _FRACTIONS,
    "shuffle": "seed= for other parts, which are always drawn at random",
    "sizes": _FRACTIONS,
    "test": _FRACTIONS,
    "train": _FRACTIONS,
    "val": _FRACTIONS,
    "frac": _FRACTIONS,
    "generator": "seed=",
    "group_by": "group=",
    "groups": "group=",
    "random_state": "seed=",
    "test_size": _FRACTIONS,
    "train_size": _FRACTIONS,
}

#: Arguments of functions of a Dataset that choose cells and genes: those of the Dataset.
OF_A_DATASET = {
    **{
        name: f"a Dataset with {name}="
        for name in ("layer", "measurement", "obs_query", "transforms", "var_query")
    },
    **{
        name: f"a Dataset with {instead}"
        for name, instead in ARGUMENTS.items()
        if instead.startswith(("layer=", "measurement=", "obs_query=", "var_query="))
    },
}
#: Arguments of `Dataset.to_anndata` that people try.
TO_ANNDATA = {**OF_A_DATASET, "column_names": "obs[columns] of the result"}


def attribute_message(name: str, there: list[str], arguments: list[str]) -> str:
    """Return the message about an attribute that a Dataset does not have."""
    text = f"a Dataset has no attribute {name!r}"
    if name in _ATTRIBUTES:
        return f"{text}: {_ATTRIBUTES[name]}"
    if name in arguments:
        return f"{text}; print(ds) shows its settings"
    return text + did_you_mean(name, there)


def setting_message(name: str) -> str:
    """Return the message about an argument that is set on a Dataset."""
    return f"a Dataset does not change: ds.with_settings({name}=…) makes one with another {name}"
