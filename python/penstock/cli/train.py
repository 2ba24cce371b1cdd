"""``penstock train scvi``: train a model of scvi-tools from stored cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path, parse_memory_size
from penstock.dataset.source import DEFAULT_MEASUREMENT
from penstock.errors import InvalidArgument

#: Name for the cells that the package ships.
BUNDLED = "pbmc3k"


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train scVI from an experiment, on one process or several",
        description="Trains a model of scvi-tools, and writes into a folder: the model as scvi-tools "
        "saves it, the latent representation of every cell, and the history. Needs "
        "penstock's extra [scvi].",
    )
    parser.add_argument("kind", metavar="scvi", choices=["scvi"], help="the word scvi")
    parser.add_argument(
        "uri",
        metavar="URI",
        help=f"path or URI of a TileDB-SOMA experiment, or {BUNDLED} for cells to try it on",
    )
    parser.add_argument(
        "--model", default="SCVI",
        help="model class: SCVI, LinearSCVI or SCANVI (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--obs-query", metavar="TEXT",
        help="filter of obs that selects cells, such as \"sex == 'female'\" (default: all cells)",
    )  # fmt: skip
    parser.add_argument(
        "--var-query", metavar="TEXT", help="filter of var that selects genes (default: all genes)"
    )
    parser.add_argument(
        "--measurement", metavar="NAME", help=f"measurement (default: {DEFAULT_MEASUREMENT})"
    )
    parser.add_argument(
        "--layer", metavar="NAME", default="raw",
        help="layer of X with counts (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-key", metavar="COLUMN", action="append",
        help="obs column of the batch; if given several times, the columns are joined",
    )  # fmt: skip
    parser.add_argument("--labels-key", metavar="COLUMN", help="obs column of the cell labels")
    parser.add_argument(
        "--unlabeled", metavar="LABEL", help="value of --labels-key that means no label (SCANVI)"
    )
    parser.add_argument(
        "--n-samples-per-label", metavar="N", type=int,
        help="labelled cells of each label in a training epoch of SCANVI (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--categorical",
        metavar="COLUMN",
        action="append",
        help="obs column of a categorical covariate; may be given several times",
    )
    parser.add_argument(
        "--continuous",
        metavar="COLUMN",
        action="append",
        help="obs column of a continuous covariate; may be given several times",
    )
    parser.add_argument(
        "--latent", metavar="N", type=int, default=10,
        help="number of latent variables (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", metavar="N", type=int,
        help="maximum number of epochs (default: scvi-tools' own)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-size", metavar="N", type=int, default=128,
        help="cells in a batch of one process (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--devices", metavar="N", default="auto",
        help="number of processes, one per GPU or on CPUs; auto: one, -1: all GPUs or all cores (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--accelerator", default="auto",
        help="hardware to train on: auto, gpu or cpu (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--memory", metavar="SIZE", default="2GiB",
        help="memory budget of the loader of each process (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--patience",
        metavar="EPOCHS",
        type=int,
        help="epochs without a better validation ELBO after which training stops "
        "(default: no early stop)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0,
        help="seed of weights and noise (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--plot", metavar="COLUMN", help="obs column that colours a plot of the latent space"
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        default="penstock_scvi",
        help="folder of the results, made if needed (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="resume an interrupted run in --output"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Train, save, and print the paths of the results."""
    folder = Path(checked_local_path("--output", parsed.output))
    import numpy as np
    import torch

    from penstock import scvi as pscvi
    from penstock.dataset.dataset import Dataset
    from penstock.scvi.devices import checked_devices
    from penstock.scvi.latent_plot import draw
    from penstock.scvi.model_classes import model_class
    from penstock.scvi.model_fields import ModelFields
    from penstock.scvi.model_outputs import checked_out

    devices = _devices(parsed.devices)
    n_latent = checked_int("--latent", parsed.latent, least=1, most=100_000)
    seed = checked_int("--seed", parsed.seed, least=0, most=2**63 - 1)
    _check_numbers(parsed)
    keys = {
        "batch_key": parsed.batch_key,
        "labels_key": parsed.labels_key,
        "unlabeled_category": parsed.unlabeled,
        "size_factor_key": None,
        "categorical_covariate_keys": parsed.categorical,
        "continuous_covariate_keys": parsed.continuous,
    }
    checked_devices(parsed.accelerator, devices)
    fields = ModelFields.of(model_class(parsed.model), **keys)
    fields.check_samples_per_label(parsed.n_samples_per_label)
    # Nothing is written before this line.
    folder.mkdir(parents=True, exist_ok=True)
    cells = Dataset(
        _source(parsed.uri, folder),
        measurement=parsed.measurement,
        layer=parsed.layer,
        obs_query=parsed.obs_query,
        var_query=parsed.var_query,
        memory_budget=parsed.memory,
    )
    latent = checked_out(folder / "latent.npy")  # checked before the training
    if parsed.plot:
        _check_plot(cells, parsed.plot)
    data = pscvi.DataModule(
        cells,
        parsed.model,
        n_samples_per_label=parsed.n_samples_per_label,
        batch_size=parsed.batch_size,
        **keys,
    )
    print(
        f"{plural(data.n_obs, 'cell')} of {plural(data.n_vars, 'gene')} in "
        f"{plural(data.n_batch, 'batch')}; "
        f"{data.n_train:,} to train on, {data.n_val:,} to validate on",
        flush=True,
    )
    torch.manual_seed(seed)
    model = data.create_model(n_latent=n_latent)
    pscvi.train(
        model,
        data,
        devices=devices,
        accelerator=parsed.accelerator,
        max_epochs=parsed.epochs,
        early_stopping=False if parsed.patience is None else {"patience": parsed.patience},
        checkpoint=folder / "run",
        resume=parsed.resume,
        seed=seed,
    )
    model.save(str(folder / "model"), overwrite=True)
    rows = pscvi.latent(
        model,
        data,
        out=latent,
        devices=devices,
        accelerator=parsed.accelerator,
    )
    _tell_validation(model.history, folder)
    if parsed.plot:
        labels = cells.obs.read([parsed.plot])[parsed.plot].to_numpy()
        draw(np.asarray(rows.values), labels, parsed.plot, folder / "latent.png")
    for path in sorted(folder.iterdir()):
        if path.name in _SAYS:
            print(f"  {path}  {_SAYS[path.name]}")


