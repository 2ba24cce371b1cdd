"""AnnData files written by h5py, with every form of storage that HDF5 has for an array."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

# What writes the newest forms, and what writes the oldest.
LIBRARY_VERSIONS = ("earliest", ("earliest", "v108"), "v108", "v110", "v112", "v114", "latest")
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"compression": "gzip", "compression_opts": 4},
    {"compression": "gzip", "shuffle": True},
    {"compression": "lzf"},
    {"compression": "lzf", "shuffle": True, "fletcher32": True},
    {"fletcher32": True},
    {"shuffle": True},
)
# How an array is stored: where it can grow decides which index its chunks have.
KINDS = (
    "contiguous",
    "compact",
    "one chunk",
    "fixed",
    "growing",
    "growing twice",
    "early",
    "holes",
    "masks",
)


def library_versions() -> tuple[Any, ...]:
    """The versions that the installed h5py knows."""
    known = h5py.h5f.__dict__
    names = {
        "v108": "LIBVER_V18",
        "v110": "LIBVER_V110",
        "v112": "LIBVER_V112",
        "v114": "LIBVER_V114",
    }
    return tuple(
        version
        for version in LIBRARY_VERSIONS
        if isinstance(version, tuple) or version not in names or names[version] in known
    )


@dataclass
class Form:
    """How one array is stored."""

    kind: str
    chunk: tuple[int, ...]
    filters: dict[str, Any]


def random_form(
    random: np.random.Generator, shape: tuple[int, ...], kind: str | None = None
) -> Form:
    kind = kind or str(random.choice(KINDS))
    chunk = tuple(int(random.integers(1, max(2, min(length + 3, 40)))) for length in shape)
    return Form(kind, chunk, FILTERS[random.integers(len(FILTERS))])


def write_array(group: h5py.Group, name: str, values: np.ndarray, form: Form) -> np.ndarray:
    """Store `values`, and return what h5py reads: a form with holes has the fill value in some places."""
    kind, shape = form.kind, values.shape
    strings = values.dtype.kind == "O"
    dtype = h5py.string_dtype() if strings else values.dtype
    if strings:  # the checksum would be of references
        form = Form(kind, form.chunk, {k: v for k, v in form.filters.items() if k != "fletcher32"})
    if kind == "contiguous" or 0 in shape:
        group.create_dataset(name, data=values, dtype=dtype)
    elif kind == "compact":
        _write_low_level(group, name, values, dtype, compact=values.nbytes < 60_000 and not strings)
    elif kind == "early":
        _write_low_level(group, name, values, dtype, chunk=_within(form.chunk, shape))
    elif kind == "masks" and not strings:
        _write_masked(group, name, values, form)
    elif kind == "holes" and not strings:
        made = group.create_dataset(
            name,
            shape,
            dtype,
            chunks=_within(form.chunk, shape),
            fillvalue=values.flat[0],
            **form.filters,
        )
        _write_some_chunks(made, values)
    else:
        most: tuple[int | None, ...] = shape
        chunk = shape if kind == "one chunk" else form.chunk
        if kind == "growing":
            most = (None, *shape[1:])
            chunk = (chunk[0], *_within(chunk[1:], shape[1:]))
        elif kind == "growing twice":
            most = (None,) * len(shape)
        if kind in ("one chunk", "fixed", "holes", "masks"):
            chunk = _within(chunk, shape)
        group.create_dataset(
            name, data=values, dtype=dtype, chunks=chunk, maxshape=most, **form.filters
        )
    stored = group[name]
    return stored.asstr()[()] if strings else stored[()]


def _within(chunk: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """h5py refuses chunks that are larger than an array that cannot grow."""
    return tuple(max(1, min(a, b)) for a, b in zip(chunk, shape, strict=True))


def _write_low_level(
    group: h5py.Group,
    name: str,
    values: np.ndarray,
    dtype: Any,
    compact: bool = False,
    chunk: tuple[int, ...] | None = None,
) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if compact:
        plist.set_layout(h5py.h5d.COMPACT)
    elif chunk is not None:
        plist.set_chunk(chunk)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(values.shape)
    made = h5py.h5d.create(
        group.id, name.encode(), h5py.h5t.py_create(dtype, logical=True), space, plist
    )
    h5py.Dataset(made)[...] = values


def _write_masked(group: h5py.Group, name: str, values: np.ndarray, form: Form) -> None:
    """Chunks of which some were not filtered, as a compressor leaves them that makes nothing smaller."""
    chunk = _within(form.chunk, values.shape)
    made = group.create_dataset(
        name, values.shape, values.dtype, chunks=chunk, compression="gzip", shuffle=True
    )
    made[...] = values
    for position in np.ndindex(*(-(-a // b) for a, b in zip(values.shape, chunk, strict=True))):
        if sum(position) % 2:
            continue
        cells = np.zeros(chunk, values.dtype)
        begin = tuple(p * c for p, c in zip(position, chunk, strict=True))
        part = values[tuple(slice(b, b + c) for b, c in zip(begin, chunk, strict=True))]
        cells[tuple(slice(0, n) for n in part.shape)] = part
        made.id.write_direct_chunk(begin, cells.tobytes(), filter_mask=0b11)


def _write_some_chunks(made: h5py.Dataset, values: np.ndarray) -> None:
    for position in np.ndindex(
        *(-(-a // b) for a, b in zip(values.shape, made.chunks, strict=True))
    ):
        if sum(position) % 3 != 1:
            where = tuple(
                slice(p * c, (p + 1) * c) for p, c in zip(position, made.chunks, strict=True)
            )
            made[where] = values[where]


def write_table(
    group: h5py.Group, columns: dict[str, np.ndarray], random: np.random.Generator
) -> dict[str, Any]:
    """Store columns, the first of which is the index. Return what h5py reads."""
    names = list(columns)
    group.attrs["encoding-type"] = "dataframe"
    group.attrs["encoding-version"] = "0.2.0"
    group.attrs["_index"] = names[0]
    group.attrs["column-order"] = np.array(names[1:], dtype=h5py.string_dtype())
    stored = {}
    for name, values in columns.items():
        stored[name] = write_array(group, name, values, random_form(random, values.shape))
    return stored


def write_csr(group: h5py.Group, matrix: sp.csr_matrix, random: np.random.Generator) -> None:
    group.attrs["encoding-type"] = "csr_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = np.array(matrix.shape)
    kinds = [kind for kind in KINDS if kind != "holes"]
    for name in ("data", "indices", "indptr"):
        values = getattr(matrix, name)
        write_array(
            group, name, values, random_form(random, values.shape, str(random.choice(kinds)))
        )


def random_columns(random: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    types = (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float32",
        "float64",
        ">i4",
        ">f8",
        "bool",
    )
    columns: dict[str, np.ndarray] = {
        "index": np.array([f"cell-{i}" for i in range(rows)], object),
        "words": np.array([f"{'ä' * int(random.integers(0, 30))}{i}" for i in range(rows)], object),
        "bytes": np.array([f"b{i % 7}" for i in range(rows)], "S4"),
    }
    for dtype in types:
        values = random.integers(0, 2 if dtype == "bool" else 100, rows)
        columns[f"column {dtype}"] = values.astype(dtype)
    return columns


def write_file(
    path: Path, random: np.random.Generator, version: Any, rows: int, genes: int, dense: bool
) -> dict[str, Any]:
    """Write an AnnData file. Return what h5py reads of obs and X."""
    block = int(random.choice([0, 512, 2048]))
    with h5py.File(
        path, "w", libver=version, userblock_size=block, track_order=bool(random.integers(2))
    ) as file:
        file.attrs["encoding-type"] = "anndata"
        file.attrs["encoding-version"] = "0.1.0"
        obs = write_table(file.create_group("obs"), random_columns(random, rows), random)
        names = np.array([f"gene-{i}" for i in range(genes)], object)
        write_table(file.create_group("var"), {"_index": names}, random)
        for name in ("layers", "uns", "obsm", "varm", "obsp", "varp"):
            file.create_group(name)
        matrix = sp.random(rows, genes, 0.3, "csr", "float32", random_state=random)
        matrix.data = np.round(matrix.data * 300).astype("float32") + 1
        if dense:
            shape = (rows, genes)
            X = write_array(file, "X", matrix.toarray(), random_form(random, shape))
        else:
            write_csr(file.create_group("X"), matrix, random)
            X = matrix.toarray()
    return {"obs": obs, "X": X}
