"""docs/reference/benchmarks.md documents the options of each command."""

from __future__ import annotations

import argparse

from conftest import ROOT
from penstock.cli import build_parser

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
SIDES = {"compare", "shuffle", "slicing", "remote"}
MEASURING = {"data-loader", "read-chunks", "scale", "tune", *SIDES}


def below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Parsers of a parser's commands."""
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def test_options_are_those_of_the_commands() -> None:
    commands = below(below(build_parser())["bench"])
    table = PAGE.read_text().split("| option | what | of |")[1].split("\n\n")[0]
    lines = table.splitlines()[2:]
    assert len(lines) == 22
    for line in lines:
        option, _, of = (cell.strip() for cell in line.strip("|").split("|"))
        spelled = [each.strip(" `") for each in option.split(",")]
        said = {each.strip(" `") for each in of.split(",")}
        if "sides" in said:
            said = said - {"sides"} | SIDES
        having = {
            name
            for name in MEASURING
            for action in commands[name]._actions
            if action.option_strings == spelled
        }
        assert said == having, option


#: Letters of each command of alb at 100b4fe, by the name of ours.
ALB = {
    "data-loader": "bBCdEFgmMnPqrzcesSuVv",
    "download": "dfncesSuVv",
    "plot": "aADhinoOrs",
    "read-chunks": "cPrsSvV",
}


def test_every_letter_of_alb_is_an_option_or_in_the_table() -> None:
    commands = below(below(build_parser())["bench"])
    table = PAGE.read_text().split("| `alb` | letter | there | here |")[1].split("\n\n")[0]
    told: dict[str, set[str]] = {name: set() for name in ALB}
    names: list[str] = []
    for line in table.splitlines()[2:]:
        whose, letters, _, here = (cell.strip() for cell in line.strip("|").split("|"))
        if whose:
            names = [name for name in ALB if f"`{name}`" in whose]
        for name in names:
            spelled = {each.strip(" `") for each in letters.split(",")}
            told[name] |= {each.lstrip("-") for each in spelled}
            if here.startswith("the same"):
                assert spelled <= set(commands[name]._option_string_actions), name
    for name, letters in ALB.items():
        options = {each[1] for each in commands[name]._option_string_actions if each[1] != "-"}
        assert set(letters) <= options | told[name], name
        assert {each for each in told[name] if len(each) == 1} <= set(letters), name
