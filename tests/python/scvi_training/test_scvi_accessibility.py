"""Differential accessibility, and the expression of MULTIVI, against scvi-tools with all cells in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import multivi_cells
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")
pytest.importorskip("mudata")

import penstock.scvi as pscvi  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mudata"),
]

SEED = 3


class Trained(NamedTuple):
    """A model of stored cells, and scvi-tools' model of the same cells in memory."""

    data: pscvi.DataModule
    model: Any
    theirs: Any
    cells: Any

    def expected(self, call: str, **named: Any) -> pd.DataFrame:
        torch.manual_seed(SEED)
        np.random.seed(SEED)
        return getattr(self.theirs, call)(self.cells, silent=True, **named)

    def found(self, call: str, data: Any = None, **named: Any) -> pd.DataFrame:
        of = self.data if data is None else data
        return getattr(pscvi, call)(self.model, of, **{"seed": SEED, "accelerator": "cpu", **named})


def trained(data: pscvi.DataModule, cells: Any, sizes: dict[str, Any], folder: Path) -> Trained:
    torch.manual_seed(0)
    model = data.create_model(**sizes)
    pscvi.train(
        model,
        data,
        accelerator="cpu",
        max_epochs=8,
        seed=0,
        progress=False,
        plan_kwargs={"lr": 0.01},
    )
    model.save(str(folder))
    return Trained(data, model, type(model).load(str(folder), cells, accelerator="cpu"), cells)


