"""Help texts, examples, "did you mean", the commands of models, and completion in a shell."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from penstock.cli import build_parser, main
from penstock.cli.train.models import MODELS


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


ALL = {parser.prog: parser for parser in parsers(build_parser())}


def is_group(parser: argparse.ArgumentParser) -> bool:
    return any(isinstance(each, argparse._SubParsersAction) for each in parser._actions)


def unfolded(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_every_command_is_here() -> None:
    assert len(ALL) == 1 + 7 + len(MODELS) + 12


@pytest.mark.parametrize("name", ALL)
def test_h_is_help_and_nothing_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-h", "--help"):
        with pytest.raises(SystemExit) as ended:
            main([*name.split()[1:], flag])
        assert ended.value.code == 0
        assert capsys.readouterr().out == ALL[name].format_help()


@pytest.mark.parametrize("name", [name for name, each in ALL.items() if is_group(each)])
def test_a_command_of_commands_alone_prints_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(name.split()[1:]) == 0
    assert capsys.readouterr().out == ALL[name].format_help()


@pytest.mark.parametrize("name", ALL)
def test_a_help_text_stands_alone(name: str) -> None:
    """Each option has a text of two words or more, and its default as argparse knows it."""
    parser = ALL[name]
    formatted = unfolded(parser.format_help())
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        label = "/".join(action.option_strings) or action.dest
        assert action.help, label
        assert len(re.sub(r"\(.*\)", "", action.help).split()) >= 2, label
        default = action.default
        if action.nargs == 0 or default in (None, argparse.SUPPRESS, "", []):
            continue
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        if isinstance(default, list):
            continue  # of positional arguments, told in words
        text = unfolded(parser._get_formatter()._expand_help(action))
        assert f"(default: {shown})" in text, label
        assert text in formatted


@pytest.mark.parametrize("name", ALL)
def test_examples_are_command_lines_that_work(name: str) -> None:
    epilog = ALL[name].epilog
    assert epilog.startswith("examples:\n")
    lines = [line.removeprefix("  $ ") for line in epilog.splitlines()[1:]]
    assert len(lines) >= 2
    assert epilog in ALL[name].format_help(), "line by line"
    for line in lines:
        assert line == name or line.startswith(f"{name} ")
        parsed = build_parser().parse_args(shlex.split(line)[1:])
        assert callable(parsed.run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("inof x", "penstock: error: unknown command 'inof': did you mean 'penstock info'?"),
        ("tune x", "penstock: error: unknown command 'tune': did you mean 'penstock bench tune'?"),
        ("trian scvi", "unknown command 'trian': did you mean 'penstock train'?"),
        ("xyzzy", "unknown command 'xyzzy': there are info, index, pack, demo, train, synth, bench"),
        ("bench compre", "penstock bench: error: unknown command 'compre': did you mean 'penstock bench compare'?"),
        ("train SCANVY x", "penstock train: error: unknown model 'SCANVY': did you mean 'penstock train scanvi'?"),
        ("train cells.h5ad", "unknown model 'cells.h5ad': there are scvi, linearscvi, scanvi, "),
        ("train scvi x --max-epochs 3", "penstock train scvi: error: unknown option --max-epochs: did you mean --epochs?"),
        ("train scvi x --n-latent=3", "unknown option --n-latent: did you mean --latent?"),
        ("train scvi x --protien ADT", "unknown option --protien"),  # SCVI has no proteins
        ("train totalvi x --protien ADT", "unknown option --protien: did you mean --protein?"),
        ("train scanvi x --model SCVI", "penstock train scanvi: error: unknown option --model"),
        ("info x --xyzzy", "penstock info: error: unknown option --xyzzy\n"),
        ("info x y", "penstock info: error: unexpected argument 'y'"),
        ("--versoin info x", "penstock: error: unknown option --versoin: did you mean --version?"),
    ],
)  # fmt: skip
def test_did_you_mean(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: penstock")
    assert said in error
    assert error.count("unknown") <= 1


def test_models_are_commands() -> None:
    model_classes = pytest.importorskip("penstock.scvi.registry.model_classes")
    assert tuple(model.name for model in MODELS.values()) == model_classes.NAMES
    for name in model_classes.NAMES:
        for given in (name, name.lower(), name.upper()):
            assert build_parser().parse_args(["train", given, "x"]).model == name
            former = build_parser().parse_args(["train", "scvi", "x", "--model", given])
            assert former.model == name


@pytest.mark.parametrize("command", MODELS)
def test_a_model_shows_the_options_that_it_takes(command: str) -> None:
    """Those that scvi-tools' `setup_anndata` or `setup_mudata` has."""
    model_classes = pytest.importorskip("penstock.scvi.registry.model_classes")
    model = model_classes.model_class(MODELS[command].name)
    takes = set(inspect.signature(model.setup_anndata).parameters)
    if hasattr(model, "setup_mudata"):
        takes |= set(inspect.signature(model.setup_mudata).parameters)
    of_ours = {
        "labels_key": "labels_key", "fine_labels_key": "fine_labels_key", "sample_key": "sample_key",
        "unlabeled": "unlabeled_category", "categorical": "categorical_covariate_keys",
        "continuous": "continuous_covariate_keys", "protein": "protein_layer", "regions": "atac_layer",
    }  # fmt: skip
    shown = ALL[f"penstock train {command}"].format_usage()
    for ours, theirs in of_ours.items():
        assert (f"--{ours.replace('_', '-')} " in shown) == (theirs in takes), ours
    assert ("--n-samples-per-label" in shown) == (command == "scanvi")


def completed(line: str, folder: Path) -> list[str]:
    """What argcomplete answers the shell for a line."""
    answer = folder / "answer"
    environment = {
        **os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "63",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "penstock"], env=environment, cwd=folder, check=False, timeout=120
    )
    return [each.strip() for each in answer.read_text().splitlines()]


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    assert {"info", "index"} <= set(completed("penstock in", tmp_path))
    assert completed("penstock bench tu", tmp_path) == ["tune"]
    assert completed("penstock train scanvi x --unl", tmp_path) == ["--unlabeled"]
    assert completed("penstock train scvi x --unl", tmp_path) == [], "which SCVI does not take"
    assert set(completed("penstock train scvi x --shuffle s", tmp_path)) == {"scatter"}
    (tmp_path / "cells.h5ad").touch()
    assert completed("penstock info ce", tmp_path) == ["cells.h5ad"]


def test_a_shell_finds_the_mark_of_argcomplete() -> None:
    """It is looked for in the first 1,024 bytes of the module that the command starts."""
    import penstock.cli

    assert b"PYTHON_ARGCOMPLETE_OK" in Path(penstock.cli.__file__).read_bytes()[:1024]


def test_without_argcomplete_a_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: penstock")
