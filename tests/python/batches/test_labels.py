"""Series and tables of pandas choose rows by their labels, as in pandas and anndata, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pyarrow as pa
import pytest
from penstock.experiment.row_lists import rows_of

JOINID = "soma_joinid"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def adata(folder: Path) -> anndata.AnnData:
    return anndata.read_h5ad(ps.example("census-like", format="h5ad", folder=folder))


@pytest.fixture(scope="module", params=["soma", "h5ad", "memory"])
def ds(request: pytest.FixtureRequest, folder: Path, adata: anndata.AnnData) -> ps.Dataset:
    if request.param == "memory":
        return ps.Dataset(adata)
    return ps.Dataset(ps.example("census-like", format=request.param, folder=folder))


def ids(part: ps.Dataset) -> list[int]:
    """Joinids of a part in the Census, also of AnnData, which has them as a column of its own."""
    return part.to_anndata(obs_columns=[JOINID]).obs[JOINID].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_series_of_bools_goes_by_its_index(ds: ps.Dataset, seed: int) -> None:
    """Sorted or shuffled: the frame with the same mask is the oracle."""
    frame = ds.obs.to_pandas()
    shuffled = frame.sample(frac=1, random_state=seed)
    for by_names in (False, True):
        if by_names:
            shuffled = shuffled.set_axis(ds.obs_names[shuffled.index.to_numpy()])
        mask = shuffled["cell_type"] == shuffled["cell_type"].iloc[0]
        expected = ids(ds[np.flatnonzero(frame["cell_type"] == shuffled["cell_type"].iloc[0])])
        assert 0 < len(expected) < ds.n_obs
        assert ids(ds[mask]) == expected
        assert ids(ps.Dataset(ds.experiment, obs_query=mask)) == expected
        assert ds.obs[mask][JOINID].tolist() == ds[mask].obs[JOINID].tolist()
        assert ids(ds[mask.to_numpy()]) != expected, "an array goes by place"
    by_joinid = shuffled.set_index(JOINID)["sex"] == "male"
    assert ids(ds[by_joinid]) == ids(ds["sex == 'male'"])


@pytest.mark.parametrize("seed", range(4))
def test_a_mask_of_genes_goes_by_its_index(
    ds: ps.Dataset, adata: anndata.AnnData, seed: int
) -> None:
    hvg = ps.highly_variable_genes(ds, n_top_genes=50)
    expected = ds.var_names[hvg["highly_variable"].to_numpy()].tolist()
    shuffled = hvg.sample(frac=1, random_state=seed)["highly_variable"]
    assert ds[:, shuffled].var_names.tolist() == expected
    step = ps.SelectGenes(shuffled)
    assert ds.with_settings(transforms=[step]).var_names.tolist() == expected
    assert ps.Dataset(ds.experiment, var_query=shuffled).var_names.tolist() == expected
    theirs = adata[:, shuffled.reindex(adata.var_names)].var_names.tolist()
    assert theirs == expected
    # After genes were chosen in another order, the mask is of those columns.
    part = ds[:, np.random.default_rng(seed).permutation(ds.n_vars)[:300]]
    mask = pd.Series(part.var["nnz"].to_numpy() > 100, index=part.var_names)
    kept = part.var_names[mask.to_numpy()].tolist()
    assert part[:, mask.sample(frac=1, random_state=seed)].var_names.tolist() == kept


@pytest.mark.parametrize("seed", range(4))
def test_a_table_goes_by_names_or_joinids(
    ds: ps.Dataset, adata: anndata.AnnData, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    places = np.sort(rng.permutation(ds.n_obs)[:40])
    expected = ids(ds[places])
    theirs = adata.obs.iloc[rng.permutation(places)]
    with_numbers = ds.obs.to_pandas().iloc[places]
    for table in (
        theirs,
        theirs.drop(columns=JOINID),
        with_numbers,
        with_numbers.reset_index(drop=True),
        with_numbers.set_index(JOINID),
    ):
        assert ids(ds[table]) == expected
        assert ids(ps.Dataset(ds.experiment, obs_query=table)) == expected
    some = rng.permutation(ds.n_vars)[:7]
    table = adata.var.iloc[some]
    assert ds[:, table].var_names.tolist() == table.index.tolist()
    assert ds[:, adata[:, some]].var_names.tolist() == table.index.tolist()
    assert ds[:, ds[:, some]].var_names.tolist() == table.index.tolist()
    assert ds[:, ds[:, some].var].var_names.tolist() == table.index.tolist()
    text = f"feature_name == {adata.var['feature_name'].iloc[5]!r}"
    assert ds[:, text].var_names.tolist() == [adata.var_names[5]]


def test_a_shuffled_anndata_with_joinids_of_another_store(adata: anndata.AnnData) -> None:
    """Its column soma_joinid is of the store it came from; names say which cells are meant."""
    shuffled = adata[np.random.default_rng(1).permutation(adata.n_obs)].copy()
    ds = ps.Dataset(shuffled)
    chosen = shuffled.obs[shuffled.obs["cell_type"] == "fibroblast"]
    assert ds[chosen].obs["cell_type"].tolist() == ["fibroblast"] * len(chosen)
    assert ds[adata[adata.obs["cell_type"] == "fibroblast"]].n_obs == len(chosen)
    var = shuffled[:, ::-1].copy()
    assert ps.Dataset(var)[:, adata.var.iloc[:3]].var_names.tolist() == adata.var_names[:3].tolist()


def test_tables_that_do_not_say_which_rows_they_have(ds: ps.Dataset) -> None:
    part = ds[1:]
    some = part.obs[["sex"]]
    for table in (
        some[some["sex"] == "female"],
        ds.obs.to_pandas(["cell_type", "nnz"])
        .groupby("cell_type", observed=True)
        .mean()
        .reset_index(),
        ds.obs[["sex"]] == "male",
    ):
        for choose in (lambda t: part[t], lambda t: ps.Dataset(ds.experiment, obs_query=t)):
            with pytest.raises(ps.InvalidArgument, match="does not say which rows it has"):
                choose(table)
    genes = ds[:, [5, 3]].var[["feature_name"]]
    for choose in (lambda t: ds[:, t], lambda t: ps.Dataset(ds.experiment, var_query=t)):
        with pytest.raises(ps.InvalidArgument, match="does not say which rows it has"):
            choose(genes)


def test_series_of_other_rows_are_refused(ds: ps.Dataset) -> None:
    n = ds.n_obs
    for index in (np.arange(1, n + 1), pd.RangeIndex(0, 2 * n, 2), [f"cell {i}" for i in range(n)]):
        mask = pd.Series(np.ones(n, bool), index=index)
        for choose in (lambda m: ds[m], lambda m: ds.obs[m]):
            with pytest.raises(ps.InvalidArgument, match=r"names other rows, such as.*to_numpy"):
                choose(mask)
    counts = ds.obs["sex"].value_counts()
    for choose in (lambda s: ds[s], lambda s: ps.Dataset(ds.experiment, obs_query=s)):
        with pytest.raises(
            ps.InvalidArgument,
            match=r"a Series of integers that belong to rows such as '\w+' is no list",
        ):
            choose(counts)
    missing = pd.Series([True, None] * (n // 2), dtype="boolean")
    with pytest.raises(ps.InvalidArgument, match=r"3,000 of 6,000 bools are missing: mask\.fillna"):
        ds[missing]


def test_joinids_in_a_series_are_joinids(ds: ps.Dataset) -> None:
    part = ds[1000:]
    chosen = part.obs.to_pandas()[JOINID].iloc[[5, 70]]
    assert part[chosen].obs[JOINID].tolist() == [1005, 1070]
    assert part[[5, 70]].obs[JOINID].tolist() == [1005, 1070]


def test_weights_go_by_their_index(ds: ps.Dataset) -> None:
    frame = ds.obs.to_pandas().sample(frac=1, random_state=2)
    weights = (frame["sex"] == "female").astype(float)
    drawn = ps.Dataset(ds.experiment, weights=weights, obs_columns=["sex"])
    assert {each for _, obs in drawn for each in obs["sex"]} == {"female"}
    with pytest.raises(ps.InvalidArgument, match="index of weights names other rows"):
        ps.Dataset(ds.experiment, weights=weights.set_axis(np.arange(len(weights)) + 1))


def test_rows_of_joined_stores(folder: Path, adata: anndata.AnnData) -> None:
    """A joinid is of one cell of each store; a table says by its source which one is meant."""
    first, second = adata[:200].copy(), adata[200:500].copy()
    joined = ps.Dataset([first, second])
    frame = joined.obs.to_pandas()
    source = next(
        name for name in frame if name not in first.obs and name not in (JOINID, "obs_names")
    )
    chosen = joined[frame.iloc[350:355]]
    assert chosen.obs_names.tolist() == adata.obs_names[350:355].tolist()
    both = joined[frame.iloc[[3, 203]]]
    assert both.obs_names.tolist() == adata.obs_names[[3, 203]].tolist()
    with pytest.raises(ps.InvalidArgument, match=f"must keep its column '{source}'"):
        joined[frame.drop(columns=source).iloc[:3]]
    with pytest.raises(ps.InvalidArgument, match="no source 'other'"):
        joined[frame.assign(**{source: "other"}).iloc[:3]]


def test_objects_of_one_size_are_not_one_store(adata: anndata.AnnData) -> None:
    first, other = adata[:50].copy(), adata[5000:5050].copy()
    with pytest.raises(ps.InvalidArgument, match="is a selection of AnnData of 50 cells"):
        ps.Dataset(first)[ps.Dataset(other)[10:20]]
    genes = ps.Dataset(other[:, ::-1].copy()).var
    for choose in (
        lambda: ps.Dataset(first, transforms=[ps.SelectGenes(genes)]),
        lambda: ps.Dataset(first)[:, genes],
        lambda: ps.Dataset(first, var_query=genes),
    ):
        with pytest.raises(ps.InvalidArgument, match="is a selection of AnnData of 50 cells"):
            choose()
    again = ps.Dataset(first)[ps.Dataset(first.copy())[10:20]]
    assert again.obs_names.tolist() == first.obs_names[10:20].tolist()


def test_names_that_repeat_name_no_cell(adata: anndata.AnnData, tmp_path: Path) -> None:
    """Names of SOMA are joinids then, which are not taken for names, or the other way round."""
    given = ["1", "3", "1", "cell"]
    four = adata[:4].copy()
    four.obs_names = given
    ds = ps.Dataset(four)
    assert ds.obs_names.tolist() == given
    assert ds[["3", "cell"]].obs["soma_joinid"].tolist() == [1, 3]
    with pytest.raises(ps.InvalidArgument, match="obs_names has '1' more than once"):
        ds[ds.obs_names[:1]]

    pytest.importorskip("tiledbsoma")
    from soma_tables import write_experiment

    table = pa.table({"soma_joinid": pa.array(range(4), pa.int64()), "obs_id": given})
    obs = ps.open(write_experiment(tmp_path / "four", table)).obs
    assert obs.row_names().tolist() == ["0", "1", "2", "3"]
    assert rows_of(obs, ["cell"], "cells").to_numpy().tolist() == [3]
    for names in (obs.row_names()[1:2], ["3"], ["1"]):
        with pytest.raises(ps.InvalidArgument, match=r"'1' more than once.*cannot be names"):
            rows_of(obs, names, "cells")


def test_nothing_is_no_selection(ds: ps.Dataset) -> None:
    for nothing in (None, "", "  "):
        with pytest.raises(ps.InvalidArgument, match=r"ds\[:\] has all cells"):
            ds[nothing]
    assert ds[:, :3].n_obs == ds[...].n_obs == ds.n_obs


def test_genes_that_are_not_stored(ds: ps.Dataset) -> None:
    names = ["no gene", ds.var_names[3], "neither", ds.var_names[1]]
    wide = ds.with_settings(transforms=[ps.SelectGenes(names, missing="zero")])
    for key in ([0], [0, 2], [3, 0], slice(0, 3), np.array([True, False, True, True])):
        part = wide[:50, key]
        expected = np.array(names, object)[key].tolist()
        assert part.var_names.tolist() == expected
        X = part.with_settings(batch_size=50, shuffle=False).head(50)[0]
        whole = wide[:50].with_settings(batch_size=50, shuffle=False).head(50)[0]
        np.testing.assert_array_equal(X, whole[:, key])


def test_genes_of_a_key_stay_when_transforms_change(ds: ps.Dataset) -> None:
    steps = [ps.NormalizeTotal(1e4), ps.Log1p()]
    part = ds[:, 5:25].with_settings(shuffle=False)
    made = part.with_settings(transforms=steps)
    assert made.var_names.tolist() == ds.var_names[5:25].tolist()
    X = part.head(50)[0].astype(np.float64)
    totals = X.sum(axis=1, keepdims=True)
    totals[totals == 0] = 1
    np.testing.assert_allclose(made.head(50)[0], np.log1p(X * 1e4 / totals), rtol=1e-5)
    again = made.with_settings(transforms=[*made.transforms, ps.Clip(0, 1)])
    assert [type(step).__name__ for step in again.transforms].count("ChosenGenes") == 1
    assert again.n_vars == 20
    assert "SelectGenes, NormalizeTotal, Log1p" in repr(made)
    # Genes that were given as a step are of the transforms, and are replaced with them.
    given = ds.with_settings(transforms=[ps.SelectGenes(ds.var_names[5:25].tolist())])
    assert given.with_settings(transforms=[]).n_vars == ds.n_vars
    assert part[:, 3:9].with_settings(transforms=[]).n_vars == 6
    hvg = ps.highly_variable_genes(made, 10, flavor="seurat")
    assert hvg.index.tolist() == ds.var_names[5:25].tolist()


def test_genes_come_before_callables(ds: ps.Dataset) -> None:
    with pytest.raises(ps.InvalidArgument, match="choose the genes first"):
        ds.with_settings(transforms=[np.sqrt])[:, :5]
    with pytest.raises(ps.NotFound, match=r"did you mean '(?i:ensg)"):
        ds[:, [ds.var_names[0].lower()]]


def test_an_anndata_is_not_read_to_choose_its_cells(
    ds: ps.Dataset, adata: anndata.AnnData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """np.asarray of an AnnData, or of a Dataset, goes through its cells one by one."""
    view = adata[100:140, 3:9]

    def read(*_: Any) -> Any:
        raise AssertionError("read")

    monkeypatch.setattr(anndata.AnnData, "__getitem__", read)
    monkeypatch.setattr(ps.Dataset, "__iter__", read)
    assert ds[view].n_obs == 40
    assert ds[:, view].n_vars == 6
    assert ds[:, ps.Dataset(ds.experiment)].n_vars == ds.n_vars


def test_rows_of_a_slice_of_the_census(folder: Path) -> None:
    """Its cells are named "0", "1", …, but are others in the store, which knows them by joinid alone."""
    from penstock.compat.census import get_anndata

    path = ps.example("census-like", folder=folder)
    ds = ps.Dataset(path)
    part = get_anndata(ps.open(path), "homo_sapiens", obs_value_filter="tissue_general == 'lung'")
    assert part.obs_names[:2].tolist() == ["0", "1"]
    chosen = ds[part.obs.iloc[5:9]]
    assert chosen.obs[JOINID].tolist() == part.obs[JOINID].iloc[5:9].tolist()
    assert ds[part.obs].obs.unique("tissue_general").tolist() == ["lung"]


def test_names_that_look_like_places(adata: anndata.AnnData) -> None:
    small = adata[:6].copy()
    small.obs_names = [str(i) for i in range(6)]
    ds = ps.Dataset(small[[3, 4, 5, 0, 1, 2]].copy())
    mask = pd.Series(np.arange(6) < 2, index=small.obs_names)
    for chosen in (ds[mask].obs_names, ds.obs[mask]["obs_names"]):
        assert list(chosen) == ["0", "1"]
    drawn = ps.Dataset(ds.experiment, weights=mask.astype(float), obs_columns=["obs_names"])
    assert {each for _, obs in drawn for each in obs["obs_names"]} <= {"0", "1"}


def test_one_unknown_gene(ds: ps.Dataset, adata: anndata.AnnData) -> None:
    table = adata.var.iloc[[7, 9]].copy()
    table.loc["ENSG_unknown"] = table.iloc[0]
    table[JOINID] = [100, 101, 102]  # of another store
    for choose in (
        lambda: ds[:, table],
        lambda: ps.Dataset(ds.experiment, var_query=table),
        lambda: ds.with_settings(transforms=[ps.SelectGenes(table)]),
    ):
        with pytest.raises(ps.NotFound, match="ENSG_unknown"):
            choose()
    filled = ds.with_settings(transforms=[ps.SelectGenes(table, missing="zero")])
    assert filled.var_names.tolist() == table.index.tolist()


def test_a_column_highly_variable_of_var_chooses_nothing(
    ds: ps.Dataset, adata: anndata.AnnData
) -> None:
    """It does in the table of `highly_variable_genes`, also in that of scanpy."""
    marked = adata.copy()
    marked.var["highly_variable"] = np.arange(adata.n_vars) % 3 == 0
    names = adata.var_names[:6].tolist()
    assert ds[:, marked.var.iloc[:6]].var_names.tolist() == names
    assert ds[:, marked[:, :6]].var_names.tolist() == names
    assert ps.Dataset(ds.experiment, var_query=marked[:, :6]).n_vars == 6
    theirs = marked.var[["highly_variable"]].assign(means=0.0)
    assert ds[:, theirs].n_vars == theirs["highly_variable"].sum()
    assert ds.with_settings(transforms=[ps.SelectGenes(ds[:, :4].var)]).n_vars == 4
    assert ds.with_settings(transforms=[ps.SelectGenes(marked[:, :5])]).n_vars == 5


def test_joinids_of_another_store_in_an_anndata(adata: anndata.AnnData) -> None:
    twice = adata[[7, 3, 9, 2]].copy()
    twice.obs_names = ["a", "b", "a", "c"]
    twice.obs[JOINID] = [3, 2, 1, 0]
    ds = ps.Dataset(twice)
    for table in (twice.obs.iloc[:3], twice.obs.reset_index(drop=True).iloc[:2]):
        with pytest.raises(ps.InvalidArgument, match="may be of another store"):
            ds[table]
    assert ds[ds.obs.to_pandas().iloc[[1, 2]]].obs[JOINID].tolist() == [1, 2]


def test_a_row_that_the_part_of_a_join_has_not(adata: anndata.AnnData) -> None:
    joined = ps.Dataset([adata[:200].copy(), adata[200:500].copy()])
    frame = joined.obs.to_pandas()
    with pytest.raises(ps.NotFound, match="no row has the soma_joinid 3"):
        joined[:200][frame.iloc[[3, 203]]]
    with pytest.raises(ps.InvalidArgument, match="no source None"):
        joined[frame.assign(source=None).iloc[:3]]


def test_an_index_of_numbers_is_of_its_table(ds: ps.Dataset) -> None:
    """The numbers of a part are not taken for places or joinids of other cells."""
    part = ds["tissue_general == 'lung'"]
    frame = part.obs.to_pandas(["cell_type"])
    index = frame[frame["cell_type"] == "T cell"].index
    filtered = ds.obs.to_pandas(["cell_type"], "tissue_general == 'lung'")
    assert filtered.index.equals(frame.index)
    assert filtered.index.name == frame.index.name
    sums = ps.cell_statistics(part)
    for numbers in (index, filtered.index[:3], sums.index[:3], part.obs[2:].head().index):
        for choose in (lambda i: ds[i], lambda i: ps.Dataset(ds.experiment, obs_query=i)):
            with pytest.raises(ps.InvalidArgument, match="index of integers counts the rows"):
                choose(numbers)
    with pytest.raises(ps.InvalidArgument, match="index of integers counts the rows"):
        part[ds.obs["sex"][:3].index]
    # Of the same table they are places.
    assert part[index].obs.unique("cell_type").tolist() == ["T cell"]
    assert part[sums.index[sums["total"] > 0]].n_obs == (sums["total"] > 0).sum()
    assert part[part.obs.head(3).index].n_obs == ds[index.to_numpy()[:3]].n_obs == 3
    whole = ds.obs.to_pandas(["cell_type"])
    index = whole[whole["cell_type"] == "T cell"].index
    for chosen in (ds[index], ps.Dataset(ds.experiment, obs_query=index)):
        assert ids(chosen) == ids(ds["cell_type == 'T cell'"])
    assert ds[ds.obs.head(3).index].n_obs == ds[ds.obs[:3]["sex"].index].n_obs == 3


def test_an_index_of_places_that_are_not_joinids(folder: Path) -> None:
    """Of a store whose joinids have gaps an Index may be meant as either."""
    whole = ps.Dataset(ps.example("census-like", folder=folder))
    some = ps.join({"first": whole.experiment, "second": whole.experiment})
    with pytest.raises(ps.InvalidArgument, match="may have places or joinids, which differ"):
        ps.Dataset(some, obs_query=pd.Index([3, 4]))


def test_a_series_of_another_part_of_one_size(ds: ps.Dataset) -> None:
    first, second = ds.random_split(0.5, 0.5)
    mask = first.obs["sex"] == "male"
    assert first[mask].n_obs == mask.sum()
    assert second[pd.Series(mask.to_numpy())].n_obs == mask.sum(), "an index of its own"
    for choose in (lambda: second[mask], lambda: second.obs[mask]):
        with pytest.raises(ps.InvalidArgument, match="counts the rows of another selection"):
            choose()


def test_an_index_of_genes_is_of_its_table(ds: ps.Dataset) -> None:
    part, other = ds[:, [5, 3, 100]], ds[:, [7, 9, 50]]
    numbers = part.var["nnz"].index[1:]
    for choose in (
        lambda: ds[:, numbers],
        lambda: other[:, numbers],
        lambda: ps.Dataset(ds.experiment, var_query=numbers),
        lambda: ds.with_settings(transforms=[ps.SelectGenes(numbers)]),
    ):
        with pytest.raises(ps.InvalidArgument, match="index of integers counts the rows"):
            choose()
    with pytest.raises(ps.InvalidArgument, match="counts the rows of another selection"):
        other[:, part.var["nnz"] > 0]
    assert part[:, part.var["nnz"] >= 0].n_vars == 3
    assert part[:, numbers].var_names.tolist() == ds.var_names[[3, 100]].tolist()
    assert ds[:, ds.var["nnz"].index[3:5]].var_names.tolist() == ds.var_names[3:5].tolist()
    step = ps.SelectGenes(ds.var["nnz"].index[:3])
    assert ds.with_settings(transforms=[step]).n_vars == 3


def test_the_index_of_rows_is_that_of_their_cells(ds: ps.Dataset) -> None:
    part = ds[20:60]
    frame = ps.map_batches(lambda X, obs: X.sum(axis=1), part).to_pandas()
    assert part[frame.index[frame["value"] > 0]].n_obs == (frame["value"] > 0).sum()
    with pytest.raises(ps.InvalidArgument, match="index of integers counts the rows"):
        ds[frame.index]


def test_names_as_the_index(ds: ps.Dataset) -> None:
    """Columns with names go into an AnnData of the cells in any order, and its genes."""
    part = ds[20:60, [5, 3, 100]]
    made = part.to_anndata()[::-1]
    frame = part.obs.to_pandas(["cell_type", "sex"], names=True)
    for name in frame:
        by_name = frame[name].reindex(made.obs_names)
        assert by_name.astype(str).tolist() == made.obs[name].astype(str).tolist()
    var = part.var.to_pandas("feature_name", names=True)
    assert var.index.tolist() == part.var_names.tolist() == part.to_anndata().var_names.tolist()
    assert part.obs.to_pandas([], "sex == 'male'", names=True).index.tolist() == (
        part["sex == 'male'"].obs_names.tolist()
    )
    named = ps.Dataset(ds.experiment, var_names="feature_name")
    assert named[:, :9].var.to_pandas([], names=True).index.tolist() == named.var_names[:9].tolist()
    rows = ps.map_batches(lambda X, obs: X.sum(axis=1), part).to_pandas()
    by_name = rows.set_axis(part.obs_names)["value"].reindex(made.obs_names)
    np.testing.assert_allclose(by_name, made.X.sum(axis=1).A1)
    with pytest.raises(ps.InvalidArgument, match="names, whether the index has"):
        ds.obs.to_pandas(names=["sex"])
    with pytest.raises(AttributeError, match=r"obs.to_pandas\(names=True\).loc goes by the names"):
        _ = ds.obs.loc
