"""Differential expression of a TOTALVI's genes and proteins, against scvi-tools with all cells in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import torch

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from totalvi_cells import N_CELLS, N_GENES, N_PROTEINS, SIZES, write  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore:Some proteins have all 0"),
    pytest.mark.filterwarnings("ignore:We recommend using setup_mudata"),
]

SEED = 3


class Trained(NamedTuple):
    """A model of stored cells, and scvi-tools' model of the same cells in memory."""

    data: pscvi.DataModule
    model: Any
    theirs: Any
    adata: Any

    def expected(self, **named: Any) -> pd.DataFrame:
        torch.manual_seed(SEED)
        np.random.seed(SEED)
        return self.theirs.differential_expression(self.adata, silent=True, **named)

    def found(self, data: Any = None, **named: Any) -> pd.DataFrame:
        of = self.data if data is None else data
        how = {"seed": SEED, "accelerator": "cpu", **named}
        return pscvi.differential_expression(self.model, of, **how)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder: Path = tmp_path_factory.mktemp("totalvi")
    cells = write(folder / "experiment", missing=True)
    keys = {"batch_key": "donor", "categorical_covariate_keys": ["sex"]}
    data = cells.data(**keys)
    torch.manual_seed(0)
    np.random.seed(0)
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=5, seed=0, progress=False)
    model.save(str(folder / "model"))
    adata = cells.adata(**keys)
    theirs = scvi.model.TOTALVI.load(str(folder / "model"), adata, accelerator="cpu")
    return Trained(data, model, theirs, adata)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Rows, columns and values, in order; numbers to the rounding of sums."""
    pd.testing.assert_frame_equal(
        found, expected, check_dtype=False, check_index_type=False, check_names=False, rtol=1e-5
    )


@pytest.fixture
def no_draws_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """scvi-tools draws cells to check their counts, in each call and not in each comparison."""
    monkeypatch.setattr(scvi.model._totalvi, "_check_nonnegative_integers", lambda counts: True)


@pytest.mark.usefixtures("no_draws_of_checks")
@pytest.mark.parametrize(
    "arguments",
    [
        {"groupby": "donor"},
        {"groupby": "donor", "group1": "donor 1", "group2": "donor 0", "batch_correction": True},
        {"groupby": "sex", "mode": "vanilla", "scale_protein": True},
        {"groupby": "sex", "sample_protein_mixing": True, "include_protein_background": True},
        {"groupby": "sex", "use_field": ["rna"]},
        {"groupby": "sex", "use_field": ["protein"], "protein_prior_count": 0.5},
        {"groupby": "donor", "group1": "donor 2", "all_stats": False},
    ],
    ids=["rest", "one group", "shares", "mixing", "genes", "proteins", "without statistics"],
)
def test_all_cells_in_memory(trained: Trained, arguments: dict[str, Any]) -> None:
    same(trained.found(**arguments), trained.expected(**arguments))


def test_masks_and_few_cells(trained: Trained) -> None:
    """Statistics are of all cells, also of a path whose cells are few in memory."""
    masks = {"idx1": np.arange(N_CELLS) < 150, "idx2": np.arange(N_CELLS) >= 150}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none that a user can do something about
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        whole = trained.found(**masks)
    same(whole, trained.expected(**masks))
    few = trained.found(trained.data.dataset.experiment.uri, cells_per_group=20, **masks)
    assert len(few) == N_GENES + N_PROTEINS
    assert sorted(few.index) == sorted(whole.index)
    assert few.index.str.endswith("_protein").sum() == N_PROTEINS
    for name in ("raw_mean1", "raw_mean2", "non_zeros_proportion1", "raw_normalized_mean2"):
        np.testing.assert_allclose(few[name], whole[name].loc[few.index], rtol=1e-6)


def test_the_model_keeps_what_it_has(trained: Trained) -> None:
    held = len(scvi.model.TOTALVI._setup_adata_manager_store)
    state = {name: each.clone() for name, each in trained.model.module.state_dict().items()}
    trained.found(groupby="donor", group1="donor 1")
    assert trained.model.adata is None
    assert len(scvi.model.TOTALVI._setup_adata_manager_store) == held
    for name, each in trained.model.module.state_dict().items():
        assert torch.equal(each, state[name]), name
    with pytest.raises(ps.Unsupported, match="takes a PEAKVI, POISSONVI or MULTIVI"):
        pscvi.differential_accessibility(trained.model, trained.data, "donor")
