"""Several experiments as one, against anndata.concat and pandas."""

from __future__ import annotations

import pickle
import shutil

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scanpy as sc
import tiledbsoma.io
from compat_experiments import counts, write_cells
from joined_experiments import GENES, expected, make, paths, rows_of, write, write_three


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory):
    return write_three(tmp_path_factory.mktemp("joined"))


# --- X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("genes", ["inner", "outer", "list"])
def test_every_cell_once_with_its_genes(three, genes: str, sparse: bool) -> None:
    given_genes = [*np.random.default_rng(1).permutation(GENES[10:140]).tolist(), "nowhere"]
    if genes == "list":
        whole = expected(three, "outer", given_genes)
        with pytest.warns(UserWarning, match="1 of 131 genes are in no experiment.*'nowhere'"):
            joined = ps.join(paths(three), genes=given_genes)
        assert joined.gene_names.tolist() == given_genes
        assert "nowhere" in joined.missing_genes["blood"]
    else:
        whole = expected(three, genes)
        joined = ps.join(paths(three), genes=genes)
        assert set(joined.gene_names) == set(whole.var_names)
    for source, missing in joined.missing_genes.items():
        assert set(missing) == set(joined.gene_names) - set(three[source][1].var_names)
    ds = ps.Dataset(joined, batch_size=50, sparse=sparse, dtype="float64")
    assert ds.shape == (1_200, len(joined.gene_names))
    assert ds.var_names.tolist() == joined.gene_names.tolist()
    known = [i for i, name in enumerate(joined.gene_names) if name in set(whole.var_names)]
    whole = whole[:, [joined.gene_names[i] for i in known]]
    seen = []
    for X, obs in ds:
        rows = rows_of(whole, obs)
        dense = X.toarray() if sparse else X
        if sparse:
            assert X.has_canonical_format
        np.testing.assert_array_equal(dense[:, known], whole.X[rows].toarray())
        assert not np.delete(dense, known, axis=1).any()
        seen += rows.tolist()
    assert sorted(seen) == list(range(1_200))


def test_a_list_of_paths_is_joined(three) -> None:
    ds = ps.Dataset(list(paths(three).values()), batch_size=64)
    whole = expected(three, "inner")
    X, obs = next(iter(ds))
    order = ds.var_names.tolist()
    np.testing.assert_array_equal(X, whole[rows_of(whole, obs), order].X.toarray())
    assert order == [g for g in three["blood"][1].var_names if g in set(whole.var_names)]
    assert list(obs) == ["soma_joinid", "source"]
    assert "3 experiments" in repr(ds.experiment)
    assert "lung" in ds.experiment._repr_html_()
    assert "Dataset 1,200 cells" in repr(ds)


def test_tensors_of_obs_leave_the_source_out_also_when_asked_for_later(three) -> None:
    ds = ps.Dataset(paths(three))
    for made in (
        ps.Dataset(ds.experiment, obs_format="torch"),
        ds.with_settings(obs_format="torch"),
    ):
        assert list(next(iter(made))[1]) == ["soma_joinid"]
    assert list(next(iter(made.with_settings(obs_format="arrays")))[1]) == ["soma_joinid", "source"]
    chosen = ds.with_settings(obs_columns=["source"])
    with pytest.raises(ps.InvalidArgument, match="'source' holds string values"):
        chosen.with_settings(obs_format="torch")


def test_the_shuffle_is_over_all_experiments(three) -> None:
    """With the least budget too, cells of all experiments come in every part of an epoch."""
    ds = ps.Dataset(paths(three), batch_size=60, memory_budget="3MiB")
    shares = []
    for _, obs in ds:
        shares.append([(obs["source"] == name).mean() for name in three])
    shares = np.array(shares)
    assert ds.stats.units_in_shuffle < 40
    np.testing.assert_allclose(shares.mean(axis=0), [1 / 3, 1 / 4, 5 / 12], atol=0.01)
    assert (shares > 0).mean() > 0.9
    assert ds.stats.peak_buffered_bytes <= 3 * 2**20


