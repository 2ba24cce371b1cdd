"""An experiment of the human Census's size of 2025, without its counts: 1.6 x 10^8 cells.

    python benchmarks/make_large_metadata.py FOLDER [--cells N]

obs is real (joinids and two columns, one fragment). X has one fragment whose metadata are real and
whose data files are holes: R-tree and tile offsets of some five million tiles, cut every 65,536
counts through the Census's space tiles. The few tiles that a reader samples to tell how large packed
rows are hold counts; so opening, filtering and planning do all their work, and only reading fails. Layout: TileDB's format_spec/fragment.md (R-Tree, Tile Offsets,
Footer), generic_tile.md, tile.md. Takes about 3 GB of memory and some minutes.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from penstock.synthetic.counts import Band
from penstock.synthetic.x_writer import write_bands

ROWS = 2048
GENES = 60_664
GENE_TILES = -(-GENES // 2048)
CAPACITY = 65_536
NONZEROS_PER_CELL = 2_050
FANOUT = 10
CHUNK = 65_536
N_DATASETS = 1_500
SAMPLES = 12  # kSampleTiles of src/format/soma/x/reader.cc
_GZIP = struct.pack("<IIBIBi", CHUNK, 1, 1, 5, 1, 6)  # a pipeline of gzip, level 6
COLUMNS = {0: "a0.tdb", 2: "d0.tdb", 3: "d1.tdb"}  # by place; the one between is of old formats
PLACES = 4
STORED_BYTES = (52_000, 4_000, 66_000)  # of a tile's values, rows, genes, about as in the Census


def generic_tile(content: bytes, version: int) -> bytes:
    """A generic tile of bytes, in gzip chunks."""
    chunks = [content[i : i + CHUNK] for i in range(0, len(content), CHUNK)]
    parts = [struct.pack("<Q", len(chunks))]
    for chunk in chunks:
        packed = zlib.compress(chunk, 6)
        head = struct.pack("<IIII", 0, 1, len(chunk), len(packed))
        parts += [struct.pack("<III", len(chunk), len(packed), len(head)), head, packed]
    data = b"".join(parts)
    header = struct.pack("<IQQBQBI", version, len(data), len(content), 4, 1, 0, len(_GZIP))
    return header + _GZIP + data


def tile_boxes(n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """(tiles, 2 dimensions, first and last): every 65,536 counts of the global order a tile."""
    n_bands = -(-n_cells // ROWS)
    share = rng.dirichlet(np.full(GENE_TILES, 3.0))
    depth = rng.lognormal(0.0, 0.35, n_bands)
    per_band = depth / depth.mean() * ROWS * NONZEROS_PER_CELL
    ends = np.cumsum((per_band[:, None] * share).reshape(-1))
    n_tiles = int(ends[-1] // CAPACITY)
    cuts = np.arange(n_tiles + 1, dtype=np.float64) * CAPACITY
    space = np.minimum(np.searchsorted(ends, cuts, side="right"), len(ends) - 1)
    begins = np.concatenate([[0.0], ends[:-1]])
    fraction = (cuts - begins[space]) / (ends[space] - begins[space])
    row = np.minimum((fraction * ROWS).astype(np.int64), ROWS - 1)
    band, tile = space // GENE_TILES, space % GENE_TILES
    first_band, last_band = band[:-1], band[1:]
    same_space, same_band = space[:-1] == space[1:], first_band == last_band
    boxes = np.empty((n_tiles, 2, 2), np.int64)
    boxes[:, 0, 0] = first_band * ROWS + np.where(same_space, row[:-1], 0)
    boxes[:, 0, 1] = last_band * ROWS + np.where(same_space, row[1:], ROWS - 1)
    boxes[:, 1, 0] = np.where(same_band, tile[:-1] * 2048, 0)
    boxes[:, 1, 1] = np.where(same_band, np.minimum(tile[1:] * 2048 + 2047, GENES - 1), GENES - 1)
    boxes[:, 0] = np.minimum(boxes[:, 0], n_cells - 1)
    return boxes


def r_tree(leaves: np.ndarray) -> bytes:
    """Serialized, root first."""
    levels = [leaves]
    while len(levels[0]) > 1:
        below = levels[0]
        starts = np.arange(0, len(below), FANOUT)
        above = np.empty((len(starts), 2, 2), np.int64)
        above[:, :, 0] = np.minimum.reduceat(below[:, :, 0], starts)
        above[:, :, 1] = np.maximum.reduceat(below[:, :, 1], starts)
        levels.insert(0, above)
    parts = [struct.pack("<II", FANOUT, len(levels))]
    for level in levels:
        parts += [struct.pack("<Q", len(level)), level.tobytes()]
    return b"".join(parts)


def sampled(boxes: np.ndarray) -> np.ndarray:
    """Numbers of the tiles that a reader samples."""
    return np.arange(0, len(boxes), max(1, len(boxes) // SAMPLES))


def sample_counts(boxes: np.ndarray) -> Iterator[Band]:
    """65,536 counts for each sampled tile, in global order, at the end of its box."""
    for number in sampled(boxes):
        (row_first, row_last), (gene_first, gene_last) = boxes[number]
        row_first = max(int(row_first), int(row_last) // ROWS * ROWS)
        rows = max(int(row_last) - row_first + 1, 64)
        gene_first = max(int(gene_first), int(gene_last) // 2048 * 2048)
        genes = int(gene_last) - gene_first + 1
        cells = np.arange(CAPACITY) * (rows * genes) // CAPACITY
        values = 1.0 + (np.arange(CAPACITY) % 97 == 0)
        yield Band(
            row_first, rows, row_first + cells // genes, gene_first + cells % genes,
            values.astype(np.float32),
        )  # fmt: skip


def stored_tiles(column: bytes) -> list[bytes]:
    """The tiles of a column's file, whole: each says how many chunks it has, each chunk its size."""
    tiles, at = [], 0
    while at < len(column):
        begin = at
        (chunks,) = struct.unpack_from("<Q", column, at)
        at += 8
        for _ in range(chunks):
            _, stored, metadata = struct.unpack_from("<III", column, at)
            at += 12 + stored + metadata
        tiles.append(column[begin:at])
    return tiles


