"""Growth of cost and memory with cells, genes, density, fragments, threads, processes and ranks."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from penstock.base.text import markdown_table
from penstock.errors import InvalidArgument, PenstockError
from penstock.synthetic.counts import MAX_GENES, MIN_GENES

from . import sweep
from .measuring import decode_bound
from .measuring.measurement import Measurement, with_labels
from .methods import METHODS
from .peers import cache_folder
from .target import local_path, make_target
from .worker.reach import is_remote
from .worker.request import Request, Work

AXES = ("cells", "genes", "density", "fragments", "threads", "processes", "ranks")
_RUNNING = ("threads", "processes", "ranks")
_NETWORKS = (1, 10, 25)  # Gbit/s
_MOST = 10**9


@dataclass(frozen=True)
class Point:
    """An experiment, and processes with threads that load it at once.

    Each of the `processes` loads the whole experiment, and `ranks` divide its cells. `density` is
    the mean number of non-zero genes in a cell.
    """

    cells: int = 32_768
    genes: int = 60_664
    density: float = 1_950.0
    fragments: int = 2
    threads: int = 2
    processes: int = 1
    ranks: int = 1

    @property
    def at_once(self) -> int:
        """Number of processes that run at once."""
        return self.processes * self.ranks

    def along(self, axis: str, value: float) -> Point:
        """Return the point with another value on one axis."""
        if axis == "density":
            return replace(self, density=float(value))
        return replace(self, **{axis: int(value)})


@dataclass(frozen=True)
class Failed:
    """A point that could not be measured."""

    axis: str
    point: Point
    error: str


@dataclass(frozen=True)
class Cost:
    """Cost of a point, and its bounds. Rates are cells a second of all processes together.

    `fairness` is the speed of the slowest process over the speed of the fastest.
    """

    axis: str
    point: Point
    microseconds_per_cell: float
    first_batch_seconds: float
    nonzeros_per_cell: float
    peak_uss: int
    bytes_per_cell: float
    decode: float | None
    memory: float
    fairness: float = 1.0
    left_out: str | None = None  # why the bound of decompression is missing

    @property
    def rate(self) -> float:
        """Speed of the whole epoch, in cells a second."""
        return 1e6 / self.microseconds_per_cell

    def network(self, gigabits: float) -> float:
        """Return the cells a second that a network of this speed transfers."""
        return gigabits * 1e9 / 8 / self.bytes_per_cell if self.bytes_per_cell else float("inf")

    @property
    def bound(self) -> tuple[str, float]:
        """Name and rate of the nearest bound: zstd alone, or memory bandwidth.

        A network is not considered, because measurements use a local disk with a warm cache.
        """
        bounds = {"memory bandwidth": self.memory}
        if self.decode is not None:
            bounds["decompression"] = self.decode
        name = min(bounds, key=lambda each: bounds[each])
        return name, bounds[name]


def parse_axis(text: str) -> tuple[str, list[float]]:
    """Return the axis and the values of ``cells=8192,16384``.

    Raises
    ------
    InvalidArgument
        The form or the axis is unknown, or a value is not a positive number.
    """
    axis, equals, values = text.partition("=")
    if axis not in AXES or not equals:
        raise InvalidArgument(
            f"an axis must be given as NAME=N,N… with a name of {', '.join(AXES)}, got {text!r}"
        )
    try:
        numbers = [float(value.replace("_", "")) for value in values.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) <= 0 or not all(np.isfinite(numbers)):
        raise InvalidArgument(f"an axis has positive numbers, got {text!r}")
    if axis != "density" and any(number % 1 for number in numbers):
        raise InvalidArgument(f"the axis {axis} has whole numbers, got {text!r}")
    if max(numbers) > _MOST:
        raise InvalidArgument(f"an axis has numbers of at most {_MOST:,}, got {text!r}")
    return axis, numbers


def parse_axes(texts: Sequence[str]) -> dict[str, list[float]]:
    """Return the values of several axes.

    Raises
    ------
    InvalidArgument
        See `parse_axis`; or an axis is given twice.
    """
    axes: dict[str, list[float]] = {}
    for text in texts:
        axis, values = parse_axis(text)
        if axis in axes:
            together = ",".join(f"{value:.12g}" for value in [*axes[axis], *values])
            raise InvalidArgument(
                f"the axis {axis} is given twice: give its values together, as {axis}={together}"
            )
        axes[axis] = values
    return axes


def experiment(point: Point, say: Callable[[str], object]) -> Path:
    """Return the point's experiment from the cache folder, where it is made if needed."""
    from penstock.synthetic import make_experiment

    made_of = {name: value for name, value in asdict(point).items() if name not in _RUNNING}
    name = "-".join(f"{key[0]}{value}" for key, value in made_of.items())
    path = cache_folder() / "scale" / name
    if not path.exists():
        say(f"making {json.dumps(made_of)}")
        make_experiment(
            path,
            n_cells=point.cells,
            n_genes=point.genes,
            mean_genes_per_cell=point.density,
            n_fragments=point.fragments,
        )
    return path