def test_in_order_without_shuffle(three) -> None:
    ds = ps.Dataset(paths(three), shuffle=False, batch_size=100)
    obs = pd.concat([pd.DataFrame(obs) for _, obs in ds])
    assert obs["source"].tolist() == ["blood"] * 400 + ["lung"] * 300 + ["gut"] * 500
    assert obs["soma_joinid"].tolist() == [*range(400), *range(300), *range(500)]


# --- ranks, workers, resume


def cells(batches) -> list[tuple[str, int]]:
    return [
        (str(source), int(joinid))
        for _, obs in batches
        for source, joinid in zip(obs["source"], obs["soma_joinid"], strict=True)
    ]


def test_ranks_and_workers(three) -> None:
    every = sorted(cells(ps.Dataset(paths(three))))
    ranks = [
        ps.Dataset(paths(three), uneven="exact", rank=rank, world_size=3, batch_size=32)
        for rank in range(3)
    ]
    parts = [list(each) for each in ranks]
    assert len({len(part) for part in parts}) == 1
    assert sorted(cells(batch for part in parts for batch in part)) == every
    ds = ps.Dataset(paths(three), batch_size=32)
    assert sorted(cells(ps.dataloader(ds, num_workers=2))) == every


def test_resuming_bit_for_bit(three) -> None:
    whole = [(X, obs) for X, obs in ps.Dataset(paths(three), batch_size=64, seed=4)]
    ds = ps.Dataset(paths(three), batch_size=64, seed=4)
    batches = iter(ds)
    for _ in range(5):
        next(batches)
    state = ds.state_dict()
    other = pickle.loads(pickle.dumps(ps.Dataset(paths(three), batch_size=64, seed=4)))
    other.load_state_dict(state)
    rest = list(other)
    assert len(rest) == len(whole) - 5
    for (X, obs), (X_before, obs_before) in zip(rest, whole[5:], strict=True):
        np.testing.assert_array_equal(X, X_before)
        np.testing.assert_array_equal(obs["soma_joinid"], obs_before["soma_joinid"])
    changed = ps.Dataset(paths(three), batch_size=50, seed=4)
    changed.load_state_dict(state)
    left = cells(changed)
    assert sorted(left + cells(whole[:5])) == sorted(cells(whole))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_drawn_split_transformed_and_resumed(three, num_workers: int) -> None:
    """All of it at once: the same cells and values after a state is loaded, and scanpy's values."""
    whole = expected(three, "inner")
    sc.pp.normalize_total(whole, target_sum=100)
    sc.pp.log1p(whole)

    def loader():
        ds = ps.Dataset(
            paths(three),
            balance="source",
            transforms=[ps.NormalizeTotal(100), ps.Log1p(), ps.SelectGenes(["G050", "G040"])],
            encoders=[ps.LabelEncoder("source", "code")],
            obs_columns=["soma_joinid", "source"],
            batch_size=40,
            seed=7,
        )
        with pytest.warns(UserWarning, match="every part of the split draws"):
            train, _ = ds.random_split(0.75, 0.25, stratify=["source", "cell_type"])
        return ps.dataloader(train, num_workers=num_workers)

    batches = list(loader())
    for X, obs in batches:
        ids = {"source": obs["source"], "soma_joinid": np.asarray(obs["soma_joinid"])}
        oracle = whole[rows_of(whole, ids), ["G050", "G040"]].X.toarray()
        np.testing.assert_allclose(np.asarray(X), oracle, rtol=1e-5)
        sources = np.array(sorted(three))[np.asarray(obs["code"])]
        assert sources.tolist() == list(obs["source"])
    drawn = pd.Series([source for source, _ in cells(batches)]).value_counts()
    assert drawn.min() > 220
    begun = loader()
    iterator = iter(begun)
    for _ in range(5):
        next(iterator)
    again = loader()
    again.load_state_dict(begun.state_dict())
    rest = list(again)
    assert len(rest) == len(batches) - 5
    for (X, obs), (X_before, obs_before) in zip(rest, batches[5:], strict=True):
        np.testing.assert_array_equal(np.asarray(X), np.asarray(X_before))
        assert obs["soma_joinid"].tolist() == obs_before["soma_joinid"].tolist()


