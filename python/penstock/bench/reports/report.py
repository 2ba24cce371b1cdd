"""The page of a comparison: target, machine, method and results."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import InvalidArgument

from ..machine import described
from . import plot
from .comparison import contestants, good, markdown
from .results_file import append, read_all

_METHOD = """\
Each measurement is a separate process; methods take turns, in reverse order every other round. `whole epoch` includes
opening in a process's first epoch; `after the first batch` excludes opening and the first batch. Imports are not
counted. Peak USS is sampled over the whole process tree; peak RSS is the kernel's peak of the process. The page cache
is {cache}.
Figures are the median (minimum to maximum) of the rounds; ratios are within a round. A whole epoch counts only if each
cell was yielded once; an epoch that was cut has no figure for the whole.
"""


#: First line of a page; only pages with this line are replaced.
MARK = "<!-- made by penstock bench compare --report, which replaces it -->"
_PARQUET = "measurements.parquet"


def check_folder(folder: Path) -> None:
    """Check the folder of a page before anything is measured.

    Raises
    ------
    InvalidArgument
        The folder holds a page or measurements that no comparison made.
    OSError
        The folder is not writable.
    """
    page = folder / "README.md"
    if page.exists() and not page.read_text(errors="replace").startswith(MARK):
        raise InvalidArgument(
            f"--report would replace {page}, which is no page of penstock bench compare: give another "
            "folder, or remove it"
        )
    if not page.exists() and (folder / _PARQUET).exists():
        raise InvalidArgument(f"--report would replace {folder / _PARQUET}: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def write_report(
    folder: Path, rows: Sequence[Mapping[str, Any]], *, title: str, command: str, reference: str,
    target: str, note: str = "",
) -> Path:  # fmt: skip
    """Write ``README.md``, ``measurements.parquet`` and ``speed_vs_memory.{png,svg,json}``.

    Measurements in the folder are replaced. The page gives the command for an interactive plot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parquet = folder / _PARQUET
    parquet.unlink(missing_ok=True)
    append(parquet, rows)
    picture = ""
    if any(good(mine) for mine in contestants(rows).values()):
        epoch = 1 + max(int(row["epoch"]) for row in good(rows))
        several = epoch > 1
        frame = plot.filtered(read_all([parquet]), epoch=epoch)
        drawn = plot.figure(frame, f"{title}, epoch {epoch}" if several else title)
        plot.write(drawn, frame, folder / "speed_vs_memory", ("json", "png", "svg"))
        picture = (
            f"![Cells a second against memory{f', epoch {epoch}' * several}](speed_vs_memory.png)\n\n"
            "The same to hover over: `penstock bench plot measurements.parquet"
            f"{f' --epoch {epoch}' * several}`.\n"
        )
    lines = [
        MARK,
        "",
        f"# {title}",
        "",
        f"`{command}`, {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; not written by hand.",
        "",
        f"{described()}{_commit(rows)}. Load average before the first measurement: {rows[0]['load_average']:.1f}.",
        "",
        *_versions(rows),
        "",
        target,
        "",
        _METHOD.format(cache=_cache_words(rows)),
        *([note, ""] if note else []),
        markdown(rows, reference),
        picture,
    ]
    page = folder / "README.md"
    page.write_text("\n".join(lines).rstrip() + "\n")
    return page


def _commit(rows: Sequence[Mapping[str, Any]]) -> str:
    sha = rows[0].get("sha")
    return f"; commit {sha}" if sha else ""


def _versions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each environment, with the methods that ran in it."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        methods.setdefault(row["versions"] or "{}", []).append(str(row["method"]))
    lines = []
    for text, names in methods.items():
        versions = ", ".join(f"{k} {v}" for k, v in sorted(json.loads(text).items()))
        lines.append(f"- {', '.join(dict.fromkeys(names))}: {versions or 'nothing known'}")
    return lines


def _cache_words(rows: Sequence[Mapping[str, Any]]) -> str:
    words = {"warm": "warm (every file was read once before)", "cold": "dropped before each measurement",
             "as-is": "left as it is"}  # fmt: skip
    resident = [row["cache_resident"] for row in rows if row["cache_resident"] is not None]
    share = ""
    if resident:
        least, most = f"{min(resident):.0%}", f"{max(resident):.0%}"
        share = f"; {least if least == most else f'{least} to {most}'} of the source was resident"
    return words.get(str(rows[0]["cache"]), str(rows[0]["cache"])) + share
