"""Error messages of a command, with its options in place of Python arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

#: Options for arguments of another name; a command has one of them.
_OPTIONS = {
    "categorical_covariate_keys": ("--categorical",),
    "consolidated": ("--consolidated",),
    "continuous_covariate_keys": ("--continuous",),
    "early_stopping": ("--patience",),
    "early_stopping['patience']": ("--patience",),
    "max_epochs": ("--epochs",),
    "mean_genes_per_cell": ("--genes-per-cell",),
    "memory_budget": ("--memory", "--budgets"),
    "n_cells": ("--cells",),
    "n_datasets": ("--datasets",),
    "n_fragments": ("--fragments",),
    "n_genes": ("--genes",),
    "n_latent": ("--latent",),
    "obs_query": ("--filter",),
    "unlabeled_category": ("--unlabeled",),
    "value_filter": ("--filter",),
}


def in_options(message: str, parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> str:
    """Return the message with the names of arguments replaced by options of the command.

    Only the first line is changed, because a filter of the user may follow. A message that starts
    with an option is from the command itself and stays as it is.
    """
    first, newline, rest = message.partition("\n")
    if first.startswith("-"):
        return message
    actions = list(_given_options(parser, parsed))
    flags = {action.option_strings[0] for action in actions if action.nargs == 0}
    named = _by_argument(actions)
    for argument in sorted(named, key=len, reverse=True):
        option = named[argument]
        name = rf"(?<![\w'\"/.-]){re.escape(argument)}"
        if option in flags:
            first = re.sub(rf"(?:with )?{name}=False\b", f"without {option}", first)
            first = re.sub(rf"{name}=True\b", option, first)
        if "_" not in argument and argument not in _OPTIONS:
            # In the middle of a sentence, such a word may mean something else.
            name = rf"(?:^|(?<=: )){re.escape(argument)}(?= must |=[\w'])"
        first = re.sub(rf"{name}=(?=[\w'])", f"{option} ", first)
        first = re.sub(rf"{name}(?![\w'\"/]|\.\w)=?", option, first)
    return first + newline + rest


def _by_argument(actions: list[argparse.Action]) -> dict[str, str]:
    """Return the option for each argument."""
    named = {action.dest: action.option_strings[0] for action in actions}
    there = {option for action in actions for option in action.option_strings}
    for argument, options in _OPTIONS.items():
        for option in options:
            if option in there:
                named.setdefault(argument, option)
    return named


def _given_options(
    parser: argparse.ArgumentParser, parsed: argparse.Namespace
) -> Iterator[argparse.Action]:
    """Yield the options of the given command and of its parent commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from _given_options(action.choices[getattr(parsed, action.dest)], parsed)
        elif action.option_strings:
            yield action