def points(
    axes: Mapping[str, Sequence[float]], base: Point, given: str | None = None
) -> list[tuple[str, Point]]:
    """Return (axis, point) for every value; a point on several axes occurs once for each.

    Raises
    ------
    InvalidArgument
        An experiment cannot be made; or a `given` experiment is not a local folder, or has an axis
        other than threads and processes.
    """
    if given is not None and is_remote(given):
        raise InvalidArgument(f"--on must be an experiment in a local folder, got {given}")
    found = []
    for axis, values in axes.items():
        if given is not None and axis not in _RUNNING:
            raise InvalidArgument(
                f"with --on, the axis must be one of {', '.join(_RUNNING)}, got {axis}"
            )
        for value in values:
            point = base.along(axis, value)
            if given is None:
                _check_made(axis, point)
            found.append((axis, point))
    return found


def _check_made(axis: str, point: Point) -> None:
    """Refuse an experiment that cannot be made, with the names of command-line options."""

    def said(name: str) -> str:
        value = f"{getattr(point, name):,g}"
        return f"{name} {value} of the axis" if name == axis else f"--{name} {value}"

    if not MIN_GENES <= point.genes <= MAX_GENES:
        raise InvalidArgument(
            f"genes must be from {MIN_GENES} to {MAX_GENES:,}, got {said('genes')}"
        )
    if point.density > point.genes / 5:
        raise InvalidArgument(
            f"density must be at most a fifth of genes, got {said('density')}, {said('genes')}"
        )
    if point.fragments > point.cells:
        raise InvalidArgument(
            f"fragments must not exceed cells, got {said('fragments')}, {said('cells')}"
        )


def measurement(
    point: Point, *, batch_size: int, memory_budget: str, say: Callable[[str], object],
    given: str | None = None,
) -> Measurement:  # fmt: skip
    """Return the measurement of the point's experiment, or of a `given` one."""
    path = experiment(point, say) if given is None else Path(local_path(given))
    target = make_target(str(path), say=lambda text: None)
    work = Work(str(path), batch_size=batch_size, sparse=True, memory_budget=memory_budget,
                threads=point.threads)  # fmt: skip
    return Measurement(
        METHODS["penstock"],
        Request("penstock", "scatter", work),
        expected_rows=target.n_obs,
        expected_joinid_sum=target.joinid_sum,
        expected_nonzeros=target.nonzeros,
        labels={**target.labels, "n_vars": None if given else point.genes},
    )


