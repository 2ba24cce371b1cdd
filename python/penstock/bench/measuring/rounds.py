"""Rounds of measurements: contestants take turns, so that all see the same machine state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .measurement import Measurement, with_labels


def in_rounds(contestants: Sequence[Measurement], rounds: int) -> Iterator[Measurement]:
    """Yield each contestant once per round; every other round is in reverse order."""
    for number in range(rounds):
        order = contestants if number % 2 == 0 else contestants[::-1]
        for each in order:
            yield with_labels(each, round=number, contestant=each.label)


def with_budgets(
    contestants: Sequence[Measurement], budgets: Sequence[str | None]
) -> list[Measurement]:
    """Return Penstock's contestants once per memory budget, and the others unchanged."""
    found: list[Measurement] = []
    for each in contestants:
        if each.method.loader != "penstock":
            found.append(each)
            continue
        for budget in budgets:
            work = replace(each.request.work, memory_budget=budget)
            found.append(replace(each, request=replace(each.request, work=work)))
    return found
