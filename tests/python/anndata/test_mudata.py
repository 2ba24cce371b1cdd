""".h5mu files and zarr stores of MuData: a modality is a measurement. The oracle is mudata."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import zarr
from amounts import FEW
from anndata_cases import dense, expect_read, expect_table, random_anndata, rows_of
from hypothesis import given
from hypothesis import strategies as st


def random_mudata(
    random: np.random.Generator, cells: int, *, other_cells: bool = False
) -> mudata.MuData:
    rna = random_anndata(random, cells, 9, raw=bool(random.integers(2)))
    protein = random_anndata(random, cells, 4, dense=True)
    protein.var_names = [f"p{i}" for i in range(4)]
    parts = {"rna": rna, "protein": protein}
    if other_cells:
        atac = random_anndata(random, cells, 6)[: cells - 1].copy()
        atac.var_names = [f"peak{i}" for i in range(6)]
        parts = {"rna": rna, "atac": atac, "protein": protein}
    made = mudata.MuData(parts)
    made.obs["donor"] = pd.Categorical(random.choice(["a", "b"], cells))
    return made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """mudata warns of what its next version does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def write(made: mudata.MuData, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.write_zarr(path) if path.suffix == ".zarr" else made.write_h5mu(path)
    return path


@FEW
@given(seed=st.integers(0, 2**32), cells=st.integers(2, 40), kind=st.sampled_from(["h5mu", "zarr"]))
def test_measurements_are_the_modalities(seed: int, cells: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{kind}"
        wanted = random_mudata(random, cells)
        write(wanted, path)
        experiment = ps.open(path)
        raw = ["rna:raw"] if wanted["rna"].raw is not None else []
        assert experiment.measurements == ["rna", *raw, "protein"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted.pull_obs(prefix_unique=True)
        got = experiment.obs.to_pandas()
        assert set(got.columns) - {"soma_joinid", "obs_names"} == set(wanted.obs.columns)
        expect_table(
            got[["soma_joinid", "obs_names", *wanted.obs.columns]], wanted.obs, "obs_names"
        )
        for name in ("rna", "protein"):
            expect_table(experiment.var(name).to_pandas(), wanted[name].var, "var_names")
            assert experiment.layers(name) == ["X", "counts"]
            for layer, matrix in [("X", wanted[name].X), ("counts", wanted[name].layers["counts"])]:
                got = rows_of(path, measurement=name, layer=layer)
                np.testing.assert_array_equal(got, dense(matrix))
        if raw:
            got = rows_of(path, measurement="rna:raw", layer="X")
            np.testing.assert_array_equal(got, dense(wanted["rna"].raw.X))
        for name in ("rna", "protein"):  # alone, as mudata.read takes it
            expect_read(f"{path}/mod/{name}", wanted[name])
            if kind == "h5mu":
                expect_read(f"{path}/{name}", wanted[name])


def test_modalities_in_one_batch(tmp_path: Path) -> None:
    wanted = random_mudata(np.random.default_rng(1), 300)
    path = write(wanted, tmp_path / "x.h5mu")
    dataset = ps.Dataset(
        path,
        measurements={"rna": {"sparse": True}, "protein": {"layer": "counts", "dtype": "float64"}},
        layer="X",
        obs_query="donor == 'a'",
        obs_columns=["soma_joinid", "donor", "protein:score"],
        batch_size=16,
        seed=3,
    )
    seen = []
    for X, obs in dataset:
        rows = obs["soma_joinid"]
        seen.extend(rows)
        np.testing.assert_array_equal(X["rna"].toarray(), dense(wanted["rna"].X)[rows])
        np.testing.assert_array_equal(X["protein"], dense(wanted["protein"].layers["counts"])[rows])
        assert obs["protein:score"].tolist() == wanted["protein"].obs["score"].iloc[rows].tolist()
    assert sorted(seen) == np.flatnonzero(wanted.obs["donor"] == "a").tolist()


@pytest.mark.parametrize("kind", ["h5mu", "zarr"])
def test_a_modality_of_other_cells_is_opened_alone(tmp_path: Path, kind: str) -> None:
    wanted = random_mudata(np.random.default_rng(2), 20, other_cells=True)
    path = write(wanted, tmp_path / f"x.{kind}")
    with pytest.raises(
        ps.Unsupported, match=r"'atac' has not the cells .*/mod/atac.*intersect_obs"
    ):
        ps.Dataset(path, measurement="atac")
    assert "atac:score" not in ps.open(path).obs.columns
    np.testing.assert_array_equal(
        rows_of(path, measurement="rna", layer="X"), dense(wanted["rna"].X)
    )
    expect_read(f"{path}/mod/atac", wanted["atac"])


def test_the_same_cells_in_another_order_are_not_the_same_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    rna, protein = random_anndata(random, 20, 5), random_anndata(random, 20, 4)
    protein.var_names = [f"p{i}" for i in range(4)]
    path = write(mudata.MuData({"rna": rna, "protein": protein[::-1].copy()}), tmp_path / "x.h5mu")
    with pytest.raises(ps.Unsupported, match="in their order"):
        ps.Dataset(path, measurement="protein")
    expect_read(f"{path}/protein", protein[::-1])


def test_names_that_are_not_there(tmp_path: Path) -> None:
    path = write(random_mudata(np.random.default_rng(5), 5), tmp_path / "x.h5mu")
    with pytest.raises(
        ps.NotFound, match=r"no measurement 'RNA'; did you mean 'rna'\? Choose from rna, "
    ):
        ps.Dataset(path)
    with pytest.raises(ps.NotFound, match=r"there is no group 'atac', in .*x\.h5mu"):
        ps.open(f"{path}/atac")
    with pytest.raises(ps.NotFound, match="there is nothing at"):
        ps.open(tmp_path / "y.h5mu" / "mod" / "rna")


def test_genes_that_are_shared_instead_of_cells_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    first, second = random_anndata(random, 5, 4), random_anndata(random, 6, 4)
    second.obs_names = [f"other-{i}" for i in range(6)]
    path = write(mudata.MuData({"a": first, "b": second}, axis=1), tmp_path / "x.h5mu")
    with pytest.raises(ps.Unsupported, match=r"axis 0.*has axis 1.*/mod/NAME"):
        ps.open(path)
    expect_read(f"{path}/mod/b", second)


def test_a_pack_of_a_modality(tmp_path: Path) -> None:
    wanted = random_mudata(np.random.default_rng(7), 50)
    path = write(wanted, tmp_path / "x.h5mu")
    ps.pack(path, tmp_path / "x.pack", measurements=["rna", "protein"])
    for name in ("rna", "protein"):
        got = rows_of(tmp_path / "x.pack", measurement=name, layer="X")
        np.testing.assert_array_equal(got, dense(wanted[name].X))
    obs = ps.open(tmp_path / "x.pack").obs.to_pandas()
    assert obs["rna:score"].tolist() == wanted["rna"].obs["score"].tolist()
    adata = ps.Dataset(path, measurement="rna", layer="X").to_anndata()
    assert isinstance(adata, anndata.AnnData)
    np.testing.assert_array_equal(dense(adata.X), dense(wanted["rna"].X))


def test_fractions_are_said_where_counts_are_elsewhere(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    rna = random_anndata(random, 30, 9)
    counts = rna.layers["counts"].astype("float32")
    rna.raw = anndata.AnnData(counts, rna.obs, rna.var)
    rna.X = counts * np.float32(0.5)
    protein = random_anndata(random, 30, 4, dense=True, value_type="int32")
    protein.var_names = [f"p{i}" for i in range(4)]
    path = write(mudata.MuData({"rna": rna, "protein": protein}), tmp_path / "x.h5mu")
    with pytest.warns(UserWarning, match=r"layer='counts' and measurement='rna:raw'"):
        ps.Dataset(path, measurement="rna")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Dataset(path, measurement="protein")
        ps.Dataset(path, measurement="rna:raw")


def test_a_backed_modality_names_its_path(tmp_path: Path) -> None:
    path = write(random_mudata(np.random.default_rng(9), 5), tmp_path / "x.h5mu")
    backed = mudata.read_h5mu(path, backed="r")
    with pytest.raises(ps.Unsupported, match=r"give its path, .*x\.h5mu/mod/NAME"):
        ps.Dataset(backed["protein"])


@pytest.mark.parametrize("own", [True, False])
def test_categories_beside_the_columns_are_those_of_the_modality(tmp_path: Path, own: bool) -> None:
    """As anndata 0.7 stores them; the table of the whole object may have others of that name."""
    wanted = random_mudata(np.random.default_rng(10), 6)
    path = write(wanted, tmp_path / "x.zarr")
    root = zarr.open_group(str(path), mode="r+", use_consolidated=False)
    tables = {"mod/rna/obs": ["A", "B"], **({"obs": ["X", "Y"]} if own else {})}
    for place, categories in tables.items():
        table = root[place]
        table.create_array("leiden", data=np.array([0, 1, 0, 1, 1, 0], "int8"))
        table["leiden"].attrs["categories"] = "__categories/leiden"
        beside = table.require_group("__categories")
        anndata.io.write_elem(beside, "leiden", np.array(categories, object))
        table.attrs["column-order"] = [*table.attrs["column-order"], "leiden"]
    zarr.consolidate_metadata(str(path))
    alone = ps.open(f"{path}/mod/rna").obs.to_pandas()["leiden"].tolist()
    assert alone == ["A", "B", "A", "B", "B", "A"]
    obs = ps.open(path).obs.to_pandas()
    assert obs["rna:leiden"].tolist() == alone
    if own:
        assert obs["leiden"].tolist() == ["X", "Y", "X", "Y", "Y", "X"]


def test_a_modality_that_is_called_as_the_raw_of_another(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    rna, other = random_anndata(random, 7, 5, raw=True), random_anndata(random, 7, 4)
    other.var_names = [f"p{i}" for i in range(4)]
    for number, order in enumerate([("rna", "rna:raw"), ("rna:raw", "rna")]):
        made = mudata.MuData({name: {"rna": rna, "rna:raw": other}[name] for name in order})
        path = write(made, tmp_path / f"{number}.h5mu")
        with pytest.raises(ps.InvalidArgument, match="'rna:raw' is called as the raw of 'rna'"):
            ps.open(path)
        np.testing.assert_array_equal(
            rows_of(f"{path}/mod/rna", measurement="raw", layer="X"), dense(rna.raw.X)
        )
    del rna.raw
    path = write(mudata.MuData({"rna": rna, "rna:raw": other}), tmp_path / "no-raw.h5mu")
    assert ps.open(path).measurements == ["rna", "rna:raw"]
    np.testing.assert_array_equal(rows_of(path, measurement="rna:raw", layer="X"), dense(other.X))


@pytest.mark.parametrize("left", [0, 1, 5])
def test_an_obsmap_of_another_length_is_damage(tmp_path: Path, left: int) -> None:
    path = write(random_mudata(np.random.default_rng(12), 6), tmp_path / "x.h5mu")
    with h5py.File(path, "r+") as file:
        places = file["obsmap/protein"][:left]
        del file["obsmap/protein"]
        file["obsmap/protein"] = places
    with pytest.raises(ps.CorruptData, match=rf"each of 6 cells, it has {left}, in .*protein"):
        ps.open(path)


@pytest.mark.parametrize("kind", ["uint8", "int64", "none"])
def test_places_of_any_integer_type(tmp_path: Path, kind: str) -> None:
    """A cell that a modality lacks is place 0, also where places do not fit the type."""
    random = np.random.default_rng(13)
    rna, protein = random_anndata(random, 256, 3), random_anndata(random, 256, 2)
    protein.var_names = ["p0", "p1"]
    path = write(mudata.MuData({"rna": rna, "protein": protein[:255].copy()}), tmp_path / "x.h5mu")
    with h5py.File(path, "r+") as file:
        for name in ("rna", "protein"):
            places = file[f"obsmap/{name}"][:]
            del file[f"obsmap/{name}"]
            if name == "protein" and kind != "none":
                file[f"obsmap/{name}"] = places.astype(kind)
            if name == "rna":
                file[f"obsmap/{name}"] = places.astype("int64")
    np.testing.assert_array_equal(rows_of(path, measurement="rna", layer="X"), dense(rna.X))
    with pytest.raises(ps.Unsupported, match=r"'protein' has not .*/mod/protein"):
        ps.Dataset(path, measurement="protein")
    expect_read(f"{path}/mod/protein", protein[:255])


def test_filters_of_a_modality_s_columns(tmp_path: Path) -> None:
    wanted = random_mudata(np.random.default_rng(14), 60)
    path = write(wanted, tmp_path / "x.h5mu")
    dataset = ps.Dataset(
        path, measurement="rna", layer="X", obs_query='attr("rna:category") == "B cell"'
    )
    assert dataset.n_obs == int((wanted["rna"].obs["category"] == "B cell").sum()) > 0


def test_a_column_that_is_lost_is_named_with_its_table(tmp_path: Path) -> None:
    path = write(random_mudata(np.random.default_rng(15), 5), tmp_path / "x.h5mu")
    with h5py.File(path, "r+") as file:
        del file["mod/rna/obs/score"]
        if "rna:score" in file["obs"]:  # mudata before 0.4 copies columns
            del file["obs/rna:score"]
            order = [name for name in file["obs"].attrs["column-order"] if name != "rna:score"]
            file["obs"].attrs["column-order"] = order
    with pytest.raises(ps.CorruptData, match=r"no column 'score', in .*mod/rna/obs"):
        ps.open(path)
