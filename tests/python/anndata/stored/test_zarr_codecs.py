"""Each codec that zarr-python writes: the values are read, or the error names the codec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import zarr
import zarr.codecs.numcodecs as numcodecs
from anndata_cases import rows_of
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

VALUES = np.random.default_rng(0).poisson(1, (100, 9)).astype("float32")


def write(path: Path, values: np.ndarray, **settings: Any) -> Path:
    """A zarr of version 3 whose X zarr-python writes with these settings."""
    with anndata.settings.override(zarr_write_format=3):
        anndata.AnnData(shape=values.shape).write_zarr(path)
    group = zarr.open_group(str(path), mode="r+", use_consolidated=False)
    x = group.create_array(
        "X", shape=values.shape, dtype=values.dtype, overwrite=True, **{"fill_value": 0, **settings}
    )
    x[...] = values
    x.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    zarr.consolidate_metadata(str(path))
    return path


def expect_values(path: Path, values: np.ndarray) -> None:
    np.testing.assert_array_equal(rows_of(path), values.astype("float64"))
    np.testing.assert_array_equal(zarr.open_group(str(path), mode="r")["X"][...], values)


def sharded(codecs: list[Any], inner: tuple[int, int] = (10, 3), **settings: Any) -> dict[str, Any]:
    codec = ShardingCodec(chunk_shape=inner, codecs=codecs, **settings)
    return {"chunks": (40, 9), "compressors": None, "serializer": codec}


INDEXES = ([BytesCodec()], [BytesCodec(), Crc32cCodec()], [BytesCodec(endian="big"), Crc32cCodec()])


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("index", INDEXES, ids=["plain", "crc32c", "big-endian"])
@pytest.mark.parametrize("inner", [(10, 3), (40, 1), (1, 9), (20, 3)])
def test_shards(tmp_path: Path, location: str, index: list[Any], inner: tuple[int, int]) -> None:
    settings = sharded(
        [BytesCodec(), ZstdCodec()], inner, index_location=location, index_codecs=index
    )
    expect_values(write(tmp_path / "x.zarr", VALUES, **settings), VALUES)


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("name", ["lz4", "lz4hc", "blosclz", "zstd", "zlib"])
def test_blosc(tmp_path: Path, name: Any, shuffle: Any) -> None:
    codec = BloscCodec(cname=name, shuffle=shuffle, clevel=5, blocksize=64)
    for chunks in ((100, 9), (7, 4)):
        path = write(tmp_path / f"{chunks[0]}.zarr", VALUES, chunks=chunks, compressors=[codec])
        expect_values(path, VALUES)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "codecs",
    [
        [GzipCodec(level=1)],
        [ZstdCodec(checksum=True)],
        [ZstdCodec(), ZstdCodec()],
        [Crc32cCodec(), ZstdCodec(), Crc32cCodec()],
        [numcodecs.Zlib()],
        [numcodecs.LZ4()],
        [numcodecs.Zstd()],
        [numcodecs.Blosc()],
        [numcodecs.GZip()],
        [numcodecs.Shuffle()],
        [numcodecs.CRC32C()],
    ],
    ids=lambda codecs: "-".join(type(codec).__name__ for codec in codecs),
)
def test_other_codecs(tmp_path: Path, codecs: list[Any]) -> None:
    path = write(tmp_path / "x.zarr", VALUES, chunks=(40, 4), compressors=codecs)
    expect_values(path, VALUES)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_transpose_is_read_if_it_changes_nothing(tmp_path: Path, order: tuple[int, int]) -> None:
    path = write(tmp_path / "x.zarr", VALUES, chunks=(40, 9), filters=[TransposeCodec(order=order)])
    if order == (0, 1):
        expect_values(path, VALUES)
        return
    with pytest.raises(ps.Unsupported, match=r"transpose with order \[1,0\] is not read"):
        ps.Dataset(path)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float64", ">f4", ">i8"])
def test_types(tmp_path: Path, dtype: str) -> None:
    values = VALUES.astype(dtype)
    expect_values(write(tmp_path / "x.zarr", values, chunks=(33, 5)), values)


def test_a_fill_value_that_is_no_number(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[:33] = np.nan
    path = write(tmp_path / "x.zarr", values, chunks=(33, 5), fill_value=np.nan)
    assert not (path / "X" / "c" / "0").exists()
    expect_values(path, values)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (sharded([ShardingCodec(chunk_shape=(5, 3))], (20, 9)), "sharding_indexed"),
        (sharded([TransposeCodec(order=(1, 0)), BytesCodec()], (20, 9)), "transpose"),
        (sharded([BytesCodec()]) | {"compressors": [ZstdCodec()]}, "around shards"),
        *(
            ({"chunks": (40, 4), "compressors": [codec]}, codec.codec_name)
            for codec in (
                numcodecs.BZ2(),
                numcodecs.LZMA(),
                numcodecs.CRC32(),
                numcodecs.Adler32(),
                numcodecs.Fletcher32(),
                numcodecs.JenkinsLookup3(),
            )
        ),
        *(
            ({"chunks": (40, 4), "filters": [codec]}, codec.codec_name)
            for codec in (
                numcodecs.Delta(dtype="<f4"),
                numcodecs.FixedScaleOffset(offset=0, scale=1, dtype="<f4", astype="i2"),
                numcodecs.AsType(encode_dtype="<f8", decode_dtype="<f4"),
                numcodecs.BitRound(keepbits=10),
                numcodecs.Quantize(digits=1, dtype="<f4"),
            )
        ),
    ],
    ids=str,
)
def test_what_is_not_read_is_named(tmp_path: Path, settings: dict[str, Any], name: str) -> None:
    expect_not_read(write(tmp_path / "x.zarr", VALUES, **settings), name)


def test_a_compressed_index_of_shards_is_named(tmp_path: Path) -> None:
    """zarr 3.4 does not write one."""
    path = write(tmp_path / "x.zarr", VALUES, **sharded([BytesCodec()], index_codecs=INDEXES[0]))
    index = {"name": "bytes", "configuration": {"endian": "little"}}
    for file in (path / "zarr.json", path / "X" / "zarr.json"):
        text = json.dumps(json.loads(file.read_text()))
        plain = f'"index_codecs": [{json.dumps(index)}]'
        assert plain in text
        file.write_text(text.replace(plain, f'{plain[:-1]}, {{"name": "zstd"}}]'))
    expect_not_read(path, 'index codec "zstd"')


def expect_not_read(path: Path, name: str) -> None:
    with pytest.raises(ps.Unsupported) as error:
        ps.Dataset(path)
    assert name in str(error.value)
    assert "is not read" in str(error.value)
    assert str(path / "X") in str(error.value)
