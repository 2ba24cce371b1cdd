"""Damaged and hostile stores: an error of Penstock's, or values; never a crash, a hang or much memory."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from amounts import seeds
from anndata_cases import random_anndata, write_zarr
from conftest import DATA
from hdf5_cases import write_file
from numcodecs import GZip, Zlib
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

CELLS = 60


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("damage")
    made = random_anndata(np.random.default_rng(51), CELLS, 20, raw=True)
    found = [
        write_zarr(made, folder / "two.zarr", version=2, chunk=100),
        write_zarr(made, folder / "three.zarr", version=3, chunk=100, shards=(300,)),
    ]
    dense = random_anndata(np.random.default_rng(52), CELLS, 20, dense=True)
    found.append(write_zarr(dense, folder / "dense.zarr", version=3))
    with tarfile.open(DATA / "anndata-annbatch-0.3.1.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    found.append(folder / "collection.zarr")
    return found


Values = dict[str, Any]


def read_all(path: Path) -> Values:
    """Everything that a store has, by its place."""
    experiment = ps.open(path, threads=1)
    found: Values = {"obs": experiment.obs.to_pandas()}
    for measurement in experiment.measurements:
        found[measurement] = experiment.var(measurement).to_pandas()
        for layer in experiment.layers(measurement):
            dataset = ps.Dataset(
                experiment, measurement=measurement, layer=layer, batch_size=32, dtype="float64",
                shuffle=False,
            )  # fmt: skip
            found[f"{measurement}/{layer}"] = np.vstack([X for X, _ in dataset])
    return found


def expect_same_values(found: Values, wanted: Values) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        if isinstance(values, pd.DataFrame):
            pd.testing.assert_frame_equal(found[name], values)
        else:
            np.testing.assert_array_equal(found[name], values)


def outcome(path: Path) -> str:
    try:
        read_all(path)
    except ps.PenstockError as error:
        return type(error).__name__
    return "read"


def test_what_is_whole_is_read(stores: list[Path]) -> None:
    assert [outcome(path) for path in stores] == ["read"] * len(stores)


@pytest.mark.parametrize("seed", seeds(3))
def test_a_damaged_file_is_an_error_or_read(stores: list[Path], tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = set()
    for number in range(8):
        store = stores[random.integers(len(stores))]
        copy = tmp_path / f"{number}.zarr"
        shutil.copytree(store, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file() and path.stat().st_size)
        victim = files[random.integers(len(files))]
        content = bytearray(victim.read_bytes())
        match int(random.integers(4)):
            case 0:
                content[random.integers(len(content))] ^= 1 << int(random.integers(8))
            case 1:
                del content[random.integers(len(content)) :]
            case 2:
                for _ in range(8):
                    content[random.integers(len(content))] = int(random.integers(256))
            case _:
                content = bytearray(random.bytes(len(content)))
        victim.write_bytes(content)
        found.add(outcome(copy))
        shutil.rmtree(copy)
    assert found <= {"read", "CorruptData", "Unsupported", "InvalidArgument", "NotFound", "IoError",
                     "ResourceExhausted"}  # fmt: skip


#: What a damaged chunk may be; also Unsupported, for a blosc or zstd header of another kind.
CHUNK_ERRORS = (ps.CorruptData, ps.Unsupported, ps.IoError)

#: Codecs that find each change of a chunk.
CHECKED = {
    "zarr 2, gzip": (2, GZip(1)),
    "zarr 2, zlib": (2, Zlib(1)),
    "zarr 3, gzip": (3, [GzipCodec(level=1)]),
    "zarr 3, zstd with checksum": (3, [ZstdCodec(checksum=True)]),
    "zarr 3, crc32c": (3, [Crc32cCodec()]),
    "zarr 3, zstd and crc32c": (3, [ZstdCodec(), Crc32cCodec()]),
}


def change(content: bytearray, begin: int, end: int, random: np.random.Generator) -> None:
    """A bit or some bytes of a part."""
    at = begin + int(random.integers(end - begin))
    if random.integers(2):
        content[at] ^= 1 << int(random.integers(8))
        return
    for place in range(at, min(at + 8, end)):
        content[place] = int(random.integers(256))


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("kind", CHECKED)
def test_damage_in_a_chunk_with_a_checksum_is_found(tmp_path: Path, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    version, codecs = CHECKED[kind]
    made = random_anndata(random, CELLS, 20, raw=True)
    path = write_zarr(
        made, tmp_path / "x.zarr", version=version, chunk=150, compressors=codecs, fill_value=0
    )
    wanted = read_all(path)
    arrays = [path / place for place in ("X", "layers/counts", "raw/X")]
    metadata = {".zarray", ".zattrs", ".zgroup", "zarr.json"}
    chunks = sorted(
        file
        for array in arrays
        for file in array.rglob("*")
        if file.is_file() and file.name not in metadata
    )
    errors = 0
    for _ in range(25):
        victim = chunks[random.integers(len(chunks))]
        whole = victim.read_bytes()
        content = bytearray(whole)
        if random.random() < 0.2:
            del content[random.integers(len(content)) :]
        else:
            change(content, 0, len(content), random)
        victim.write_bytes(content)
        try:
            expect_same_values(read_all(path), wanted)
        except CHUNK_ERRORS:
            errors += 1
        victim.write_bytes(whole)
    assert errors > 15


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("deflated", [False, True])
def test_damage_in_an_entry_of_a_zip_is_found(tmp_path: Path, deflated: bool, seed: int) -> None:
    """Entries are read whole here, and an archive has a checksum of each. The codec, blosc, has none."""
    random = np.random.default_rng(seed)
    made = random_anndata(random, CELLS, 20, raw=True)
    store = write_zarr(made, tmp_path / "x.zarr", version=2, chunk=150)
    path = tmp_path / "x.zip"
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(store.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(store))
        entries = [entry for entry in archive.infolist() if "/." not in entry.filename]
    wanted = read_all(path)
    whole = path.read_bytes()
    errors = 0
    for _ in range(25):
        entry = entries[random.integers(len(entries))]
        begin = entry.header_offset + 30 + len(entry.filename.encode())
        if entry.compress_size == 0:
            continue
        content = bytearray(whole)
        change(content, begin, begin + entry.compress_size, random)
        path.write_bytes(content)
        try:
            expect_same_values(read_all(path), wanted)
        except CHUNK_ERRORS:
            errors += 1
    assert errors > 20


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_a_damaged_h5ad_is_an_error_or_read(tmp_path: Path, version: str, seed: int) -> None:
    """Bytes of the metadata, and cuts; groups of changed bytes reach behind the first check."""
    random = np.random.default_rng(seed)
    path = tmp_path / "x.h5ad"
    write_file(path, random, version, CELLS, 20, dense=bool(seed % 2))
    whole = path.read_bytes()
    found = set()
    for _ in range(60):
        content = bytearray(whole)
        at = int(random.integers(len(content)))
        match int(random.integers(4)):
            case 0:
                content[at] ^= 1 << int(random.integers(8))
            case 1:
                del content[at:]
            case 2:
                content[at : at + 8] = random.bytes(8)
            case _:
                content[at : at + 8] = b"\xff" * 8
        path.write_bytes(content)
        found.add(outcome(path))
    assert found <= {"read", "CorruptData", "Unsupported", "InvalidArgument", "NotFound", "IoError",
                     "ResourceExhausted"}  # fmt: skip
    assert len(found) > 1


def edited(store: Path, target: Path, array: str, **fields: Any) -> Path:
    """A copy of a version 2 store in which fields of an array's metadata are others."""
    shutil.copytree(store, target)
    path = target / array / ".zarray"
    document = json.loads(path.read_text()) | fields
    path.write_text(json.dumps(document))
    (target / ".zmetadata").unlink(missing_ok=True)
    return target


