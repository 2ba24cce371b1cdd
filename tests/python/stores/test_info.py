"""`penstock info`: its output, against the files of the experiments."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp
from conftest import Oracle, write_small_tiles
from penstock.cli import main

tiledb = pytest.importorskip("tiledb")
tiledbsoma = pytest.importorskip("tiledbsoma")
from soma_tables import write_experiment  # noqa: E402
from table_oracle import random_table  # noqa: E402


def test_info(pbmc3k: Oracle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(pbmc3k.path)]) == 0
    text = capsys.readouterr().out
    for wanted in (
        "obs: 2,638 cells",
        "category of string",
        "measurement RNA: 13,714 genes",
        "layer RNA/X/raw: float32",
        f"{pbmc3k.X.nnz:,}, 849 a cell",
        "fragments    2",
        "tiles 2048 x 2048",
        "bytes a non-zero",
        "fetch units",
        "a loader with default settings takes",
    ):
        assert wanted in text, text
    assert all(line == line.rstrip() for line in text.splitlines())


COUNTED = re.compile(r"  (.*?) +([\d,]+) +([\d.]+) %")


def counted(text: str) -> dict[str, list[tuple[str, int, float]]]:
    """Values, counts and shares of each column, as `--counts` prints them."""
    found: dict[str, list[tuple[str, int, float]]] = {}
    rows: list[tuple[str, int, float]] = []
    for line in text.splitlines():
        if match := COUNTED.fullmatch(line):
            value, number, share = match.groups()
            rows.append((value, int(number.replace(",", "")), float(share)))
        elif match := re.fullmatch(r"(\S+): [\d,]+ distinct values?", line):
            rows = found[match[1]] = []
    return found


def test_value_counts_are_those_of_pandas(
    census_like: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ["cell_type", "sex", "is_primary_data", "nnz", "donor_id"]
    chosen = [word for name in columns for word in ("--counts", name)]
    assert main(["info", str(census_like.path), *chosen, "--top", "0"]) == 0
    text = capsys.readouterr().out
    found = counted(text)
    assert list(found) == columns
    for name, rows in found.items():
        values = census_like.obs[name]
        theirs = values.astype(str).value_counts()
        assert {value: number for value, number, _ in rows} == theirs.to_dict()
        assert [number for _, number, _ in rows] == theirs.tolist(), "the commonest first"
        shares = 100 * values.astype(str).value_counts(normalize=True)
        assert [share for _, _, share in rows] == pytest.approx(shares.tolist(), abs=0.0501)
        assert f"{name}: {values.nunique():,} distinct value" in text


def test_value_counts_of_the_commonest(
    census_like: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = census_like.obs["cell_type"].astype(str).value_counts()
    assert main(["info", str(census_like.path), "--counts", "cell_type", "--top", "4"]) == 0
    text = capsys.readouterr().out
    assert [number for _, number, _ in counted(text)["cell_type"]] == theirs.tolist()[:4]
    rest = f"and {len(theirs) - 4} more, {theirs.iloc[4:].sum():,} cells: --top 0 shows all"
    assert rest in text
    assert "measurement" not in text, "in place of all else"
    for wrong, said in (
        (["--counts", "nothing"], "'nothing'"),
        (["--counts", "sex", "--top", "-1"], "--top must be 0 or more, got -1"),
    ):
        assert main(["info", str(census_like.path), *wrong]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("seed", [1, 2])
def test_value_counts_of_missing_values(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = random_table(seed, 200)
    write_experiment(tmp_path / "x", table)
    columns = ["null_string", "null_category", "all_null", "null_bool", "null_int"]
    chosen = [word for name in columns for word in ("--counts", name)]
    assert main(["info", str(tmp_path / "x"), *chosen, "--top", "0"]) == 0
    found = counted(capsys.readouterr().out)
    assert list(found) == columns
    for name, rows in found.items():
        values = table[name].to_pandas()
        known = values.dropna()
        if name == "null_int":
            known = known.astype(int)
        theirs = known.astype(str).value_counts().to_dict()
        missing = int(values.isna().sum())
        assert {value: number for value, number, _ in rows} == theirs | {"(missing)": missing}


def test_a_pattern_has_the_storage_options(
    census_like: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one path has them: a local experiment takes none, and says so once."""
    for name in "ab":
        (tmp_path / name).symlink_to(census_like.path)
    for path in (tmp_path / "a", tmp_path / "*"):
        assert main(["info", str(path), "-o", "region=x"]) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        said = (
            f"penstock: there is no storage option 'region' for {tmp_path / 'a'}; it takes none\n"
        )
        assert shown.err == said