@pytest.mark.filterwarnings("ignore:1 of 31 genes are in no experiment")
def test_a_state_knows_its_experiments_and_genes(three, tmp_path) -> None:
    """Other genes, as many; other experiments, as large: no plan could tell."""
    there = {"a": paths(three)["blood"], "b": paths(three)["lung"]}
    genes = GENES[30:60]

    def dataset(named=there, genes=genes, **options) -> ps.Dataset:
        return ps.Dataset(ps.join(named, genes=genes), batch_size=64, sparse=True, **options)

    ds = dataset()
    batches = iter(ds)
    next(batches)
    state = ds.state_dict()
    whole = [X for X, _ in batches]
    for other in [
        dataset(genes=GENES[31:61]),
        dataset(genes=genes[::-1]),
        dataset({"a": there["a"], "c": there["b"]}),
        dataset({"a": there["a"], "b": write(tmp_path / "b", make(300, GENES[29:], 5, "int32"))}),
    ]:
        with pytest.raises(ps.InvalidArgument, match="other joined experiments or genes matched;"):
            other.load_state_dict(state)
    unknown, other = dataset(genes=[*genes, "u"]), dataset(genes=[*genes, "v"])
    next(iter(unknown))
    with pytest.raises(ps.InvalidArgument, match="genes matched;"):
        other.load_state_dict(unknown.state_dict())
    with pytest.raises(ps.InvalidArgument, match="joined experiments"):
        ps.Dataset(there["a"]).load_state_dict(state)
    shutil.copytree(there["b"], tmp_path / "elsewhere")
    moved = dataset({"a": there["a"], "b": tmp_path / "elsewhere"})
    moved.load_state_dict(state)
    for (X, _), before in zip(moved, whole, strict=True):
        assert (before != X).nnz == 0


# --- what is refused


