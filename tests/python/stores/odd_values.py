"""Unexpected values for arguments, and calls to try them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps


class NoTruth:
    """Like an array: has no truth value."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")


class NoText:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "False": lambda: False,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2**70": lambda: 2**70,
    "10**5000": lambda: 10**5000,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1.5": lambda: 1.5,
    "1j": lambda: 1j,
    "''": lambda: "",
    "'x'": lambda: "x",
    "digits": lambda: "9" * 5000,
    "nul": lambda: "a\0b",
    "b'x'": lambda: b"x",
    "[]": list,
    "[None]": lambda: [None],
    "[[]]": lambda: [[]],
    "()": lambda: (),
    "{}": dict,
    "{'x': 1}": lambda: {"x": 1},
    "set": lambda: {"x"},
    "generator": lambda: (each for each in "ab"),
    "0-d int": lambda: np.array(3),
    "0-d text": lambda: np.array("x"),
    "0-d object": lambda: np.array(None, object),
    "array": lambda: np.arange(3),
    "array of text": lambda: np.array(["a", "b"]),
    "matrix": lambda: np.zeros((2, 2)),
    "empty array": lambda: np.array([]),
    "Series": lambda: pd.Series([1.0, 2.0]),
    "DataFrame": lambda: pd.DataFrame({"a": [1, 2]}),
    "NaT": lambda: pd.NaT,
    "NA": lambda: pd.NA,
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda x: x,
    "no truth": NoTruth,
    "no text": NoText,
    "numpy bool": lambda: np.bool_(False),
    "numpy int": lambda: np.int8(-1),
    "numpy float": lambda: np.float64("nan"),
}

#: Arguments of `penstock.Dataset` but its source.
DATASET = [name for name in ps.Dataset.__init__.__annotations__ if name not in ("source", "return")]


