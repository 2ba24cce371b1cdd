"""check_wheels.py FOLDER ARCH: fails where a wheel in FOLDER for ARCH needs or exports more than it may.

Prints a line a wheel: its size, the libraries and the version of glibc that its extension needs.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

#: Parts of glibc: every system that glibc runs on has them.
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
GLIBC = (2, 28)


def faults_of_extension(path: pathlib.Path) -> tuple[list[str], str]:
    """Return what is wrong with an extension, and a line of what it needs."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        sections = list(elf.iter_sections())
        needed = [
            tag.needed
            for section in sections
            if isinstance(section, DynamicSection)
            for tag in section.iter_tags("DT_NEEDED")
        ]
        exported = [
            symbol.name
            for section in sections
            if isinstance(section, SymbolTableSection) and section.name == ".dynsym"
            for symbol in section.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
        ]
        versions = [
            version.name
            for section in sections
            if isinstance(section, GNUVerNeedSection)
            for _, needs in section.iter_versions()
            for version in needs
        ]
    numbers = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in versions]
    glibc = [(int(found[1]), int(found[2])) for found in numbers if found]
    other_versions = [name for name, found in zip(versions, numbers, strict=True) if not found]
    faults = []
    others = [name for name in needed if name not in ALLOWED and not name.startswith("ld-linux")]
    if others:
        faults.append(f"needs {', '.join(others)}")
    if exported != ["PyInit__core"]:
        faults.append(f"exports {len(exported)} symbols: {', '.join(exported[:5])}")
    newest = max(glibc, default=(0, 0))
    if not glibc or newest > GLIBC or other_versions:
        faults.append(f"needs glibc {newest}, {', '.join(other_versions) or 'no other version'}")
    return faults, f"needs {', '.join(sorted(needed))}; glibc {'.'.join(map(str, newest))}"


def check(wheel: pathlib.Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        (extension,) = pathlib.Path(folder).rglob("*.so")
        faults, line = faults_of_extension(extension)
        if not (pathlib.Path(folder) / "penstock" / "THIRD_PARTY.txt").is_file():
            faults.append("has no THIRD_PARTY.txt")
        print(
            f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, "
            f"extension {extension.stat().st_size / 2**20:.1f} MiB; {line}"
        )
    if "x86_64" in wheel.name:  # auditwheel does not know foreign ones
        audit = subprocess.run(
            [sys.executable, "-m", "auditwheel", "show", str(wheel)],
            capture_output=True,
            text=True,
            check=False,
        )
        if 'tag: "manylinux_2_28_x86_64"' not in " ".join(audit.stdout.split()):
            faults.append(f"auditwheel: {audit.stdout.strip()} {audit.stderr.strip()}")
    if "abi3" in wheel.name:
        audit = subprocess.run(
            [sys.executable, "-m", "abi3audit", "--strict", "--report", str(wheel)],
            capture_output=True,
            text=True,
            check=False,
        )
        if audit.returncode:
            faults.append(f"abi3audit: {audit.stderr.strip()} {audit.stdout.strip()[:2000]}")
    return faults


def main(folder: pathlib.Path, arch: str) -> None:
    wheels = sorted(folder.glob(f"*{arch}.whl"))
    if len(wheels) < 2:
        sys.exit(
            f"{folder} has {len(wheels)} wheels for {arch}: one of 3.11 and one of 3.12 are due"
        )
    failed = False
    for wheel in wheels:
        for fault in check(wheel):
            failed = True
            print(f"{wheel.name} {fault}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
