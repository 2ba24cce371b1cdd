"""First guesses with the habits of scanpy, anndata and torch: they work, or say what does."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from penstock.base import suggestions


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return ps.example("census-like", folder=tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="module")
def ds(path: str) -> ps.Dataset:
    return ps.Dataset(path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("read_h5ad", "ps.Dataset('cells.h5ad')"),
        ("read_zarr", "ps.Dataset('cells.zarr')"),
        ("read", "ps.Dataset(path)"),
        ("from_anndata", "ps.Dataset(adata)"),
        ("concat", "ps.join"),
        ("DataLoader", "ps.dataloader(ds)"),
        ("train_test_split", "ps.random_split(ds, 0.8, 0.2)"),
        ("pp", "ps.highly_variable_genes"),
        ("highly_variable_gene", "did you mean 'highly_variable_genes'"),
        ("open_soma", "ps.open_census(organism, census_version=…)"),
        ("get_obs", "obs.to_pandas(columns=[…], value_filter=…)"),
        ("mean_variance", "ps.gene_statistics(ds)"),
        ("experimental", "import penstock.compat.census"),
        ("get_anndata", "penstock.compat.census.get_anndata"),
        ("Datasets", "did you mean 'Dataset'"),
    ],
)
def test_names_of_the_package(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{re.escape(says)}"):
        getattr(ps, name)


def test_public_modules_are_imported_when_used() -> None:
    assert inspect.ismodule(ps.compat)
    assert not hasattr(ps, "_nothing")
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_like_it'$"):
        _ = ps.nothing_like_it


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("X", "ds.head()"),
        ("layers", "ds.experiment.layers()"),
        ("obsm", "anndata"),
        ("to_memory", "ds.to_anndata()"),
        ("is_view", "scanpy's functions take ds.to_anndata()"),
        ("copy", "never changes"),
        ("sample", "random_split"),
        ("filter", "obs_query"),
        ("uneven", "print(ds)"),
        ("n_cells", "ds.n_obs"),
        ("obs_name", "did you mean 'obs_names'"),
        ("split", "group='donor_id'"),
        ("balance", "ds.with_settings(balance="),
        ("num_classes", "ds.encoders[name].classes_"),
        ("classes", "ds.encoders[name].classes_"),
        ("shard", "rank=…, world_size=…"),
        ("to", "ds.with_settings(device='cuda'"),
    ],
)
def test_attributes_of_a_dataset(ds: ps.Dataset, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{re.escape(says)}"):
        getattr(ds, name)


def test_every_hint_names_what_exists(ds: ps.Dataset, path: str) -> None:
    """Each `ds.…`, `ps.…` and argument in a hint is there, so that no hint grows old."""
    from penstock import guesses
    from penstock.dataset import hints
    from penstock.experiment import experiment

    texts = [
        *guesses._INSTEAD.values(),
        *hints._ATTRIBUTES.values(),
        *hints.ARGUMENTS.values(),
        *hints.SPLIT_ARGUMENTS.values(),
        *hints.OF_A_DATASET.values(),
        *experiment._HINTS.values(),
    ]
    exp = ps.open(path)
    arguments = set(inspect.signature(ps.Dataset).parameters) | {
        "group",
        "collate_fn",
        "pin_memory",
    }
    arguments |= {"prefetch_factor", "classes", "num_workers", "name", "n_top_genes"}
    arguments |= {"census_version", "columns", "value_filter"}
    for text in texts:
        for holder, name in re.findall(r"\b(ds|ps|penstock|exp)\.(\w+)", text):
            there = {"ds": ds, "ps": ps, "penstock": ps, "exp": exp}[holder]
            assert hasattr(there, name), text
        for name in re.findall(r"(\w+)=", text):
            assert name in arguments, text
    assert not set(guesses._INSTEAD) & set(dir(ps))
    assert not set(hints._ATTRIBUTES) & set(dir(ds))
    assert not set(hints.ARGUMENTS) & set(inspect.signature(ps.Dataset).parameters)


def test_what_leads_to_a_line_that_works(ds: ps.Dataset) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"use encoders=\[.*\] of the Dataset"):
        ds.with_settings(label="cell_type")
    with pytest.raises(ps.InvalidArgument, match=r"ps.Dataset\(source, encoders=…\)"):
        ds.with_settings(encoders=[ps.LabelEncoder("cell_type")])
    with pytest.raises(ps.InvalidArgument, match="did you mean 'float32'"):
        ds.with_settings(dtype="flaot32")
    with pytest.raises(ps.NotFound, match="did you mean 'homo_sapiens'"):
        ps.open_census("human")
    with pytest.raises(ps.NotFound, match="did you mean 'homo_sapiens'"):
        ps.open_census("Homo sapeins")
    with pytest.raises(ps.InvalidArgument, match=r"^ds\[cells\] must have a bool for each"):
        ds[np.ones(3, bool)]
    mask = pd.Series([True, None, False] * 2000)
    with pytest.raises(ps.InvalidArgument, match=r"2,000 of 6,000 bools are missing: mask.fillna"):
        ds[mask]
    divided = ps.Dataset(ds.experiment, rank=1, world_size=2)
    assert re.search(r"rank +1 of 2", repr(divided))
    assert not re.search(r"rank +0 of 1", repr(ds))


def test_var_of_an_experiment_is_a_table_and_takes_a_measurement(path: str) -> None:
    exp = ps.open(path)
    table = exp.var("RNA").to_pandas()
    pd.testing.assert_frame_equal(exp.var().to_pandas(), table)
    pd.testing.assert_frame_equal(exp.var.head(3), table[:3])
    name = table.columns[-1]
    pd.testing.assert_series_equal(exp.var[name], table[name])
    assert len(exp.var) == len(table)
    assert list(exp.var) == list(exp.var())
    assert repr(exp.var) == repr(exp.var())
    with pytest.raises(AttributeError, match="var has no column and no attribute 'nothing'"):
        _ = exp.var.nothing
    with pytest.raises(ps.NotFound, match="no measurement 'x'"):
        exp.var("x")
    with pytest.raises(AttributeError, match=r"obs.to_pandas\(\).drop_duplicates"):
        exp.obs.drop_duplicates()


def test_arguments_of_the_dataset_are_told_at_once(ds: ps.Dataset) -> None:
    pytest.importorskip("torch")
    says = r"ds.with_settings\(batch_size=…\); shuffle is .* ds.with_settings\(shuffle=…\)"
    with pytest.raises(ps.InvalidArgument, match=says):
        ps.dataloader(ds, batch_size=128, shuffle=True)


def test_the_module_of_genes_of_the_census() -> None:
    pytest.importorskip("torch")
    from penstock.compat import census

    assert census.pp.highly_variable_genes
    with pytest.raises(AttributeError, match=r"census.pp.highly_variable_genes$"):
        _ = census.highly_variable_genes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"batchsize": 64}, "did you mean 'batch_size'"),
        ({"transform": []}, "use transforms="),
        ({"labels": "cell_type"}, "ps.LabelEncoder"),
        ({"genes": ["A"]}, "use var_query="),
        ({"num_workers": 2}, "penstock.dataloader(ds, num_workers=…)"),
        ({"X_name": "raw"}, "use layer="),
        ({"normalize": True}, "transforms=[ps.NormalizeTotal(1e4), ps.Log1p()]"),
        ({"max_memory": "1GB"}, "memory_budget='2GiB'"),
        ({"nothing_like_it": 1}, "no argument 'nothing_like_it'"),
        ({"num_replicas": 2}, "use world_size="),
        ({"as_torch": True}, "use format='torch'"),
        ({"output": "torch"}, "use format='torch'"),
        ({"class_weights": True}, "use balance="),
        ({"local_rank": 0}, "use rank="),
        ({"obs": ["sex"]}, "use obs_columns=[…]"),
        (
            {"normalize_total": 1e4, "batchsize": 64, "nothing_like_it": 1},
            "does not have these arguments:\n"
            "  normalize_total=: use transforms=[ps.NormalizeTotal(1e4), ps.Log1p()]\n"
            "  batchsize=: did you mean 'batch_size'?\n"
            "  nothing_like_it=",
        ),
    ],
)
def test_arguments_of_a_dataset(path: str, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        ps.Dataset(path, **arguments)
    assert "batch_size" in inspect.signature(ps.Dataset).parameters


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda ds: ds.random_split(0.8, 0.2, groups="donor_id"), "use group="),
        (lambda ds: ps.random_split(ds, 0.8, 0.2, random_state=1), "use seed="),
        (lambda ds: ps.random_split(ds, test_size=0.2), "fractions without a name, such as 0.8"),
        (lambda ds: ps.group_split(ds, test_size=0.2, group="sex"), "fractions without a name"),
        (lambda ds: ps.stratified_split(ds, 0.8, 0.2, groups="sex", stratify="sex"), "use group="),
        (lambda ds: ps.highly_variable_genes(ds, n=5), "use n_top_genes="),
        (lambda ds: ds.random_split(0.8, 0.2, by="donor_id"), "use group="),
        (lambda ds: ps.open_census(version="stable"), "use census_version="),
        (lambda ds: ds.to_anndata(transforms=[]), "use a Dataset with transforms="),
        (lambda ds: ps.highly_variable_genes(ds, value_filter="a"), "a Dataset with obs_query="),
        (lambda ds: ds.obs.to_pandas(column_names=["sex"]), "to_pandas() has no argument"),
        (lambda ds: ds.obs.read(column_names=["sex"]), "use to_pandas(columns=[…]"),
    ],
)
def test_arguments_of_functions(ds: ps.Dataset, call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        call(ds)


def test_an_anndata_of_some_columns(ds: ps.Dataset) -> None:
    some = ds[:5].to_anndata(obs_columns=["sex", "cell_type"])
    assert some.obs.columns.tolist() == ["sex", "cell_type"]
    pd.testing.assert_frame_equal(some.obs, ds[:5].to_anndata().obs[["sex", "cell_type"]])
    pd.testing.assert_frame_equal(
        some.obs, ps.to_anndata(ds[:5], obs_columns=["sex", "cell_type"]).obs
    )
    with pytest.raises(ps.NotFound, match="did you mean 'cell_type'"):
        ds.to_anndata(obs_columns=["cell_typ"])


def test_codes_that_were_not_asked_for(ds: ps.Dataset) -> None:
    with pytest.raises(KeyError, match=re.escape("encoders=[penstock.LabelEncoder('cell_type')]")):
        ds.encoders["cell_type"]
    with pytest.raises(AttributeError, match=re.escape("encoders=[ps.LabelEncoder(column)]")):
        _ = ds.obs_encoders


def test_names_of_other_loaders_say_where_they_are() -> None:
    with pytest.raises(AttributeError, match=r"it is in penstock\.compat\.tiledbsoma_ml$"):
        _ = ps.compat.ExperimentDataset
    with pytest.raises(AttributeError, match=r"it is in penstock\.compat\.census$"):
        _ = ps.compat.get_anndata
    with pytest.raises(AttributeError, match="it has census and tiledbsoma_ml"):
        _ = ps.compat.nothing_like_it
    for module, names in ps.compat._MODULES.items():
        assert set(names) <= set(getattr(ps.compat, module).__all__)


def test_genes_are_no_names_of_a_column(path: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"var_query=\[names\] or ds\[:, names\]"):
        ps.Dataset(path, var_names=["ENSG1", "ENSG2"])


def test_columns_and_types_are_those_of_pandas(ds: ps.Dataset) -> None:
    table = ds.obs.to_pandas()
    assert ds.obs.columns.tolist() == ds.obs.columns.to_list() == table.columns.tolist()
    assert list(ds.obs.keys()) == list(table.keys())
    assert ds.obs.dtypes.map(str).equals(table.dtypes.map(str))
    assert ds.var.dtypes.map(str).equals(ds.var.to_pandas().dtypes.map(str))
    missing = anndata.AnnData(np.ones((3, 2), dtype=np.float32))
    missing.obs["some"] = pd.array([1, None, 3], dtype="Int64")
    missing.obs["all"] = pd.array([1, 2, 3], dtype="Int64")
    missing.obs["flag"] = pd.array([True, None, False], dtype="boolean")
    obs = ps.open(missing).obs
    assert obs.dtypes.map(str).equals(obs.to_pandas().dtypes.map(str))
    assert obs[:1].dtypes.map(str).equals(obs[:1].to_pandas().dtypes.map(str))


def test_repr_says_what_totals_are_of(ds: ps.Dataset) -> None:
    normalized = [ps.NormalizeTotal(), ps.Log1p()]
    of_all = ds.with_settings(transforms=normalized)[:, :5]
    assert "NormalizeTotal, Log1p, SelectGenes\n" in repr(of_all)
    of_some = ps.Dataset(ds.experiment, var_query=ds.var_names[:5], transforms=normalized)
    assert "NormalizeTotal, Log1p; totals are of the chosen genes\n" in repr(of_some)
    first = ds.with_settings(transforms=[ps.SelectGenes(ds.var_names[:5]), *normalized])
    assert "Log1p; totals are of the chosen genes\n" in repr(first)


def test_settings_are_read_and_not_written(ds: ps.Dataset) -> None:
    made = ds.with_settings(memory_budget="1GiB", seed=7, threads=2)
    assert (made.memory_budget, made.seed, made.threads) == (2**30, 7, 2)
    for name in ("memory_budget", "batch_size", "uneven", "obs_query"):
        with pytest.raises(AttributeError, match=rf"ds\.with_settings\({name}="):
            setattr(made, name, 1)


def test_with_settings_says_what_is_meant(ds: ps.Dataset) -> None:
    for name, says in (
        ("batchsize", "did you mean 'batch_size'?"),
        ("memory_limit", "use memory_budget='2GiB'"),
        ("obs_query", "ds[cells] and ds[:, genes] choose others"),
    ):
        with pytest.raises(ps.InvalidArgument, match=re.escape(f"take {name!r} ({says})")):
            ds.with_settings(**{name: 1})


def test_an_empty_part_warns(ds: ps.Dataset) -> None:
    with pytest.warns(ps.NoCellsWarning, match="did you mean 'lung'") as told:
        empty = ds["tissue_general == 'Lung'"]
    assert told[0].filename == __file__
    with pytest.warns(ps.NoCellsWarning, match="none of the 6,000 cells"):
        _ = ds[ds.obs["tissue_general"] == "Lung"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert empty[:5].n_obs == 0, "told once"


def test_a_dataset_shows_how_cells_are_drawn(ds: ps.Dataset) -> None:
    text = str(ds.with_settings(balance="cell_type", num_samples=500))
    assert "500 cells with replacement, by Balance('cell_type')" in text
    text = str(ds.with_settings(weights="nnz", replacement=False))
    assert "6,000 cells without replacement, by weights of 'nnz'" in text
    assert "drawn" not in str(ds)


def test_a_split_of_drawn_cells_warns(ds: ps.Dataset) -> None:
    """Else the held-out cells of a confusion matrix would be drawn by class without a word."""
    for drawn in ({"balance": "cell_type"}, {"weights": "nnz"}):
        with pytest.warns(UserWarning, match=rf"has {next(iter(drawn))}=.*train\.with_settings"):
            _, test = ds.with_settings(**drawn).random_split(0.8, 0.2)
        cells = test.with_settings(shuffle=False, batch_size=2000)
        found = np.concatenate([obs["soma_joinid"] for _, obs in cells])
        assert len(set(found)) == len(found) == test.n_obs
    train, _ = ds.random_split(0.8, 0.2)
    assert "Balance" in str(train.with_settings(balance="cell_type"))


def test_tables_and_experiments_say_what_they_are(path: str, ds: ps.Dataset) -> None:
    with pytest.raises(
        TypeError, match=r"obs is read-only: frame = obs\.to_pandas\(\), then frame\['a"
    ):
        ds.obs["a"] = 1
    with ps.open(path) as experiment:
        assert experiment.n_obs == 6000
        with pytest.raises(TypeError, match=r"got exp\['census_data'\]: exp\.obs"):
            experiment["census_data"]
    with pytest.raises(KeyError, match="no encoder 0; encoders go by name: 'cell_type'"):
        ps.Dataset(path, encoders=[ps.LabelEncoder("cell_type")]).encoders[0]
    with pytest.raises(AttributeError, match=r"no attribute 'n_classes': len\(encoder\.classes_\)"):
        _ = ps.LabelEncoder("cell_type").n_classes


def test_a_loess_fit_that_fails_names_a_span_that_works(ds: ps.Dataset) -> None:
    pytest.importorskip("skmisc")
    with pytest.raises(ps.InvalidArgument, match=r"span=0\.3: .*; span=[\d.]+ works") as error:
        ps.highly_variable_genes(ds, 50, batch_key="dataset_id")
    span = float(re.findall(r"span=([\d.]+) works", str(error.value))[0])
    assert ps.highly_variable_genes(ds, 50, batch_key="dataset_id", span=span).shape == (1500, 7)


def test_several_sources_are_joined_and_not_opened(path: str) -> None:
    for sources in ([path, path], (path,), {"a": path}):
        with pytest.raises(ps.InvalidArgument, match=r"not a \w+: penstock\.join takes several"):
            ps.open(sources)  # type: ignore[arg-type]


def test_functions_take_a_source(path: str) -> None:
    assert ps.to_anndata(path).shape == (6000, 1500)
    assert [part.n_obs for part in ps.random_split(path, 0.8, 0.2)] == [4800, 1200]
    with pytest.raises(ps.InvalidArgument, match=r"give ds\.experiment"):
        ps.Dataset(ps.Dataset(path))


def test_one_for_a_list_of_one(path: str) -> None:
    ds = ps.Dataset(
        path, transforms=ps.Log1p(), obs_columns="sex", encoders=ps.LabelEncoder("cell_type")
    )
    X, obs = ds.head(3)
    assert list(obs) == ["sex", "cell_type"]
    assert np.allclose(X, np.log1p(ps.Dataset(path).head(3).X))
    called = ps.Dataset(path, transforms=np.sqrt).head(3).X
    assert np.allclose(called, np.sqrt(ps.Dataset(path).head(3).X))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tissue_general == 'Lung'", "tissue_general has no 'Lung'; did you mean 'lung'?"),
        ("tissue_general in ['brian', 'x'] and nnz > 0", "no 'brian'; did you mean 'brain'?"),
        ("attr('tissue_general') == \"long\"", "no 'long'; did you mean 'lung'?"),
        ("tissue_general == 'Mars'", "tissue_general has no 'Mars', but 'blood', 'brain'"),
        ("observation_joinid == '?'", "observation_joinid has no '?'"),
        ("nnz < 0", "value_counts(column)"),
        ("sex == 'male' and sex == 'female'", "value_counts(column)"),
    ],
)
def test_an_empty_selection_warns_with_values(path: str, text: str, says: str) -> None:
    with pytest.warns(ps.NoCellsWarning, match=re.escape(says)):
        ps.Dataset(path, obs_query=text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ps.Dataset(path, obs_query="tissue_general == 'lung'").n_obs > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tissue_generl == 'lung'", "'tissue_generl'; did you mean 'tissue_general'? Choose from"),
        ("tissue_general.isin(['lung'])", "tissue_general in ['lung']"),
        ("tissue.str.contains('a')", "exp.obs['tissue'].str.contains('a')"),
        ("not is_primary_data", "is_primary_data == False"),
        ("~is_primary_data", "is_primary_data == False"),
        ("is_primary_data and nnz > 3", "is_primary_data == True"),
        ("nnz.between(3, 5)", "exp.obs['nnz'].between(3, 5)"),
        ("`nnz` > 3", "backticks are not for filters: a name of any characters is written attr("),
        (
            "soma_joinid > nnz",
            "by a mask, which obs_query takes, too: exp.obs['soma_joinid'] > exp.obs['nnz']",
        ),
    ],
)
def test_filters_with_the_habits_of_pandas(path: str, text: str, says: str) -> None:
    with pytest.raises((ps.InvalidArgument, ps.NotFound), match=re.escape(says)):
        ps.Dataset(path, obs_query=text)


def test_hints_for_odd_names_of_columns() -> None:
    """A number or a part of a word is not taken for a column of that name."""
    pd, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    obs = pd.DataFrame({"n genes": [1, 2], "1": [1, 2], "e-": [1, 2]}, index=["a", "b"])
    dataset = ps.Dataset(anndata.AnnData(np.ones((2, 2), np.float32), obs))
    with pytest.raises(ps.InvalidArgument, match=r"is written attr\('n genes'\)"):
        dataset["n genes > 1"]
    assert dataset["attr('n genes') > 1"].n_obs == 1
    for text in ("soma_joinid = 1", "the-soma_joinid > 0"):
        with pytest.raises(ps.InvalidArgument) as error:
            dataset[text]
        assert "other characters" not in str(error.value), text


def test_names_that_do_not_exist_suggest(path: str) -> None:
    for arguments, says in (
        ({"layer": "rw"}, "no layer 'rw'; did you mean 'raw'?"),
        ({"measurement": "rna"}, "no measurement 'rna'; did you mean 'RNA'?"),
        ({"obs_columns": ["cell_typ"]}, "did you mean 'cell_type'? It has soma_joinid"),
        ({"encoders": ["cell_type"]}, "such as ps.LabelEncoder('cell_type')"),
        ({"var_query": ["syn00003"]}, "did you mean 'SYN00003'?"),
    ):
        with pytest.raises((ps.InvalidArgument, ps.NotFound), match=re.escape(says)):
            ps.Dataset(path, **arguments)
    with pytest.raises(ps.InvalidArgument, match=r"penstock\.open\('cells'\) opens"):
        ps.Experiment("cells")
    exp = ps.open(path)
    for name in ("X", "to_anndata", "n_vars", "axis_query"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': "):
            getattr(exp, name)
    with pytest.raises(AttributeError, match="did you mean 'measurements'"):
        _ = exp.measurement
    with pytest.raises(ps.InvalidArgument, match="census_version='2023-12-15'"):
        ps.open_census("2023-12-15")


def test_to_anndata_drops_categories_that_no_cell_has(path: str) -> None:
    adata = ps.Dataset(path, obs_query="tissue_general == 'lung'").to_anndata()
    whole = ps.Dataset(path).to_anndata()
    mask = (whole.obs["tissue_general"] == "lung").to_numpy()
    expected = whole[mask].copy().obs
    for column in expected:
        if expected[column].dtype == "category":
            theirs = expected[column].cat.categories.tolist()
            assert adata.obs[column].cat.categories.tolist() == theirs, column
    assert len(adata.obs["cell_type"].cat.categories) < len(whole.obs["cell_type"].cat.categories)


def test_nearest() -> None:
    assert suggestions.nearest("Lung", ["blood", "lung"]) == "lung"
    assert suggestions.nearest("zzz", ["blood", "lung"]) is None
    assert suggestions.nearest("a", []) is None
    assert suggestions.nearest("backed", ["balance"]) is None, "another word"


def test_names_say_what_replaces_an_index_of_pandas(ds: ps.Dataset) -> None:
    for names in (ds.obs_names, ds.var_names, ds[:, :3].var_names, ds.var_names[:5]):
        assert isinstance(names, np.ndarray)
        assert names.dtype == object
        for name in ("str", "get_loc", "isin", "is_unique"):
            with pytest.raises(AttributeError, match=rf"pd.Index\(ds.obs_names\).{name} has it$"):
                getattr(names, name)
        for name in ("to_numpy", "intersection"):  # what scvi-tools asks for
            with pytest.raises(AttributeError, match=r"penstock.scvi.load\(folder, data\)"):
                getattr(names, name)
        with pytest.raises(AttributeError, match=r"no 'nothing'$"):
            _ = names.nothing
    assert type(pickle.loads(pickle.dumps(ds.obs_names))) is type(ds.obs_names)
    assert pd.Index(ds.obs_names).get_loc("7") == 7


def test_a_batch_says_how_a_column_comes(ds: ps.Dataset) -> None:
    import torch

    loader = torch.utils.data.DataLoader(ds)
    for batch in (
        next(iter(ds)),
        next(iter(ds.with_settings(obs_format="torch"))),
        next(iter(ps.dataloader(ds))),
        next(iter(loader)),
    ):
        X, obs = batch
        assert isinstance(obs, dict)
        with pytest.raises(KeyError, match=r"only soma_joinid; give.*obs_columns=\['sex'\]"):
            obs["sex"]
        with pytest.raises(KeyError, match=r"encoders=\[penstock.LabelEncoder\('sex'\)\]"):
            obs["sex"]
        with pytest.raises(KeyError, match="did you mean 'soma_joinid'"):
            obs["soma_joinids"]
        with pytest.raises(AttributeError, match=r"write obs\['soma_joinid'\]"):
            _ = obs.soma_joinid
        with pytest.raises(AttributeError, match=r"obs_format='pandas'.*obs_columns=\['sex'\]"):
            _ = obs.sex
        copy = pickle.loads(pickle.dumps(batch))
        assert copy.obs.keys() == obs.keys()
        with pytest.raises(TypeError, match=r"write batch\.X"):
            batch["X"]
        with pytest.raises(TypeError, match=r"write obs\['sex'\]"):
            batch["sex"]
        with pytest.raises(AttributeError, match=r"batch\.X\.to\(device\).*device= of the Dataset"):
            batch.to("cuda")
        assert batch[0] is X
        assert not hasattr(batch, "_fields")


def test_tables_are_not_assigned_to(ds: ps.Dataset) -> None:
    for table in (ds.obs, ds.var, ds[:5].obs):
        for name in ("cell_type", "mine"):
            with pytest.raises(AttributeError, match=rf"to_pandas\(\), then frame\['{name}'\] = …"):
                setattr(table, name, 1)


def test_messages_that_work_when_typed(ds: ps.Dataset) -> None:
    adata = ds[:60].to_anndata()
    adata.obs_names = [f"c{i // 2}" for i in range(60)]
    adata.var["gene_name"] = [f"G{i % 18}" for i in range(adata.n_vars)]
    repeated = ps.Dataset(adata)
    flag = adata.obs["sex"] == "male"
    mask = pd.Series([True] * 60, index=range(1, 61))
    with pytest.raises(ps.InvalidArgument, match=r"to_numpy\(\) of the Series goes by place"):
        repeated[mask]
    assert repeated[mask.to_numpy()].n_obs == 60
    with pytest.raises(ps.InvalidArgument, match=r"ps.SelectGenes\(names, column=…\).*places"):
        repeated[:, ["G0"]]
    for key in (3.5, np.zeros((2, 2))):
        with pytest.raises(ps.InvalidArgument, match="a filter, names, places, a bool"):
            ds[key]
        with pytest.raises(ps.InvalidArgument, match="a filter, names, joinids, a bool"):
            ps.Dataset(ds.experiment, obs_query=np.zeros((2, 2)))
    with pytest.raises(ps.InvalidArgument, match="is no list of places"):
        ds[ds.obs["sex"].value_counts()]
    for key in (adata[flag.to_numpy()], adata.obs[flag.to_numpy()].drop(columns="soma_joinid")):
        with pytest.raises(ps.InvalidArgument, match=r"the name 'c\d+' comes more than once.*bool"):
            repeated[key]
    assert repeated[flag.to_numpy()].n_obs == flag.sum()


def test_names_of_cells_in_the_place_of_filters(ds: ps.Dataset) -> None:
    cells = ps.Dataset(ds[:60].to_anndata())
    name = "7"
    for key in (name, (name, slice(0, 3))):
        with pytest.raises(ps.InvalidArgument, match=r"'7' is the name of a cell: ds\[\['7'\]\]"):
            cells[key]
    assert cells[[name]].n_obs == 1
    with pytest.raises(ps.NotFound, match=r"to_pandas\(names=True\).loc\['7'\]"):
        cells.obs[name]
    assert cells.obs.to_pandas(names=True).loc[name, "sex"] == cells.obs["sex"][7]


def test_near_words(ds: ps.Dataset, path: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"'gloabl'.*did you mean 'global'"):
        ps.Dataset(path, shuffle="gloabl")
    with pytest.raises(ps.InvalidArgument, match="did you mean 'census-like'"):
        ps.example("census")
    for arguments in ({"train": 0.8}, {"lengths": [0.8, 0.2]}):
        with pytest.raises(TypeError, match=r"use fractions without a name, such as 0\.8, 0\.2"):
            ds.random_split(**arguments)
    with pytest.raises(TypeError, match="use seed= for other parts"):
        ds.random_split(0.8, 0.2, shuffle=True)
    with pytest.raises(TypeError, match=r"no argument 'foo'$"):
        ps.dataloader(ds, foo=True)
    with pytest.raises(TypeError, match="give seed= to the Dataset"):
        ps.dataloader(ds, seed=1)


def test_keys_that_select_nothing_or_turn_the_order(ds: ps.Dataset) -> None:
    for key in (slice(None, None, -1), slice(5, 2, -1)):
        with pytest.raises(ps.InvalidArgument, match="step of a slice must be above 0"):
            ds[key]
    with pytest.raises(ps.InvalidArgument, match=r"such as obs.value_counts\(column\)"):
        ds.obs.value_counts()
    for key, says in (
        (slice(5, 5), r"^ds\[5:5\] has none of the 6,000 cells"),
        (None, r"^ds\[a Dataset\] has none"),
        ("cell_type in ['T cell' 'B cell']", "a comma is missing in .*, before 'B cell'"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = ds[:0] if key is None else key
        with pytest.warns(ps.NoCellsWarning, match=says):
            assert ds[part].n_obs == 0
    with pytest.warns(ps.NoCellsWarning, match=r"cell_type of these rows has only 'T cell'\."):
        ds["cell_type == 'T cell'"]["cell_type == 'B cell'"]