def in_processes(
    each: Measurement, n: int, results: str | Path | None, command: str,
    say: Callable[[str], object], divided: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure with n processes at the same time; return n rows.

    Each loads all cells, or its share as one of n ranks if they are `divided`. Loading starts when
    all processes have imported the loader or failed.
    """
    barrier = threading.Barrier(n)

    def gate() -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(each.timeout)

    def one(i: int) -> list[dict[str, Any]]:
        mine = with_labels(each, process=str(i), processes=str(n))
        if divided:
            mine = _of_rank(mine, i, n)
        try:
            return sweep.run([mine], results, command, say, gate=gate)
        finally:
            barrier.abort()

    with ThreadPoolExecutor(n) as pool:
        runs = [pool.submit(one, i) for i in range(n)]
        return [row for each in runs for row in each.result()]


def _of_rank(each: Measurement, rank: int, world_size: int) -> Measurement:
    """Return the measurement of a rank, whose number of cells is not known before."""
    work = replace(each.request.work, rank=rank, world_size=world_size)
    return replace(
        with_labels(each, ranks=str(world_size)),
        request=replace(each.request, work=work),
        expected_rows=None,
        expected_joinid_sum=None,
        expected_nonzeros=None,
    )


def cost(
    axis: str, point: Point, measured: Measurement, rows: Sequence[Mapping[str, Any]]
) -> Cost | Failed:
    """Return the cost from a point's rows; processes that ran together share a round."""
    good = [row for row in rows if row["status"] == "ok"]
    if not good or (point.ranks > 1 and len(good) < len(rows)):
        bad = next(row for row in reversed(rows) if row["status"] != "ok")
        return Failed(axis, point, f"{bad['status']}: {bad['error']}")
    rounds: dict[Any, list[Mapping[str, Any]]] = {}
    for row in good:
        rounds.setdefault(row["round"], []).append(row)
    wrong = [_wrong_ranks(measured, each) for each in rounds.values()] if point.ranks > 1 else []
    if any(wrong):
        return Failed(axis, point, f"wrong: {next(filter(None, wrong))}")
    cells = sum(row["total_n_rows"] for row in good)
    seconds = median(
        max(row["epoch_seconds"] for row in each) / sum(row["total_n_rows"] for row in each)
        for each in rounds.values()
    )
    nonzeros = sum(row["n_nonzeros"] for row in good) / cells
    path = Path(measured.request.work.source)
    decode, left_out = None, None
    try:
        decode = decode_bound.measure(
            path / "ms" / "RNA" / "X" / "raw",
            measured.expected_rows or 1,
            point.threads * point.at_once,
        )
    except PenstockError as error:
        left_out = str(error)
    return Cost(
        axis,
        point,
        1e6 * seconds,
        median(row["first_batch_seconds"] for row in good),
        nonzeros,
        max(row["max_mem"] for row in good) * point.at_once,
        sum(row["bytes_read"] for row in good) / cells,
        None if decode is None else decode.cells_per_second,
        memory_bound(nonzeros, point.threads * point.at_once),
        median(
            min(row["epoch_seconds"] for row in each) / max(row["epoch_seconds"] for row in each)
            for each in rounds.values()
        ),
        left_out,
    )


def _wrong_ranks(measured: Measurement, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why ranks together cannot have yielded each cell once, or None."""
    cells = sum(row["total_n_rows"] for row in rows)
    if cells != measured.expected_rows:
        return f"the ranks got {cells:,} cells, not {measured.expected_rows:,}"
    if sum(row["joinid_sum"] for row in rows) != measured.expected_joinid_sum:
        return "the ranks did not get each cell once"
    return None


def memory_bound(nonzeros_per_cell: float, threads: int) -> float:
    """Return the cells a second if only memory traffic took time.

    A non-zero is written decoded (8 bytes), read, written packed (3), read, and written as CSR (8).
    These 30 bytes are moved at the copy bandwidth of so many threads.
    """
    return copy_bandwidth(threads) / (30.0 * nonzeros_per_cell)


def copy_bandwidth(threads: int, n_bytes: int = 1 << 26) -> float:
    """Return the bytes a second, read and written, of threads that copy their own arrays."""
    arrays = [(np.ones(n_bytes, np.uint8), np.ones(n_bytes, np.uint8)) for _ in range(threads)]
    best = float("inf")
    for _ in range(3):
        group = [threading.Thread(target=np.copyto, args=pair) for pair in arrays]
        begin = time.perf_counter()
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()
        best = min(best, time.perf_counter() - begin)
    return 2 * n_bytes * threads / best


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the exponent of a power law: 0 is constant, 1 linear; None below two points."""
    if len({x for x, _ in points}) < 2:
        return None
    x, y = np.log([p[0] for p in points]), np.log([p[1] for p in points])
    return float(np.polyfit(x, y, 1)[0])


#: Share of a bound from which on the table calls it the bound.
_BOUNDS = 1 / 3


def table(found: Sequence[Cost | Failed]) -> str:
    """Return a Markdown table, one line per point, and the growth along each axis."""
    costs = [each for each in found if isinstance(each, Cost)]
    head = ("axis", "value", "µs a cell", "ns a non-zero", "first batch s", "peak USS MiB",
            "slowest process over fastest", "bound by", "share of it", *(f"at {n} Gbit/s, cells/s" for n in _NETWORKS))  # fmt: skip
    lines = [markdown_table(head, map(_cells, found))]
    for why in dict.fromkeys(each.left_out for each in costs if each.left_out):
        lines.append(f"- the bound of decompression is left out: {why}")
    for axis in dict.fromkeys(each.axis for each in costs):
        mine = [each for each in costs if each.axis == axis]
        values = [float(getattr(each.point, axis)) for each in mine]
        time_slope = slope(
            [(v, e.microseconds_per_cell) for v, e in zip(values, mine, strict=True)]
        )
        memory_slope = slope([(v, float(e.peak_uss)) for v, e in zip(values, mine, strict=True)])
        if time_slope is not None and memory_slope is not None:
            lines.append(
                f"- {axis}: time a cell grows as {axis}^{time_slope:.2f}, memory as {axis}^{memory_slope:.2f}"
            )
    return "\n".join(lines) + "\n"


def _cells(each: Cost | Failed) -> list[str]:
    value = f"{getattr(each.point, each.axis):,g}"
    if isinstance(each, Failed):
        return [each.axis, value, each.error]
    name, bound = each.bound
    return [
        each.axis,
        value,
        f"{each.microseconds_per_cell:.2f}",
        f"{1e3 * each.microseconds_per_cell / each.nonzeros_per_cell:.2f}",
        f"{each.first_batch_seconds:.2f}",
        f"{each.peak_uss / 2**20:,.0f}",
        f"{each.fairness:.0%}" if each.point.at_once > 1 else "",
        f"{name}, {bound:,.0f} cells/s"
        if each.rate >= _BOUNDS * bound
        else f"nothing of these; {name} would be at {bound:,.0f} cells/s",
        f"{each.rate / bound:.0%}",
        *(f"{min(each.network(n), each.rate):,.0f}" for n in _NETWORKS),
    ]


def forget() -> None:
    """Remove the experiments from the cache folder."""
    shutil.rmtree(cache_folder() / "scale", ignore_errors=True)
