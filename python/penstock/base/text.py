"""Numbers, tables and titles for people: at a prompt, in a notebook, in messages."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

# Uses the colours of the page, dark or light.
_STYLE = (
    "border-collapse:collapse;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;"
    "margin:4px 0 8px 0"
)
_CELL = "text-align:left;padding:2px 14px 2px 0;border:none;vertical-align:top"
_HEAD = f"{_CELL};opacity:.6;font-weight:normal;border-bottom:1px solid rgba(128,128,128,.4)"
_TITLE = "font-family:system-ui,sans-serif;font-size:13px;margin:2px 0"

#: Characters by which a name in a store could change the terminal, or the order of what is read there.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def count(number: int) -> str:
    """Return the number with thousands separators: 12,345."""
    return f"{number:,}"


def size(n_bytes: float, *, up: bool = False) -> str:
    """Return bytes as text: 512 B, 1.5 MiB. `up` rounds up, for a size that is needed."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        shown = math.ceil(n_bytes * 10) / 10 if up else round(n_bytes, 1)
        if shown < 1024 or unit == "TiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.0f} B" if unit == "B" else f"{shown:.1f} {unit}"


def plural(number: int, noun: str) -> str:
    """Return number and noun: 1 fragment, 1,234 fragments, 2 batches."""
    if number == 1:
        return f"1 {noun}"
    return f"{count(number)} {noun}{'es' if noun.endswith(('tch', 's')) else 's'}"


def aligned(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return lines with aligned columns; columns in `right` are right-aligned."""
    cells = [list(row) for row in rows]
    right = set(right)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, one line per row. A row may leave out its last cells."""
    lines = [header, ["---"] * len(header)]
    for row in rows:
        cells = [cell.replace("|", "/").replace("\n", " ") for cell in row]
        lines.append(cells + [""] * (len(header) - len(cells)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_html(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table as HTML, in the colours of the page."""
    lines = [f'<table style="{_STYLE}">']
    if head:
        cells = "".join(f'<th style="{_HEAD}">{html.escape(cell)}</th>' for cell in head)
        lines.append(f"<tr>{cells}</tr>")
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row)
        lines.append(f'<tr style="background:none">{cells}</tr>')
    return "".join([*lines, "</table>"])


def title_html(title: str, detail: str) -> str:
    """Return a bold title and a detail as HTML."""
    return (
        f'<div style="{_TITLE}"><b>{html.escape(title)}</b> '
        f'<span style="opacity:.7">{html.escape(detail)}</span></div>'
    )


def block_html(title: str, detail: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the HTML repr of an object with a title and rows of facts."""
    return title_html(title, detail) + table_html(rows)


def printable(text: str) -> str:
    r"""Return a text whose control characters, except newlines and tabs, are escaped as ``\x1b``."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROLS.sub(escaped, text)
