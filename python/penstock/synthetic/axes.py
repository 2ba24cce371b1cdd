"""The `obs` and `var` tables of an invented experiment, as Arrow tables in the Census's columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .census_layout import obs_schema, var_schema
from .counts import Band, CountModel
from .population import Population
from .vocabulary import ABUNDANT_GENES, ASSAYS, CELL_TYPES, DISEASES, ETHNICITIES, STAGES, TISSUES

if TYPE_CHECKING:
    import pyarrow as pa

_ALPHABET = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    np.uint8,
)


@dataclass
class AxisStatistics:
    """Sums over X by cell and by gene, gathered while the bands are drawn: 24 bytes a cell."""

    n_cells: int
    n_genes: int
    nnz: npt.NDArray[np.int64] = field(init=False)
    raw_sum: npt.NDArray[np.float64] = field(init=False)
    raw_square_sum: npt.NDArray[np.float64] = field(init=False)
    gene_nnz: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.nnz = np.zeros(self.n_cells, np.int64)
        self.raw_sum = np.zeros(self.n_cells)
        self.raw_square_sum = np.zeros(self.n_cells)
        self.gene_nnz = np.zeros(self.n_genes, np.int64)

    def add(self, band: Band) -> None:
        """Count a band; its rows must not have been counted before."""
        rows = slice(band.row_begin, band.row_begin + band.n_rows)
        row = band.rows - band.row_begin
        self.nnz[rows] = np.bincount(row, minlength=band.n_rows)
        self.raw_sum[rows] = np.bincount(row, band.values, minlength=band.n_rows)
        self.raw_square_sum[rows] = np.bincount(
            row, band.values.astype(np.float64) ** 2, minlength=band.n_rows
        )
        self.gene_nnz += np.bincount(band.genes, minlength=self.n_genes)

    def merge(self, other: AxisStatistics) -> None:
        """Add what another process gathered over other rows."""
        for name in ("nnz", "raw_sum", "raw_square_sum", "gene_nnz"):
            getattr(self, name).__iadd__(getattr(other, name))


def _observation_joinids(n: int, rng: np.random.Generator) -> pa.Array:
    import pyarrow as pa

    letters = _ALPHABET[rng.integers(0, len(_ALPHABET), (n, 10))]
    return pa.LargeStringArray.from_buffers(
        n, pa.py_buffer(np.arange(0, 10 * n + 1, 10, dtype=np.int64)), pa.py_buffer(letters)
    )


def _labels(population: Population) -> dict[str, tuple[npt.NDArray[Any], list[str]]]:
    """Codes and categories of every dictionary column; unused categories are dropped later."""
    datasets, dataset = population.datasets, population.dataset.astype(np.int64)
    rng = np.random.default_rng([len(dataset), len(datasets)])
    general = datasets.general_tissue[dataset]
    parts = [list(parts.items()) for _, _, parts, _ in TISSUES.values()]
    first_part = np.cumsum([0, *map(len, parts)])[:-1]
    tissue = first_part[general] + population.tissue
    donor = dataset * (int(population.donor.max(initial=0)) + 1) + population.donor
    n_donors = int(donor.max(initial=0)) + 1
    assay = datasets.assay[dataset]
    sick = np.where(rng.random(n_donors) < 0.6, 0, rng.integers(0, len(DISEASES), n_donors))
    flat = [part for group in parts for part in group]
    zeros = np.zeros(len(dataset), np.int8)
    return {
        "dataset_id": (dataset, datasets.ids),
        "assay": (assay, list(ASSAYS)),
        "assay_ontology_term_id": (assay, [a[0] for a in ASSAYS.values()]),
        "cell_type": (population.cell_type, list(CELL_TYPES)),
        "cell_type_ontology_term_id": (population.cell_type, list(CELL_TYPES.values())),
        "development_stage": (rng.integers(0, len(STAGES), n_donors)[donor], list(STAGES)),
        "disease": (sick[donor], list(DISEASES)),
        "donor_id": (donor, [f"donor_{i:04d}" for i in range(n_donors)]),
        "self_reported_ethnicity": (
            rng.integers(0, len(ETHNICITIES), n_donors)[donor],
            list(ETHNICITIES),
        ),
        "sex": (rng.integers(0, 2, n_donors)[donor], ["female", "male"]),
        "suspension_type": ((general == 0).astype(np.int8), ["cell", "nucleus"]),
        "tissue": (tissue, [name for name, _ in flat]),
        "tissue_ontology_term_id": (tissue, [term for _, term in flat]),
        "tissue_type": (zeros, ["tissue"]),
        "tissue_general": (general, list(TISSUES)),
        "tissue_general_ontology_term_id": (general, [t[0] for t in TISSUES.values()]),
    }


def obs_table(model: CountModel, statistics: AxisStatistics, seed: int) -> pa.Table:
    """One row a cell, columns and types as the Census has them."""
    import pyarrow as pa

    population = model.population
    dataset = population.dataset.astype(np.int64)
    columns: dict[str, Any] = {"soma_joinid": np.arange(population.n_cells, dtype=np.int64)}
    sizes: dict[str, int] = {}
    labels: dict[str, tuple[npt.NDArray[Any], list[str]]] = {}
    for name, (codes, categories) in _labels(population).items():
        used, dense = np.unique(codes, return_inverse=True)
        labels[name] = (dense, [categories[i] for i in used])
        sizes[name] = len(used)
    schema = obs_schema(sizes)
    for name, (codes, categories) in labels.items():
        index_type = schema.field(name).type.index_type
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(index_type.to_pandas_dtype())),
            pa.array(categories, pa.large_string()),
        )
    rng = np.random.default_rng([seed, 6])
    mean = statistics.raw_sum / np.maximum(statistics.nnz, 1)
    squares = statistics.raw_square_sum - statistics.raw_sum * mean
    columns |= {
        "is_primary_data": population.datasets.is_primary[dataset],
        "observation_joinid": _observation_joinids(population.n_cells, rng),
        "raw_sum": statistics.raw_sum,
        "nnz": statistics.nnz,
        "raw_mean_nnz": mean,
        "raw_variance_nnz": squares / np.maximum(statistics.nnz - 1, 1),
        "n_measured_vars": model.measured.sum(axis=1)[dataset],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def var_table(model: CountModel, statistics: AxisStatistics, seed: int) -> pa.Table:
    """One row a gene."""
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
            "feature_type": np.where(rng.random(n_genes) < 0.35, "protein_coding", "lncRNA"),
            "feature_length": np.rint(rng.lognormal(7.3, 0.9, n_genes)).astype(np.int64) + 50,
            "nnz": statistics.gene_nnz,
            "n_measured_obs": dataset_sizes @ model.measured.astype(np.int64),
        },
        schema=var_schema(),
    )
