"""Features for notebooks: to_anndata, the progress bar, reprs."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from conftest import Oracle


def test_anndata_is_that_of_tiledbsoma(pbmc3k: Oracle) -> None:
    import tiledbsoma.io

    with tiledbsoma.open(str(pbmc3k.path)) as experiment:
        theirs = tiledbsoma.io.to_anndata(experiment, "RNA", X_layer_name="raw")
    ours = ps.Dataset(pbmc3k.path, seed=3, batch_size=7).to_anndata()
    assert (ours.X != theirs.X).nnz == 0
    assert ours.obs_names.tolist() == theirs.obs_names.tolist()
    assert ours.var_names.tolist() == theirs.var_names.tolist()
    for column in set(theirs.obs) & set(ours.obs):
        pd.testing.assert_series_equal(
            ours.obs[column], theirs.obs[column], check_dtype=False, check_categorical=False
        )


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_anndata_of_a_selection(census_like: Oracle) -> None:
    ds = ps.Dataset(
        census_like.path,
        obs_query="sex == 'female'",
        var_query=ps.AxisQuery(coords=(slice(10, 49),)),
        encoders=[ps.LabelEncoder("cell_type")],
        obs_columns=["sex"],
        dtype="int32",
        balance="cell_type",
        rank=1,
        world_size=2,
        drop_last=True,
    )
    data = ds.to_anndata()
    rows = census_like.obs.query("sex == 'female'")["soma_joinid"].to_numpy()
    assert data.X.dtype == np.int32
    np.testing.assert_array_equal(data.X.toarray(), census_like.X[rows, 10:50].toarray())
    assert data.obs["soma_joinid"].tolist() == rows.tolist()
    assert data.obs_names.tolist() == rows.astype(str).tolist()
    assert data.obs["cell_type"].dtype == "category"
    empty = ps.Dataset(census_like.path, obs_query="sex == 'none'").to_anndata()
    assert empty.shape == (0, 3_000)


def test_what_is_too_large_is_refused_with_its_size(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path)
    stored = census_like.X.nnz * 8
    with pytest.raises(ps.InvalidArgument, match="6,000 cells of 3,000 genes take about") as error:
        ds.to_anndata(max_size="100KiB")
    assert "obs_query" in str(error.value)
    size = re.search(r"about ([\d.]+) MiB", str(error.value))
    assert float(size[1]) * 2**20 == pytest.approx(stored, rel=0.1)
    offered = re.search(r"max_size='(\w[\w.]*)'", str(error.value))[1]
    assert ds.to_anndata(max_size=offered).n_obs == 6_000
    # Cells that are richer than the estimate thinks are noticed while they are read.
    counts = np.diff(census_like.X.indptr)
    rich = np.argsort(-counts)[:600]
    some = ps.Dataset(census_like.path, obs_query=ps.AxisQuery(coords=(np.sort(rich),)))
    expected = stored // 10 + 600 * 4
    assert counts[rich].sum() * 8 > expected * 1.1
    with pytest.raises(ps.InvalidArgument, match="take more than"):
        some.to_anndata(max_size=int(expected * 1.05))


def test_anndata_takes_no_rows_without_zeros(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path)
    ones = np.ones(ds.n_vars)
    names = dict.fromkeys(ds.var_names, 1)
    for step in (ps.Scale(ones, mean=ones), ps.RankTokens(names, names)):
        with pytest.raises(ps.InvalidArgument, match=r"with_settings\(transforms="):
            ds.with_settings(transforms=[step]).to_anndata()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_anndata_of_a_dataset_for_torch(census_like: Oracle, dtype: str) -> None:
    """Numpy has not all of torch's types: what the engine makes comes."""
    pytest.importorskip("torch")
    ds = ps.Dataset(census_like.path, format="torch", device="cpu", dtype=dtype)
    data = ds.random_split(50, ds.n_obs - 50)[0].to_anndata()
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(
        data.X.toarray(), census_like.X[data.obs["soma_joinid"].to_numpy()].toarray()
    )


def test_a_bar_for_an_epoch(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=100)
    out = io.StringIO()
    batches = list(ps.progress(ds, file=out))
    assert len(batches) == 60
    last = out.getvalue().rstrip().rpartition("\r")[2]
    assert out.getvalue().endswith("\n")
    assert re.match(r"100% █{24}, 60 of 60 batches, 6,000 cells, [\d,]+ cells/s, \d+:\d\d$", last)
    assert ds.epoch == 1