def calls(ds: ps.Dataset, folder: Any) -> dict[str, Callable[[Any], Any]]:
    """Calls of one odd value each; `folder` is a place that does not exist."""
    report = ds.shuffle_report("cell_type")
    path = ds.experiment.uri
    one = {"obs_query": "soma_joinid == 0"}

    def with_step(step: Any) -> Any:
        return ds.with_settings(transforms=[step])

    return {
        "open": ps.open,
        "example": ps.example,
        "example(format)": lambda x: ps.example(format=x),
        "example(folder)": lambda x: ps.example(folder=x) if unusable(x) else None,
        "Batch": ps.Batch,
        "Dataset[…]": lambda x: ds[x],
        "Dataset[…, …]": lambda x: ds[:, x],
        "DataFrame[…]": lambda x: ds.obs[x],
        "DataFrame.head": lambda x: ds.obs.head(x),
        "DataFrame.unique": lambda x: ds.obs.unique(x),
        "DataFrame.value_counts": lambda x: ds.obs.value_counts(x),
        "open(timestamp)": lambda x: ps.open(path, timestamp=x),
        "open(threads)": lambda x: ps.open(path, threads=x),
        "Dataset": ps.Dataset,
        "join": ps.join,
        "join(genes)": lambda x: ps.join([path], genes=x),
        "join(source_column)": lambda x: ps.join([path], source_column=x),
        "dataloader": ps.dataloader,
        "dataloader(num_workers)": lambda x: ps.dataloader(ds, num_workers=x),
        "pack(source)": lambda x: ps.pack(x, folder),
        "pack(destination)": lambda x: ps.pack(ds.experiment, x, **one) if unusable(x) else None,
        "pack(obs_query)": lambda x: ps.pack(path, folder, obs_query=x, measurements="none"),
        "pack(measurements)": lambda x: ps.pack(path, folder, measurements=x, layers="none"),
        "pack(layers)": lambda x: ps.pack(path, folder, layers=x, measurements="none"),
        "pack(overwrite)": lambda x: ps.pack(path, folder, overwrite=x, measurements="none"),
        "pack(threads)": lambda x: ps.pack(path, folder, threads=x, measurements="none"),
        "gene_statistics": ps.gene_statistics,
        "map_batches": lambda x: None if callable(x) else ps.map_batches(x, ds),
        "map_batches(ds)": lambda x: ps.map_batches(lambda X, obs: X.sum(axis=1), x),
        "map_batches(out)": lambda x: ps.map_batches(lambda X, obs: X[:, 0], ds, out=x),
        "map_batches(executor)": lambda x: ps.map_batches(lambda X, obs: X[:, 0], ds, executor=x),
        "gene_statistics(group_by)": lambda x: ps.gene_statistics(ds, group_by=x),
        "cell_statistics": ps.cell_statistics,
        "highly_variable_genes": ps.highly_variable_genes,
        "highly_variable_genes(n_top_genes)": lambda x: ps.highly_variable_genes(ds, n_top_genes=x),
        "highly_variable_genes(flavor)": lambda x: ps.highly_variable_genes(ds, flavor=x),
        "highly_variable_genes(batch_key)": lambda x: ps.highly_variable_genes(ds, batch_key=x),
        "progress": ps.progress,
        "LabelEncoder": ps.LabelEncoder,
        "LabelEncoder(classes)": lambda x: ps.LabelEncoder("cell_type", classes=x),
        "LabelEncoder(unseen)": lambda x: ps.LabelEncoder("cell_type", unseen=x),
        "BatchEncoder": ps.BatchEncoder,
        "OneHotEncoder": ps.OneHotEncoder,
        "NumericEncoder": ps.NumericEncoder,
        "MultiHotEncoder": ps.MultiHotEncoder,
        "Balance": ps.Balance,
        "Balance(temperature)": lambda x: ps.Balance("cell_type", temperature=x),
        "Balance(shares)": lambda x: ps.Balance("cell_type", shares=x),
        "NormalizeTotal": lambda x: with_step(ps.NormalizeTotal(x)),
        "NormalizeTotal(totals)": lambda x: with_step(ps.NormalizeTotal(totals=x)),
        "Log1p": lambda x: with_step(ps.Log1p(x)),
        "Expm1": lambda x: with_step(ps.Expm1(x)),
        "Clip(low)": lambda x: with_step(ps.Clip(low=x)),
        "Clip(high)": lambda x: with_step(ps.Clip(high=x)),
        "Binarize": lambda x: with_step(ps.Binarize(x)),
        "Scale": lambda x: with_step(ps.Scale(x)),
        "Scale(mean)": lambda x: with_step(ps.Scale(np.ones(ds.n_vars), mean=x)),
        "SelectGenes": lambda x: with_step(ps.SelectGenes(x)),
        "SelectGenes(column)": lambda x: with_step(ps.SelectGenes(["x"], column=x)),
        "SelectGenes(missing)": lambda x: with_step(ps.SelectGenes(["x"], missing=x)),
        "RankTokens(medians)": lambda x: with_step(ps.RankTokens(x, {})),
        "RankTokens(tokens)": lambda x: with_step(ps.RankTokens({}, x)),
        "RankTokens(max_tokens)": lambda x: with_step(ps.RankTokens({}, {}, max_tokens=x)),
        "RankTokens(dtype)": lambda x: with_step(ps.RankTokens({}, {}, dtype=x)),
        "random_split": lambda x: ds.random_split(x),
        "random_split(first)": lambda x: ds.random_split(x, 0.5),
        "random_split(seed)": lambda x: ds.random_split(0.5, 0.5, seed=x),
        "random_split(stratify)": lambda x: ds.random_split(0.5, 0.5, stratify=x),
        "random_split(group)": lambda x: ds.random_split(0.5, 0.5, group=x),
        "group_split": lambda x: ps.group_split(x, 0.5, 0.5, group="cell_type"),
        "group_split(group)": lambda x: ps.group_split(ds, 0.5, 0.5, group=x),
        "stratified_split": lambda x: ps.stratified_split(x, 0.5, 0.5, stratify="cell_type"),
        "random_split(ds)": lambda x: ps.random_split(x, 0.5, 0.5),
        "shuffle_report(ds)": lambda x: ps.shuffle_report(x, "cell_type"),
        "to_anndata": ps.to_anndata,
        "shuffle_report": ds.shuffle_report,
        "shuffle_report(memory_budget)": lambda x: ds.shuffle_report("cell_type", memory_budget=x),
        "budget_for": report.budget_for,
        "head": lambda x: ds.head(x),
        "to_anndata(max_size)": lambda x: ds.to_anndata(max_size=x),
        "set_epoch": lambda x: ds.with_settings().set_epoch(x),
        "load_state_dict": lambda x: ds.with_settings().load_state_dict(x),
        "read(columns)": lambda x: ds.obs.read(x),
        "read(value_filter)": lambda x: ds.obs.read(["soma_joinid"], x),
        "to_pandas(columns)": lambda x: ds.obs.to_pandas(columns=x),
        "coords": lambda x: ps.Dataset(path, obs_query=ps.AxisQuery(coords=x)),
        "coords(0)": lambda x: ps.Dataset(path, obs_query=ps.AxisQuery(coords=(x,))),
        "value_filter": lambda x: ps.Dataset(path, obs_query=ps.AxisQuery(value_filter=x)),
    }


def unusable(destination: Any) -> bool:
    """Whether it cannot name a folder: a text would be made one."""
    return not isinstance(destination, str)
