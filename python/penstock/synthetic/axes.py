"""The `obs` and `var` of a synthetic experiment, as Arrow tables with the Census's columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .census_layout import obs_schema, var_schema
from .counts import Band, CountModel
from .population import Population, array_in, row_slabs
from .vocabulary import ABUNDANT_GENES, ASSAYS, CELL_TYPES, DISEASES, ETHNICITIES, STAGES, TISSUES

if TYPE_CHECKING:
    import pyarrow as pa

_ALPHABET = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    np.uint8,
)


_PER_CELL: dict[str, Any] = {"nnz": np.int64, "raw_sum": np.float64, "raw_square_sum": np.float64}
ROWS_PER_TABLE = 1 << 18


class AxisStatistics:
    """Sums over X by cell and by gene, collected while bands are drawn: 24 bytes a cell.

    With a folder, the sums by cell are in files that processes share, each for its own rows.
    """

    def __init__(self, n_cells: int, n_genes: int, folder: Path | None = None) -> None:
        self.nnz, self.raw_sum, self.raw_square_sum = (
            array_in(folder, name, dtype, n_cells) for name, dtype in _PER_CELL.items()
        )
        self.gene_nnz: npt.NDArray[np.int64] = np.zeros(n_genes, np.int64)

    @staticmethod
    def shared(folder: Path, n_genes: int) -> AxisStatistics:
        """Return statistics whose sums by cell are the files of another process's folder."""
        made = AxisStatistics(0, n_genes)
        for name in _PER_CELL:
            setattr(made, name, np.load(folder / f"{name}.npy", mmap_mode="r+"))
        return made

    def add(self, band: Band) -> None:
        """Add the sums of a band, whose rows must not be added twice."""
        rows = slice(band.row_begin, band.row_begin + band.n_rows)
        row = band.rows - band.row_begin
        self.nnz[rows] = np.bincount(row, minlength=band.n_rows)
        self.raw_sum[rows] = np.bincount(row, band.values, minlength=band.n_rows)
        self.raw_square_sum[rows] = np.bincount(
            row, band.values.astype(np.float64) ** 2, minlength=band.n_rows
        )
        self.gene_nnz += np.bincount(band.genes, minlength=len(self.gene_nnz))


def _observation_joinids(n: int, rng: np.random.Generator) -> pa.Array:
    import pyarrow as pa

    letters = _ALPHABET[rng.integers(0, len(_ALPHABET), (n, 10))]
    return pa.LargeStringArray.from_buffers(
        n, pa.py_buffer(np.arange(0, 10 * n + 1, 10, dtype=np.int64)), pa.py_buffer(letters)
    )


class _Labels:
    """The dictionary columns: categories, some of them unused, and codes of rows."""

    def __init__(self, population: Population) -> None:
        self._population = population
        datasets = population.datasets
        parts = [list(parts.items()) for _, _, parts, _ in TISSUES.values()]
        self._first_part = np.cumsum([0, *map(len, parts)])[:-1]
        self._donors_per_dataset = int(population.donor.max(initial=0)) + 1
        last = [int(self._donors(rows).max()) for rows in row_slabs(0, population.n_cells)]
        n_donors = max(last, default=0) + 1
        rng = np.random.default_rng([population.n_cells, len(datasets)])
        healthy = rng.random(n_donors) < 0.6
        self._disease = np.where(healthy, 0, rng.integers(0, len(DISEASES), n_donors))
        self._stage = rng.integers(0, len(STAGES), n_donors)
        self._ethnicity = rng.integers(0, len(ETHNICITIES), n_donors)
        self._sex = rng.integers(0, 2, n_donors)
        flat = [part for group in parts for part in group]
        self.categories: dict[str, list[str]] = {
            "dataset_id": datasets.ids,
            "assay": list(ASSAYS),
            "assay_ontology_term_id": [a[0] for a in ASSAYS.values()],
            "cell_type": list(CELL_TYPES),
            "cell_type_ontology_term_id": list(CELL_TYPES.values()),
            "development_stage": list(STAGES),
            "disease": list(DISEASES),
            "donor_id": [f"donor_{i:04d}" for i in range(n_donors)],
            "self_reported_ethnicity": list(ETHNICITIES),
            "sex": ["female", "male"],
            "suspension_type": ["cell", "nucleus"],
            "tissue": [name for name, _ in flat],
            "tissue_ontology_term_id": [term for _, term in flat],
            "tissue_type": ["tissue"],
            "tissue_general": list(TISSUES),
            "tissue_general_ontology_term_id": [t[0] for t in TISSUES.values()],
        }
        self._dense = {
            name: np.zeros(len(all_), np.int64) for name, all_ in self.categories.items()
        }
        for rows in row_slabs(0, population.n_cells):
            for name, codes in self._codes(rows).items():
                self._dense[name][codes] = 1
        for name, seen in self._dense.items():
            self.categories[name] = [self.categories[name][i] for i in np.flatnonzero(seen)]
            self._dense[name] = np.cumsum(seen) - 1

    def codes(self, rows: slice) -> dict[str, npt.NDArray[np.int64]]:
        """Return the indices in `categories` for each column."""
        return {name: self._dense[name][codes] for name, codes in self._codes(rows).items()}

    def _donors(self, rows: slice) -> npt.NDArray[np.int64]:
        people = self._population
        dataset = people.dataset[rows].astype(np.int64)
        numbers: npt.NDArray[np.int64] = dataset * self._donors_per_dataset + people.donor[rows]
        return numbers

    def _codes(self, rows: slice) -> dict[str, npt.NDArray[Any]]:
        people, datasets = self._population, self._population.datasets
        dataset, donor = people.dataset[rows], self._donors(rows)
        general, assay = datasets.general_tissue[dataset], datasets.assay[dataset]
        cell_type, tissue = people.cell_type[rows], self._first_part[general] + people.tissue[rows]
        return {
            "dataset_id": dataset,
            "assay": assay,
            "assay_ontology_term_id": assay,
            "cell_type": cell_type,
            "cell_type_ontology_term_id": cell_type,
            "development_stage": self._stage[donor],
            "disease": self._disease[donor],
            "donor_id": donor,
            "self_reported_ethnicity": self._ethnicity[donor],
            "sex": self._sex[donor],
            "suspension_type": (general == 0).astype(np.int8),
            "tissue": tissue,
            "tissue_ontology_term_id": tissue,
            "tissue_type": np.zeros(len(dataset), np.int8),
            "tissue_general": general,
            "tissue_general_ontology_term_id": general,
        }