def test_a_bar_that_is_left_early(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=100)
    out = io.StringIO()
    for batch, _ in enumerate(ps.progress(ps.dataloader(ds), file=out)):
        if batch == 29:
            break
    last = out.getvalue().rstrip().rpartition("\r")[2]
    assert re.match(r" 50% █{12}░{12}, 30 of 60 batches, 3,000 cells, .* left$", last)


def test_no_bar_where_nobody_looks(census_like: Oracle, capsys) -> None:
    ds = ps.Dataset(census_like.path, batch_size=1_000)
    assert len(list(ps.progress(ds))) == 6
    assert capsys.readouterr().err == ""
    with pytest.raises(ps.InvalidArgument, match="another iterable, got 5"):
        ps.progress(5)
    with pytest.raises(ps.InvalidArgument, match="total must be 0 or more, got -1"):
        ps.progress(ds, total=-1)
    with pytest.raises(ps.InvalidArgument, match="desc must be a string, got 3"):
        ps.progress(ds, desc=3)


def last_line(out: io.StringIO) -> str:
    return out.getvalue().rstrip().rpartition("\r")[2]


def test_a_bar_with_a_text_in_front(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=1_000)
    out = io.StringIO()
    list(ps.progress(ds, file=out, desc="epoch 1"))
    assert last_line(out).startswith("epoch 1: 100% █")


def test_a_bar_for_a_generator(census_like: Oracle) -> None:
    """Without a number of batches there is no bar; with `total` there is."""
    ds = ps.Dataset(census_like.path, batch_size=1_000)
    out = io.StringIO()
    seen = list(ps.progress((X for X, _ in ds), file=out))
    assert len(seen) == 6
    assert re.match(r"6 batches, \d+:\d\d$", last_line(out))
    out = io.StringIO()
    list(ps.progress((batch for batch in ds), file=out, total=12))
    assert re.match(r" 50% █{12}░{12}, 6 of 12 batches, 6,000 cells, .* left$", last_line(out))
    out = io.StringIO()
    assert list(ps.progress(range(3), file=out)) == [0, 1, 2]
    assert last_line(out).startswith("100% ")


def test_a_bar_in_a_notebook_is_one_output(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is updated in place, also between batches, and is whole at the end."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    source = [
        "import penstock as ps\nfrom penstock.base import progress_bar\n"
        "progress_bar._SECONDS_BETWEEN = 0",  # every batch is shown
        f"ds = ps.Dataset({str(census_like.path)!r}, batch_size=100)\n"
        "for batch in ps.progress(ds, desc='epoch 1'):\n    pass",
        "for batch in ps.progress(ds):\n    break",
        "ds.stats",
    ]
    book = nbformat.v4.new_notebook()
    book.cells = list(map(nbformat.v4.new_code_cell, source))
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    _, whole, left, stats = (cell.outputs for cell in book.cells)
    for outputs, text in (
        (whole, r"epoch 1: 100% █{24}, 60 of 60 batches, 6,000 cells, [\d,]+ cells/s, \d+:\d\d$"),
        (left, r"  2% ░{24}, 1 of 60 batches, 100 cells, .* left$"),
    ):
        (output,) = outputs
        assert output.output_type == "display_data"
        assert re.match(text, output.data["text/plain"]), output.data
    (output,) = stats
    assert "the loop waited" in output.data["text/html"]


def test_reprs_in_a_notebook(census_like: Oracle) -> None:
    exp = ps.open(census_like.path)
    ds = ps.Dataset(exp, encoders=[ps.OneHotEncoder("sex"), ps.NumericEncoder("raw_sum")])
    for each in (exp, exp.obs, ds):
        html = each._repr_html_()
        assert html.count("<table") == html.count("</table>") == 1
    assert "OneHotEncoder('sex')" in repr(ds)
    assert "6,000 cells" in ds._repr_html_()
    X, obs = ds.head(3)
    assert X.shape == (3, 3_000)
    assert obs["sex"].shape == (3, 2)


def test_the_head_has_the_codes_of_an_epoch(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, encoders=[ps.LabelEncoder("cell_type")], shuffle=False)
    head = ds.head(4)[1]["cell_type"]
    assert len(ds.encoders["cell_type"].classes_) == census_like.obs["cell_type"].nunique()
    np.testing.assert_array_equal(next(iter(ds))[1]["cell_type"][:4], head)