def enlarge(array: Path, boxes: np.ndarray, n_cells: int, rng: np.random.Generator) -> None:
    """Give the array's only fragment, which holds the sampled tiles, the metadata of all of them."""
    (fragment,) = (array / "__fragments").iterdir()
    path = fragment / "__fragment_metadata.tdb"
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content, len(content) - 8)
    footer = bytearray(content[len(content) - 8 - length : -8])
    version, name = struct.unpack_from("<IQ", footer, 0)
    at = 12 + name + 1  # the schema's name, and whether dense
    assert footer[at] == 0, "a non-empty domain"
    struct.pack_into("<4q", footer, at + 1, 0, n_cells - 1, 0, GENES - 1)
    at += 1 + 32
    struct.pack_into("<QQ", footer, at, len(boxes), CAPACITY)
    at += 16 + 2  # and what it includes
    body = bytearray(content[: len(content) - 8 - length])
    sections = {0: r_tree(boxes)}
    for (number, column), mean in zip(COLUMNS.items(), STORED_BYTES, strict=True):
        tiles = stored_tiles((fragment / column).read_bytes())
        sizes = rng.integers(mean * 4 // 5, mean * 6 // 5, len(boxes))
        sizes[sampled(boxes)] = [len(tile) for tile in tiles]
        starts = np.cumsum(sizes) - sizes
        with (fragment / column).open("wb") as file:
            file.truncate(int(sizes.sum()))
            for start, tile in zip(starts[sampled(boxes)], tiles, strict=True):
                file.seek(int(start))
                file.write(tile)
        struct.pack_into("<Q", footer, at + 8 * number, int(sizes.sum()))
        sections[1 + number] = struct.pack("<Q", len(boxes)) + starts.astype(np.uint64).tobytes()
    at += 3 * PLACES * 8  # sizes of the files, of those of variable length, of validity
    for number, section in sections.items():
        struct.pack_into("<Q", footer, at + 8 * number, len(body))
        body += generic_tile(section, version)
    path.write_bytes(bytes(body) + bytes(footer) + struct.pack("<Q", length))


def write_obs(uri: str, n_cells: int, rng: np.random.Generator) -> None:
    """joinids, dataset_id and is_primary_data of all cells as one fragment, streamed."""
    import tiledb
    import tiledb.libtiledb as lt

    edges = np.sort(rng.integers(0, n_cells, N_DATASETS - 1))
    primary = rng.random(N_DATASETS) < 0.6
    context = tiledb.Ctx({"sm.compute_concurrency_level": 2})
    with tiledb.open(uri, "w", ctx=context) as array:
        query = lt.Query(context, lt.Array(context, array), lt.QueryType.WRITE)
        query.layout = lt.LayoutType.GLOBAL_ORDER
        step = 65_536 * 32
        present = np.ones(step, np.uint8)
        for begin in range(0, n_cells, step):
            joinids = np.arange(begin, min(begin + step, n_cells), dtype=np.int64)
            dataset = np.searchsorted(edges, joinids, side="right")
            columns = {
                "soma_joinid": joinids,
                "dataset_id": dataset.astype(np.int16),
                "is_primary_data": primary[dataset].astype(np.uint8),
            }
            for name, values in columns.items():
                query.set_data_buffer(name, values, len(values))
                if array.schema.has_attr(name) and array.schema.attr(name).isnullable:
                    query.set_validity_buffer(name, present[: len(values)], len(values))
            query._submit()
        query.finalize()


def make(folder: Path, n_cells: int, seed: int = 0) -> int:
    """Make the experiment; returns the tiles of X."""
    import pyarrow as pa
    import tiledbsoma
    from penstock.synthetic.census_layout import OBS_CONFIG, VAR_CONFIG, X_CONFIG

    rng = np.random.default_rng(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder = folder.absolute()
    names = pa.array([f"dataset-{i:04d}" for i in range(N_DATASETS)], pa.large_string())
    obs_fields = pa.schema([
        ("soma_joinid", pa.int64()),
        ("dataset_id", pa.dictionary(pa.int16(), pa.large_string())),
        ("is_primary_data", pa.bool_()),
    ])  # fmt: skip
    var = pa.table({
        "soma_joinid": np.arange(GENES),
        "feature_id": pa.array([f"ENSG{i:011d}" for i in range(GENES)], pa.large_string()),
    })  # fmt: skip

    def config(base: dict, kept: tuple[str, ...]) -> dict:
        create = base["tiledb"]["create"]
        attributes = {name: create["attrs"][name] for name in kept}
        return {"tiledb": {"create": {**create, "attrs": attributes}}}

    with tiledbsoma.Experiment.create(str(folder)) as experiment:
        obs = experiment.add_new_dataframe(
            "obs", schema=obs_fields, index_column_names=["soma_joinid"],
            platform_config=config(OBS_CONFIG, ("dataset_id", "is_primary_data")),
            domain=[(0, n_cells - 1)],
        )  # fmt: skip
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        frame = rna.add_new_dataframe(
            "var", schema=var.schema, index_column_names=["soma_joinid"],
            platform_config=config(VAR_CONFIG, ("feature_id",)), domain=[(0, GENES - 1)],
        )  # fmt: skip
        frame.write(var)
        rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(n_cells, GENES), platform_config=X_CONFIG
        )
        # The categories come with a first write; what it wrote is taken away again. tiledbsoma 2.x
        # stores none through the handle that made the dataframe.
        obs.close()
        with tiledbsoma.DataFrame.open(obs.uri, "w") as reopened:
            reopened.write(pa.table({
                "soma_joinid": pa.array([0]), "is_primary_data": [True],
                "dataset_id": pa.DictionaryArray.from_arrays(pa.array([0], pa.int16()), names),
            }, schema=obs_fields))  # fmt: skip
    for folder_name in ("__fragments", "__commits"):
        for each in (folder / "obs" / folder_name).iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    write_obs(str(folder / "obs"), n_cells, rng)
    array = folder / "ms" / "RNA" / "X" / "raw"
    boxes = tile_boxes(n_cells, rng)
    write_bands(str(array), sample_counts(boxes), 2)
    enlarge(array, boxes, n_cells, rng)
    return len(boxes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=int, default=160_000_000, metavar="N")
    options = parser.parse_args()
    print(f"{make(options.folder, options.cells):,} tiles")


if __name__ == "__main__":
    main()
