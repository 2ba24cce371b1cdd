"""Held-out ELBO of scVI trained from Penstock and from an AnnData, over some seeds.

python benchmarks/training_parity.py [--seeds 5] [--epochs 200] [--cells pbmc3k donors atlas]

Both are trained by scvi-tools with the same arguments, early stopping included, from weights, splits,
orders and noise that a seed draws for each; one evaluator, scvi-tools' own, gives the mean ELBO of the
same held-out cells for both. What must come out: means within two standard errors of their
difference, and within 0.2 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import penstock.scvi as pscvi
import scvi
import torch
from penstock.examples.bundled import unpack
from penstock.synthetic import make_experiment

RESULTS = Path(__file__).parent / "results" / "training_parity.json"
MODEL = {"n_latent": 10, "n_hidden": 64}


class Donor(ps.Encoder):
    """Three donors made up of cells that have one."""

    needs_fit = False

    def transform(self, obs: Any) -> Any:
        return np.asarray(obs["soma_joinid"]) % 3


def sources(folder: Path, names: list[str]) -> dict[str, tuple[ps.Dataset, dict, dict]]:
    """Name to cells, keys of Penstock, and keys of an AnnData where they differ."""
    made: dict[str, tuple[ps.Dataset, dict, dict]] = {}
    if {"pbmc3k", "donors"} & set(names):
        whole = ps.Dataset(unpack(folder))
        often = (ps.gene_statistics(whole)["nonzeros"] > 800).to_numpy()
        genes = whole.var.to_pandas(columns=["soma_joinid"])["soma_joinid"].to_numpy()[often]
        cells = ps.Dataset(unpack(folder), var_query=ps.AxisQuery(coords=(genes,)), batch_size=128)
        if "pbmc3k" in names:
            made["pbmc3k"] = cells, {}, {}
        if "donors" in names:
            ours = {"batch_key": Donor("soma_joinid", "donor")}
            made["pbmc3k, three donors made up"] = cells, ours, {"batch_key": "donor"}
    if "atlas" in names:
        path = folder / "atlas"
        if not path.exists():
            make_experiment(path, n_cells=4_000, n_genes=600, n_fragments=2, n_datasets=8)
        keys = {"batch_key": "dataset_id", "categorical_covariate_keys": ["sex", "assay"]}
        made["generated atlas, batches and covariates"] = ps.Dataset(path, batch_size=256), keys, {}
    return made


def train_one(cells: ps.Dataset, keys: dict, theirs: dict, seed: int, epochs: int) -> dict:
    """Train both with a seed; mean ELBO of the cells that neither has seen."""
    held_out, rest = cells.random_split(0.15, 0.85, seed=0)
    fit = {
        "max_epochs": epochs, "early_stopping": True, "early_stopping_patience": 10,
        "plan_kwargs": {"n_epochs_kl_warmup": 20, "lr": 3e-3}, "accelerator": "cpu",
        "enable_progress_bar": False,
    }  # fmt: skip

    torch.manual_seed(seed)
    data = pscvi.DataModule(rest.with_settings(seed=seed), split_seed=seed, **keys)
    ours = data.create_model(**MODEL)
    ours.train(datamodule=data, **fit)

    adata = rest.to_anndata()
    judged = held_out.to_anndata()
    for each in (adata, judged):
        each.X = each.X.astype(np.float32)
        if "donor" in str(theirs):
            each.obs["donor"] = each.obs["soma_joinid"].to_numpy() % 3
    scvi.settings.seed = 1000 + seed
    scvi.model.SCVI.setup_anndata(adata, **{**keys, **theirs})
    in_memory = scvi.model.SCVI(adata, **MODEL)
    in_memory.train(train_size=0.9, batch_size=cells.batch_size, **fit)

    result: dict[str, Any] = {"seed": seed}
    for name, model in (("penstock", ours), ("anndata", in_memory)):
        torch.manual_seed(7)
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder, overwrite=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                judge = scvi.model.SCVI.load(folder, judged.copy(), accelerator="cpu")
            elbos = [float(judge.get_elbo()) for _ in range(5)]
        result[name] = {
            "elbo": float(np.mean(elbos)), "epochs": len(model.history["elbo_validation"]),
        }  # fmt: skip
    return result


def summary(runs: list[dict]) -> dict:
    """Means, their difference, and its standard error."""
    ours = np.array([run["penstock"]["elbo"] for run in runs])
    theirs = np.array([run["anndata"]["elbo"] for run in runs])
    error = float(np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs)))
    difference = float(ours.mean() - theirs.mean())
    return {
        "penstock": float(ours.mean()), "anndata": float(theirs.mean()), "difference": difference,
        "standard_error": error, "relative": difference / abs(float(theirs.mean())),
        "holds": bool(
            abs(difference) <= 2 * error and abs(difference) <= 0.002 * abs(theirs.mean())
        ),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--cells", nargs="+", default=["pbmc3k", "donors", "atlas"])
    parser.add_argument("--folder", default="benchmarks/.data")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, (cells, keys, theirs) in sources(Path(parsed.folder), parsed.cells).items():
        runs = []
        for seed in range(parsed.seeds):
            runs.append(train_one(cells, keys, theirs, seed, parsed.epochs))
            print(name, json.dumps(runs[-1]), flush=True)
        results[name] = {**summary(runs), "runs": runs}
        print(name, {key: each for key, each in results[name].items() if key != "runs"}, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
