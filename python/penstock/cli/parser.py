"""Parsers of commands: defaults in help texts, examples below them, and "did you mean"."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from penstock.base.suggestions import nearest
from penstock.base.text import printable

#: Start of an epilog whose lines are kept.
_EXAMPLES = "examples:"


class _Formatter(argparse.HelpFormatter):
    """Prints the default of each option that has one, and examples line by line."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        given = action.default
        has_none = given is None or given is argparse.SUPPRESS or given in ([], "")
        if has_none or action.nargs == 0 or "(default" in text:
            return text
        return f"{text} (default: %(default)s)"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES):
            return textwrap.indent(text, indent)
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors about unknown commands and options say what is near.

    Names of commands may be in any case.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **given})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; an unknown one is an error of the command that it was given to."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """End with a message about an argument, without the control characters that it may have."""
        super().error(printable(message))

    def _unknown(self, unknown: Sequence[str]) -> str:
        options = [each for each in unknown if each.startswith("-") and each != "-"]
        if not options:
            return f"unexpected argument {unknown[0]!r}"
        name = options[0].partition("=")[0]
        known = [
            option
            for action in self._actions
            if action.help is not argparse.SUPPRESS
            for option in action.option_strings
        ]
        near = nearest(name, known)
        return f"unknown option {name}" + (f": did you mean {near}?" if near else "")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if isinstance(action, argparse._SubParsersAction) and arg_strings:
            name = arg_strings[0].lower()
            if name in action.choices:
                arg_strings = [name, *arg_strings[1:]]
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if not isinstance(action, argparse._SubParsersAction):
            super()._check_value(action, value)
        elif value not in action.choices:
            what = f"unknown {str(action.metavar).lower()} {value!r}"
            paths = dict(_below(action))
            near = nearest(value, paths)
            if near:
                self.error(f"{what}: did you mean '{self.prog} {paths[near]}'?")
            self.error(f"{what}: there are {', '.join(action.choices)}")


def _below(action: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each command, those below others first."""
    for name, parser in action.choices.items():
        for each in parser._actions:
            if isinstance(each, argparse._SubParsersAction):
                yield from _below(each, f"{before}{name} ")
    for name in action.choices:
        yield name, f"{before}{name}"


def add_command(
    commands: Any, name: str, *, help: str, description: str, examples: Iterable[str]
) -> argparse.ArgumentParser:
    """Add a command and return its parser; each example is a command line."""
    lines = "".join(f"\n  $ {line}" for line in examples)
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=description, epilog=_EXAMPLES + lines
    )
    return made


def add_group(
    commands: Any, name: str, *, help: str, description: str, examples: Iterable[str], metavar: str
) -> Any:
    """Add a command that has commands of its own; alone, it prints its help."""
    parser = add_command(commands, name, help=help, description=description, examples=examples)
    return commands_of(parser, f"{name}_command", metavar)


def commands_of(parser: argparse.ArgumentParser, dest: str, metavar: str = "COMMAND") -> Any:
    """Return the commands of a parser; without one of them, it prints its help."""
    parser.set_defaults(run=lambda parsed: parser.print_help())
    return parser.add_subparsers(dest=dest, metavar=metavar)