def test_bad_joins(three, tmp_path) -> None:
    there = paths(three)
    stranger = write(tmp_path / "mouse", make(20, ["m1", "m2"], 9, "float32"))
    for call, message in [
        (lambda: ps.join({}), "no experiment to join"),
        (lambda: ps.join("path"), "must be a list of sources or a dict"),
        (lambda: ps.join([*there.values(), there["gut"]]), "an experiment comes twice"),
        (lambda: ps.join([5]), "or a list of such, got 5"),
        (lambda: ps.join([ps.join(there), there["gut"]]), "give all experiments to one"),
        (lambda: ps.join(there, genes="left"), '"inner", "outer" or a list of names'),
        (lambda: ps.join(there, genes=["G001", "G001"]), "names a gene twice, got 'G001'"),
        (lambda: ps.join(there, genes=["x"]), "'blood' has none of 1 gene:.*genes has 'x'"),
        (lambda: ps.join([there["gut"], stranger]), "no gene in common.* has 'm1', 'm2'"),
        (lambda: ps.join([there["gut"], stranger], genes="outer"), "no gene in common"),
        (lambda: ps.join(there, var_column="length"), "names a gene twice"),
        (lambda: ps.join(there, source_column="n"), "has a column 'n' already"),
        (lambda: ps.join(there, layer=["raw"]), "one for each of the 3 experiments"),
        (lambda: ps.Dataset(ps.join(there), measurement="ATAC"), "chosen in penstock.join"),
        (lambda: ps.Dataset(ps.join(there), layer="normalized"), "chosen in penstock.join"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            call()
    for call, message in [
        (lambda: ps.join(there, var_column="name"), "no column 'name'; it has"),
        (lambda: ps.join(there, layer="counts"), "there is no .*'counts'"),
        (lambda: ps.join(there, measurement="ATAC"), "there is no .*'ATAC'"),
        (
            lambda: ps.Dataset(there, obs_query="smokes == True"),
            "'smokes'; did you mean 'smoker'. Choose from .*source",
        ),
        (lambda: ps.Dataset(there, obs_columns=["donor"]), "no column 'donor'; it has"),
    ]:
        with pytest.raises(ps.NotFound, match=message):
            call()


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_joinids_beyond_32_bits_and_coords_that_only_some_have(tmp_path) -> None:
    joinids = {"far": 2**33 + 3 * np.arange(40), "near": np.arange(30), "last": np.arange(20)}
    for name, own in joinids.items():
        write_cells(tmp_path / name, own).close()

    def dataset(coords) -> ps.Dataset:
        query = ps.AxisQuery(coords=(coords,))
        joined = ps.join({name: tmp_path / name for name in joinids})
        return ps.Dataset(joined, obs_query=query, batch_size=16)

    for coords in [
        slice(0, 2**40), slice(10, 24), slice(2**33, None), [2, 25, 2**32 + 1, 2**33 + 6], [2**32 + 5],
    ]:  # fmt: skip
        if isinstance(coords, slice):
            last = 2**62 if coords.stop is None else coords.stop
            wanted = {n: own[(own >= coords.start) & (own <= last)] for n, own in joinids.items()}
        else:
            wanted = {name: np.intersect1d(own, coords) for name, own in joinids.items()}
        found: dict[str, list[int]] = {name: [] for name in joinids}
        for X, obs in dataset(coords):
            np.testing.assert_array_equal(X, counts(obs["soma_joinid"]))
            for name, joinid in zip(obs["source"], obs["soma_joinid"].tolist(), strict=True):
                found[name].append(joinid)
        assert {name: sorted(own) for name, own in found.items()} == {
            name: own.tolist() for name, own in wanted.items()
        }


def test_sources_drawn_equally_often(three) -> None:
    ds = ps.Dataset(paths(three), balance="source", num_samples=6_000, seed=1)
    drawn = pd.Series([source for source, _ in cells(ds)]).value_counts()
    assert (np.abs(drawn - 2_000) < 5 * np.sqrt(6_000 * 2 / 9)).all()


def test_a_measurement_and_layer_of_each(three, tmp_path) -> None:
    other = make(60, GENES[60:140], 7, "float32")
    tiledbsoma.io.from_anndata(str(tmp_path / "gex"), other, "GEX", X_layer_name="counts")
    named = {"blood": paths(three)["blood"], "gex": tmp_path / "gex"}
    joined = ps.join(named, measurement=["RNA", "GEX"], layer=["raw", "counts"])
    assert (joined.measurements, joined.layers("joined")) == (["joined"], ["joined"])
    whole = anndata.concat({"blood": three["blood"][1], "gex": other}, label="source")
    ds = ps.Dataset(joined, batch_size=30)
    for X, obs in ds:
        oracle = whole[rows_of(whole, obs), ds.var_names.tolist()]
        np.testing.assert_array_equal(X, oracle.X.toarray())
    with pytest.raises(ps.NotFound, match="there is no measurement 'RNA'; the join has 'joined'"):
        joined.var("RNA")


def test_statistics_of_cells_say_the_source(three) -> None:
    ds = ps.Dataset(paths(three), obs_query="cell_type == 'NK'")
    whole = expected(three, "inner")
    whole = whole[whole.obs["cell_type"] == "NK"]
    cells = ps.cell_statistics(ds)
    obs = ds.obs.to_pandas(columns=["source", "soma_joinid"])
    told = cells[["source", "soma_joinid"]]
    assert told.astype({"source": str}).equals(obs.astype({"source": str}))
    np.testing.assert_allclose(cells["total"], np.asarray(whole.X.sum(axis=1)).ravel(), rtol=1e-9)
    genes = ps.gene_statistics(ds, group_by="source")
    oracle = whole[whole.obs["source"] == "gut", ds.var_names].X.toarray().mean(axis=0)
    np.testing.assert_allclose(genes.loc["gut", "mean"], oracle, rtol=1e-9)


def test_as_anndata(three) -> None:
    data = ps.Dataset(ps.join(paths(three), genes="outer"), dtype="float64").to_anndata()
    whole = expected(three, "outer")
    assert data.obs_names.tolist() == whole.obs_names.tolist()
    assert set(data.var_names) == set(whole.var_names)
    np.testing.assert_array_equal(data.X.toarray(), whole[:, data.var_names].X.toarray())
    assert data.obs["source"].tolist() == whole.obs["source"].tolist()
