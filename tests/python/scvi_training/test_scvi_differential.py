"""Differential expression and abundance of stored cells, against scvi-tools with all of them in memory."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")
soma = pytest.importorskip("tiledbsoma")
pytest.importorskip("tiledbsoma.io")

import penstock.scvi as pscvi  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

KEYS: dict[str, dict[str, Any]] = {
    "SCVI": {
        "batch_key": "donor", "size_factor_key": "factor",
        "categorical_covariate_keys": ["sex", "chemistry"], "continuous_covariate_keys": ["age"],
    },
    "SCANVI": {"batch_key": ["donor", "site"], "labels_key": "kind", "unlabeled_category": "Unknown"},
    "LinearSCVI": {"batch_key": "donor"},
}  # fmt: skip
SEED = 3


class Trained:
    """A model of stored cells, and scvi-tools' model of the same cells in memory."""

    def __init__(self, name: str, cells: Oracle, folder: Path, epochs: int = 2) -> None:
        torch.manual_seed(0)
        self.data = pscvi.DataModule(cells.path, name, **KEYS[name])
        self.model = self.data.create_model(n_latent=4)
        pscvi.train(
            self.model, self.data, accelerator="cpu", max_epochs=epochs, seed=0, progress=False
        )
        self.model.save(str(folder))
        self.adata = as_anndata(cells)
        cls = getattr(scvi.model, name)
        self.theirs = cls.load(str(folder), self.adata, accelerator="cpu")

    def expected(self, *arguments: Any, **named: Any) -> pd.DataFrame:
        """What scvi-tools computes, from the same seeds."""
        torch.manual_seed(SEED)
        np.random.seed(SEED)
        return self.theirs.differential_expression(self.adata, *arguments, silent=True, **named)

    def found(self, *arguments: Any, **named: Any) -> pd.DataFrame:
        return pscvi.differential_expression(
            self.model, self.data, *arguments, seed=SEED, accelerator="cpu", **named
        )


