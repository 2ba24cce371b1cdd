"""Figures of matplotlib that the code under test saves."""

from __future__ import annotations

from typing import Any

import pytest


def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which every figure is added when it is saved."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    real = Figure.savefig

    def savefig(self: Any, *arguments: Any, **named: Any) -> None:
        figures.append(self)
        real(self, *arguments, **named)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return figures
