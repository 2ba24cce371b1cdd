"""third_party.py SOURCES LICENCES: prints the licences of what a wheel of penstock has inside.

SOURCES is sources.txt, LICENCES the folder that build_libraries.sh fills. Those of nanobind, and of the C++ library and the
unwinder that zig links in, come from the packages that are installed beside this interpreter.
"""

import importlib.metadata
import pathlib
import sys

import ziglang


def texts_of_package(name: str) -> list[str]:
    files = importlib.metadata.files(name) or []
    return [file.read_text() for file in files if "licenses" in file.parts]


def main(sources: pathlib.Path, licences: pathlib.Path) -> None:
    parts: dict[str, list[str]] = {}
    for line in sources.read_text().splitlines():
        if not line.startswith("#"):
            name, version = line.split()[:2]
            found = sorted(licences.glob(f"{name}.*"))
            parts[f"{name} {version}"] = [file.read_text(errors="replace") for file in found]
    parts[f"nanobind {importlib.metadata.version('nanobind')}"] = texts_of_package("nanobind")
    zig = pathlib.Path(ziglang.__file__).parent
    # The licence of compiler_rt is zig's own.
    folders = {name: zig / "lib" / name for name in ("libcxx", "libcxxabi", "libunwind")}
    for name, folder in {**folders, "compiler_rt": zig}.items():
        key = f"{name} of zig {importlib.metadata.version('ziglang')}"
        parts[key] = [file.read_text() for file in sorted(folder.glob("LICENSE*"))]
    missing = [name for name, texts in parts.items() if not texts]
    if missing:
        sys.exit(f"no licence is found of {', '.join(missing)}")
    print("Libraries that are linked into penstock's wheel, and their licences.")
    for name, texts in parts.items():
        print(f"\n\n{name}\n{'=' * len(name)}")
        for text in texts:
            print(f"\n{text.strip()}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
