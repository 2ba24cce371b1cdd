"""Writes python/penstock/_core.pyi from the installed extension; --check only compares.

python tools/make_stubs.py [--check]
"""

import importlib
import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

STUB = Path(__file__).resolve().parent.parent / "python" / "penstock" / "_core.pyi"


def generate() -> str:
    """The text of the stub, formatted."""
    generator = StubGen(importlib.import_module("penstock._core"))
    generator.put(importlib.import_module("penstock._core"))
    header = "# Made by tools/make_stubs.py (make stubs); do not edit.\n"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "made.pyi", "-"],
        input=header + generator.get(),
        cwd=STUB.parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return str(formatted.stdout)


def main() -> int:
    """Write the stub, or say whether it is up to date."""
    text = generate()
    if "--check" not in sys.argv[1:]:
        STUB.write_text(text)
        return 0
    if STUB.read_text() == text:
        return 0
    print(f"{STUB.name} is not what the extension has; run `make stubs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