def obs_tables(
    model: CountModel,
    statistics: AxisStatistics,
    seed: int,
    rows_per_table: int = ROWS_PER_TABLE,
) -> Iterator[pa.Table]:
    """Yield tables of one row per cell, with the Census's columns and types.

    All tables have the same schema and the same dictionaries, made from all cells.
    """
    import pyarrow as pa

    population = model.population
    labels = _Labels(population)
    schema = obs_schema({name: len(used) for name, used in labels.categories.items()})
    dictionaries = {
        name: pa.array(used, pa.large_string()) for name, used in labels.categories.items()
    }
    measured = model.measured.sum(axis=1)
    rng = np.random.default_rng([seed, 6])
    for rows in row_slabs(0, population.n_cells, rows_per_table):
        dataset = population.dataset[rows].astype(np.int64)
        columns: dict[str, Any] = {}
        for name, codes in labels.codes(rows).items():
            index_type = schema.field(name).type.index_type
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes.astype(index_type.to_pandas_dtype())), dictionaries[name]
            )
        nnz, raw_sum = np.asarray(statistics.nnz[rows]), np.asarray(statistics.raw_sum[rows])
        mean = raw_sum / np.maximum(nnz, 1)
        squares = statistics.raw_square_sum[rows] - raw_sum * mean
        columns |= {
            "soma_joinid": np.arange(rows.start, rows.stop, dtype=np.int64),
            "is_primary_data": population.datasets.is_primary[dataset],
            "observation_joinid": _observation_joinids(len(dataset), rng),
            "raw_sum": raw_sum,
            "nnz": nnz,
            "raw_mean_nnz": mean,
            "raw_variance_nnz": np.asarray(squares / np.maximum(nnz - 1, 1)),
            "n_measured_vars": measured[dataset],
        }
        yield pa.table({name: columns[name] for name in schema.names}, schema=schema)


def var_table(model: CountModel, statistics: AxisStatistics, seed: int) -> pa.Table:
    """Return a table of one row per gene."""
    import pyarrow as pa

    rng = np.random.default_rng([seed, 7])
    n_genes = model.n_genes
    ensembl = np.sort(rng.choice(10**8, n_genes, replace=False))
    rng.shuffle(ensembl)
    names = [f"SYN{i:05d}" for i in range(n_genes)]
    for gene, name in zip(model.abundant_genes, ABUNDANT_GENES, strict=True):
        names[gene] = name
    dataset_sizes = np.diff(model.population.datasets.row_begin)
    return pa.table(
        {
            "soma_joinid": np.arange(n_genes, dtype=np.int64),
            "feature_id": [f"ENSG{number:011d}" for number in ensembl],
            "feature_name": names,
            "feature_type": np.where(
                rng.random(n_genes) < 0.35, "protein_coding", "lncRNA"
            ).tolist(),  # pyarrow 15 cannot convert numpy strings to large_string
            "feature_length": np.rint(rng.lognormal(7.3, 0.9, n_genes)).astype(np.int64) + 50,
            "nnz": statistics.gene_nnz,
            "n_measured_obs": dataset_sizes @ model.measured.astype(np.int64),
        },
        schema=var_schema(),
    )