@pytest.fixture(scope="module", params=["PEAKVI", "POISSONVI"])
def regions(request, cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    keys = {"batch_key": "donor", "categorical_covariate_keys": ["sex"]}
    data = pscvi.DataModule(cells.path, request.param, **keys)
    sizes = {"n_latent": 4, "n_hidden": 16}
    return trained(data, as_anndata(cells), sizes, tmp_path_factory.mktemp("regions") / "model")


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("multivi")
    cells = multivi_cells.write(folder / "experiment")
    keys = {"batch_key": "donor", **multivi_cells.COVARIATES}
    several = cells.several(multivi_cells.LAYERS, **keys)
    data = cells.data(multivi_cells.LAYERS, **keys)
    return trained(data, several, multivi_cells.SIZES, folder / "model")


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Rows, columns and values, in order; numbers to the rounding of sums."""
    pd.testing.assert_frame_equal(
        found, expected, check_dtype=False, check_index_type=False, check_names=False, rtol=1e-5
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"groupby": "kind", "group1": "T"},
        {"groupby": "kind", "group1": "T", "group2": "B", "delta": 0.1, "batch_correction": True},
        {"groupby": "donor", "group1": "donor 1", "mode": "vanilla"},
        {"groupby": "kind"},
    ],
    ids=["with the rest", "with one group", "vanilla", "each with the rest"],
)
def test_all_cells_in_memory(regions: Trained, arguments: dict[str, Any]) -> None:
    expected = regions.expected("differential_accessibility", **arguments)
    found = regions.found("differential_accessibility", **arguments)
    compared = ["comparison", "group1", "group2"]
    if "prob_da" in expected:  # PEAKVI's table does not say which groups
        firsts = found["group1"].unique().tolist()
        assert firsts == [arguments["group1"]] if "group1" in arguments else len(firsts) == 4
        assert found["comparison"].iloc[0] == f"{firsts[0]} vs {arguments.get('group2', 'Rest')}"
        found = found.drop(columns=compared)
    same(found, expected[found.columns])
    assert set(found.columns) == set(expected.columns)


def test_masks(regions: Trained) -> None:
    kind = regions.cells.obs["kind"].to_numpy(str)
    # Some cells of the first are in the second, too.
    masks = {"idx1": np.isin(kind, ["T", "NK"]), "idx2": np.isin(kind, ["B", "T"])}
    expected = regions.expected("differential_accessibility", **masks)
    same(regions.found("differential_accessibility", **masks)[expected.columns], expected)


def test_empirical_probabilities_of_all_cells(
    regions: Trained, cells: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few cells are in memory; the empirical columns are of all, from a path as well."""
    held: list[int] = []
    load = type(regions.model).load

    def noted(folder: str, adata: Any, **given: Any) -> Any:
        held.append(adata.n_obs)
        return load(folder, adata, **given)

    monkeypatch.setattr(type(regions.model), "load", noted)
    arguments: dict[str, Any] = {"groupby": "kind", "group1": "T"}
    expected = regions.expected("differential_accessibility", **arguments)
    backwards = ps.AxisQuery(coords=(np.arange(50)[::-1],))
    for data, dataset in ((None, None), (cells.path, {"var_query": backwards})):
        found = regions.found(
            "differential_accessibility", data, **arguments, cells_per_group=30, dataset=dataset
        )
        # scvi-tools checks the counts of 100 cells for POISSONVI.
        assert held.pop() == (100 if regions.data.model_class.__name__ == "POISSONVI" else 60)
        assert sorted(found.index) == sorted(expected.index)
        for name in ("emp_prob1", "emp_prob2", "emp_effect"):
            np.testing.assert_allclose(found[name], expected[name].loc[found.index], rtol=1e-12)


def test_regions_of_multivi(multi: Trained) -> None:
    """Its table has the regions in their order, and takes one comparison at a time."""
    donors = ["donor 0", "donor 2"]
    found = multi.found("differential_accessibility", groupby="donor", group1=donors)
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    for name, part in found.groupby("group1"):
        assert part["comparison"].unique().tolist() == [f"{name} vs Rest"]
        expected = multi.theirs.differential_accessibility(
            multi.cells, groupby="donor", group1=name, silent=True
        )
        same(part.drop(columns=["comparison", "group1", "group2"]), expected)


@pytest.mark.parametrize("mode", ["change", "vanilla"])
def test_masks_over_cells_of_multivi(multi: Trained, mode: str) -> None:
    """Cells that lack genes or regions are among them."""
    masks = {"idx1": np.arange(300) < 100, "idx2": np.arange(300) >= 150}
    how = {**masks, "mode": mode}
    expected = multi.expected("differential_accessibility", **how)
    same(multi.found("differential_accessibility", **how), expected)


def test_cells_without_genes(multi: Trained) -> None:
    """None of the chosen cells has a count of a gene; scvi-tools refuses such a MuData."""
    masks = {"idx1": np.arange(300) < 30, "idx2": (np.arange(300) >= 30) & (np.arange(300) < 60)}
    assert multi.cells["RNA"].X[:60].nnz == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none that a user can do something about
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        found = multi.found("differential_accessibility", **masks)
    same(found, multi.expected("differential_accessibility", **masks))


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(
    "arguments",
    [
        {"group1": "donor 1"},
        {"group1": "donor 1", "group2": "donor 0", "batch_correction": True, "delta": 0.1},
        {"group1": "donor 1", "mode": "vanilla"},
        {},
    ],
    ids=["with the rest", "with one group", "vanilla", "each with the rest"],
)
def test_genes_of_multivi(multi: Trained, arguments: dict[str, Any]) -> None:
    expected = multi.expected("differential_expression", groupby="donor", **arguments)
    found = multi.found("differential_expression", groupby="donor", **arguments)
    # scvi-tools scales a cell without genes by 1 / 0.
    scaled = [name for name in expected.columns if name.startswith("raw_normalized")]
    same(found.drop(columns=scaled), expected.drop(columns=scaled))
    assert found.columns.tolist() == expected.columns.tolist()
    assert (found[scaled] > 0).all(axis=None)


def test_genes_of_multivi_without_statistics(multi: Trained) -> None:
    masks = {"idx1": np.arange(300) < 150, "idx2": np.arange(300) >= 150}
    expected = multi.expected("differential_expression", all_stats=False, **masks)
    same(multi.found("differential_expression", all_stats=False, **masks), expected)
    # Of a path, with few cells in memory.
    uri = multi.data.dataset.experiment.uri
    few = multi.found("differential_expression", uri, cells_per_group=20, **masks)
    whole = multi.found("differential_expression", **masks)
    assert sorted(few.index) == sorted(whole.index)
    for name in ("raw_mean1", "raw_mean2", "non_zeros_proportion1", "raw_normalized_mean2"):
        np.testing.assert_allclose(few[name], whole[name].loc[few.index], rtol=1e-6)


def test_what_is_refused(regions: Trained, multi: Trained, cells: Oracle) -> None:
    with pytest.raises(ps.Unsupported, match=r"call penstock\.scvi\.differential_accessibility"):
        regions.found("differential_expression", groupby="kind")
    for error, match, given in (
        (ps.InvalidArgument, "give groupby=", {}),
        (ps.InvalidArgument, "no cell has 'X' in 'kind'", {"groupby": "kind", "group1": "X"}),
        (ps.InvalidArgument, "all_stats is not taken", {"groupby": "kind", "all_stats": False}),
        (ps.InvalidArgument, "subset_idx is not taken", {"groupby": "kind", "subset_idx": [1]}),
        (ps.NotFound, "nothing", {"groupby": "nothing"}),
    ):
        with pytest.raises(error, match=match):
            regions.found("differential_accessibility", **given)
    few = {"obs_query": "soma_joinid < 90"}
    if regions.data.model_class.__name__ == "POISSONVI":
        with pytest.raises(
            ps.InvalidArgument, match="counts of 100 cells for this model, but there are 90"
        ):
            regions.found("differential_accessibility", cells.path, groupby="kind", dataset=few)
    of_genes = pscvi.DataModule(cells.path, batch_key="donor").create_model(n_latent=3)
    with pytest.raises(ps.Unsupported, match=r"takes a PEAKVI, POISSONVI or MULTIVI.*not a SCVI"):
        pscvi.differential_accessibility(of_genes, cells.path, "kind")
