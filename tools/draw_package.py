"""Draws the layers of the Python package and the imports between them, from import-linter's contract and the sources.

    python tools/draw_package.py docs/design/images/package.svg

A thicker arrow stands for more imports. An arrow that goes up is red: there is none where `make check` passes.
"""

import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"errors", "_core"}  # nearly every module uses them


def layers() -> list[list[str]]:
    """Packages of each layer, top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = project["tool"]["importlinter"]["contracts"]
    rows = [[name.strip() for name in line.split("|")] for line in contract["layers"]]
    return [kept for row in rows if (kept := [name for name in row if name not in LEFT_OUT])]


def imports() -> Counter[tuple[str, str]]:
    """How many imports there are from one package to another."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "python" / "penstock", Path(folder) / "penstock")
        sys.path.insert(0, folder)
        graph = grimp.build_graph("penstock", cache_dir=None)
    found: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            ends = tuple(name.split(".")[1] if "." in name else "" for name in (module, other))
            if ends[0] != ends[1] and all(ends):
                found[ends[0], ends[1]] += 1
    return found


def files(name: str) -> tuple[int, int]:
    """Number of a package's files, and of their lines."""
    path = ROOT / "python" / "penstock" / name
    sources = [*path.rglob("*.py")] if path.is_dir() else [path.with_suffix(".py")]
    return len(sources), sum(len(source.read_text().splitlines()) for source in sources)


def main() -> None:
    rows = layers()
    place = {
        name: ((i + 0.5) / len(row), -float(level))
        for level, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    figure, axes = plt.subplots(figsize=(11, 1.05 * len(rows)), layout="constrained")
    found = {edge: count for edge, count in imports().items() if set(edge) <= set(place)}
    for (source, target), count in sorted(found.items()):
        (x0, y0), (x1, y1) = place[source], place[target]
        up = y1 >= y0
        axes.annotate(
            "",
            (x1, y1 + 0.2),
            (x0, y0 - 0.2),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#c0392b" if up else "#1b7f8c",
                "alpha": 1.0 if up else 0.25 + min(0.5, count / 80),
                "linewidth": 0.6 + min(2.5, count / 20),
                "connectionstyle": f"arc3,rad={0.06 * (1 if x1 >= x0 else -1) * min(3, y0 - y1 - 1)}",
            },
        )
    for name, (x, y) in place.items():
        count, lines = files(name)
        text = f"{name}\n{count} file{'s' * (count > 1)}, {lines:,} lines"
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "#1b7f8c"}
        axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)
    axes.set(xlim=(0, 1), ylim=(0.6 - len(rows), 0.6))
    axes.axis("off")
    matplotlib.rcParams["svg.hashsalt"] = "package"  # the same picture for the same sources
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
