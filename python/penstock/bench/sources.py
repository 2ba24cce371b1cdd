"""Paths to the cells of a target in the format of each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ResourceExhausted, Unsupported

from .exports.cells import Cells
from .exports.kept import kept_export
from .methods import Method
from .target import Target


@dataclass
class Sources:
    """Paths by kind: given ones, or exports that are made when a method first needs them."""

    target: Target
    given: Mapping[str, str] = field(default_factory=dict)
    make: bool = True
    say: Callable[[str], object] = print

    def path(self, method: Method) -> str:
        """Return the path for a method.

        Raises
        ------
        Unsupported
            No path is given, and no export can be made.
        """
        kind = method.source
        if kind == "experiment":
            return self.target.uri
        if kind in self.given:
            return self.given[kind]
        if not self.make or not self.target.is_local:
            raise Unsupported(f"{method.name} is left out: it reads a {kind}; give it by --{kind}")
        target = self.target
        everything = kind == "pack"  # Penstock selects cells and genes itself
        cells = Cells(
            target.uri,
            target.measurement,
            target.layer,
            None if everything else target.obs_filter,
            None if everything else target.n_vars,
        )
        try:
            return str(kept_export(cells, kind, self.say))
        except (
            RuntimeError,
            ResourceExhausted,
            Unsupported,
        ) as error:  # mostly from another program
            raise Unsupported(f"{method.name} is left out: {error}") from None

    def selection(self, method: Method) -> dict[str, Any]:
        """Return the selection that the method must make itself; none for our exports.

        For a given file, only the first genes are selected. No method can apply a filter of obs to
        it; the result is then marked wrong.
        """
        if method.source in ("experiment", "pack"):
            return {"obs_filter": self.target.obs_filter, "n_vars": self.target.n_vars}
        n_vars = self.target.n_vars if method.source in self.given else None
        return {"obs_filter": None, "n_vars": n_vars}
