"""``penstock train``: train a model of scvi-tools from stored cells; a command for each model."""

from __future__ import annotations

from typing import Any

from penstock.cli.parser import add_command, add_group

from .models import MODELS, model_name
from .options import add_options
from .run import run

__all__ = ["add_arguments", "model_name"]


def add_arguments(commands: Any) -> None:
    """Add the command and those below it to the parser."""
    below = add_group(
        commands, "train", metavar="MODEL",
        help="train a model of scvi-tools from an experiment, on one process or several",
        description="Trains a model of scvi-tools, and writes into a folder: the model as scvi-tools "
        "saves it, the latent representation of every cell, and the history. Needs "
        "penstock's extra [scvi].",
        examples=("penstock train scvi pbmc3k --epochs 20 --plot cell_type",
                  "penstock train scanvi cells.h5ad --labels-key cell_type --unlabeled unknown"),
    )  # fmt: skip
    for model in MODELS.values():
        parser = add_command(
            below, model.command, help=model.what,
            description=f"Trains {model.name} of scvi-tools: {model.what}. Writes into a folder the "
            "model as scvi-tools saves it, the latent representation of every cell, and the "
            "history. Needs penstock's extra [scvi].",
            examples=[f"penstock train {model.command} {each}" for each in model.examples],
        )  # fmt: skip
        add_options(parser, model)
        parser.set_defaults(run=run)
