"""``shuffle=True`` of an AnnData in memory is exactly uniform: each order of the cells is equally likely.

The seeds are fixed, so a test passes always or never.
"""

from __future__ import annotations

import itertools
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import scipy.stats

#: Of a right shuffle one statistic in so many is beyond its bounds.
ONE_IN = 1000


def in_memory(kind: str, cells: int) -> tuple[anndata.AnnData, dict[str, Any], np.ndarray]:
    """Cells, settings, and the rows that are selected."""
    rows = np.arange(cells)
    values = np.random.default_rng(0).poisson(1, (2 * cells, 3)).astype("float32")
    if kind == "dense":
        return anndata.AnnData(values[:cells]), {}, rows
    if kind == "CSR":
        return anndata.AnnData(sp.csr_matrix(values[:cells])), {}, rows
    whole = anndata.AnnData(sp.csr_matrix(values))
    chosen = np.sort(np.random.default_rng(1).permutation(2 * cells)[:cells])
    if kind == "view":
        return whole[chosen], {}, rows
    mask = np.zeros(2 * cells, bool)
    mask[chosen] = True
    return whole, {"obs_query": mask}, chosen


def orders(kind: str, cells: int, seeds: range, epochs: range, **settings: Any) -> np.ndarray:
    """The order of the cells in each epoch of each seed, as numbers from 0 on."""
    adata, chosen, rows = in_memory(kind, cells)
    found = []
    for seed in seeds:
        dataset = ps.Dataset(adata, seed=seed, shuffle=True, **chosen, **settings)
        for epoch in epochs:
            dataset.set_epoch(epoch)
            joinids = np.concatenate([obs["soma_joinid"] for _, obs in dataset])
            found.append(np.searchsorted(rows, joinids))
    return np.array(found)


@pytest.mark.parametrize("kind", ["dense", "view", "filter"])
@pytest.mark.parametrize("cells", [5, 40, 3000])
def test_the_order_depends_on_the_number_of_cells_alone(kind: str, cells: int) -> None:
    """So what the tests below show of CSR holds for the other kinds."""
    found, of_csr = (orders(each, cells, range(3), range(3)) for each in (kind, "CSR"))
    np.testing.assert_array_equal(found, of_csr)


@pytest.mark.parametrize(
    ("seeds", "epochs"), [(range(3000), range(1)), (range(1), range(3000)), (range(60), range(50))]
)
def test_each_order_of_five_cells_is_equally_likely(seeds: range, epochs: range) -> None:
    """Over seeds, over epochs, and over both: 120 orders, each about 25 times in 3,000."""
    numbers = {order: i for i, order in enumerate(itertools.permutations(range(5)))}
    found = orders("CSR", 5, seeds, epochs, batch_size=2)
    counts = np.bincount([numbers[tuple(order)] for order in found.tolist()], minlength=120)
    assert counts.sum() == 3000
    # Neither too uneven nor too even.
    assert 1 / ONE_IN < scipy.stats.chisquare(counts).pvalue < 1 - 1 / ONE_IN


def unevenness(found: np.ndarray) -> np.ndarray:
    """Sums of squares of three tables: cells by positions, ordered pairs of neighbours, and their distances."""
    epochs, cells = found.shape
    places = np.tile(np.arange(cells), (epochs, 1))
    position = np.bincount((found * cells + places).ravel(), minlength=cells**2)
    first, second = found[:, :-1], found[:, 1:]
    pairs = np.bincount((first * cells + second).ravel(), minlength=cells**2)
    distance = np.bincount(((second - first) % cells).ravel(), minlength=cells)
    return np.array([np.square(table.astype(float)).sum() for table in (position, pairs, distance)])


@pytest.mark.parametrize(("seeds", "epochs"), [(range(1500), range(1)), (range(15), range(100))])
def test_positions_and_neighbours_are_those_of_numpy(seeds: range, epochs: range) -> None:
    """Each cell comes anywhere, and each pair one after the other, as often as in permutations of numpy."""
    cells = 40
    found = orders("CSR", cells, seeds, epochs, batch_size=7)
    assert (np.sort(found) == np.arange(cells)).all()
    random = np.random.default_rng(2)
    drawn = np.tile(np.arange(cells), (len(found), 1))
    theirs = np.array([unevenness(random.permuted(drawn, axis=1)) for _ in range(200)])
    ours = unevenness(found)
    # The statistics of numpy are nearly normal: 4 standard deviations.
    deviations = (ours - theirs.mean(axis=0)) / theirs.std(axis=0)
    assert (abs(deviations) < 4).all(), deviations


def test_every_part_of_many_cells_comes_at_any_time() -> None:
    """20,000 cells: tenths of the rows by tenths of the epoch, and neighbours in the store that stay neighbours."""
    cells, parts = 20_000, 10
    found = orders("CSR", cells, range(5), range(2), batch_size=512)
    part = found // (cells // parts)
    places = np.tile(np.arange(cells) // (cells // parts), (len(found), 1))
    table = np.bincount((part * parts + places).ravel(), minlength=parts**2).astype(float)
    expected = len(found) * cells / parts**2
    # Rows and columns of the table have fixed sums.
    statistic = np.square(table - expected).sum() / expected * (cells - 1) / cells
    low, high = scipy.stats.chi2.ppf([1 / ONE_IN, 1 - 1 / ONE_IN], (parts - 1) ** 2)
    assert low < statistic < high
    # In an epoch two pairs on average stay side by side.
    near = (abs(np.diff(found, axis=1)) == 1).sum()
    low, high = scipy.stats.poisson.ppf([1 / ONE_IN, 1 - 1 / ONE_IN], 2 * len(found))
    assert low <= near <= high
