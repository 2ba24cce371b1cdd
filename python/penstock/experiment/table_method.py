"""A method that returns a table, and is also used as the table of its default."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from .data_frame import DataFrame


class BoundTable:
    """``exp.var``: ``exp.var("protein")`` is a table, and ``exp.var.head()`` is ``exp.var().head()``."""

    def __init__(self, method: Callable[..., DataFrame], owner: Any) -> None:
        functools.update_wrapper(self, method)
        self._method, self._owner = method, owner

    def __call__(self, *arguments: Any, **named: Any) -> DataFrame:
        """Return the table that the method returns."""
        return self._method(self._owner, *arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and inspecting ask for these
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self(), name)

    def __getitem__(self, key: Any) -> Any:
        return self()[key]

    def __iter__(self) -> Any:
        return iter(self())

    def __len__(self) -> int:
        return len(self())

    def __repr__(self) -> str:
        return repr(self())

    def _repr_html_(self) -> str:
        return self()._repr_html_()


class table_method:  # noqa: N801  (a decorator)
    """Decorator of a method that returns a `DataFrame` for any arguments, also for none."""

    def __init__(self, method: Callable[..., DataFrame]) -> None:
        self._method = method

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., DataFrame]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> BoundTable: ...

    def __get__(self, owner: Any, kind: type) -> Any:
        return self._method if owner is None else BoundTable(self._method, owner)
