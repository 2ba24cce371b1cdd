"""``penstock bench train``: training of scVI as cells, processes, layout and shuffle vary."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path
from penstock.cli.parser import add_command
from penstock.cli.train.models import model_name
from penstock.errors import InvalidArgument

from . import shared_options

_LAYOUTS = ("sparse", "dense")
_PASSED_ON = {
    "--unlabeled": ("LABEL", "value of --labels-key that means no label"),
    "--fine-labels-key": ("COLUMN", "obs column of finer labels"),
    "--sample-key": ("COLUMN", "obs column of the sample"),
    "--measurement": ("NAME", "measurement that has the counts (default: RNA)"),
    "--layer": ("NAME", "layer of X with counts (default: raw of SOMA, X of AnnData)"),
    "--protein": ("NAME", "measurement of the proteins, for TOTALVI and MULTIVI"),
    "--regions": ("NAME", "measurement of the accessible regions, for MULTIVI"),
    "--obs-query": ("TEXT", "filter of obs that selects cells (default: all cells)"),
    "--var-query": ("TEXT", "filter of var that selects genes (default: all genes)"),
}  # fmt: skip
_SHUFFLES = ("true", "scatter", "chunks", "global", "none")


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "train",
        help="training of scVI as cells, processes, layout of batches and shuffle vary",
        description="Runs 'penstock train MODEL --trace' for every combination of --cells, --devices, --layout and "
        "--shuffle, in turns. Writes a table, training.parquet, the traces of all runs, and plots: seconds and memory "
        "by cells, and loss by step and memory over time of the most cells. Needs penstock's extra [scvi], too.",
        examples=(
            "penstock bench train cells.soma --cells 2048,8192 --devices 1,2",
            "penstock bench train cells.soma --shuffle none,true --model scanvi --labels-key cell_type --unlabeled unknown",
        ),
    )
    parser.add_argument("uri", metavar="URI", help="path or URI of an experiment")
    group = parser.add_argument_group("what varies; values are separated by commas")
    group.add_argument(
        "--cells", metavar="N,N…", help="numbers of cells, the first ones (default: all)"
    )
    group.add_argument("--devices", metavar="N,N…", default="1",
                       help="numbers of processes, one per GPU or on CPUs")  # fmt: skip
    group.add_argument("--layout", metavar="NAMES", default="sparse",
                       help="sparse: the device makes batches dense; dense: the loader does")  # fmt: skip
    group.add_argument("--shuffle", metavar="NAMES", default="true",
                       help=f"order of the cells: {', '.join(_SHUFFLES)}")  # fmt: skip
    group = parser.add_argument_group("what is the same")
    group.add_argument(
        "--model", default="SCVI", metavar="NAME", help="model of scvi-tools, in any case"
    )
    group.add_argument("--batch-key", metavar="COLUMN", action="append",
                       help="obs column of the batch; if given several times, the columns are joined")  # fmt: skip
    for name, (metavar, text) in _PASSED_ON.items():
        group.add_argument(name, metavar=metavar, help=text)
    group.add_argument("--labels-key", metavar="COLUMN", help="obs column of the cell labels")
    group.add_argument("--n-top-genes", metavar="N", type=int,
                       help="train on the N most variable genes (default: all genes)")  # fmt: skip
    group.add_argument("--epochs", metavar="N", type=int, default=2,
                       help="number of epochs")  # fmt: skip
    group.add_argument("-B", "--batch-size", metavar="N", type=int, default=128,
                       help="cells in a step of all processes together")  # fmt: skip
    group.add_argument("--accelerator", default="auto", metavar="NAME",
                       help="hardware to train on: auto, gpu or cpu")  # fmt: skip
    group.add_argument("--memory", default="2GiB", metavar="SIZE",
                       help="memory budget of the loader of each process")  # fmt: skip
    parser.add_argument("-R", "--rounds", metavar="N", type=int, default=1,
                        help="measurements of each combination")  # fmt: skip
    parser.add_argument("--timeout", type=shared_options.seconds, default=7200.0, metavar="SECONDS",
                        help="time limit of one measurement (default: %(default)g)")  # fmt: skip
    parser.add_argument("--output", metavar="FOLDER", default="penstock_training",
                        help="folder of the results, made if needed")  # fmt: skip
    parser.add_argument("-q", "--quiet", action="count", default=0, help="print less")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Measure, then print the table and draw."""
    from penstock.bench import training

    folder = Path(checked_local_path("--output", parsed.output))
    cases = training.Cases(
        cells=(None,) if parsed.cells is None else _numbers("--cells", parsed.cells),
        devices=_numbers("--devices", parsed.devices),
        layouts=_names("--layout", parsed.layout, _LAYOUTS),
        shuffles=_names("--shuffle", parsed.shuffle, _SHUFFLES),
    )
    batch_size = checked_int("-B", parsed.batch_size, least=1)
    for number in cases.devices:
        if batch_size % number:
            raise InvalidArgument(
                f"-B must be a multiple of the processes, {number}, got {batch_size}"
            )
    rounds = checked_int("-R", parsed.rounds, least=1)
    import matplotlib  # noqa: F401

    from penstock.scvi.registry.model_classes import model_class, name_of

    command = [
        name_of(model_class(model_name(parsed.model))).lower(), parsed.uri, "--epochs",
        str(checked_int("--epochs", parsed.epochs, least=1)), "--accelerator", parsed.accelerator,
        "--memory", parsed.memory,
    ]  # fmt: skip
    for column in parsed.batch_key or ():
        command += ["--batch-key", column]
    for name in ("--labels-key", *_PASSED_ON):
        value = getattr(parsed, name[2:].replace("-", "_"))
        if value is not None:
            command += [name, value]
    if parsed.n_top_genes is not None:
        command += ["--n-top-genes", str(checked_int("--n-top-genes", parsed.n_top_genes, least=1))]
    folder.mkdir(parents=True, exist_ok=True)
    say = shared_options.say(parsed)
    rows = training.measure(cases, command, batch_size, rounds, folder, say, parsed.timeout)
    print(training.table(cases, rows), end="")
    failed = [row["error"] for row in rows if row["status"] != "ok"]
    if len(failed) == len(rows):
        raise InvalidArgument(f"nothing could be measured; of the first: {failed[0]}")
    title = f"{parsed.model}, {plural(parsed.epochs, 'epoch')}"
    for path in [folder / "training.parquet", *training.draw(cases, rows, folder, title)]:
        print(f"  {path}")


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(each.replace("_", "")) for each in text.split(","))
    except ValueError:
        raise InvalidArgument(
            f"{option} must be numbers separated by commas, got {text!r}"
        ) from None
    for number in found:
        checked_int(option, number, least=1)
    return tuple(dict.fromkeys(found))


def _names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in text.split(",")))
    if not set(found) <= set(known):
        raise InvalidArgument(f"{option} must be of {', '.join(known)}, got {text!r}")
    return found
