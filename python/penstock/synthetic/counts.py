"""Counts of synthetic cells, one band of rows at a time, in TileDB's global order.

The molecules of a cell are drawn one by one. Each comes from one of three mixtures: the profile of
its cell type, the profile of its dataset (ambient and batch effects) or one of a few expression
programs that types share. A profile is a table of 2**18 gene keys with equal probability, so a draw
is one random number and one look-up. A key holds (gene tile, row, gene), with the tile in the
highest bits: sorted keys are in TileDB's order, and equal neighbours are counted. A band depends
only on (model, band number), not on the process that draws it or on the fragments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .census_layout import GENES_PER_TILE, ROWS_PER_BAND
from .population import Population
from .vocabulary import ABUNDANT_GENES, ASSAYS, CELL_TYPES

_TABLE_BITS = 18
_N_PROGRAMS = 8
_ROW_SHIFT = 11
_TILE_SHIFT = 22
_LOW_GENE = GENES_PER_TILE - 1
_ROWS_PER_DRAW = 128  # rows drawn together: their keys (1 to 2 MB) stay in the cache
_CALIBRATED_CELLS = 1 << 22
MIN_GENES = 64
MAX_GENES = GENES_PER_TILE << (32 - _TILE_SHIFT)


@dataclass(frozen=True)
class Band:
    """The non-zeros of some consecutive rows, in global order."""

    row_begin: int
    n_rows: int
    rows: npt.NDArray[np.int64]  # soma_dim_0
    genes: npt.NDArray[np.int64]  # soma_dim_1
    values: npt.NDArray[np.float32]  # soma_data

    def between(self, row_begin: int, row_end: int) -> Band:
        """Return the part of the band whose rows are in [row_begin, row_end)."""
        if row_begin <= self.row_begin and self.row_begin + self.n_rows <= row_end:
            return self
        keep = (self.rows >= row_begin) & (self.rows < row_end)
        begin = max(row_begin, self.row_begin)
        end = min(row_end, self.row_begin + self.n_rows)
        return Band(
            begin, max(end - begin, 0), self.rows[keep], self.genes[keep], self.values[keep]
        )


class CountModel:
    """Draws the counts of a `Population`; up to 170 MB of tables, read-only after __init__."""

    def __init__(
        self,
        population: Population,
        n_genes: int,
        mean_genes_per_cell: float,
        seed: int,
        distinctness: float = 1.0,
    ) -> None:
        self.population = population
        self.n_genes = n_genes
        self._seed = seed
        self._distinctness = distinctness
        rng = np.random.default_rng([seed, 2])
        n_datasets = len(population.datasets)
        log_mean = _log_abundance(n_genes, rng)
        self.abundant_genes = np.sort(
            rng.choice(max(n_genes // 2, len(ABUNDANT_GENES) + 1), len(ABUNDANT_GENES), False)
        )
        log_mean[self.abundant_genes] = -np.inf
        self.measured = _measured_genes(n_genes, n_datasets, log_mean, rng)
        self.measured[:, self.abundant_genes] = True
        self._tables = self._build_tables(log_mean, n_datasets, rng)
        means = np.array(list(ABUNDANT_GENES.values()))
        type_factor = rng.lognormal(0.0, 0.35 * distinctness, (len(CELL_TYPES), len(means)))
        self._abundant_mean = means * type_factor
        self.molecules_per_depth = self._calibrate(mean_genes_per_cell)

    @property
    def n_bands(self) -> int:
        """Number of bands of 2,048 rows; the last one may be shorter."""
        return -(-self.population.n_cells // ROWS_PER_BAND)

    def _build_tables(
        self, log_mean: npt.NDArray[np.float64], n_datasets: int, rng: np.random.Generator
    ) -> npt.NDArray[np.uint32]:
        """Return a table per profile: cell types, then datasets, then programs."""
        n_types = len(CELL_TYPES)
        expressed = np.flatnonzero(log_mean > np.quantile(log_mean, 0.6))
        n_markers = max(3, min(80, len(expressed) // 40))
        scale = np.where(
            np.arange(n_types + n_datasets + _N_PROGRAMS) < n_types, self._distinctness, 1
        )
        tables = np.empty((n_types + n_datasets + _N_PROGRAMS, 1 << _TABLE_BITS), np.uint32)
        for i in range(len(tables)):
            profile = log_mean + scale[i] * rng.normal(0.0, 0.35, len(log_mean))
            if i < n_types:
                markers = rng.choice(expressed, n_markers, replace=False)
                profile[markers] += scale[i] * rng.gamma(4.0, 0.6, n_markers)
            elif i >= n_types + n_datasets:
                n_program = max(3, len(expressed) // 15)
                profile[rng.choice(expressed, n_program, replace=False)] += 2.5
            tables[i] = _gene_keys(_quantise(np.exp(profile), rng))
        return tables

    def _calibrate(self, mean_genes_per_cell: float) -> float:
        """Return the molecules of a cell of depth 1 that give this mean number of genes."""
        rng = np.random.default_rng([self._seed, 3])
        # Every k-th cell is used if there are many: memory must not grow with the cells.
        step = -(-self.population.n_cells // _CALIBRATED_CELLS)
        depth = np.asarray(self.population.depth[::step])
        n = min(len(depth), 384)
        # Depth causes most of the spread; with evenly spaced quantiles, 384 cells suffice.
        by_depth = np.argsort(depth + 1e-6 * rng.random(len(depth)))
        quantiles = (np.arange(n) + 0.5) / n * len(depth)
        rows = np.sort(by_depth[quantiles.astype(np.int64)]) * step
        low, high = 0.05 * mean_genes_per_cell, 200.0 * mean_genes_per_cell
        for _ in range(9):
            middle = float(np.sqrt(low * high))
            keys, _ = self._draw(rows, middle, np.random.default_rng([self._seed, 4]))
            if len(keys) / n < mean_genes_per_cell:
                low = middle
            else:
                high = middle
        return float(np.sqrt(low * high))

    def band(self, number: int) -> Band:
        """Draw the counts of rows [number * 2048, number * 2048 + 2048)."""
        begin = number * ROWS_PER_BAND
        end = min(begin + ROWS_PER_BAND, self.population.n_cells)
        rng = np.random.default_rng([self._seed, 5, number])
        keys, counts = self._draw(np.arange(begin, end), self.molecules_per_depth, rng)
        row, gene = _row_and_gene(keys)
        return Band(
            begin,
            end - begin,
            row.astype(np.int64) + begin,
            gene.astype(np.int64),
            counts.astype(np.float32),
        )

    def _draw(
        self, rows: npt.NDArray[np.int64], molecules_per_depth: float, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return the sorted keys of the non-zeros of `rows` (from 0 in the keys), and counts."""
        people = self.population
        depth = people.depth[rows]
        abundant = self._draw_abundant(rows, depth, rng)
        n_molecules = rng.poisson(depth * molecules_per_depth)
        share = rng.dirichlet((14.0, 4.0, 2.0), len(rows))
        split = np.empty((len(rows), 3), np.int64)
        split[:, 1:] = np.rint(n_molecules[:, None] * share[:, 1:])
        split[:, 0] = np.maximum(n_molecules - split[:, 1] - split[:, 2], 0)
        first_program = len(CELL_TYPES) + len(people.datasets)
        table = np.empty((len(rows), 3), np.int64)
        table[:, 0] = people.cell_type[rows]
        table[:, 1] = len(CELL_TYPES) + people.dataset[rows]
        table[:, 2] = first_program + rng.integers(0, _N_PROGRAMS, len(rows))

        abundant_row, abundant_number = np.nonzero(abundant)
        abundant_keys = _gene_keys(self.abundant_genes[abundant_number].astype(np.uint32))
        abundant_keys |= abundant_row.astype(np.uint32) << np.uint32(_ROW_SHIFT)
        keys = np.empty(int(split.sum()) + len(abundant_keys), np.uint32)
        keys[: len(abundant_keys)] = abundant_keys
        filled = len(abundant_keys)
        flat_tables = self._tables.reshape(-1)
        for begin in range(0, len(rows), _ROWS_PER_DRAW):
            part = slice(begin, begin + _ROWS_PER_DRAW)
            lengths = split[part].reshape(-1)
            total = int(lengths.sum())
            pick = np.repeat(table[part].reshape(-1) << _TABLE_BITS, lengths)
            pick |= rng.integers(0, 1 << _TABLE_BITS, total, dtype=np.uint32)
            row = np.arange(begin, begin + len(split[part]), dtype=np.uint32)
            mine = keys[filled : filled + total]
            np.take(flat_tables, pick, out=mine, mode="clip")
            mine |= np.repeat(row << np.uint32(_ROW_SHIFT), split[part].sum(axis=1))
            filled += total
        keys.sort()
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        counts = np.diff(starts, append=len(keys))
        keys = keys[starts]
        counts[np.searchsorted(keys, abundant_keys)] = abundant[abundant_row, abundant_number]
        return self._keep_measured(rows, keys, counts, rng)

    def _draw_abundant(
        self, rows: npt.NDArray[np.int64], depth: npt.NDArray[np.float32], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        mean = self._abundant_mean[self.population.cell_type[rows]] * depth[:, None]
        state = rng.lognormal(0.0, 0.45, (len(rows), 1))  # stress, share of nuclear RNA
        mean[:, 1:10] *= state
        mean[:, :1] /= state
        return rng.poisson(mean * rng.gamma(6.0, 1.0 / 6.0, mean.shape))

    def _keep_measured(
        self,
        rows: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint32],
        counts: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Drop genes that a dataset did not measure, and scale counts of full-length assays."""
        row, gene = _row_and_gene(keys)
        dataset = self.population.dataset[rows].astype(np.int64)
        keep = self.measured.reshape(-1)[dataset[row] * self.n_genes + gene]
        keys, counts, row = keys[keep], counts[keep], row[keep]
        full_length = np.array([full for _, _, _, full in ASSAYS.values()])
        reads = full_length[self.population.datasets.assay[dataset]][row]
        n_reads = int(np.count_nonzero(reads))
        if n_reads:
            factor = rng.lognormal(2.5, 1.0, n_reads)
            counts[reads] = np.ceil(counts[reads] * factor).astype(np.int64)
        return keys, counts


def _log_abundance(n_genes: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw log-normal abundances that decrease with the gene's number.

    The Census's `var` got genes that the first datasets lack later, and these are rare.
    """
    number = np.arange(n_genes) / n_genes
    return rng.normal(0.0, 2.4, n_genes) - 4.0 * number**1.5


def _measured_genes(
    n_genes: int, n_datasets: int, log_mean: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return the genes of each dataset's reference: common ones in all, rare ones in some."""
    rank = np.empty(n_genes)
    rank[np.argsort(-log_mean)] = np.arange(n_genes) / n_genes
    breadth = rng.uniform(0.4, 0.9, (n_datasets, 1))
    measured = rng.random((n_datasets, n_genes)) < np.clip(1.6 * breadth + 0.4 - rank, 0.02, 1.0)
    return np.ascontiguousarray(measured)


def _quantise(weights: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.uint32]:
    """Fill a table in which each gene has its share; tiny shares get a slot by chance."""
    size = 1 << _TABLE_BITS
    edges = np.cumsum(weights)
    points = (np.arange(size) + rng.random()) * (edges[-1] / size)
    genes = np.searchsorted(edges, points, side="right")
    table: npt.NDArray[np.uint32] = np.minimum(genes, len(weights) - 1).astype(np.uint32)
    return table


def _gene_keys(genes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    tile = genes >> np.uint32(GENES_PER_TILE.bit_length() - 1)
    return (tile << np.uint32(_TILE_SHIFT)) | (genes & np.uint32(_LOW_GENE))


def _row_and_gene(
    keys: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    row = (keys >> np.uint32(_ROW_SHIFT)) & np.uint32(ROWS_PER_BAND - 1)
    gene = (keys >> np.uint32(_TILE_SHIFT)) * np.uint32(GENES_PER_TILE)
    return row.astype(np.int64), (gene + (keys & np.uint32(_LOW_GENE))).astype(np.int64)