@pytest.fixture(scope="module", params=list(KEYS))
def trained(request, cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(request.param, cells, tmp_path_factory.mktemp(request.param) / "model")


@pytest.fixture(scope="module")
def scvi_of(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained("SCVI", cells, tmp_path_factory.mktemp("one") / "model")


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Rows, columns and values, in order; numbers to the rounding of sums."""
    pd.testing.assert_frame_equal(
        found, expected, check_dtype=False, check_index_type=False, check_names=False, rtol=1e-5
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"groupby": "kind"},
        {"groupby": "kind", "mode": "change", "delta": 0.1, "batch_correction": True},
        {"groupby": "kind", "group1": ["T", "NK"], "group2": "B", "mode": "change"},
        {"groupby": "donor", "group1": "donor 1", "all_stats": False},
    ],
    ids=["each with the rest", "change", "with one group", "without statistics"],
)
def test_all_cells_in_memory(trained: Trained, arguments: dict[str, Any]) -> None:
    same(trained.found(**arguments), trained.expected(**arguments))


def test_masks_and_positions(scvi_of: Trained) -> None:
    kind = scvi_of.adata.obs["kind"].to_numpy(str)
    # Some cells of the first are in the second, too.
    masks = {"idx1": np.isin(kind, ["T", "NK"]), "idx2": np.isin(kind, ["B", "T"])}
    expected = scvi_of.expected(**masks)
    same(scvi_of.found(**masks), expected)
    same(scvi_of.found(**{name: np.flatnonzero(mask) for name, mask in masks.items()}), expected)
    one = masks["idx1"]
    same(scvi_of.found(idx1=one), scvi_of.expected(idx1=one, idx2=~one))
    with pytest.raises(ps.InvalidArgument, match="idx1 has no cells"):
        scvi_of.found(idx1=np.zeros(len(kind), bool))


def test_a_choice_of_cells(cells: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cells are in memory; statistics are of all; effects are about those of all cells."""
    scvi_of = Trained("LinearSCVI", cells, tmp_path / "model", epochs=100)
    held: list[int] = []
    load = type(scvi_of.model).load

    def noted(folder: str, adata: anndata.AnnData, **given: Any) -> Any:
        held.append(adata.n_obs)
        return load(folder, adata, **given)

    monkeypatch.setattr(type(scvi_of.model), "load", noted)
    arguments = {"groupby": "kind", "group1": "T", "mode": "change"}
    found = scvi_of.found(**arguments, cells_per_group=40)
    assert held == [80]
    expected = scvi_of.expected(**arguments)
    assert set(found.columns) == set(expected.columns)
    assert sorted(found.index) == sorted(expected.index)
    expected = expected.loc[found.index]
    for name in found.columns:
        if name.startswith(("raw_", "non_zeros")):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    # 40 cells of each group stand for some 80 and 250.
    correlation = np.corrcoef(found["lfc_mean"], expected["lfc_mean"])[0, 1]
    assert correlation > 0.9
    again = scvi_of.found(**arguments, cells_per_group=40)
    pd.testing.assert_frame_equal(found, again)
    other = pscvi.differential_expression(
        scvi_of.model, scvi_of.data, **arguments, cells_per_group=40, seed=4, accelerator="cpu"
    )
    assert not other["lfc_mean"].loc[found.index].equals(found["lfc_mean"])


def test_of_a_path(scvi_of: Trained, cells: Oracle) -> None:
    """Cells whose genes are stored in another order, without a data module."""
    found = pscvi.differential_expression(
        scvi_of.theirs, cells.path, "kind", seed=SEED, accelerator="cpu",
        dataset={"var_query": ps.AxisQuery(coords=(np.arange(50)[::-1],))},
    )  # fmt: skip
    same(found, scvi_of.expected("kind"))


def test_nothing_of_the_caller_changes(scvi_of: Trained) -> None:
    """Generators, the model, and scvi-tools' tables of AnnData, which hold what they have."""
    was = np.random.get_state()[1].copy(), torch.get_rng_state()
    held = len(scvi.model.SCVI._setup_adata_manager_store)
    scvi_of.found("kind", "T")
    pscvi.differential_abundance(scvi_of.model, scvi_of.data, "donor", accelerator="cpu")
    assert (np.random.get_state()[1] == was[0]).all()
    assert torch.equal(torch.get_rng_state(), was[1])
    assert scvi_of.model.adata is None
    assert len(scvi.model.SCVI._setup_adata_manager_store) == held


def test_groups_are_taken_in_the_order_of_the_categories(tmp_path: Path) -> None:
    """As in an AnnData of the cells: scvi-tools draws its samples in that order."""
    rng = np.random.default_rng(0)
    kinds = pd.Categorical(rng.choice(["b", "c", "a"], 120), ["c", "a", "unused", "b"])
    kinds[:3] = np.nan
    obs = pd.DataFrame({"kind": kinds, "size": rng.choice([0.1, 0.7], 120).astype(np.float32)})
    obs.index = [f"cell{i}" for i in range(120)]
    var = pd.DataFrame(index=[f"gene{i}" for i in range(20)])
    X = sp.csr_matrix(rng.poisson(1.5, (120, 20)).astype(np.float32))
    path = tmp_path / "experiment"
    soma.io.from_anndata(str(path), anndata.AnnData(X, obs, var), "RNA", X_layer_name="raw")
    data = pscvi.DataModule(path)
    model = data.create_model(n_latent=3)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    model.save(str(tmp_path / "model"))
    adata = anndata.AnnData(X, obs, var)
    adata.obs["kind"] = adata.obs["kind"].cat.remove_unused_categories()
    theirs = scvi.model.SCVI.load(str(tmp_path / "model"), adata, accelerator="cpu")
    for column, one in (("kind", "a"), ("size", 0.1)):
        torch.manual_seed(SEED)
        np.random.seed(SEED)
        expected = theirs.differential_expression(groupby=column, silent=True)
        found = pscvi.differential_expression(model, data, column, seed=SEED, accelerator="cpu")
        same(found, expected)
        alone = pscvi.differential_expression(model, data, column, one, accelerator="cpu")
        assert len(alone) == 20
    frame = pscvi.differential_expression(model, data, "kind", ["a", "b"], "c", accelerator="cpu")
    assert frame["comparison"].unique().tolist() == ["a vs c", "b vs c"]
    with_second = pscvi.differential_expression(
        model, data, "kind", group2="c", accelerator="cpu", seed=0
    )
    pd.testing.assert_frame_equal(frame, with_second)


@pytest.mark.parametrize(
    "given",
    [np.array(["T", "B"]), pd.Series(["T", "B"]), pd.Index(["T", "B"]), ("T", "B"), iter("TB")],
    ids=["array", "Series", "Index", "tuple", "iterator"],
)
def test_groups_of_any_kind(scvi_of: Trained, given: Any) -> None:
    found = scvi_of.found("kind", given, all_stats=False)
    assert found["group1"].unique().tolist() == ["T", "B"]
    if isinstance(given, np.ndarray):
        one = scvi_of.found("kind", np.array("T"), all_stats=False)
        assert one["group1"].unique().tolist() == ["T"]


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_two_genes_of_one_name(cells: Oracle, tmp_path: Path) -> None:
    names = ["gene" if i < 2 else f"gene{i}" for i in range(50)]
    var = pd.DataFrame({"name": names}, index=[f"id{i}" for i in range(50)])
    obs = pd.DataFrame({"kind": as_anndata(cells).obs["kind"].to_numpy(str)})
    obs.index = [f"cell{i}" for i in range(len(obs))]
    adata = anndata.AnnData(cells.X.astype(np.float32), obs, var)
    path = tmp_path / "experiment"
    soma.io.from_anndata(str(path), adata, "RNA", X_layer_name="raw")
    data = pscvi.DataModule(path, dataset={"var_names": "name"})
    model = data.create_model(n_latent=3)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    found = pscvi.differential_expression(model, data, "kind", "T", accelerator="cpu")
    assert sorted(found.index) == sorted(names)
    means = np.asarray(cells.X[(cells.obs["kind"] == "T").to_numpy()].mean(axis=0)).ravel()
    np.testing.assert_allclose(sorted(found.loc["gene", "raw_mean1"]), sorted(means[:2]), rtol=1e-5)
    np.testing.assert_allclose(found.loc["gene7", "raw_mean1"], means[7], rtol=1e-5)


def test_labels_that_the_model_does_not_read(cells: Oracle) -> None:
    few = ps.AxisQuery(coords=(np.flatnonzero((cells.obs["kind"] != "T").to_numpy()),))
    keys = {"labels_key": "kind", "batch_key": "donor"}
    data = pscvi.DataModule(cells.path, dataset={"obs_query": few}, **keys)
    model = data.create_model(n_latent=3)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    every = pscvi.DataModule(cells.path, **keys)
    found = pscvi.differential_expression(model, every, "donor", "donor 1", accelerator="cpu")
    assert len(found) == 50


def test_a_layer(cells: Oracle, tmp_path: Path) -> None:
    """A model of an AnnData whose counts are in a layer."""
    adata = as_anndata(cells)
    adata.layers["counts"] = adata.X
    scvi.model.SCVI.setup_anndata(adata, layer="counts", batch_key="donor")
    model = scvi.model.SCVI(adata, n_latent=3)
    model.train(max_epochs=1, accelerator="cpu", enable_progress_bar=False)
    found = pscvi.differential_expression(model, cells.path, "kind", seed=SEED, accelerator="cpu")
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    same(found, model.differential_expression(groupby="kind", silent=True))


def test_what_is_refused(scvi_of: Trained) -> None:
    for error, match, given in [
        (ps.InvalidArgument, "give groupby=", {}),
        (ps.InvalidArgument, "not both", {"groupby": "kind", "idx1": [0]}),
        (ps.InvalidArgument, "no cell has 'X' in 'kind', which has 'B'", {"groupby": "kind", "group1": "X"}),
        (ps.InvalidArgument, "no cell has 't' in 'kind'; did you mean 'T'", {"groupby": "kind", "group1": "t"}),
        (ps.InvalidArgument, "no cell has 1", {"groupby": "kind", "group1": "T", "group2": 1}),
        (ps.InvalidArgument, "compared with itself", {"groupby": "kind", "group1": "T", "group2": "T"}),
        (ps.InvalidArgument, "got none", {"groupby": "kind", "group1": []}),
        (ps.InvalidArgument, "idx1 must be a mask over the 331 cells", {"idx1": [True, False]}),
        (ps.InvalidArgument, "positions below 331", {"idx1": [331]}),
        (ps.InvalidArgument, "for a column of obs, use groupby", {"idx1": "kind == 'T'"}),
        (ps.InvalidArgument, "values of groupby", {"idx1": [1], "group1": "T"}),
        (ps.InvalidArgument, "idx2 has no cells", {"idx1": np.ones(331, bool)}),
        (ps.InvalidArgument, "cells_per_group must be 1", {"groupby": "kind", "cells_per_group": 0}),
        (ps.NotFound, "nothing", {"groupby": "nothing"}),
        (ps.InvalidArgument, "subset_idx is not taken", {"groupby": "kind", "subset_idx": [1]}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            scvi_of.found(**given)
    for accelerator in ("nonsense", *([] if torch.cuda.is_available() else ["gpu"])):
        with pytest.raises(ps.InvalidArgument, match="accelerator"):
            pscvi.differential_expression(
                scvi_of.model, scvi_of.data, "kind", accelerator=accelerator
            )
    untrained = scvi_of.data.create_model()
    with pytest.raises(ps.InvalidArgument, match="not trained yet"):
        pscvi.differential_expression(untrained, scvi_of.data, "kind", accelerator="cpu")


@pytest.mark.parametrize("dof", [None, 3.0])
def test_abundance(trained: Trained, tmp_path: Path, dof: float | None, monkeypatch) -> None:
    theirs = trained.theirs
    if not hasattr(theirs, "get_aggregated_posterior"):
        pytest.skip("scvi-tools 1.4.1 has no differential_abundance of this model")
    if "sqrt" not in inspect.getsource(type(theirs).get_aggregated_posterior):
        # Up to 1.5.1 it takes variances for scales (scvi-tools' pull request 3789).
        own = theirs.get_latent_representation

        def with_scales(*arguments: Any, **named: Any) -> Any:
            made = own(*arguments, **named)
            return (made[0], np.sqrt(made[1])) if named.get("return_dist") else made

        monkeypatch.setattr(theirs, "get_latent_representation", with_scales)
    theirs.differential_abundance(trained.adata, sample_key="donor", dof=dof)
    expected = trained.adata.obsm["da_log_probs"]
    found = pscvi.differential_abundance(
        trained.model, trained.data, "donor", dof=dof, accelerator="cpu"
    )
    assert found.columns.tolist() == sorted(expected.columns)
    np.testing.assert_allclose(found.values, expected[found.columns], rtol=1e-3, atol=1e-4)
    written = pscvi.differential_abundance(
        trained.model, trained.data, "donor", dof=dof, accelerator="cpu", out=tmp_path / "da.npy"
    )
    np.testing.assert_array_equal(written.values, found.values)
    assert written.joinids.tolist() == found.joinids.tolist()


def _check_all_but_one(scvi_of: Trained, whole: Any) -> None:
    """With one place less than the largest sample has cells, one of its own cells is left out."""
    donors = scvi_of.data.dataset.obs.to_pandas(columns=["donor"])["donor"].astype(str).to_numpy()
    sizes = [int((donors == sample).sum()) for sample in whole.columns]
    most = max(sizes) - 1
    found = pscvi.differential_abundance(
        scvi_of.model, scvi_of.data, "donor", accelerator="cpu", num_cells_posterior=most
    )
    rows = pscvi.latent(scvi_of.model, scvi_of.data, return_dist=True, accelerator="cpu")
    means, variances = (each.astype(float) for each in np.hsplit(rows.values, 2))
    for column, sample in enumerate(whole.columns):
        if sizes[column] <= most:
            np.testing.assert_array_equal(found.values[:, column], whole.values[:, column])
            continue
        own = np.flatnonzero(donors == sample)
        apart = (means[:, None] - means[None, own]) ** 2 / variances[own]
        each = -0.5 * (apart + np.log(2 * np.pi * variances[own])).sum(axis=2)
        without = [
            np.logaddexp.reduce(np.delete(each, place, axis=1), axis=1) for place in range(len(own))
        ]
        errors = np.abs(np.array(without) - np.log(most) - found.values[:, column]).max(axis=1)
        assert errors.min() < 2e-3


def test_abundance_of_few_cells_and_in_blocks(scvi_of: Trained, monkeypatch) -> None:
    given: dict[str, Any] = {"sample_key": "donor", "accelerator": "cpu"}
    whole = pscvi.differential_abundance(scvi_of.model, scvi_of.data, **given)
    monkeypatch.setattr("penstock.scvi.outputs.abundance._PAIRS", 1)
    blocks = pscvi.differential_abundance(scvi_of.model, scvi_of.data, **given)
    np.testing.assert_allclose(blocks.values, whole.values, rtol=1e-5)
    monkeypatch.undo()
    few = [
        pscvi.differential_abundance(
            scvi_of.model, scvi_of.data, **given, num_cells_posterior=20, seed=seed
        ).values
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(few[0], few[1])
    assert (few[0] != few[2]).any()
    _check_all_but_one(scvi_of, whole)
    for bad in (
        {"num_cells_posterior": 0},
        {"dof": 0},
        {"dof": "3"},
        {"dof": np.inf},
        {"dof": True},
    ):
        with pytest.raises(ps.InvalidArgument):
            pscvi.differential_abundance(scvi_of.model, scvi_of.data, **given, **bad)
