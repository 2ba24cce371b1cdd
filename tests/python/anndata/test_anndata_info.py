"""What `penstock info` says of the storage of an AnnData, against the stored files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from anndata_cases import random_anndata, write_h5ad, write_zarr
from penstock.cli import main

CELLS = 3000


def told_of(path: Path, capsys: pytest.CaptureFixture[str], layer: str = "RNA/X/X") -> str:
    assert main(["info", str(path)]) == 0
    return capsys.readouterr().out.split(f"layer {layer}: ")[1].split("\n\n")[0]


def files_of(path: Path, *arrays: str) -> list[Path]:
    return [
        p for a in arrays for p in (path / a).rglob("*") if p.is_file() and p.name[0] not in ".z"
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_chunks_and_what_an_epoch_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    made = random_anndata(np.random.default_rng(71), CELLS, 100)
    path = write_zarr(made, tmp_path / "cells.zarr", version=version, chunk=1000)
    text = told_of(path, capsys)
    files = files_of(path, "X/data", "X/indices")
    chunks, rows, times = re.search(
        r"chunks +([\d,]+) of data and indices, each about ([\d,]+) rows; an epoch reads ([\d.]+) times",
        text,
    ).groups()
    dataset = ps.Dataset(path, layer="X", keep=False, shuffle=False)
    list(dataset)
    read = dataset.stats.bytes_read / sum(file.stat().st_size for file in files)
    assert float(times) == pytest.approx(read, abs=0.03)
    assert len(files) <= int(chunks.replace(",", "")) <= 1.05 * len(files) * read
    assert int(rows) == pytest.approx(1000 / (made.X.nnz / CELLS), rel=0.1)
    assert f"zarr v{version}, chunks of 1000" in text
    assert "fragments" not in text
    assert "tile" not in text


def test_slow_codecs_come_with_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = random_anndata(np.random.default_rng(72), 300, 50)
    codecs: dict[str, Any] = {"gzip": zarr.codecs.GzipCodec(), "zstd": zarr.codecs.ZstdCodec()}
    for name, codec in codecs.items():
        path = write_zarr(
            made, tmp_path / f"{name}.zarr", version=3, compressors=[codec], chunk=500
        )
        text = told_of(path, capsys)
        assert name in text
        assert ("gzip is slow to decode: cache_dir=" in text) == (name == "gzip")


def test_a_dense_matrix_and_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = random_anndata(np.random.default_rng(73), CELLS, 60, dense=True)
    path = write_zarr(made, tmp_path / "dense.zarr", version=2)
    assert main(["info", str(path)]) == 0
    told = capsys.readouterr().out
    assert "0 B" not in told  # sizes of columns are not known
    chunks = re.search(r"chunks +(\d+); an epoch reads 1\.0\d times what is stored", told)
    assert int(chunks.group(1)) >= len(files_of(path, "X"))


def test_an_h5ad_says_its_chunks_and_filters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = random_anndata(np.random.default_rng(75), 300, 20)
    write_h5ad(made, tmp_path / "cells.h5ad", "gzip")
    assert main(["info", str(tmp_path / "cells.h5ad")]) == 0
    told = capsys.readouterr().out
    assert re.search(r"layout +csr, hdf5, chunks of \d+, gzip", told)
    assert re.search(r"chunks +\d+ of data and indices, each about \d+ rows", told)
    assert "gzip is slow to decode" in told


def test_a_matrix_by_genes_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = random_anndata(np.random.default_rng(74), 50, 20)
    made.layers["by genes"] = made.X.tocsc()
    path = write_zarr(made, tmp_path / "cells.zarr")
    text = told_of(path, capsys, "RNA/X/by genes")
    assert "csc (stored by genes), zarr" in text
    assert re.search("a loader cannot read this layer: .*`penstock pack", text)
    assert "an epoch reads" not in text
