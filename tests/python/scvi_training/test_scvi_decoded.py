"""`normalized` of TOTALVI, MULTIVI, MRVI and POISSONVI, against scvi-tools with the same cells in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import multivi_cells
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import torch
import totalvi_cells
from conftest import Oracle

scvi = pytest.importorskip("scvi")
pytest.importorskip("mudata")

import penstock.scvi as pscvi  # noqa: E402
from scvi_experiments import as_anndata, no_draws_of_loaders  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mudata"),
    pytest.mark.filterwarnings("ignore:Some proteins have all 0"),
    pytest.mark.filterwarnings("ignore:We recommend using setup_mudata"),
    pytest.mark.filterwarnings("ignore:You are using the Torch Version of MrVI"),
    pytest.mark.filterwarnings("ignore:MRVI model is being loaded with PyTorch"),
]

SEED = 5


class Trained(NamedTuple):
    """A model of stored cells, and scvi-tools' model of the same cells in memory."""

    data: pscvi.DataModule
    model: Any
    theirs: Any

    @property
    def batch_size(self) -> int:
        """A size that makes the batches of both sides the same, since draws depend on them."""
        return 100 if self.data.n_obs % 100 == 0 else self.data.n_obs

    def expected(self, call: str, **named: Any) -> Any:
        """What a call of scvi-tools returns for each batch, from the seed of the batch."""
        made = []
        for number, first in enumerate(range(0, self.data.n_obs, self.batch_size)):
            torch.manual_seed(SEED + number)
            places = np.arange(first, min(first + self.batch_size, self.data.n_obs))
            with no_draws_of_loaders():
                found = getattr(self.theirs, call)(
                    indices=places, batch_size=self.batch_size, **named
                )
            made.append(found if isinstance(found, tuple) else (found,))
        whole = tuple(map(pd.concat, zip(*made, strict=True)))
        return whole if len(whole) > 1 else whole[0]

    def found(self, data: Any = None, **named: Any) -> pscvi.Rows:
        data = self.data if data is None else data
        how = {"seed": SEED, "batch_size": self.batch_size, "accelerator": "cpu", **named}
        return pscvi.normalized(self.model, data, **how)


def trained(data: pscvi.DataModule, cells: Any, sizes: dict[str, Any], folder: Path) -> Trained:
    torch.manual_seed(0)
    np.random.seed(0)
    model = data.create_model(**sizes)
    pscvi.train(model, data, accelerator="cpu", max_epochs=2, seed=0, progress=False)
    model.save(str(folder))
    return Trained(data, model, type(model).load(str(folder), cells, accelerator="cpu"))


