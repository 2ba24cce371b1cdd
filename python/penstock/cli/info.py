"""``penstock info``: contents of an experiment, and memory of a loader. Needs only numpy."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.base.text import aligned, count, plural, printable, size
from penstock.base.validation import checked_int
from penstock.cli.parser import add_command
from penstock.cli.storage_option import add_storage_option, storage_options_of
from penstock.dataset.dataset import Dataset
from penstock.errors import PenstockError, ResourceExhausted, Unsupported
from penstock.experiment.experiment import Experiment, open_stored
from penstock.experiment.globs import expanded
from penstock.experiment.reprs import column_type
from penstock.plan.shuffle_cost import is_decoded_many_times

from . import value_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.experiment.data_frame import DataFrame


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "info",
        help="contents of an experiment, and the memory that loading it takes",
        description="Shows the measurements, layers, obs columns and storage of a SOMA experiment, "
        "an AnnData (h5ad or zarr), or a pack: chunks and codecs, how much of them an epoch reads, "
        "and the fetch units and memory of a loader with default settings.",
        examples=(
            "penstock info cells.h5ad",
            "penstock info 'atlas/*.h5ad' --counts cell_type",
            "penstock info s3://bucket/experiment -o anonymous=true",
        ),
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        help="path or URI of an experiment, an AnnData or a pack, or a pattern of paths such as 'atlas/*.h5ad'",
    )
    add_storage_option(parser)
    parser.add_argument(
        "--counts", metavar="COLUMN", action="append", default=[],
        help="obs column whose values are counted, in place of all else; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--top", metavar="N", type=int, default=20,
        help="number of values that --counts shows, the commonest; 0: all",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Print the information about an experiment, or about each that a pattern finds.

    Raises
    ------
    PenstockError
        One cannot be read; of a pattern, all others are printed before.
    """
    path, columns = parsed.path, parsed.counts
    top = checked_int("--top", parsed.top, least=0)
    storage_options = storage_options_of(parsed.storage_option)

    def show(experiment: Experiment) -> None:
        told = value_counts.lines(experiment, columns, top) if columns else lines(experiment)
        for line in told:
            print(printable(line))

    found = expanded(path)
    if not isinstance(found, list):
        show(open_stored(found, storage_options=storage_options))
        return
    cells = 0
    unread = []
    for each in found:
        try:
            experiment = open_stored(each, storage_options=storage_options)
            show(experiment)
        except PenstockError as error:
            if "storage option" in str(error):  # of the command line, so of all of them
                raise
            print(printable(f"{each}: cannot be read: {error}"))
            unread.append(each)
        else:
            cells += experiment.n_obs
        print()
    read = plural(len(found) - len(unread), "experiment")
    print(printable(f"{read}, {plural(cells, 'cell')}, in {path}"))
    if unread:
        raise Unsupported(f"cannot be read: {', '.join(map(str, unread))}")


def lines(experiment: Experiment) -> Iterator[str]:
    """Yield the lines of the text."""
    obs = experiment.obs
    yield f"{experiment.uri}"
    yield from _indented(sorted(experiment.metadata.items()), 2)
    yield ""
    yield f"obs: {plural(len(obs), 'cell')}"
    yield from _columns(obs)
    for name in experiment.measurements:
        yield ""
        try:
            yield from list(_measurement(experiment, name))
        except PenstockError as error:
            yield f"measurement {name}: cannot be read: {error}"
            continue
        for layer in experiment.layers(name):
            yield ""
            try:
                yield from list(_layer(experiment, name, layer))
            except PenstockError as error:
                yield f"layer {name}/X/{layer}: cannot be read: {error}"


def _measurement(experiment: Experiment, name: str) -> Iterator[str]:
    var = experiment.var(name)
    yield f"measurement {name}: {plural(len(var), 'gene')}"
    yield from _columns(var)


def _columns(table: DataFrame) -> Iterator[str]:
    rows = [
        (column.name, column_type(column), size(column.stored_bytes) if column.stored_bytes else "")
        for column in table.schema
    ]
    yield from _indented(rows, 2, right=[2])
    for name, reason in table.unread_columns.items():
        yield f"  {name} is not read: {reason}"


