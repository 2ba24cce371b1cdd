"""Checks that the layers of src/ include one another in one direction only.

The layers and what each may use are those of the penstock_layer(...) lines in CMakeLists.txt.
include/penstock/ may use itself and the standard library, the bindings whatever they like, and
nothing but the bindings may know of Python.

    python tools/check_layers.py [repository root]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
LAYER = re.compile(r"^\s*penstock_layer\((\w+)((?:\s+\w+)*)\)", re.MULTILINE)
PYTHON = re.compile(r"^(Python\.h|nanobind/|pybind11/|numpy/)")


def allowed_layers(root: Path) -> dict[str, set[str]]:
    """Layer to the layers that its files may include, itself among them."""
    text = (root / "CMakeLists.txt").read_text()
    return {name: {name, *uses.split()} for name, uses in LAYER.findall(text)}


def includes(file: Path) -> Iterator[tuple[int, str, bool]]:
    """(line number, path, in quotes) of each #include."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] or match[2], match[1] is not None


def violations(root: Path) -> Iterator[str]:
    """One line for each include that goes the wrong way."""
    layers = allowed_layers(root)
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        if folder.name not in layers:
            yield f"{folder.relative_to(root)}: no penstock_layer({folder.name} …) in CMakeLists.txt"
    for file in sorted([*root.glob("src/**/*.h"), *root.glob("src/**/*.cc")]):
        layer = file.relative_to(root / "src").parts[0]
        for number, path, quoted in includes(file):
            used = path.split("/")[0]
            if PYTHON.match(path):
                yield f"{file.relative_to(root)}:{number}: src/ must not know of Python: {path}"
            elif quoted and used in layers and used not in layers.get(layer, set()):
                allowed = ", ".join(sorted(layers.get(layer, set()) - {layer})) or "no other layer"
                yield (
                    f"{file.relative_to(root)}:{number}: {layer} includes {path}, "
                    f"but may use only {allowed}"
                )
            elif quoted and "/" not in path:
                yield f"{file.relative_to(root)}:{number}: write the path from src/: {path}"
    for file in sorted(root.glob("include/**/*.h")):
        for number, path, quoted in includes(file):
            if quoted or PYTHON.match(path) or ("/" in path and not path.startswith("penstock/")):
                yield (
                    f"{file.relative_to(root)}:{number}: a public header includes only "
                    f"<penstock/…> and the standard library: {path}"
                )


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    wrong = list(violations(root))
    print("\n".join(wrong) if wrong else f"layers: {len(allowed_layers(root))}, one direction")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
