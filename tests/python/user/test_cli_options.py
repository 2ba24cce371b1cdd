"""Errors of the command line name its options, not Python arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Oracle
from penstock.cli import build_parser, main
from penstock.cli.options import in_options


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--epochs", "0", "--epochs must be 1 or more, got 0"),
        ("--memory", "x", "--memory must be a number of bytes or text such as"),
        ("--memory", "10KiB", "--memory is too small: 10240 bytes"),
        ("--memory", "2", "--memory '2' is 2 bytes; did you mean '2GiB'?"),
        ("--devices", "0", "--devices must be 1 or more, -1 for all"),
        ("--batch-size", "0", "--batch-size must be 1 or more, got 0"),
        ("--latent", "0", "--latent must be 1 or more, got 0"),
        ("--patience", "-1", "--patience must be 0 or more, got -1"),
        ("--seed", "-1", "--seed must be 0 or more, got -1"),
        ("--seed", str(2**64), f"--seed must be {2**63 - 1} or less"),
        ("--accelerator", "x", "--accelerator must be one of auto,"),
        ("--model", "x", "--model must be one of SCVI,"),
        ("--n-samples-per-label", "3", "--n-samples-per-label needs SCANVI"),
        ("--unlabeled", "x", "SCVI takes no --unlabeled, got 'x'"),
        ("--obs-query", "batch_size", "--obs-query: expected a condition such as"),
        ("--var-query", "1 +", "--var-query: "),
    ],
)
def test_train_names_its_options(
    cells: Oracle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    said: str,
) -> None:
    pytest.importorskip("scvi")
    arguments = [
        "train",
        "scvi",
        str(cells.path),
        "--output",
        str(tmp_path),
        "--accelerator",
        "cpu",
    ]
    assert main([*arguments, option, value]) == 1
    assert capsys.readouterr().err.startswith(f"penstock: {said}")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epochs", "0"),
        ("--memory", "x"),
        ("--devices", "0"),
        ("--batch-size", "0"),
        ("--patience", "-1"),
        ("--seed", str(2**64)),
        ("--accelerator", "x"),
        ("--model", "x"),
        ("--n-samples-per-label", "3"),
        ("--unlabeled", "x"),
    ],
)
def test_train_checks_its_arguments_before_it_writes(
    tmp_path: Path, option: str, value: str
) -> None:
    pytest.importorskip("scvi")
    folder = tmp_path / "results"
    arguments = ["train", "scvi", "pbmc3k", "--output", str(folder), "--accelerator", "cpu"]
    assert main([*arguments, option, value]) == 1
    assert not folder.exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--memory", "10KiB", "--memory is too small: 10240 bytes"),
        ("--memory", "2", "--memory '2' is 2 bytes; did you mean '2GiB'?"),
        ("--filter", "x", "--filter: expected a condition such as"),
    ],
)
def test_demo_names_its_options(
    soma_small: Oracle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    said: str,
) -> None:
    arguments = ["demo", "--data", str(soma_small.path), "--output", str(tmp_path)]
    assert main([*arguments, option, value]) == 1
    assert capsys.readouterr().err.startswith(f"penstock: {said}")


@pytest.mark.parametrize(
    ("command", "option", "value", "said"),
    [
        ("compare", "--seed", "-1", "--seed must be 0 or more, got -1"),
        ("compare", "--seed", str(2**64), f"--seed must be {2**63 - 1} or less"),
        ("data-loader", "--seed", "-1", "--seed must be 0 or more, got -1"),
        ("read-chunks", "-r", "-1", "-r must be 0 or more, got -1"),
        ("read-chunks", "-V", "0", "-V must be 1 or more, got 0"),
        ("compare", "--filter", "x", "--filter: expected a condition such as"),
    ],
)
def test_bench_names_its_options(
    soma_small: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", command, str(soma_small.path), option, value]) == 1
    assert capsys.readouterr().err.startswith(f"penstock: {said}")


TRAIN = ["train", "scvi", "URI"]
COMPARE = ["bench", "compare", "URI"]


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        (TRAIN, "it is of epoch 9, and max_epochs=1: give more", "it is of epoch 9, and --epochs 1: give more"),
        (TRAIN, "start over with resume=False", "start over without --resume"),
        (TRAIN, "a folder goes with resume=True", "a folder goes with --resume"),
        (TRAIN, "SCANVI needs unlabeled_category=", "SCANVI needs --unlabeled"),
        (COMPARE, "nothing: InvalidArgument: batch_size must be 9", "nothing: InvalidArgument: -B must be 9"),
        (COMPARE, "nothing: InvalidArgument: threads must be 9", "nothing: InvalidArgument: --threads must be 9"),
        (["bench", "tune"], "memory_budget is too small", "--budgets is too small"),
        (["bench", "scale"], "memory_budget is too small", "--memory-budget is too small"),
        # Not an argument, or not one of this command.
        (TRAIN, "obs_query: found 'batch_size'\n  batch_size\n  ^", "--obs-query: found 'batch_size'\n  batch_size\n  ^"),
        (TRAIN, "it is in /data/batch_size/soma", "it is in /data/batch_size/soma"),
        (TRAIN, "the layer must have rows", "the layer must have rows"),
        (TRAIN, "devices=4, but torch finds 0 GPUs", "--devices 4, but torch finds 0 GPUs"),
        (["bench", "scale"], "give them as cells=1,2", "give them as cells=1,2"),
        (["info", "PATH"], "batch_size must be 9", "batch_size must be 9"),
        (COMPARE, "-M max_batches: a column of this name is measured", "-M max_batches: a column of this name is measured"),
    ],
)  # fmt: skip
def test_arguments_and_what_looks_like_one(command: list[str], message: str, said: str) -> None:
    parser = build_parser()
    assert in_options(message, parser, parser.parse_args(command)) == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--memory", "2"], "--memory '2' is 2 bytes; did you mean '2GiB'?"),
        (
            ["bench", "tune", "x", "--budgets", "2"],
            "--budgets '2' is 2 bytes; did you mean '2GiB'?",
        ),
    ],
)
def test_a_budget_of_a_few_bytes_is_told_first(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert capsys.readouterr() == ("", f"penstock: {said}\n")
