"""Options of ``penstock train``."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.dataset.source import DEFAULT_MEASUREMENT

from .models import OF_SOME, Model, model_name

#: Orders of the cells, by the name of `--shuffle`.
SHUFFLES: dict[str, Any] = {
    "true": True, "scatter": "scatter", "chunks": "chunks", "global": "global", "none": False,
}  # fmt: skip
#: Name for the cells that the package ships.
BUNDLED = "pbmc3k"


def add_options(parser: argparse.ArgumentParser, model: Model) -> None:
    """Add the options of a model."""
    parser.add_argument(
        "uri", metavar="URI",
        help=f"path or URI of an experiment, or {BUNDLED} for cells to try it on",
    )  # fmt: skip
    parser.set_defaults(model=model.name)
    if model.name == "SCVI":  # the former way to name any model
        parser.add_argument("--model", type=model_name, default="SCVI", help=argparse.SUPPRESS)
    _add_cells(parser)
    _add_fields(parser, model)
    _add_training(parser, model)
    _add_results(parser)


def _add_cells(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cells and genes")
    group.add_argument(
        "--obs-query", metavar="TEXT",
        help="filter of obs that selects cells, such as \"sex == 'female'\" (default: all cells)",
    )  # fmt: skip
    group.add_argument(
        "--var-query", metavar="TEXT",
        help="filter of var that selects genes, such as \"n_cells > 100\" (default: all genes)",
    )  # fmt: skip
    group.add_argument(
        "--cells", metavar="N", type=int,
        help="train on the first N of the selected cells (default: all)",
    )  # fmt: skip
    group.add_argument(
        "--n-top-genes", metavar="N", type=int,
        help="train on the N most variable genes, by batch if --batch-key is given (default: all genes)",
    )  # fmt: skip
    group.add_argument(
        "--measurement", metavar="NAME",
        help=f"measurement that has the counts (default: {DEFAULT_MEASUREMENT})",
    )  # fmt: skip
    group.add_argument(
        "--layer", metavar="NAME",
        help="layer of X with counts (default: raw of SOMA, X of AnnData)",
    )  # fmt: skip


def _add_fields(parser: argparse.ArgumentParser, model: Model) -> None:
    """Add the options that say what of the cells the model is told.

    Options that the model does not take are not shown, but accepted: the error then says so.
    """
    group = parser.add_argument_group("what the model is told of the cells")
    group.add_argument(
        "--batch-key", metavar="COLUMN", action="append",
        help="obs column of the batch; if given several times, the columns are joined",
    )  # fmt: skip
    what: dict[str, tuple[str, str, dict[str, Any]]] = {
        "labels_key": ("COLUMN", "obs column of the cell labels", {}),
        "unlabeled": ("LABEL", "value of --labels-key that means no label", {}),
        "n_samples_per_label": (
            "N", "labelled cells of each label in a training epoch (default: all)", {"type": int},
        ),
        "fine_labels_key": ("COLUMN", "obs column of finer labels", {}),
        "sample_key": ("COLUMN", "obs column of the sample", {}),
        "protein": ("NAME", "measurement of the proteins", {}),
        "regions": ("NAME", "measurement of the accessible regions (default: genes alone)", {}),
        "categorical": (
            "COLUMN", "obs column of a categorical covariate; may be given several times",
            {"action": "append"},
        ),
        "continuous": (
            "COLUMN", "obs column of a continuous covariate; may be given several times",
            {"action": "append"},
        ),
    }  # fmt: skip
    assert set(what) == set(OF_SOME)
    for name, (metavar, text, more) in what.items():
        shown = text if name in model.takes else argparse.SUPPRESS
        group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=shown, **more)


def _add_training(parser: argparse.ArgumentParser, model: Model) -> None:
    group = parser.add_argument_group("the training")
    group.add_argument(
        "--latent", metavar="N", type=int, default=10, help="number of latent variables"
    )
    group.add_argument(
        "--epochs", metavar="N", type=int,
        help="maximum number of epochs (default: scvi-tools' own)",
    )  # fmt: skip
    group.add_argument(
        "--batch-size", metavar="N", type=int, default=128, help="cells in a batch of one process"
    )
    group.add_argument(
        "--shuffle", choices=list(SHUFFLES), default="true",
        help="order of the cells of an epoch; none: as stored",
    )  # fmt: skip
    group.add_argument(
        "--dense", action="store_true",
        help="make dense batches in the loader, not on the device of the training",
    )  # fmt: skip
    group.add_argument(
        "--devices", metavar="N", default="auto",
        help="number of processes, one per GPU or on CPUs; auto: one, -1: all GPUs or all cores",
    )  # fmt: skip
    group.add_argument(
        "--accelerator", metavar="NAME", default="auto",
        help="hardware to train on: auto, gpu or cpu",
    )  # fmt: skip
    group.add_argument(
        "--memory", "--memory-budget", metavar="SIZE", default="2GiB",
        help="memory budget of the loader of each process",
    )  # fmt: skip
    group.add_argument(
        "--patience", metavar="EPOCHS", type=int,
        help="epochs without a better validation loss after which training stops "
        f"(default: {model.patience or 'no early stop'})",
    )  # fmt: skip
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the weights and of the noise"
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the results")
    group.add_argument(
        "--plot", metavar="COLUMN", help="obs column that colours a plot of the latent space"
    )
    group.add_argument(
        "--trace", action="store_true",
        help="write the loss of each step, seconds and memory, and a plot of them",
    )  # fmt: skip
    group.add_argument(
        "--output", metavar="FOLDER", default="penstock_scvi",
        help="folder of the results, made if needed",
    )  # fmt: skip
    group.add_argument(
        "--resume", action="store_true", help="resume an interrupted run in --output"
    )
