"""`ds[cells, genes]`, and selections of every kind wherever a query goes, beside anndata."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st


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


def same(ours: ps.Dataset, theirs: anndata.AnnData) -> None:
    read = ours.to_anndata()
    assert read.shape == theirs.shape
    assert (read.X != theirs.X).nnz == 0
    assert ours.obs.soma_joinid.tolist() == theirs.obs["soma_joinid"].tolist()
    assert read.var_names.tolist() == theirs.var_names.tolist()
    assert read.obs_names.tolist() == theirs.obs_names.tolist() == ours.obs_names.tolist()


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@given(data=st.data())
def test_parts_are_those_of_anndata(
    ds: ps.Dataset, adata: anndata.AnnData, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))

    def key(n: int, names: Any, ascending: bool) -> tuple[Any, Any]:
        """A key of ours, and the same one for anndata, whose rows may be in any order."""
        kind = data.draw(st.sampled_from(["all", "slice", "mask", "places", "names", "series"]))
        if kind == "all":
            return slice(None), slice(None)
        if kind == "slice":
            first, last = np.sort(rng.integers(0, n + 1, 2)).tolist()
            step = data.draw(st.sampled_from([None, 1, 3]))
            taken = slice(first, last, step)
            # scipy 1.17 fails on a mask of rows with columns in steps.
            return taken, taken if step is None else np.arange(n)[taken]
        mask = rng.random(n) < 0.02
        if kind == "mask":
            return mask, mask
        if kind == "series":
            return pd.Series(mask), mask
        places = rng.permutation(np.flatnonzero(mask))
        wanted = np.sort(places) if ascending else places
        if kind == "places":
            return places.tolist(), wanted
        return names[places].tolist(), wanted

    cells, their_cells = key(ds.n_obs, ds.obs_names, ascending=True)
    genes, their_genes = key(ds.n_vars, ds.var_names, ascending=False)
    same(ds[cells, genes], adata[their_cells, their_genes])


def test_a_part_keeps_the_settings(ds: ps.Dataset) -> None:
    settings = {"batch_size": 7, "seed": 3, "obs_columns": ["cell_type"], "shuffle": False}
    with_settings = ds.with_settings(**settings)
    part = with_settings[10:31]
    assert part.batch_size == 7
    assert [len(obs["cell_type"]) for _, obs in part] == [7, 7, 7]
    expected = with_settings.obs["cell_type"].iloc[10:31].tolist()
    assert [each for _, obs in part for each in obs["cell_type"]] == expected
    assert part[2:4].obs["soma_joinid"].tolist() == [12, 13]
    copy = pickle.loads(pickle.dumps(part[:, :5]))
    assert copy.shape == (21, 5)


def test_genes_are_chosen_after_the_transforms(ds: ps.Dataset, adata: anndata.AnnData) -> None:
    normal = ds.with_settings(transforms=[ps.NormalizeTotal(100.0)])
    X = adata.X.toarray()
    expected = X / np.maximum(X.sum(1, keepdims=True), 1) * 100
    found = normal[:50, [9, 2]].to_anndata().X.toarray()
    np.testing.assert_allclose(found, expected[:50, [9, 2]], rtol=1e-6)


def test_encoders_are_shared_with_parts(ds: ps.Dataset, folder: Path) -> None:
    whole = ps.Dataset(ds.experiment, encoders=ps.LabelEncoder("cell_type"), shuffle=False)
    part = whole["cell_type == 'T cell'"]
    codes = {int(code) for _, obs in part for code in obs["cell_type"]}
    assert whole.encoders["cell_type"].inverse_transform(np.array(list(codes))).tolist() == [
        "T cell"
    ]


def selections(ds: ps.Dataset, adata: anndata.AnnData) -> dict[str, Any]:
    """The same cells in every form that a query takes."""
    joinids = np.arange(3, 6000, 977)
    frame = ds.obs.to_pandas()
    mask = np.isin(frame["soma_joinid"], joinids)
    part = ds[mask]
    return {
        "filter": f"soma_joinid in {joinids.tolist()}",
        "joinids": joinids,
        "unsorted joinids": joinids[::-1].tolist(),
        "range": range(3, 6000, 977),
        "mask": mask,
        "list of bools": mask.tolist(),
        "Series": pd.Series(mask),
        "Dataset": part,
        "obs": part.obs,
        "frame": frame[mask],
        "index": frame.set_index(ds.obs_names).index[mask],
        "names": ds.obs_names[mask].tolist(),
        "AnnData": adata[mask],
        "AxisQuery": ps.AxisQuery(coords=(joinids,)),
    }


def test_a_query_takes_every_form(ds: ps.Dataset, adata: anndata.AnnData) -> None:
    forms = selections(ds, adata)
    for name, form in forms.items():
        chosen = ps.Dataset(ds.experiment, obs_query=form)
        assert chosen.obs["soma_joinid"].tolist() == list(range(3, 6000, 977)), name
        if name not in ("joinids", "unsorted joinids", "range"):  # numbers are places in ds[…]
            assert ds[form].obs["soma_joinid"].tolist() == list(range(3, 6000, 977)), name


def test_genes_by_id_by_symbol_and_by_table(ds: ps.Dataset) -> None:
    var = ds.var.to_pandas()
    hvg = ps.highly_variable_genes(ds, n_top_genes=20)
    chosen = var[hvg["highly_variable"].to_numpy()]
    for form in (
        hvg,
        hvg["highly_variable"].to_numpy(),
        chosen["feature_id"],
        chosen["feature_name"].tolist(),
        chosen["soma_joinid"].to_numpy(),
        chosen,
    ):
        assert (
            ps.Dataset(ds.experiment, var_query=form).var_names.tolist()
            == chosen["feature_id"].tolist()
        )
        if not isinstance(form, pd.DataFrame) or form is hvg:
            step = ps.SelectGenes(form)
            picked = ds.with_settings(transforms=[step])
            assert picked.var["soma_joinid"].tolist() == chosen["soma_joinid"].tolist()
            assert pickle.loads(pickle.dumps(picked)).n_vars == 20
    assert ds[:, hvg].var_names.tolist() == chosen["feature_id"].tolist()
    assert ds[:, "SYN00003"].var["feature_name"].tolist() == ["SYN00003"]


def test_wrong_keys_say_what_to_do(ds: ps.Dataset, folder: Path) -> None:
    other = ps.Dataset(ps.example("pbmc3k", folder=folder))
    for key, error, message in (
        (0, ps.InvalidArgument, r"ds\.head\(\) reads the first"),
        (np.int64(-3), ps.InvalidArgument, "gives batches, not single cells"),
        ([6000], ps.InvalidArgument, "places from 0 to 5,999, got 6000"),
        ([1, 1], ps.InvalidArgument, "a place twice"),
        ([5, -5995], ps.InvalidArgument, "a place twice"),
        (slice("a", None), ps.InvalidArgument, "a slice of integers.*a list of names instead"),
        (slice(1.5, None), ps.InvalidArgument, "a slice of integers.* indices must be integers"),
        (slice(None, None, 0), ps.InvalidArgument, "step"),
        (np.ones(5, bool), ps.InvalidArgument, "a bool for each of the 6,000 rows"),
        (["nobody"], ps.NotFound, "has no 'nobody'"),
        ("cell_typ == 'T cell'", ps.NotFound, "did you mean 'cell_type'"),
        (3.5, ps.InvalidArgument, "got 3.5"),
        ((1, 2, 3), ps.InvalidArgument, r"ds\[cells, genes\]"),
        ((slice(None), ["nothing"]), ps.NotFound, "not found, the first is 'nothing'"),
        ((slice(None), [1500]), ps.InvalidArgument, "places from 0 to 1,499"),
        (other, ps.InvalidArgument, "is a selection of .*pbmc3k"),
    ):
        with pytest.raises((error, ps.InvalidArgument), match=message):
            ds[key]
    with pytest.raises(
        ps.NotFound, match="no row has the soma_joinid 6000, 6001, 6002, 6003, 6004 and 995"
    ):
        ps.Dataset(ds.experiment, obs_query=np.arange(5000, 7000)[998:])
    with pytest.raises(ps.InvalidArgument, match="the joinid 4 twice"):
        ps.Dataset(ds.experiment, obs_query=[4, 4])
    with pytest.raises(ps.InvalidArgument, match="joinids are 0 or more, got -1"):
        ps.Dataset(ds.experiment, obs_query=[-1])


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_no_cells_and_all_cells(ds: ps.Dataset) -> None:
    assert ds[:].shape == ds[...].shape == ds.shape
    assert ds[5:5].n_obs == 0
    assert ds[[]].n_obs == 0
