"""Labels of the synthetic cells: datasets, donors, tissues and types, drawn before any count.

A `Population` is a pure function of (number of cells, number of datasets, seed). It holds nine
bytes a cell. With a folder these are in files, and memory does not grow with the cells. Cells of a
dataset are adjacent, as in the Census, and sizes of datasets are very unequal. Within a dataset,
cells are ordered by donor, and cell types are mixed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .vocabulary import ASSAYS, CELL_TYPES, TISSUES

_DONORS_PER_DATASET = 6
_ROWS_AT_ONCE = 1 << 18
_FIELDS: dict[str, Any] = {
    "dataset": np.int16, "cell_type": np.int8, "tissue": np.int8, "donor": np.int8,
    "depth": np.float32,
}  # fmt: skip


@dataclass(frozen=True)
class Datasets:
    """Labels that all cells of a dataset share; arrays have one entry per dataset."""

    row_begin: npt.NDArray[np.int64]  # one entry more: the last is the number of cells
    general_tissue: npt.NDArray[np.int16]  # position in TISSUES
    assay: npt.NDArray[np.int16]  # position in ASSAYS
    is_primary: npt.NDArray[np.bool_]
    depth: npt.NDArray[np.float64]  # factor on the number of molecules seen
    ids: list[str]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Population:
    """The labels and sequencing depths of all cells; arrays have one entry per cell."""

    datasets: Datasets
    dataset: npt.NDArray[np.int16]
    cell_type: npt.NDArray[np.int8]  # position in CELL_TYPES
    tissue: npt.NDArray[np.int8]  # which of the general tissue's parts
    donor: npt.NDArray[np.int8]  # number within the dataset
    depth: npt.NDArray[np.float32]  # 1 is a median cell

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.dataset)

    @staticmethod
    def read(folder: Path) -> Population:
        """Return the population of a folder that `invent_population` filled, memory-mapped."""
        datasets: Datasets = pickle.loads((folder / "datasets.pickle").read_bytes())
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _FIELDS}
        return Population(datasets, **arrays)


def array_in(folder: Path | None, name: str, dtype: npt.DTypeLike, length: int) -> npt.NDArray[Any]:
    """Return an array of zeros in memory, or mapped from a new file of the folder."""
    if folder is None:
        return np.zeros(length, dtype)
    made: npt.NDArray[Any] = np.lib.format.open_memmap(
        folder / f"{name}.npy", mode="w+", dtype=np.dtype(dtype), shape=(length,)
    )
    return made


def row_slabs(begin: int, end: int, length: int = _ROWS_AT_ONCE) -> Iterator[slice]:
    """Yield the rows as slices of at most `length`."""
    for first in range(begin, end, length):
        yield slice(first, min(first + length, end))


def _invent_datasets(n_cells: int, n_datasets: int, rng: np.random.Generator) -> Datasets:
    weights = rng.lognormal(0.0, 1.3, n_datasets)
    # The first datasets have one tissue each, so that few datasets cover all tissues.
    shares = np.array([share for _, share, _, _ in TISSUES.values()])
    tissue = np.concatenate(
        [np.arange(len(shares)), rng.choice(len(shares), n_datasets, p=shares / shares.sum())]
    )[:n_datasets]
    for t in range(len(shares)):
        mine = tissue == t
        if mine.any():
            weights[mine] *= shares[t] / weights[mine].sum()
    order = rng.permutation(n_datasets)
    weights, tissue = weights[order], tissue[order]
    edges = np.rint(np.cumsum(weights) / weights.sum() * n_cells).astype(np.int64)
    assay_shares = np.array([share for _, share, _, _ in ASSAYS.values()])
    assay = rng.choice(len(ASSAYS), n_datasets, p=assay_shares / assay_shares.sum())
    # Full-length protocols use plates: only small datasets have them.
    full_length = np.array([full for _, _, _, full in ASSAYS.values()])
    assay[full_length[assay] & (weights > np.median(weights))] = 0
    assay_depth = np.array([depth for _, _, depth, _ in ASSAYS.values()])
    primary = rng.random(n_datasets) < 0.8
    primary[np.argmax(weights)] = True
    return Datasets(
        row_begin=np.concatenate([[0], edges]),
        general_tissue=tissue.astype(np.int16),
        assay=assay.astype(np.int16),
        is_primary=primary,
        depth=assay_depth[assay] * rng.lognormal(0.0, 0.3, n_datasets),
        ids=[_uuid(rng) for _ in range(n_datasets)],
    )


def _uuid(rng: np.random.Generator) -> str:
    digits = rng.bytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def invent_population(
    n_cells: int, n_datasets: int, seed: int, folder: Path | None = None
) -> Population:
    """Draw the datasets and the labels of every cell, in files of an existing `folder`."""
    rng = np.random.default_rng([seed, 1])
    datasets = _invent_datasets(n_cells, n_datasets, rng)
    made = {name: array_in(folder, name, dtype, n_cells) for name, dtype in _FIELDS.items()}
    type_names = list(CELL_TYPES)
    tissues = list(TISSUES.values())
    for d in range(n_datasets):
        first, last = int(datasets.row_begin[d]), int(datasets.row_begin[d + 1])
        _, _, parts, types = tissues[datasets.general_tissue[d]]
        falling = 0.75 ** np.arange(len(types))
        shares = rng.dirichlet(12.0 * falling / falling.sum())
        numbers = np.array([type_names.index(name) for name in types], np.int8)
        made["dataset"][first:last] = d
        # The generator gives the same values piece by piece as at once.
        for rows in row_slabs(first, last):
            n = rows.stop - rows.start
            made["cell_type"][rows] = numbers[rng.choice(len(types), n, p=shares)]
        for rows in row_slabs(first, last):
            made["tissue"][rows] = rng.choice(len(parts), rows.stop - rows.start)
        # But not for bytes, which it draws four at a time: these are drawn at once.
        donors = rng.integers(0, _DONORS_PER_DATASET, last - first, dtype=np.int8)
        donors.sort()
        made["donor"][first:last] = donors
    type_depth = rng.lognormal(0.0, 0.35, len(type_names))
    for rows in row_slabs(0, n_cells):
        depth = datasets.depth[made["dataset"][rows]] * type_depth[made["cell_type"][rows]]
        depth = depth * rng.lognormal(0.0, 0.55, len(depth))
        made["depth"][rows] = np.maximum(depth, 0.08)
    if folder is not None:
        (folder / "datasets.pickle").write_bytes(pickle.dumps(datasets))
    return Population(datasets, **made)