@pytest.mark.parametrize(
    ("array", "fields"),
    [
        ("X/data", {"shape": [10**15]}),
        ("X/data", {"chunks": [10**15]}),
        ("X/data", {"shape": [-1]}),
        ("X/data", {"chunks": [0]}),
        ("X/indptr", {"shape": [10**14]}),
        ("X/indices", {"dtype": "<f4"}),
        ("X/data", {"dtype": "<c16"}),
        ("X/data", {"dtype": "<f2"}),
        ("X/data", {"compressor": {"id": "snappy"}}),
        ("X/data", {"filters": [{"id": "delta", "dtype": "<f4"}]}),
        ("obs/n_genes", {"shape": [CELLS + 1]}),
        ("obs/category/codes", {"dtype": "<f4"}),
    ],
    ids=str,
)
def test_hostile_metadata_is_an_error_with_the_array(
    stores: list[Path], tmp_path: Path, array: str, fields: dict[str, Any]
) -> None:
    store = edited(stores[0], tmp_path / "edited.zarr", array, **fields)
    with pytest.raises(ps.PenstockError) as told:
        read_all(store)
    # A chunk that is larger than the budget is not looked at.
    assert array.split("/")[0] in str(told.value) or "memory_budget" in str(told.value)


def test_a_dense_chunk_that_claims_too_much_is_refused(stores: list[Path], tmp_path: Path) -> None:
    shutil.copytree(stores[2], tmp_path / "dense.zarr")
    path = tmp_path / "dense.zarr" / "zarr.json"
    text = path.read_text()
    document = json.loads(text)
    nodes = document["consolidated_metadata"]["metadata"]
    nodes["X"]["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 20, 1 << 20]
    path.write_text(json.dumps(document))
    with pytest.raises(ps.PenstockError, match=r"X|memory_budget"):
        read_all(tmp_path / "dense.zarr")


def test_a_missing_chunk_is_the_fill_value(stores: list[Path], tmp_path: Path) -> None:
    """As in zarr: what is not stored is the fill value, here 0."""
    shutil.copytree(stores[0], tmp_path / "cells.zarr")
    (tmp_path / "cells.zarr" / "X" / "data" / "1").unlink()
    batches = list(ps.Dataset(tmp_path / "cells.zarr", layer="X", shuffle=False, sparse=True))
    values = np.concatenate([X.data for X, _ in batches])
    assert (values[100:200] == 0).all()


@pytest.mark.parametrize("kind", ["zarr", "h5ad in place", "h5ad by rename"])
@pytest.mark.parametrize("column", ["y", "c", "obs_names"])
def test_a_rewritten_store_is_not_paired_with_kept_rows(
    kind: str, column: str, tmp_path: Path
) -> None:
    """X is kept from the first epoch; a column that is read afterwards is of other cells."""
    path = tmp_path / ("cells.zarr" if kind == "zarr" else "cells.h5ad")

    def write(order: Any) -> None:
        obs = pd.DataFrame(
            {"y": order, "c": pd.Categorical([f"k{i % 5}" for i in order])},
            index=[f"c{i:04d}" for i in order],
        )
        made = anndata.AnnData(np.repeat(order[:, None], 3, axis=1).astype(np.float32), obs)
        if kind == "zarr":
            shutil.rmtree(path, ignore_errors=True)
            made.write_zarr(path)
        elif kind == "h5ad in place":
            made.write_h5ad(path)
        else:
            made.write_h5ad(tmp_path / "other.h5ad")
            (tmp_path / "other.h5ad").replace(path)

    write(np.arange(500))
    ds = ps.Dataset(path, batch_size=50)
    assert sum(len(X) for X, _ in ds) == 500
    assert ds.stats.kept_cells == 500
    write(np.arange(500)[::-1])
    with pytest.raises(ps.CorruptData, match=r"was written.*since it was opened; open it again"):
        for _ in ds.with_settings(obs_columns=[column]):
            pass
    with pytest.raises(ps.CorruptData, match=r"was written.*since it was opened; open it again"):
        ds.obs.to_pandas([column])
    assert ps.Dataset(path).obs["y"].iloc[0] == 499
