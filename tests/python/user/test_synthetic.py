"""The generator of Census-like experiments against its documentation, read by tiledbsoma."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tracemalloc
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

tiledbsoma = pytest.importorskip("tiledbsoma")
tiledb = pytest.importorskip("tiledb")
sparse = pytest.importorskip("scipy.sparse")
pa = pytest.importorskip("pyarrow")

from penstock import synthetic  # noqa: E402
from penstock.synthetic import counts, disk_space, experiment, x_writer  # noqa: E402
from penstock.synthetic import population as population_module  # noqa: E402
from penstock.synthetic.axes import AxisStatistics, obs_tables  # noqa: E402
from penstock.synthetic.population import Population, invent_population  # noqa: E402

SMALL = {"n_cells": 5_000, "n_genes": 4_500, "mean_genes_per_cell": 150, "seed": 7}


def read_x(path: Path) -> sparse.csr_matrix:
    with tiledbsoma.Experiment.open(str(path)) as opened:
        x = opened.ms["RNA"].X["raw"]
        table = x.read().tables().concat()
        rows, genes = (table[f"soma_dim_{i}"].to_numpy() for i in (0, 1))
        values = table["soma_data"].to_numpy()
        matrix = sparse.csr_matrix((values, (rows, genes)), shape=x.shape)
        assert matrix.nnz == len(values), "a coordinate was written twice"
    return matrix


def read_frame(path: Path, axis: str):
    with tiledbsoma.Experiment.open(str(path)) as opened:
        frame = opened.obs if axis == "obs" else opened.ms["RNA"].var
        return frame.read().concat().to_pandas()


def fragments(path: Path) -> tiledb.FragmentInfoList:
    return tiledb.array_fragments(str(path / "ms" / "RNA" / "X" / "raw"))


def same(a: sparse.csr_matrix, b: sparse.csr_matrix) -> bool:
    return a.shape == b.shape and (a != b).nnz == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synthetic") / "made"
    heard: list[tuple[int, int]] = []
    summary = synthetic.make_experiment(
        path, n_fragments=3, processes=2, progress=lambda *a: heard.append(a), **SMALL
    )
    assert summary.n_fragments == 3
    assert summary.n_nonzeros == read_x(path).nnz
    assert heard[-1] == (5_000, 5_000)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert summary.n_bytes < synthetic.estimate_bytes(5_000, 4_500, 150)
    assert [p.name for p in path.parent.iterdir()] == ["made"]
    return path


def test_x_has_the_array_settings_of_the_census(made: Path) -> None:
    schema = tiledb.ArraySchema.load(str(made / "ms" / "RNA" / "X" / "raw"))

    def filters(of) -> list[str]:
        return [type(f).__name__ + str(getattr(f, "level", "")) for f in of.filters]

    rows, genes = schema.domain.dim(0), schema.domain.dim(1)
    assert (rows.tile, genes.tile, schema.capacity) == (2048, 2048, 65_536)
    assert filters(rows) == ["ZstdFilter9"]
    assert filters(genes) == ["ByteShuffleFilter", "ZstdFilter9"]
    assert filters(schema.attr("soma_data")) == ["ByteShuffleFilter", "ZstdFilter9"]
    assert schema.attr("soma_data").dtype == np.float32
    assert (schema.cell_order, schema.tile_order) == ("row-major", "row-major")
    assert schema.allows_duplicates


def test_axes_have_the_array_settings_of_the_census(made: Path) -> None:
    obs = tiledb.ArraySchema.load(str(made / "obs"))
    var = tiledb.ArraySchema.load(str(made / "ms" / "RNA" / "var"))
    for schema in (obs, var):
        names = [type(f).__name__ for f in schema.domain.dim(0).filters]
        assert names == ["DoubleDeltaFilter", "ZstdFilter"]
        assert schema.capacity == 65_536
        assert schema.allows_duplicates
    assert obs.attr("cell_type").enum_label is not None
    assert [f.level for f in obs.attr("cell_type").filters] == [9]
    assert [f.level for f in obs.attr("observation_joinid").filters] == [19]
    assert type(var.attr("nnz").filters[0]).__name__ == "ByteShuffleFilter"


def test_fragments_are_slabs_of_rows(made: Path) -> None:
    edges = sorted(tuple(domain[0]) for domain in fragments(made).nonempty_domain)
    assert edges == [(0, 1665), (1666, 3332), (3333, 4999)]


def test_obs_and_var_agree_with_x(made: Path) -> None:
    x, obs, var = read_x(made), read_frame(made, "obs"), read_frame(made, "var")
    assert (obs.soma_joinid == np.arange(5_000)).all()
    assert (obs.nnz == x.getnnz(axis=1)).all()
    assert np.array_equal(obs.raw_sum, np.asarray(x.sum(axis=1)).ravel())
    row = x[17].data.astype(float)
    assert obs.raw_mean_nnz[17] == pytest.approx(row.mean())
    assert obs.raw_variance_nnz[17] == pytest.approx(row.var(ddof=1))
    assert (var.nnz == x.getnnz(axis=0)).all()
    assert var.feature_id.is_unique
    assert (obs.n_measured_vars >= obs.nnz).all()


def drawn(n_cells: int, folder: Path | None, rows_at_once: int) -> pa.Table:
    """obs of a model whose counts are not drawn, gathered from tables of so many rows."""
    population = invent_population(n_cells, 20, seed=3, folder=folder)
    model = SimpleNamespace(population=population, measured=np.ones((20, 7), bool))
    statistics = AxisStatistics(n_cells, 7, folder)
    statistics.nnz[:] = np.arange(n_cells) % 5
    statistics.raw_sum[:] = np.arange(n_cells) % 11
    return pa.concat_tables(obs_tables(model, statistics, 3, rows_at_once))


def test_pieces_and_files_do_not_change_the_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = drawn(5_000, None, 5_000)
    monkeypatch.setattr(population_module.row_slabs, "__defaults__", (333,))
    pieces = drawn(5_000, tmp_path, 700)
    assert pieces.combine_chunks().equals(whole.combine_chunks())
    assert [len(chunk) for chunk in pieces["nnz"].chunks] == [700] * 7 + [100]
    again = Population.read(tmp_path)
    assert again.n_cells == 5_000
    ids = np.array(again.datasets.ids)[again.dataset]
    assert ids.tolist() == whole["dataset_id"].to_pylist()


def test_memory_of_obs_does_not_grow_with_the_cells(tmp_path: Path) -> None:
    """Labels and sums are in files; of the rest numpy and Arrow have a piece at a time."""
    peaks = []
    for number, n_cells in enumerate((300_000, 300_000, 1_200_000)):  # the first brings imports
        folder = tmp_path / str(number)
        folder.mkdir()
        tracemalloc.start()
        pool = pa.default_memory_pool()
        before, most = pool.bytes_allocated(), 0
        population = invent_population(n_cells, 400, seed=3, folder=folder)
        model = SimpleNamespace(population=population, measured=np.ones((400, 7), bool))
        statistics = AxisStatistics(n_cells, 7, folder)
        for table in obs_tables(model, statistics, 3, 10_000):
            most = max(most, pool.bytes_allocated() - before)
            del table
        peaks.append(tracemalloc.get_traced_memory()[1] + most)
        tracemalloc.stop()
    # Sums in memory, 24 bytes a cell, would be twice as much.
    assert peaks[2] < 1.4 * peaks[1]


def test_obs_of_several_tables_is_one_fragment_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obs_tables, "__defaults__", (300,))
    synthetic.make_experiment(tmp_path / "pieces", n_cells=700, n_genes=200, seed=2)
    monkeypatch.undo()
    synthetic.make_experiment(tmp_path / "whole", n_cells=700, n_genes=200, seed=2)
    obs = read_frame(tmp_path / "pieces", "obs")
    assert obs.equals(read_frame(tmp_path / "whole", "obs"))
    assert len(tiledb.array_fragments(str(tmp_path / "pieces" / "obs"))) == 1


def test_cells_of_a_dataset_are_adjacent_and_sizes_uneven(made: Path) -> None:
    obs = read_frame(made, "obs")
    changes = int((obs.dataset_id.astype(str) != obs.dataset_id.astype(str).shift()).sum())
    assert changes == obs.dataset_id.nunique() == 12
    sizes = obs.dataset_id.value_counts()
    assert sizes.iloc[0] > 5 * sizes.iloc[-1]
    assert {"tongue", "blood", "lung"} <= set(obs.tissue_general)
    assert obs[obs.tissue_general == "tongue"].cell_type.nunique() >= 5
    assert obs.observation_joinid.str.len().eq(10).all()


def test_counts_look_like_counts(made: Path) -> None:
    x = read_x(made)
    assert 120 < x.nnz / x.shape[0] < 180
    assert (x.data > 0).all()
    assert (x.data == np.rint(x.data)).all()
    assert np.mean(x.data <= 10) > 0.75
    assert np.mean(np.asarray((x > 255).sum(axis=1)).ravel() > 0) > 0.5
    of_cells = x.getnnz(axis=0) / x.shape[0]
    assert 5 < np.count_nonzero(of_cells > 0.8) < 200
    assert np.median(of_cells) < 0.05
    per_cell = np.sort(x.getnnz(axis=1))
    assert per_cell[-50] > 2.5 * np.median(per_cell), "no long tail"


def test_full_size_rows_hold_as_many_genes_as_asked() -> None:
    population = invent_population(20_000, 20, seed=3)
    model = counts.CountModel(population, 60_664, 1_950, seed=3)
    nnz = np.concatenate(
        [np.bincount(model.band(b).rows % 2048, minlength=2048) for b in range(0, 9, 2)]
    )
    assert 1_600 < nnz.mean() < 2_300
    assert nnz.min() > 50


def test_cell_types_can_be_told_apart(made: Path) -> None:
    x, obs = read_x(made), read_frame(made, "obs")
    tongue = np.flatnonzero((obs.tissue_general == "tongue").to_numpy())
    labels = obs.cell_type.astype(str).to_numpy()[tongue]
    dense = np.log1p(x[tongue].toarray() / obs.nnz.to_numpy()[tongue, None] * 150)
    train = np.arange(len(tongue)) % 2 == 0
    names = sorted(set(labels[train]))
    centres = np.stack([dense[train][labels[train] == name].mean(axis=0) for name in names])
    distance = ((dense[~train][:, None] - centres) ** 2).sum(axis=2)
    right = np.mean(np.array(names)[distance.argmin(axis=1)] == labels[~train])
    assert right > 2 / len(names), f"{right} right of {len(names)} types"
    assert right > 0.5


def test_types_may_be_made_hard_to_tell_apart() -> None:
    """Only types: what else tells cells apart stays, and so does the number of genes."""
    population = invent_population(1_500, 8, seed=4)
    types = np.asarray(population.cell_type)
    right, genes = [], []
    for distinctness in (1.0, 0.3, 0.0):
        model = counts.CountModel(population, 2_000, 250, seed=4, distinctness=distinctness)
        x = np.zeros((1_500, 2_000), np.float32)
        for band in map(model.band, range(model.n_bands)):
            x[band.rows, band.genes] = band.values
        genes.append(np.count_nonzero(x, axis=1).mean())
        dense = np.log1p(x / x.sum(axis=1, keepdims=True) * 1e4)
        train = np.arange(len(x)) % 2 == 0
        names = [each for each in np.unique(types) if np.sum(types[train] == each) >= 20]
        tested = ~train & np.isin(types, names)
        centres = np.stack([dense[train & (types == name)].mean(axis=0) for name in names])
        distance = ((dense[tested][:, None] - centres) ** 2).sum(axis=2)
        right.append(np.mean(np.array(names)[distance.argmin(axis=1)] == types[tested]))
    assert right[0] > right[1] + 0.1 > right[2] + 0.2, right
    assert genes == pytest.approx([250] * 3, rel=0.15)
    with pytest.raises(ValueError, match="distinctness must be from 0 to 1: 2"):
        synthetic.make_experiment("never-made", n_cells=10, distinctness=2)


def test_datasets_have_effects_of_their_own() -> None:
    """Cells of one type differ between datasets alike in two halves of them: not by chance."""
    population = invent_population(5_000, 12, seed=7)
    model = counts.CountModel(population, 4_500, 800, seed=7)
    x = np.zeros((5_000, 4_500), np.float32)
    for band in map(model.band, range(model.n_bands)):
        x[band.rows, band.genes] = band.values
    types, datasets = np.asarray(population.cell_type), np.asarray(population.dataset)
    alike = []
    for cell_type in np.unique(types):
        largest = np.argsort(np.bincount(datasets[types == cell_type], minlength=12))[-2:]
        cells = [np.flatnonzero((types == cell_type) & (datasets == each)) for each in largest]
        if min(map(len, cells)) < 60:
            continue
        halves = np.array([[x[mine[half::2]].sum(axis=0) for half in (0, 1)] for mine in cells])
        found = halves.min(axis=(0, 1)) >= 15
        found[model.abundant_genes] = False  # they follow the state of a cell
        alike.append(np.corrcoef(*np.log(halves[0][:, found] / halves[1][:, found]))[0, 1])
    assert len(alike) >= 3
    # Without profiles of datasets it is 0.06, by how deeply each is sequenced.
    assert np.mean(alike) > 0.2


def test_cut_processes_and_consolidation_change_no_cell(made: Path, tmp_path: Path) -> None:
    expected, obs = read_x(made), read_frame(made, "obs")
    synthetic.make_experiment(tmp_path / "one", consolidated=True, processes=1, **SMALL)
    assert len(fragments(tmp_path / "one")) == 1
    assert same(read_x(tmp_path / "one"), expected)
    assert read_frame(tmp_path / "one", "obs").equals(obs)
    shutil.copytree(made, tmp_path / "consolidated")
    synthetic.consolidate_like_census(tmp_path / "consolidated")
    assert len(fragments(tmp_path / "consolidated")) == 1
    assert same(read_x(tmp_path / "consolidated"), expected)
    # Full tiles from end to end, as in the array that TileDB consolidated.
    cells = [int(fragments(tmp_path / n).cell_num[0]) for n in ("one", "consolidated")]
    assert cells == [expected.nnz, expected.nnz]


def test_another_seed_is_another_experiment(made: Path, tmp_path: Path) -> None:
    synthetic.make_experiment(tmp_path / "other", **{**SMALL, "seed": 8})
    assert not same(read_x(tmp_path / "other"), read_x(made))


def test_without_tiledb_fragments_are_written_by_tiledbsoma(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_writer, "can_stream", lambda: False)
    monkeypatch.setattr(experiment, "can_stream", lambda: False)
    synthetic.make_experiment(tmp_path / "made", n_fragments=2, processes=1, **SMALL)
    assert len(fragments(tmp_path / "made")) == 2
    assert same(read_x(tmp_path / "made"), read_x(made))
    with pytest.raises(ImportError, match=r"needs tiledb, .*n_fragments of 2 or more"):
        synthetic.make_experiment(tmp_path / "big", n_cells=20_000, n_fragments=1)


def test_a_disk_too_small_is_found_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match=r"MB needed, 0\.00 MB free") as caught:
        synthetic.make_experiment(tmp_path / "made", **SMALL)
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("said", ["Cannot write to file; No space left on device", None])
def test_a_disk_that_fills_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    original = x_writer.write_fragment
    written: list[int] = []

    def fill_up(uri: str, model, row_begin: int, *rest) -> None:
        if row_begin > 0:
            raise RuntimeError(said) if said else OSError(errno.ENOSPC, "full")
        written.append(row_begin)
        original(uri, model, row_begin, *rest)

    monkeypatch.setattr("penstock.synthetic.fragments.write_fragment", fill_up)
    with pytest.raises(OSError, match="not enough space on the disk") as caught:
        synthetic.make_experiment(tmp_path / "made", n_fragments=2, processes=1, **SMALL)
    assert written == [0]
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import sys; sys.stdin.buffer.read(); sys.exit('it broke')"
    monkeypatch.setattr("penstock.synthetic.fragments._BOOTSTRAP", broken)
    with pytest.raises(RuntimeError, match="ended with 1: it broke"):
        synthetic.make_experiment(tmp_path / "made", n_fragments=2, processes=2, **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(FileExistsError):
        synthetic.make_experiment(tmp_path / "made", **SMALL)
    summary = synthetic.make_experiment(tmp_path / "made", overwrite=True, **SMALL)
    assert read_x(summary.path).nnz == summary.n_nonzeros


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"n_cells": 0}, "n_cells must be"),
        ({"n_genes": 10}, "n_genes must be"),
        ({"n_fragments": 0}, "n_fragments must be"),
        ({"n_fragments": 4, "consolidated": True}, "n_fragments says 4"),
        ({"n_datasets": 3}, "n_datasets must be"),
        ({"mean_genes_per_cell": 4_000}, "mean_genes_per_cell must be"),
    ],
)
def test_arguments_that_make_no_sense(tmp_path: Path, wrong: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        synthetic.make_experiment(tmp_path / "made", **{**SMALL, **wrong})
    assert list(tmp_path.iterdir()) == []


def peak_mib(*command: str) -> float:
    """Most resident memory of any of the command's processes."""
    wrapper = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapper, *command], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1]) / 1024


def test_memory_of_synth_does_not_grow_in_line_with_the_cells(tmp_path: Path) -> None:
    few = ("--genes", "2000", "--genes-per-cell", "20", "--datasets", "30", "-q")
    peaks = {}
    for n_cells in (320_000, 640_000):  # pieces of obs are of 262,144 cells
        made = str(tmp_path / str(n_cells))
        synth = (sys.executable, "-m", "penstock", "synth", made, "--cells", str(n_cells), *few)
        peaks[n_cells] = peak_mib(*synth)
    assert peaks[640_000] < 1.25 * peaks[320_000], peaks