def _layer(experiment: Experiment, measurement: str, name: str) -> Iterator[str]:
    matrix = experiment.x(measurement, name)
    cells, nonzeros = experiment.n_obs, matrix.stored_cells()
    rows, columns = matrix.shape
    bytes_each = _per(matrix.stored_bytes, nonzeros, "bytes a non-zero", 2)
    yield f"layer {measurement}/X/{name}: {matrix.value_type}"
    facts = [
        ("shape", f"{count(rows)} × {count(columns)}"),
        ("non-zeros", count(nonzeros) + _per(nonzeros, cells, "a cell", 0)),
        ("stored", size(matrix.stored_bytes) + bytes_each),
    ]
    if _in_chunks(matrix):
        facts += [("layout", matrix.layout), ("chunks", _chunks(matrix))]
    else:
        facts += [("fragments", count(matrix.fragment_count)), ("layout", matrix.layout)]
    facts.append(("fetch units", _units(matrix)))
    yield from _indented(facts, 2)
    yield from (f"  {line}" for line in _advice(matrix))
    try:
        dataset = Dataset(experiment, measurement=measurement, layer=name)
    except Unsupported as error:
        yield f"  a loader cannot read this layer: {error}"
    else:
        yield f"  {_loader_memory(dataset)}"


def _in_chunks(matrix: _core.Matrix) -> bool:
    """Return whether the matrix lies in chunks of zarr or HDF5 arrays."""
    return "zarr" in matrix.layout or "hdf5" in matrix.layout


def _chunks(matrix: _core.Matrix) -> str:
    """Return the number of chunks, the rows of each, and what an epoch reads of them.

    A chunk that a boundary of units divides is read by both units.
    """
    units = matrix.units()
    if not units:  # stored by genes, or no cells: there is no epoch
        return count(matrix.tile_count())
    read = sum(unit.stored_bytes for unit in units)
    chunks = sum(unit.tile_count for unit in units)
    text = count(chunks)
    if matrix.layout.startswith("csr") and chunks:
        rows = sum(unit.row_end - unit.row_begin for unit in units)
        text += (
            f" of data and indices, each about {plural(max(1, round(2 * rows / chunks)), 'row')}"
        )
    if matrix.stored_bytes:
        text += f"; an epoch reads {read / matrix.stored_bytes:.2f} times what is stored"
    return text


def _advice(matrix: _core.Matrix) -> Iterator[str]:
    if is_decoded_many_times(matrix):
        yield "a chunk has the cells of many fetch units: a pack (`penstock pack`) decodes it once"
        return
    slow = [codec for codec in ("gzip", "zlib") if codec in matrix.layout.replace(",", "").split()]
    if slow:
        yield (
            f"{slow[0]} is slow to decode: cache_dir=… or a pack (`penstock pack`) makes later epochs faster"
        )


def _units(matrix: _core.Matrix) -> str:
    units = matrix.units()
    if not units:
        return "none"
    tile = "chunk" if _in_chunks(matrix) else "tile"
    rows = sum(unit.row_end - unit.row_begin for unit in units) / len(units)
    stored = sum(unit.stored_bytes for unit in units) / len(units)
    tiles = sum(unit.tile_count for unit in units) / len(units)
    about = f"{len(units):,}, each about" if len(units) > 1 else "1, of"
    return f"{about} {plural(round(rows), 'row')}, {plural(round(tiles), tile)}, {size(stored)}"


def _loader_memory(dataset: Dataset) -> str:
    try:
        plan = dataset.plan()
    except ResourceExhausted as error:
        return f"the default settings do not work for this layer: {error}"
    units = plural(min(plan.units_in_shuffle, plan.planned_units), "unit")
    return (
        f"a loader with default settings takes {size(plan.planned_bytes)} and mixes "
        f"{units} at a time"
    )


def _per(total: int, count: int, unit: str, digits: int) -> str:
    return f", {total / count:,.{digits}f} {unit}" if count else ""


def _indented(
    rows: Iterable[Sequence[str]], spaces: int, right: Iterable[int] = ()
) -> Iterator[str]:
    for line in aligned(rows, right):
        yield " " * spaces + line