def _check_numbers(parsed: argparse.Namespace) -> None:
    """Check the numbers that are not used before the cells are opened."""
    checked_int("--batch-size", parsed.batch_size, least=1, most=2**31 - 1)
    parse_memory_size("--memory", parsed.memory)
    if parsed.epochs is not None:
        checked_int("--epochs", parsed.epochs, least=1)
    if parsed.patience is not None:
        checked_int("--patience", parsed.patience, least=0)


def _check_plot(cells: Any, column: str) -> None:
    """Check, before the training, that the column and matplotlib exist."""
    cells.obs.read([column])
    import matplotlib  # noqa: F401


def _tell_validation(history: Any, folder: Path) -> None:
    path = folder / "elbo_validation.csv"
    if "elbo_validation" not in history:
        path.unlink(missing_ok=True)  # from an earlier run
        print("no cell to validate on: the cells are too few")
        return
    values = history["elbo_validation"]["elbo_validation"].astype(float)
    values.to_csv(path)
    print(
        f"negative ELBO of the validation cells: {values.iloc[0]:,.1f} after the first epoch, "
        f"{values.iloc[-1]:,.1f} after the last of {len(values)}"
    )


_SAYS = {
    "model": "for scvi.model's load",
    "run": "the best model, and where to resume",
    "latent.npy": "latent variables of each cell, in stored order",
    "latent.joinids.npy": "soma_joinid of each",
    "latent.png": "the latent space",
    "elbo_validation.csv": "negative ELBO of validation, by epoch",
}


def _source(uri: str, folder: Path) -> Any:
    if uri != BUNDLED or Path(uri).exists():
        return uri
    from penstock.demo.bundled_cells import unpack

    return unpack(folder)


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"--devices must be a number or auto, got {text!r}") from None
