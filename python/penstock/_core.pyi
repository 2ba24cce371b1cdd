# Made by tools/make_stubs.py (make stubs); do not edit.
"""The engine of Penstock; use it through the package `penstock`."""

from collections.abc import Mapping, Sequence
import enum
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray

version: str = "0.1.0"

class RowSelection:
    """A set of joinids (int64), ascending; a compressed bitmap."""

    def __init__(self) -> None: ...
    @staticmethod
    def range(begin: int, end: int) -> RowSelection: ...
    @staticmethod
    def from_unsorted(
        joinids: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> RowSelection: ...
    @staticmethod
    def deserialize(data: bytes) -> RowSelection: ...
    def serialize(self) -> bytes: ...
    def __len__(self) -> int: ...
    def __contains__(self, joinid: int) -> bool: ...
    def at(self, position: int) -> int: ...
    def take(
        self,
        positions: Annotated[
            NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> RowSelection: ...
    def to_numpy(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def shifted(self, offset: int) -> RowSelection:
        """Moved by a multiple of 2**32."""

    def __and__(self, arg: RowSelection, /) -> RowSelection: ...
    def __or__(self, arg: RowSelection, /) -> RowSelection: ...
    def __sub__(self, arg: RowSelection, /) -> RowSelection: ...
    def __eq__(self, arg: object, /) -> bool: ...
    def __repr__(self) -> str: ...
    def fingerprint(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, arg: bytes, /) -> None: ...

class RowWeights:
    """Sampling weights of selected rows, by position."""

    @staticmethod
    def from_values(
        weights: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> RowWeights: ...
    @staticmethod
    def from_classes(
        codes: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        class_weights: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> RowWeights: ...
    def __len__(self) -> int: ...
    @property
    def positive_count(self) -> int: ...
    def fingerprint(self) -> int: ...

class RowSampling:
    """An epoch of rows that are drawn at random."""

    def __init__(self, weights: RowWeights | None, samples: int, replacement: bool) -> None: ...
    @property
    def samples(self) -> int: ...
    def fingerprint(self) -> int: ...

class ColumnInfo:
    """What a column of obs or var is."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def is_index(self) -> bool: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def enumerated(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def stored_bytes(self) -> int: ...
    def __repr__(self) -> str: ...
    @property
    def is_string(self) -> bool: ...

class ConstantColumn:
    """A column with one value in every row, for filters to name."""

    @staticmethod
    def text(name: str, text: str) -> ConstantColumn: ...
    @staticmethod
    def missing(column: ColumnInfo) -> ConstantColumn: ...

class Column:
    """One column in memory."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def is_coded(self) -> bool: ...
    @property
    def is_enumerated(self) -> bool: ...
    @property
    def is_string(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    def __len__(self) -> int: ...
    def values(self) -> numpy.typing.NDArray[Any]: ...
    def strings(self) -> list[str | bytes | None]: ...
    def string_codes(self) -> tuple[numpy.typing.NDArray[Any], list[str | bytes]]: ...
    def validity(self) -> numpy.typing.NDArray[Any] | None: ...
    def categories(self) -> list[str | bytes] | numpy.typing.NDArray[Any] | None: ...

def filter_columns(value_filter: str) -> list[str]:
    """Names of the columns that a filter compares."""

def expect_one_order(value_filter: str, without_order: Sequence[str]) -> None:
    """Refuse a filter that compares these columns of categories by < or >."""

class DataFrame:
    @property
    def columns(self) -> list[ColumnInfo]: ...
    @property
    def unread_columns(self) -> dict[str, str]: ...
    def row_count(self) -> int: ...
    @property
    def uri(self) -> str: ...
    def read(
        self, columns: Sequence[str], value_filter: str, joinids: RowSelection | None
    ) -> list[Column]: ...
    def select(
        self, value_filter: str, constants: Sequence[ConstantColumn] = []
    ) -> RowSelection: ...

class FetchUnit:
    @property
    def row_begin(self) -> int: ...
    @property
    def row_end(self) -> int: ...
    @property
    def cell_bound(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def tile_count(self) -> int: ...

class Matrix:
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def value_type(self) -> str: ...
    @property
    def uri(self) -> str: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def fragment_count(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def addresses_rows(self) -> bool:
        """
        Whether any row can be read by itself at little cost, as in a pack on a disk.
        """

    def is_cached(self, rows: RowSelection) -> bool:
        """Whether a cache that it is read through has each of these rows now."""

    def expect_rows(self) -> None:
        """
        Raise Unsupported if the matrix is stored by genes, so that rows cannot be read.
        """

    def has_fractions(self) -> bool:
        """Whether a value of some rows is no whole number. Reads a few rows."""

    def __repr__(self) -> str: ...
    def stored_cells(self) -> int: ...
    def tile_count(self) -> int: ...
    def units(self) -> list[FetchUnit]: ...

class JoinPart:
    """A matrix to be joined with others."""

    def __init__(
        self,
        matrix: Matrix,
        row_offset: int,
        row_end: int,
        columns: Sequence[int],
        joined_columns: Sequence[int],
    ) -> None: ...

def beside(matrices: Sequence[Matrix]) -> Matrix:
    """
    Matrices with the same rows as one: columns of the first, then of the second.
    """

def join_matrices(parts: Sequence[JoinPart], column_count: int) -> Matrix: ...

class JoinGenes(enum.Enum):
    inner = 0

    outer = 1

    listed = 2

class JoinExperiment:
    """An experiment to be joined with others."""

    def __init__(self, experiment: Experiment, name: str, measurement: str, layer: str) -> None: ...

def join_experiments(
    experiments: Sequence[JoinExperiment],
    genes: JoinGenes,
    gene_names: Sequence[str],
    var_column: str,
    source_column: str,
) -> Experiment: ...

class Experiment:
    @staticmethod
    def open(
        uri: str,
        timestamp_ms: int | None,
        threads: int,
        storage_options: Mapping[str, str] = {},
        credentials: object | None = None,
    ) -> Experiment: ...
    @property
    def uri(self) -> str: ...
    def obs(self) -> DataFrame: ...
    def measurements(self) -> list[str]: ...
    def var(self, measurement: str) -> DataFrame: ...
    def layers(self, measurement: str) -> list[str]: ...
    def default_layer(self, measurement: str) -> str: ...
    def x(self, measurement: str, layer: str) -> Matrix: ...
    def metadata(self) -> dict[str, str]: ...

class MemoryColumn:
    """A column of a table in memory."""

    @staticmethod
    def numbers(name: str, values: object, valid: object | None) -> MemoryColumn: ...
    @staticmethod
    def codes(
        name: str, codes: object, categories: object, ordered: bool, from_strings: bool
    ) -> MemoryColumn: ...
    @staticmethod
    def strings(name: str, characters: bytes, offsets: object) -> MemoryColumn: ...

class MemoryMatrix:
    """A matrix of numpy arrays, read in place."""

    @staticmethod
    def csr(
        data: object,
        indices: object,
        indptr: object,
        rows: int,
        columns: int,
        view_rows: object | None,
        view_columns: object | None,
    ) -> MemoryMatrix: ...
    @staticmethod
    def dense(
        cells: object, view_rows: object | None, view_columns: object | None
    ) -> MemoryMatrix: ...

class MemoryMeasurement:
    def __init__(
        self, name: str, var: Sequence[MemoryColumn], var_count: int, var_unread: Mapping[str, str]
    ) -> None: ...
    def add_layer(self, name: str, matrix: MemoryMatrix) -> None: ...

def open_in_memory(
    uri: str,
    obs: Sequence[MemoryColumn],
    obs_count: int,
    measurements: Sequence[MemoryMeasurement],
    obs_unread: Mapping[str, str],
) -> Experiment: ...

class Batch:
    """One mini-batch; its arrays share its memory."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def repeated_row(self) -> int | None:
        """Row that is here a second time to make ranks even, if there is one."""

    def csr(
        self,
    ) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]: ...
    def dense(self) -> numpy.typing.NDArray[Any]: ...
    def joinids(self) -> numpy.typing.NDArray[Any]: ...
    def lengths(self) -> numpy.typing.NDArray[Any]: ...
    def part(self, index: int) -> Batch:
        """The arrays of a measurement."""

    def missing(self) -> numpy.typing.NDArray[Any]:
        """Of a part: 1 for rows without an entry."""

    def positions(self) -> numpy.typing.NDArray[Any]: ...

class TransformPlan:
    """Steps on each cell's values, in the order in which they are added."""

    def __init__(self) -> None: ...
    def normalize_total(
        self,
        target: float,
        row_totals: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
    ) -> None: ...
    def log1p(self, divisor: float) -> None: ...
    def expm1(self, divisor: float) -> None: ...
    def clip(self, low: float, high: float) -> None: ...
    def binarize(self, threshold: float) -> None: ...
    def scale(
        self,
        scale: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        mean: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
    ) -> None: ...
    def columns(
        self,
        places: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        columns: int,
    ) -> None: ...
    def rank_tokens(
        self,
        medians: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tokens: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        target: float,
        max_tokens: int,
        pad: int,
        first: int | None,
        last: int | None,
        row_totals: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
        dtype: str,
    ) -> None: ...

class BatchLayout(enum.Enum):
    csr = 0

    dense = 1

class UnevenRows(enum.Enum):
    drop = 0

    pad = 1

    exact = 2

class StoredOrder:
    """Rows ascend by joinid."""

    def __init__(self) -> None: ...

class ScatterShuffle:
    """Units are read once, and mixed."""

    def __init__(self) -> None: ...

class GlobalShuffle:
    """One permutation of all rows."""

    def __init__(self) -> None: ...

class ChunkShuffle:
    """The shuffle of the Census's loaders."""

    def __init__(self, chunk_rows: int, chunks_per_block: int) -> None: ...

class KeptRows:
    """Rows that stay in memory between epochs."""

    def __init__(self) -> None: ...
    def rows(self) -> int: ...
    def bytes(self) -> int: ...
    def packed_rows(self) -> int: ...
    def clear(self) -> None: ...

class BatchPart:
    """Columns that make an array of their own in a batch."""

    def __init__(
        self,
        column_end: int,
        layout: BatchLayout,
        dtype: str,
        transforms: TransformPlan | None,
        name: str,
    ) -> None: ...

class LoaderOptions:
    def __init__(self) -> None: ...
    @property
    def rows(self) -> RowSelection | None: ...
    @rows.setter
    def rows(self, value: RowSelection | None) -> None: ...
    @property
    def columns(self) -> list[int] | None: ...
    @columns.setter
    def columns(self, value: Sequence[int] | None) -> None: ...
    @property
    def batch_size(self) -> int: ...
    @batch_size.setter
    def batch_size(self, arg: int, /) -> None: ...
    @property
    def order(
        self,
    ) -> ScatterShuffle | StoredOrder | GlobalShuffle | ChunkShuffle | RowSampling: ...
    @order.setter
    def order(
        self, arg: ScatterShuffle | StoredOrder | GlobalShuffle | ChunkShuffle | RowSampling, /
    ) -> None: ...
    @property
    def seed(self) -> int: ...
    @seed.setter
    def seed(self, arg: int, /) -> None: ...
    @property
    def epoch(self) -> int: ...
    @epoch.setter
    def epoch(self, arg: int, /) -> None: ...
    @property
    def first_batch(self) -> int: ...
    @first_batch.setter
    def first_batch(self, arg: int, /) -> None: ...
    @property
    def memory_budget(self) -> int: ...
    @memory_budget.setter
    def memory_budget(self, arg: int, /) -> None: ...
    @property
    def threads(self) -> int: ...
    @threads.setter
    def threads(self, arg: int, /) -> None: ...
    @property
    def kept(self) -> KeptRows: ...
    @kept.setter
    def kept(self, value: KeptRows | None) -> None: ...
    @property
    def kept_memory(self) -> int: ...
    @kept_memory.setter
    def kept_memory(self, arg: int, /) -> None: ...
    @property
    def layout(self) -> BatchLayout: ...
    @layout.setter
    def layout(self, arg: BatchLayout, /) -> None: ...
    @property
    def dtype(self) -> str: ...
    @dtype.setter
    def dtype(self, arg: str, /) -> None: ...
    @property
    def narrow_values(self) -> bool: ...
    @narrow_values.setter
    def narrow_values(self, arg: bool, /) -> None: ...
    @property
    def transforms(self) -> TransformPlan | None: ...
    @transforms.setter
    def transforms(self, value: TransformPlan | None) -> None: ...
    @property
    def parts(self) -> list[BatchPart]: ...
    @parts.setter
    def parts(self, arg: Sequence[BatchPart], /) -> None: ...
    @property
    def drop_last(self) -> bool: ...
    @drop_last.setter
    def drop_last(self, arg: bool, /) -> None: ...
    @property
    def min_batch(self) -> int: ...
    @min_batch.setter
    def min_batch(self, arg: int, /) -> None: ...
    @property
    def uneven(self) -> UnevenRows: ...
    @uneven.setter
    def uneven(self, arg: UnevenRows, /) -> None: ...
    @property
    def world_size(self) -> int: ...
    @world_size.setter
    def world_size(self, arg: int, /) -> None: ...
    @property
    def rank(self) -> int: ...
    @rank.setter
    def rank(self, arg: int, /) -> None: ...
    @property
    def num_workers(self) -> int: ...
    @num_workers.setter
    def num_workers(self, arg: int, /) -> None: ...
    @property
    def worker(self) -> int: ...
    @worker.setter
    def worker(self, arg: int, /) -> None: ...

def keeps_all_rows(matrix: Matrix, options: LoaderOptions) -> bool:
    """Whether all rows of these options fit in memory_budget and stay there."""

def divide_memory(matrix: Matrix, options: LoaderOptions) -> LoaderOptions:
    """Options that keep a part of the rows, if not all fit in memory_budget."""

class LoaderStats:
    @property
    def cells(self) -> int: ...
    @property
    def nonzeros(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def bytes_needed(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def units_in_shuffle(self) -> int: ...
    @property
    def consumer_wait_seconds(self) -> float: ...
    @property
    def peak_buffered_bytes(self) -> int: ...
    @property
    def spilled_bytes(self) -> int: ...
    @property
    def planned_bytes(self) -> int: ...
    @property
    def planned_units(self) -> int: ...
    @property
    def planned_bytes_read(self) -> int: ...
    @property
    def cached_units(self) -> int: ...
    @property
    def cached_bytes(self) -> int: ...
    @property
    def kept_units(self) -> int: ...
    @property
    def kept_bytes(self) -> int: ...
    @property
    def all_kept(self) -> bool: ...
    @property
    def requests_rows(self) -> bool: ...

class Loader:
    """One epoch."""

    def __init__(self, matrix: Matrix, options: LoaderOptions) -> None: ...
    def size(self) -> int: ...
    def row_count(self) -> int: ...
    def active_workers(self) -> int: ...
    def fingerprint(self) -> int: ...
    def rows_before(self) -> RowSelection:
        """joinids in the batches before first_batch."""

    def row_count_before(self) -> int:
        """
        Rows in the batches before first_batch; those drawn again are counted each time.
        """

    def label_entropy(
        self, labels: numpy.typing.NDArray[numpy.uint32]
    ) -> tuple[numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.uint64]]:
        """Entropy of a label in each batch, in bits, and the rows of each label."""

    def next(self) -> Batch | None: ...
    def is_ready(self) -> bool:
        """
        Whether next() would return or raise at once; False before the first call of it.
        """

    def is_usable(self) -> bool:
        """False in a process that was forked from the one that made it."""

    def cancel(self) -> None: ...
    def counts(self) -> LoaderStats:
        """
        stats() without bytes_needed, planned_bytes and planned_bytes_read, at the cost of a lock.
        """

    def stats(self) -> LoaderStats: ...

class OrderSettings:
    """
    What the order of an epoch and its batches depend on, but cells, rank and worker.
    """

    @property
    def world_size(self) -> int: ...
    @property
    def num_workers(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def shuffle(self) -> bool: ...
    @property
    def seed(self) -> int: ...
    @property
    def memory_budget(self) -> int: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def drop_last(self) -> bool: ...
    @property
    def min_batch(self) -> int: ...
    @property
    def uneven(self) -> str: ...
    @property
    def sampling(self) -> int: ...
    @property
    def chunk_size(self) -> int: ...
    @property
    def chunks_per_block(self) -> int: ...
    @property
    def global_shuffle(self) -> bool: ...
    @property
    def kept_memory(self) -> int: ...
    def same_for_ranks(self, other: OrderSettings) -> bool:
        """Whether only settings differ that each rank may choose."""

class ResumeSegment:
    """Batches of an epoch that came in one order."""

    @property
    def order(self) -> OrderSettings: ...
    @property
    def plan(self) -> int: ...
    @property
    def active_workers(self) -> int: ...
    @property
    def batches(self) -> int: ...

class SelectionFingerprint:
    """Hashes of all that the values of a batch depend on."""

    def __init__(
        self, cells: int, genes: int, layer: int, transforms: int, joined: int
    ) -> None: ...
    def differences(self, other: SelectionFingerprint) -> str:
        """What differs, in words; empty where nothing does."""

class ResumeState:
    """How far an epoch is."""

    def __init__(self, epoch: int, selection: SelectionFingerprint) -> None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def selection(self) -> SelectionFingerprint: ...
    @property
    def segments(self) -> list[ResumeSegment]: ...
    @property
    def worker(self) -> int | None: ...
    def check_worker(self, worker: int, num_workers: int) -> None: ...
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> ResumeState: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __getstate__(self) -> str: ...
    def __setstate__(self, arg: str, /) -> None: ...

class EpochRun:
    """An epoch as this process reads it."""

    def __init__(self, state: ResumeState, options: LoaderOptions, is_worker: bool) -> None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def order(self) -> OrderSettings: ...
    @property
    def earlier(self) -> list[ResumeSegment]: ...
    @property
    def batches(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def as_worker(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    def loader_options(self, left: LoaderOptions) -> LoaderOptions: ...
    def set_plan(self, fingerprint: int, active_workers: int, size: int, stored: str) -> None: ...
    def count_batch(self) -> None: ...
    def state(self) -> ResumeState: ...

def rows_taken(
    matrix: Matrix, before: LoaderOptions, epoch: int, segment: ResumeSegment
) -> tuple[RowSelection, int]:
    """
    Rows that all ranks and workers handed over in a segment; their number, repeats included.
    """

class StatisticsOptions:
    def __init__(self) -> None: ...
    @property
    def memory_budget(self) -> int: ...
    @memory_budget.setter
    def memory_budget(self, arg: int, /) -> None: ...
    @property
    def threads(self) -> int: ...
    @threads.setter
    def threads(self, arg: int, /) -> None: ...
    @property
    def by_column(self) -> bool: ...
    @by_column.setter
    def by_column(self, arg: bool, /) -> None: ...
    @property
    def by_row(self) -> bool: ...
    @by_row.setter
    def by_row(self, arg: bool, /) -> None: ...
    def from_loader(self, loader: LoaderOptions) -> None:
        """Rows, columns, transforms, dtype, memory and threads."""

    def group(
        self,
        groups: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        count: int,
    ) -> None: ...
    @property
    def chunk_rows(self) -> int: ...
    @chunk_rows.setter
    def chunk_rows(self, arg: int, /) -> None: ...
    def clip(
        self,
        upper: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

class StatisticsPass:
    """Moments of a matrix, in one pass."""

    def __init__(self, matrix: Matrix, options: StatisticsOptions) -> None: ...
    def run(self) -> None:
        """Read everything."""

    def rows_done(self) -> int: ...
    @property
    def column_count(self) -> int: ...
    def group_sizes(self) -> list[int]: ...
    def columns(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.float64],
    ]:
        """Non-zeros, totals, squared deviations; by group, then column."""

    def rows(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.float64],
    ]:
        """The same by row."""

    def sums(self) -> bytes: ...

class StatisticsSum:
    """Adds up the sums of passes over chunks."""

    def __init__(
        self,
        columns: int,
        group_count: int,
        upper: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
    ) -> None: ...
    def add(self, sums: bytes, group_sizes: Sequence[int], groups: Sequence[int]) -> None: ...
    def group_sizes(self) -> list[int]: ...
    def columns(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.float64],
    ]:
        """As of StatisticsPass."""

class PackProgress:
    @property
    def rows_done(self) -> int: ...
    @property
    def rows_total(self) -> int: ...
    @property
    def rows_kept(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def layer(self) -> str: ...
    @property
    def passes(self) -> dict[str, int]: ...
    @property
    def pass_number(self) -> int: ...
    @property
    def pass_share(self) -> float: ...

class Packer:
    """Packs an experiment, a while at a time."""

    def __init__(
        self,
        source: Experiment,
        destination: str,
        rows: RowSelection | None,
        measurements: Sequence[str],
        layers: Sequence[str],
        overwrite: bool,
        threads: int,
        rows_per_file: int,
        memory_budget: int = 2147483648,
        part: tuple[int, int, bool] | None = None,
    ) -> None:
        """
        `part`: number from 0, count, and whether another Packer has begun and finishes.
        """

    def begin(self) -> None:
        """Copies obs and var, and makes all folders."""

    @property
    def key(self) -> str:
        """SHA-256 of all that is packed, hexadecimal."""

    def files(self) -> list[str]:
        """Row files of the pack, or of the part, by path below it."""

    def close(self) -> None:
        """Lets others pack there."""

    def stored_by_columns(self) -> bool: ...
    def advance(self, seconds: float) -> bool:
        """Works on for about so long; False when the pack is there."""

    def progress(self) -> PackProgress: ...

class Cache:
    """Rows kept on a local disk."""

    def __init__(self, folder: str, limit_bytes: int) -> None: ...
    def through(self, matrix: Matrix) -> Matrix: ...
    def problem(self) -> str:
        """
        Why nothing is kept any more; empty while it is. At the cost of a lock.
        """

def read_array(
    uri: str,
    columns: Sequence[str] = [],
    timestamp_start: int | None = None,
    timestamp_end: int | None = None,
    threads: int = 0,
) -> list[Column]:
    """
    Columns of any TileDB array, for tests and for a look at one; all of them when `columns` is empty.
    """

def decode_bound(
    uri: str, parts: Sequence[str], most_bytes: int, threads: int, rounds: int
) -> tuple[float, int, int, int]:
    """
    Seconds that undoing the filters of tiles of a sparse X takes, spread over the array and of at most `most_bytes`, from memory; their cells, those of the array, and the bytes decoded. For `penstock bench`.
    """

@overload
def split_rows(
    rows: RowSelection,
    strata: Annotated[
        NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    counts: Annotated[
        NDArray[numpy.uint64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seed: int,
) -> list[RowSelection]: ...
@overload
def split_rows(
    rows: RowSelection,
    strata: Annotated[
        NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    counts: Annotated[
        NDArray[numpy.uint64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seed: int,
) -> list[RowSelection]: ...
@overload
def split_rows(
    rows: RowSelection,
    strata: Annotated[
        NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    counts: Annotated[
        NDArray[numpy.uint64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seed: int,
) -> list[RowSelection]:
    """
    Deals rows at random among parts: `counts` has the rows of each stratum for each part, `strata` the stratum of each row (empty: one for all).
    """

class S3Access:
    """How another client writes to a bucket."""

    def __init__(
        self, uri: str, storage_options: Mapping[str, str], credentials: object | None
    ) -> None:
        """Lists the folder, to learn where the bucket is."""

    @property
    def url(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def requester_pays(self) -> bool: ...
    def key(self) -> tuple[str, str, str] | None:
        """
        Key, secret and token, valid for five minutes at least; None for unsigned requests.
        """

def check_no_secrets(what: str, address: bytes) -> None:
    """
    InvalidArgument, which does not show it, for an address with a user, password, query or fragment.
    """
