"""Small HDF5 files that h5py wrote, with what it reads of them: tests/data/hdf5_golden.tar.gz.

python tests/golden/make_hdf5_golden.py

FILE.h5              every form of storage, in the oldest and the newest forms of metadata
expected/FILE/ARRAY  the cells in C order, little-endian; of strings, each with uint32 length before it
expected.txt         a line an array: file, array, "values" or "strings"
"""

import gzip
import io
import struct
import sys
import tarfile
import tempfile
from pathlib import Path

import h5py
import numpy as np

TESTS = Path(__file__).parent.parent
OUT = TESTS / "data" / "hdf5_golden.tar.gz"
sys.path.insert(0, str(TESTS / "python" / "shared"))
from hdf5_cases import FILTERS, KINDS, Form, write_array  # noqa: E402

VERSIONS = {"earliest": "earliest", "v108": "v108", "v110": "v110", "latest": "latest"}


def write(path: Path, version: str) -> None:
    random = np.random.default_rng(4)
    with h5py.File(
        path, "w", libver=version, userblock_size=512 if version == "v108" else 0
    ) as file:
        for i in range(10):
            file.attrs[f"attribute {i}"] = "text " * i
        file.attrs["numbers"] = np.arange(5, dtype=">i4")
        file.attrs["flag"] = True
        for i, kind in enumerate(KINDS):
            filters = FILTERS[i % len(FILTERS)]
            values = random.integers(0, 9, 50).astype("float32")
            write_array(file, f"{kind}", values, Form(kind, (7,), filters))
            matrix = random.integers(0, 9, (6, 5)).astype("int16")
            write_array(
                file.require_group("two/dimensions"), kind, matrix, Form(kind, (2, 3), filters)
            )
        write_array(
            file, "bytes", random.integers(0, 9, 200).astype("u1"), Form("growing", (1,), {})
        )
        words = np.array([f"wörd {i}" * (i % 3) for i in range(20)], object)
        write_array(file, "words", words, Form("fixed", (6,), {"compression": "gzip"}))
        file["fixed words"] = np.array([f"w{i}" for i in range(9)], "S4")
        file["words"].attrs["refers to"] = file["bytes"].ref
        file["empty"] = np.zeros(0, "float64")
        file["table"] = np.array([(1, 2.5, b"a")], [("x", "i2"), ("y", "f8"), ("z", "S3")])
        file["link"] = h5py.SoftLink("bytes")


def expected_of(array: h5py.Dataset) -> tuple[str, bytes]:
    if h5py.check_string_dtype(array.dtype) or array.dtype.kind == "S":
        cells = [v if isinstance(v, bytes) else v.encode() for v in array[()].tolist()]
        return "strings", b"".join(struct.pack("<I", len(cell)) + cell for cell in cells)
    values = array[()]
    return "values", values.astype(values.dtype.newbyteorder("<")).tobytes()


def arrays_of(group: h5py.Group, prefix: str = "") -> list[str]:
    names = []
    for name, member in group.items():
        if isinstance(member, h5py.Group):
            names += arrays_of(member, f"{prefix}{name}/")
        else:
            names.append(prefix + name)
    return sorted(names)


def main() -> None:
    members: dict[str, bytes] = {}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, version in VERSIONS.items():
            path = Path(folder) / f"{name}.h5"
            write(path, version)
            members[f"{name}.h5"] = path.read_bytes()
            with h5py.File(path) as file:
                for array in arrays_of(file):
                    kind, contents = expected_of(file[array])
                    members[f"expected/{name}/{array}"] = contents
                    lines.append(f"{name}\t{array}\t{kind}\n")
    members["expected.txt"] = "".join(lines).encode()
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, contents in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            tar.addfile(info, io.BytesIO(contents))
    OUT.write_bytes(gzip.compress(tar_bytes.getvalue(), 9, mtime=0))
    print(
        f"{len(lines)} arrays, {OUT.stat().st_size} bytes, files of {[len(v) for k, v in members.items() if k.endswith('.h5')]}"
    )


if __name__ == "__main__":
    main()