def test_value_counts_of_a_pattern(
    census_like: Oracle, soma_small: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each that has the column."""
    (tmp_path / "a").symlink_to(census_like.path)
    (tmp_path / "b").symlink_to(soma_small.path)
    assert main(["info", str(tmp_path / "*"), "--counts", "sex"]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("sex: ") == 1
    assert "b: cannot be read: obs has no column 'sex'" in shown.out
    assert "1 experiment, 6,000 cells" in shown.out


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "pbmc-small",
            [
                "obs: 80 cells",
                "measurement RNA: 230 genes",
                "letter.idents    category of string, nullable",
                "layer RNA/X/counts: float64",
                "layer RNA/X/data: float64",
                "layer RNA/X/scale_data: float64",
                "non-zeros    4,456, 56 a cell",
                "fetch units  1, of 80 rows, 1 tile, 10.8 KiB",
                "and mixes 1 unit at a time",
            ],
        ),
        ("pbmc-small-pre-1.15", ["obs: 80 cells", "measurement RNA: 230 genes", "RNA/X/counts"]),
        ("soma-1.15.7-small", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-1.7.3-small", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-1.2.5-small", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-1.4.4-small", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-1.5.3-small", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-2.3.0-small", ["obs: 263 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
        ("soma-1.2.5-upgraded", ["obs: 300 cells", "measurement RNA: 400 genes", "RNA/X/raw"]),
    ],
)
def test_info_of_other_writers(
    unpacked, capsys: pytest.CaptureFixture[str], name: str, wanted: list[str]
) -> None:
    assert main(["info", str(unpacked(name))]) == 0
    text = capsys.readouterr().out
    for line in wanted:
        assert line in text, text
    assert "cannot be read" not in text
    assert not re.search(r"(?<![0-9,.])1 [a-z]+s\b", text), "a plural of one"
    assert not re.search(r"\.000000", text)


def test_info_shows_numbers_of_the_metadata_as_they_are(
    tmp_path: Path, soma_small: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(soma_small.path, path)
    with tiledb.Group(str(path), "w") as group:
        group.meta["whole"], group.meta["tenth"], group.meta["large"] = 419.0, 0.1, 1e300
        group.meta["integer"] = 7
    assert ps.open(path).metadata["whole"] == "419"
    assert main(["info", str(path)]) == 0
    head, _ = capsys.readouterr().out.split("\n\n", 1)
    facts = dict(line.split() for line in head.splitlines()[1:])
    assert (facts["whole"], facts["tenth"], facts["large"]) == ("419", "0.1", "1e+300")
    assert facts["integer"] == "7"


def test_info_continues_where_a_part_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_small_tiles(tmp_path / "e", 20, 30)
    with tiledbsoma.open(str(path / "ms"), "w") as measurements:
        measurements.add_new_collection("ADT", tiledbsoma.Measurement).close()
    with tiledbsoma.open(str(path / "ms/RNA/X"), "w") as layers:
        layers.add_new_sparse_ndarray("flat", type=pa.int8(), shape=(20,)).close()
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "measurement ADT: cannot be read: there is no table 'var'" in text
    assert "layer RNA/X/flat: cannot be read: " in text
    assert "layer RNA/X/raw: float32" in text


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """The lines below each heading that has a colon, split at spaces, by their first word."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in text.split("\n\n"):
        head, *lines = part.splitlines()
        found[head.split(":")[0]] = {line.split()[0]: line.split()[1:] for line in lines}
    return found


def assert_bytes(words: list[str], size: int) -> None:
    """A number and a unit at the end of the words, rounded to a tenth."""
    number, unit = words[-2:]
    assert abs(float(number.replace(",", "")) - size / UNITS[unit]) < 0.051, (words, size)


def bytes_of(array: str, field: str) -> int:
    """Of the data files of a field (offsets, values, validity) in all fragments."""
    schema = tiledb.ArraySchema.load(array)
    dims = [schema.domain.dim(i).name for i in range(schema.domain.ndim)]
    attrs = [schema.attr(i).name for i in range(schema.nattr)]
    stem = f"d{dims.index(field)}" if field in dims else f"a{attrs.index(field)}"
    files = Path(array, "__fragments").glob(f"*/{stem}*.tdb")
    return sum(file.stat().st_size for file in files if re.fullmatch(rf"{stem}(_\w+)?", file.stem))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    n_obs, n_vars, fragments = int(draw.integers(50, 900)), int(draw.integers(20, 300)), seed + 1
    uri = write_experiment(
        tmp_path / "e",
        random_table(seed, n_obs),
        pieces=fragments,
        genes=[f"g{i}" for i in range(n_vars)],
    )
    tile, capacity = int(draw.integers(5, 200)), int(draw.integers(10, 5000))
    config = {"tiledb": {"create": {
        "capacity": capacity, "tile_order": "row-major", "cell_order": "row-major",
        "dims": {f"soma_dim_{i}": {"tile": tile, "filters": ["ZstdFilter"]} for i in range(2)},
        "attrs": {"soma_data": {"filters": ["ByteShuffleFilter", "ZstdFilter"]}},
    }}}  # fmt: skip
    X = sp.random(n_obs, n_vars, 0.1, "coo", np.float32, draw)
    with tiledbsoma.open(f"{uri}/ms/RNA", "w") as rna:
        layers = rna.add_new_collection("X")
        raw = layers.add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=X.shape, platform_config=config
        )
        for part in np.array_split(np.argsort(X.row, kind="stable"), fragments):
            cut = sp.coo_matrix((X.data[part], (X.row[part], X.col[part])), X.shape)
            raw.write(pa.SparseCOOTensor.from_scipy(cut))
    assert main(["info", uri]) == 0
    told = sections(capsys.readouterr().out)
    assert tiledbsoma.open(uri).obs.count == n_obs
    schema = tiledb.ArraySchema.load(f"{uri}/obs")
    columns = ["soma_joinid", *(schema.attr(i).name for i in range(schema.nattr))]
    assert sorted(told["obs"]) == sorted(columns)
    for name in columns:
        assert_bytes(told["obs"][name], bytes_of(f"{uri}/obs", name))
    layer, array = told["layer RNA/X/raw"], f"{uri}/ms/RNA/X/raw"
    stored = sum(bytes_of(array, name) for name in ("soma_dim_0", "soma_dim_1", "soma_data"))
    infos = tiledb.FragmentInfoList(array)
    assert layer["fragments"] == [str(len(infos))]
    assert layer["non-zeros"][0] == f"{sum(infos.cell_num):,},"
    assert sum(infos.cell_num) == X.nnz
    assert_bytes([*layer["stored"][:1], layer["stored"][1].rstrip(",")], stored)
    assert abs(float(layer["stored"][2]) - stored / X.nnz) < 0.0051
    made = tiledb.ArraySchema.load(array)
    extents = [made.domain.dim(i).tile for i in range(2)]
    assert (
        layer["layout"]
        == f"row-major, tiles {extents[0]} x {extents[1]}, capacity {capacity}".split()
    )
    units = ps.open(uri).x("RNA", "raw").units()
    said = int(layer["fetch"][1].rstrip(",").replace(",", ""))
    assert said == len(units)
    tiles = sum(int(-(-cells // capacity)) for cells in infos.cell_num)
    assert sum(unit.tile_count for unit in units) >= tiles