@pytest.fixture(scope="module")
def total(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("totalvi")
    cells = totalvi_cells.write(folder / "experiment", missing=True)
    keys = {"batch_key": "donor", **totalvi_cells.COVARIATES}
    return trained(cells.data(**keys), cells.adata(**keys), totalvi_cells.SIZES, folder / "model")


def of_several(folder: Path, **sizes: Any) -> Trained:
    cells = multivi_cells.write(folder / "experiment")
    keys = {"batch_key": "donor", **multivi_cells.COVARIATES}
    several = cells.several(multivi_cells.LAYERS, **keys)
    sizes = {**multivi_cells.SIZES, **sizes}
    return trained(cells.data(multivi_cells.LAYERS, **keys), several, sizes, folder / "model")


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return of_several(tmp_path_factory.mktemp("multivi"))


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The encoders of a MULTIVI read the batch, too."""
    return of_several(tmp_path_factory.mktemp("encoded"), encode_covariates=True)


def of_one(cells: Oracle, name: str, keys: dict[str, Any], folder: Path, **sizes: Any) -> Trained:
    data = pscvi.DataModule(cells.path, name, **keys)
    return trained(data, as_anndata(cells), {"n_latent": 4, **sizes}, folder / "model")


def of_samples(cells: Oracle, folder: Path, **keys: Any) -> Trained:
    keys = {"sample_key": "donor", "batch_key": "site", **keys}
    return of_one(cells, "MRVI", keys, folder, n_latent_u=3, encoder_n_hidden=16)


@pytest.fixture(scope="module")
def samples(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return of_samples(cells, tmp_path_factory.mktemp("mrvi"))


@pytest.fixture(scope="module")
def labelled(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return of_samples(cells, tmp_path_factory.mktemp("labels"), labels_key="kind")


@pytest.fixture(scope="module")
def fragments(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    keys = {"batch_key": "donor", "size_factor_key": "factor"}
    return of_one(cells, "POISSONVI", keys, tmp_path_factory.mktemp("poissonvi"), n_hidden=16)


def same(found: pscvi.Rows, expected: Any) -> None:
    """Values and columns; `expected` is a DataFrame, its rows in the order of the store."""
    assert found.values.shape == expected.shape
    assert found.values.dtype == np.float32
    assert found.columns.tolist() == expected.columns.tolist()
    np.testing.assert_allclose(found.values, expected, rtol=1e-4, atol=1e-7)


BATCHES = ["donor 2", "donor 0"]
HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "a batch": {"transform_batch": "donor 1"},
    "mean of batches": {"transform_batch": BATCHES},
}


@pytest.mark.parametrize("how", HOW)
def test_genes_and_proteins_of_totalvi(total: Trained, how: str) -> None:
    given = HOW[how]
    genes, proteins = total.expected("get_normalized_expression", **given)
    same(total.found(**given), genes)
    same(total.found(of="genes", **given), genes)
    same(total.found(of="proteins", **given), proteins)
    # Some, in an order that is not scvi-tools', which keeps that of the model.
    names = ["protein9", "protein2"]
    same(total.found(of="proteins", genes=names, **given), proteins[names])
    names = ["RNA30", "RNA7", "RNA8"]
    same(total.found(genes=names, **given), genes[names])


@pytest.mark.parametrize("size", [1e4, "latent"])
def test_library_sizes_of_totalvi(total: Trained, size: Any) -> None:
    genes, _ = total.expected("get_normalized_expression", library_size=size)
    same(total.found(library_size=size), genes)
    if size != "latent":
        # Also for several batches, where scvi-tools applies the size again for each.
        for how in HOW.values():
            sums = total.found(library_size=size, **how).values.sum(axis=1)
            np.testing.assert_allclose(sums, size, rtol=1e-4)


@pytest.mark.parametrize(
    "given",
    [
        {"scale_protein": True},
        {"include_protein_background": True},
        {"sample_protein_mixing": True},
        {"sample_protein_mixing": True, "include_protein_background": True, "scale_protein": True},
        {"sample_protein_mixing": True, "transform_batch": BATCHES},
    ],
    ids=["shares", "background", "mixing", "all", "mixing, mean of batches"],
)
def test_options_for_proteins(total: Trained, given: dict[str, Any]) -> None:
    _, proteins = total.expected("get_normalized_expression", **given)
    same(total.found(of="proteins", **given), proteins)
    some = ["protein3", "protein0"]
    same(total.found(of="proteins", genes=some, **given), proteins[some])
    assert not np.allclose(proteins, total.expected("get_normalized_expression")[1])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["multi", "encoded"])
def test_genes_and_regions_of_multivi(name: str, how: str, request) -> None:
    multi: Trained = request.getfixturevalue(name)
    given = HOW[how]
    genes = multi.expected("get_normalized_expression", **given)
    same(multi.found(**given), genes)
    same(multi.found(genes=["RNA9", "RNA2"], **given), genes[["RNA9", "RNA2"]])
    # Of several batches, scvi-tools takes the first.
    batches = given.get("transform_batch")
    each = [
        multi.expected("get_normalized_accessibility", transform_batch=batch)
        for batch in (batches if isinstance(batches, list) else [batches])
    ]
    regions = sum(each[1:], each[0]) / len(each)
    same(multi.found(of="regions", **given), regions)
    same(
        multi.found(of="regions", genes=["ATAC50", "ATAC3"], **given), regions[["ATAC50", "ATAC3"]]
    )


def test_multivi_draws_nothing(multi: Trained) -> None:
    one, other = (multi.found(seed=seed, batch_size=size) for seed, size in ((1, 64), (2, 300)))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-4)


@pytest.mark.parametrize("batch", [None, "b", ["b", "a"]])
@pytest.mark.parametrize("name", ["samples", "labelled"])
def test_mrvi(name: str, batch: Any, request) -> None:
    samples: Trained = request.getfixturevalue(name)
    expected = samples.expected("get_normalized_expression", transform_batch=batch)
    same(samples.found(transform_batch=batch, library_size="latent"), expected)
    # scvi-tools has no other library size: its call fails.
    counts = np.asarray(samples.theirs.adata.X.sum(axis=1))
    same(samples.found(transform_batch=batch), expected / counts)
    same(samples.found(transform_batch=batch, library_size=1e4), expected / counts * 1e4)
    names = ["ENSG031", "ENSG004"]
    found = samples.found(transform_batch=batch, library_size="latent", genes=names)
    same(found, expected[names])


@pytest.mark.parametrize(
    "given",
    [{}, {"transform_batch": "donor 1"}, {"library_size": 1e4}, {"library_size": "latent"}],
    ids=["plain", "a batch", "10,000", "latent"],
)
def test_poissonvi(fragments: Trained, given: dict[str, Any]) -> None:
    bias = fragments.model.module.decoder.px_scale_decoder[-2].bias
    was = bias.detach().clone()
    assert was.abs().max() > 0
    expected = fragments.expected("get_normalized_accessibility", **given)
    same(fragments.found(**given), expected)
    same(fragments.found(of="regions", **given), expected)
    torch.testing.assert_close(bias.detach(), was, rtol=0, atol=0)


MODELS: list[tuple[str, dict[str, Any]]] = [
    ("total", {"of": "proteins"}),
    ("multi", {"of": "regions"}),
    ("samples", {}),
]


@pytest.mark.parametrize(("name", "given"), MODELS, ids=[name for name, _ in MODELS])
def test_files_of_a_path(name: str, given: Any, request, tmp_path: Path) -> None:
    of: Trained = request.getfixturevalue(name)
    expected = of.found(**given)
    written = of.found(of.data.dataset.experiment.uri, out=tmp_path / "rows.zarr", **given)
    np.testing.assert_allclose(np.asarray(written.values[:]), expected.values, rtol=1e-5)
    assert written.joinids.tolist() == expected.joinids.tolist() == of.data.joinids.tolist()


def test_two_processes(total: Trained, tmp_path: Path) -> None:
    """The bits of one process: a batch draws from a seed of its own."""
    two = total.found(of="proteins", devices=2, out=tmp_path / "two.npy")
    assert isinstance(two.values, np.memmap)
    np.testing.assert_array_equal(two.values, total.found(of="proteins").values)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("total", {"of": "regions"}, "of must be 'genes' or 'proteins' for this TOTALVI"),
    ("total", {"of": "proteins", "library_size": 1e4}, "must be 1 for the proteins of a TOTALVI"),
    ("total", {"scale_protein": True}, "scale_protein is for of='proteins'"),
    ("total", {"of": "proteins", "genes": ["RNA1"]}, "no protein 'RNA1'; its proteins are named"),
    ("multi", {"of": "proteins"}, "of must be 'genes' or 'regions' for this MULTIVI"),
    ("multi", {"library_size": "latent"}, "library_size must be 1 for the genes of a MULTIVI"),
    ("multi", {"of": "regions", "library_size": 2}, "must be 1 for the regions of a MULTIVI"),
    ("multi", {"of": "regions", "genes": ["RNA1"]}, "no region 'RNA1'"),
    ("samples", {"of": "proteins"}, "of must be 'genes' for this MRVI"),
    ("samples", {"include_protein_background": True}, "is for of='proteins'"),
    ("samples", {"transform_batch": "c"}, "no batch 'c'"),
    ("fragments", {"of": "genes"}, "of must be 'regions' for this POISSONVI"),
]


@pytest.mark.parametrize(("name", "given", "match"), REFUSED)
def test_what_is_refused(name: str, given: dict[str, Any], match: str, request) -> None:
    of: Trained = request.getfixturevalue(name)
    with pytest.raises(ps.InvalidArgument, match=match):
        of.found(**given)
