"""Draws the layers of the Python package and the imports between them, from import-linter's contract and the sources.

    python tools/draw_package.py docs/design/images/package.svg
    python tools/draw_package.py --check docs/design/images/package.svg

A thicker arrow stands for more imports. An arrow that goes up is red: there is none where `make check` passes. The
picture's description lists layers and arrows, without numbers. --check compares it with the sources.
"""

import html
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"errors", "_core"}  # nearly every module uses them

Places = dict[str, tuple[float, float]]
Edges = Counter[tuple[str, str]]


def layers() -> list[list[str]]:
    """Packages of each layer, top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("containers") == ["penstock"])
    rows = [[name.strip() for name in line.split("|")] for line in contract["layers"]]
    return [kept for row in rows if (kept := [name for name in row if name not in LEFT_OUT])]


def imports(names: set[str]) -> Edges:
    """Number of imports from one of these packages to another."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "python" / "penstock", Path(folder) / "penstock")
        sys.path.insert(0, folder)
        graph = grimp.build_graph("penstock", cache_dir=None)
    found: Edges = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            ends = tuple(name.split(".")[1] if "." in name else "" for name in (module, other))
            if ends[0] != ends[1] and names.issuperset(ends):
                found[ends[0], ends[1]] += 1
    return found


def description(rows: list[list[str]], edges: Edges) -> str:
    """Return the layers and the arrows as text."""
    layers_text = " / ".join(", ".join(row) for row in rows)
    arrows = "; ".join(f"{source} imports {target}" for source, target in sorted(edges))
    return f"Layers: {layers_text}. Arrows: {arrows}."


def draw(rows: list[list[str]], edges: Edges, path: Path) -> None:
    """Draw layers and arrows into a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    place: Places = {
        name: ((i + 0.5) / len(row), -float(level))
        for level, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    figure, axes = plt.subplots(figsize=(11, 0.9 * len(rows)), layout="constrained")
    for (source, target), count in sorted(edges.items()):
        (x0, y0), (x1, y1) = place[source], place[target]
        up = y1 >= y0
        axes.annotate(
            "",
            (x1, y1 + 0.15),
            (x0, y0 - 0.15),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#c0392b" if up else "#1b7f8c",
                "alpha": 1.0 if up else 0.25 + min(0.5, count / 80),
                "linewidth": 0.6 + min(2.5, count / 20),
                "connectionstyle": f"arc3,rad={0.06 * (1 if x1 >= x0 else -1) * min(3, y0 - y1 - 1)}",
            },
        )
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "#1b7f8c"}
        axes.text(x, y, name, ha="center", va="center", fontsize=10, bbox=box)
    axes.set(xlim=(0, 1), ylim=(0.6 - len(rows), 0.6))
    axes.axis("off")
    matplotlib.rcParams["svg.hashsalt"] = "package"  # the same picture for the same sources
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Date": None, "Description": description(rows, edges)})


def main() -> None:
    *options, path = sys.argv[1:]
    rows = layers()
    edges = imports({name for row in rows for name in row})
    if options != ["--check"]:
        draw(rows, edges, Path(path))
    elif html.escape(description(rows, edges), quote=False) not in Path(path).read_text():
        sys.exit(f"{path} has other layers or arrows than the sources: run {sys.argv[0]} {path}")


if __name__ == "__main__":
    main()
