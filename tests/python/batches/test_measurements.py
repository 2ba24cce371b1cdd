"""Several measurements in a batch: each as a dataset of it alone gives it, and as tiledbsoma reads it."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import cache_in, read_with_tiledbsoma
from device_stores import needs_cuda
from hypothesis import given
from hypothesis import strategies as st
from penstock.experiment.open_source import open_source
from penstock.plan.epoch_size import NoCellsWarning
from penstock.plan.shard import Shard
from penstock.plan.shuffle_cost import ReadAgainWarning
from several_measurements import Layer, random_layer, write_measurements

tiledbsoma = pytest.importorskip("tiledbsoma")

N_CELLS = 700


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RNA, peaks that a third of the cells lack, and proteins stored dense."""
    rng = np.random.default_rng(7)
    layers = {
        "RNA": random_layer(rng, N_CELLS, 120),
        "ATAC": random_layer(rng, N_CELLS, 300, dtype=np.int32, missing=0.3),
        "protein": random_layer(rng, N_CELLS, 9, dtype=np.uint16, missing=0.1, dense=True),
    }
    obs = pd.DataFrame(
        {
            "obs_id": [f"cell{i}" for i in range(N_CELLS)],
            "donor": [f"donor{i // 50}" for i in range(N_CELLS)],
        }
    )
    return write_measurements(tmp_path_factory.mktemp("several") / "experiment", layers, obs)


NAMES = ("RNA", "ATAC", "protein")


@pytest.fixture(scope="module")
def stored(path: Path) -> dict[str, sp.csr_matrix]:
    """What tiledbsoma reads of each measurement."""
    made = {}
    for name in ("RNA", "ATAC"):
        made[name] = read_with_tiledbsoma(path, "raw", name).X
    with tiledbsoma.open(str(path)) as experiment:
        made["protein"] = sp.csr_matrix(experiment.ms["protein"].X["raw"].read().to_numpy())
    return made


def dense(X: Any) -> np.ndarray:
    if sp.issparse(X):
        return X.toarray()
    if hasattr(X, "to_dense"):
        return X.to_dense().float().numpy() if "float16" in str(X.dtype) else X.to_dense().numpy()
    return np.asarray(X)


def check(ds: ps.Dataset, stored: dict[str, sp.csr_matrix], names: Any = NAMES) -> list[int]:
    """Joinids of an epoch in order, after every value is compared."""
    joinids: list[int] = []
    for X, obs in ds:
        ids = np.asarray(obs["soma_joinid"])
        assert list(X) == list(names)
        for name in names:
            expected = stored[name][ids].toarray()
            np.testing.assert_array_equal(dense(X[name]), expected)
            missing = np.asarray(obs[f"missing_{name}"])
            assert missing.dtype == np.bool_
            np.testing.assert_array_equal(missing, (expected == 0).all(axis=1))
        joinids += ids.tolist()
    return joinids


@pytest.mark.parametrize("shuffle", [True, "scatter", "global", "chunks", False])
@pytest.mark.parametrize("sparse", [True, False])
def test_every_cell_once(
    path: Path, stored: dict[str, sp.csr_matrix], shuffle: bool | str, sparse: bool
) -> None:
    extra = {"chunk_size": 8, "chunks_per_block": 10} if shuffle == "chunks" else {}
    ds = ps.Dataset(
        path, measurements=NAMES, sparse=sparse, shuffle=shuffle, batch_size=64,
        memory_budget="16MiB", **extra,
    )  # fmt: skip
    for _ in range(3):  # the second and third from memory
        joinids = check(ds, stored)
        assert sorted(joinids) == list(range(N_CELLS))
        assert (joinids == list(range(N_CELLS))) == (shuffle is False)
    if shuffle is True:
        assert ds.shuffle == "global"
        assert ds.stats.all_kept


def test_each_has_its_own_arguments(path: Path, stored: dict[str, sp.csr_matrix]) -> None:
    ds = ps.Dataset(
        path,
        measurements={
            "RNA": {"sparse": "coo", "var_query": "soma_joinid < 50", "transforms": [ps.Log1p()]},
            "ATAC": {"transforms": [ps.Binarize()], "dtype": "float64"},
            "protein": {"dtype": "uint16", "var_names": "soma_joinid"},
        },
        sparse=True,
        batch_size=32,
    )  # fmt: skip
    assert ds.n_vars == 50 + 300 + 9
    assert list(ds.var) == list(NAMES)
    assert ds.var["RNA"].to_pandas()["var_id"].tolist() == [f"RNA{i}" for i in range(50)]
    assert ds.var_names["ATAC"][:2].tolist() == ["ATAC0", "ATAC1"]
    assert ds.var_names["protein"].tolist() == list(range(9))
    alone = {
        "RNA": ps.Dataset(
            path, transforms=[ps.Log1p()], var_query="soma_joinid < 50", sparse="coo", keep=False
        ),
    }
    first, _ = alone["RNA"].head(N_CELLS)
    rna = first.tocsr()
    for X, obs in ds:
        ids = obs["soma_joinid"]
        assert isinstance(X["RNA"], sp.coo_matrix)
        np.testing.assert_array_equal(X["RNA"].toarray(), rna[ids].toarray())
        assert X["ATAC"].dtype == np.float64
        np.testing.assert_array_equal(X["ATAC"].toarray(), (stored["ATAC"][ids] > 0).toarray())
        assert X["protein"].dtype == np.uint16
        np.testing.assert_array_equal(X["protein"].toarray(), stored["protein"][ids].toarray())
    text = repr(ds)
    assert "ms/ATAC/X/raw" in text
    assert "transforms RNA  Log1p" in " ".join(text.split("\n")).replace("   ", "  ")
    assert "missing_protein" in text


def test_totals_of_rows_are_those_of_the_cells(
    path: Path, stored: dict[str, sp.csr_matrix]
) -> None:
    """A transform that depends on the cell, in splits and after a resume."""
    ds = ps.Dataset(
        path, measurements={"RNA": {"transforms": [ps.NormalizeTotal(100)]}, "ATAC": {}},
        batch_size=40,
    )  # fmt: skip
    X = stored["RNA"].toarray().astype(np.float64)
    sums = X.sum(axis=1, keepdims=True)
    X = np.divide(X * 100, sums, out=np.zeros_like(X), where=sums > 0)
    for part in ds.random_split(0.6, 0.4):
        for batch, obs in part:
            np.testing.assert_allclose(batch["RNA"], X[obs["soma_joinid"]], rtol=1e-5)


@pytest.mark.parametrize("world_size", [1, 3])
def test_ranks_and_resume(
    path: Path, stored: dict[str, sp.csr_matrix], world_size: int, tmp_path: Path
) -> None:
    def made(rank: int) -> ps.Dataset:
        return ps.Dataset(
            path, measurements={"RNA": {"sparse": True}, "protein": {}}, batch_size=50,
            uneven="exact", rank=rank, world_size=world_size, memory_budget="32MiB",
        )  # fmt: skip

    seen = []
    for rank in range(world_size):
        whole = check(made(rank), stored, ("RNA", "protein"))
        ds, joinids = made(rank), []
        for _X, obs in ds:
            joinids += obs["soma_joinid"].tolist()
            if len(joinids) > 100:
                break
        state = pickle.loads(pickle.dumps(ds.state_dict()))
        resumed = pickle.loads(pickle.dumps(made(rank)))
        resumed.load_state_dict(state)
        assert joinids + check(resumed, stored, ("RNA", "protein")) == whole
        seen += whole
    assert sorted(seen) == list(range(N_CELLS))
    other = ps.Dataset(path, measurements=["RNA", "ATAC"], batch_size=50)
    with pytest.raises(ps.InvalidArgument, match="genes"):
        other.load_state_dict(made(0).state_dict())


def test_workers(path: Path, stored: dict[str, sp.csr_matrix]) -> None:
    ds = ps.Dataset(path, measurements=["ATAC", "RNA"], format="torch", obs_format="torch")
    got = check(ps.dataloader(ds, num_workers=2), stored, ("ATAC", "RNA"))
    assert sorted(got) == list(range(N_CELLS))


def test_from_a_pack_and_a_cache(
    path: Path, stored: dict[str, sp.csr_matrix], tmp_path: Path
) -> None:
    packed = ps.pack(path, tmp_path / "cells.pack")
    ds = ps.Dataset(packed, measurements=NAMES, sparse=True)
    assert ds.shuffle == "global"
    assert sorted(check(ds, stored)) == list(range(N_CELLS))
    cached = ps.Dataset(
        path, measurements=NAMES, sparse=True, keep=False, **cache_in(tmp_path / "cache")
    )
    assert sorted(check(cached, stored)) == list(range(N_CELLS))
    assert cached.stats.bytes_read > 0
    assert sorted(check(cached, stored)) == list(range(N_CELLS))
    assert cached.shuffle == "global"
    assert cached.stats.bytes_read == 0
    # What a dataset of one measurement caches serves several, and the other way round.
    alone = ps.Dataset(
        path, measurement="ATAC", sparse=True, keep=False, **cache_in(tmp_path / "cache")
    )
    for X, obs in alone:
        assert (stored["ATAC"][obs["soma_joinid"]] != X).nnz == 0
    assert alone.stats.bytes_read == 0


def test_cells_that_only_one_anndata_has(tmp_path: Path) -> None:
    """As MuData has them: cells of either modality, zeros where a modality lacks one."""
    anndata = pytest.importorskip("anndata")
    mudata = pytest.importorskip("mudata")
    rng = np.random.default_rng(3)
    whole = {name: random_layer(rng, 90, n).X for name, n in (("RNA", 30), ("protein", 6))}
    names = np.array([f"cell{i}" for i in range(90)])
    there = {"RNA": np.arange(0, 70), "protein": np.arange(20, 90)}
    several = mudata.MuData(
        {
            name: anndata.AnnData(X[there[name]], pd.DataFrame(index=names[there[name]]))
            for name, X in whole.items()
        }
    )
    order = pd.Index(several.obs_names)
    layers = {}
    for name in whole:
        X = sp.lil_matrix((several.n_obs, whole[name].shape[1]), dtype=np.float32)
        X[order.get_indexer(several[name].obs_names)] = several[name].X
        layers[name] = Layer(X.tocsr())
    obs = pd.DataFrame({"obs_id": order.to_numpy()})
    path = write_measurements(tmp_path / "experiment", layers, obs)
    seen = []
    for X, obs in ps.Dataset(path, measurements=list(whole), obs_columns=["obs_id"], sparse=True):
        seen += obs["obs_id"].tolist()
        for name in whole:
            own = several[name]
            known = own.obs_names.get_indexer(obs["obs_id"])
            expected = own.X[np.maximum(known, 0)].toarray() * (known >= 0)[:, None]
            np.testing.assert_array_equal(X[name].toarray(), expected)
            assert obs[f"missing_{name}"][known < 0].all()
    assert sorted(seen) == sorted(names)


def test_joined(path: Path, stored: dict[str, sp.csr_matrix]) -> None:
    ds = ps.Dataset(
        {"a": path, "b": path}, measurements=["RNA", "ATAC"], sparse=True,
        obs_columns=["soma_joinid", "donor", "source"],
    )  # fmt: skip
    seen = []
    for X, obs in ds:
        ids = obs["soma_joinid"]
        seen += list(zip(obs["source"].tolist(), ids.tolist(), strict=True))
        for name in ("RNA", "ATAC"):
            assert (X[name] != stored[name][ids]).nnz == 0
    assert sorted(seen) == [(each, i) for each in "ab" for i in range(N_CELLS)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_on_a_device(path: Path, stored: dict[str, sp.csr_matrix], dtype: str, device: str) -> None:
    import torch

    ds = ps.Dataset(
        path,
        measurements={"RNA": {"sparse": "csr"}, "ATAC": {"dtype": dtype}, "protein": {}},
        device=device,
        obs_format="torch",
    )
    for X, obs in ds:
        assert {each.device.type for each in X.values()} == {device}
        ids = obs["soma_joinid"].cpu().numpy()
        assert X["ATAC"].dtype == getattr(torch, dtype)
        assert X["RNA"].layout == torch.sparse_csr
        for name in NAMES:
            found = X[name].to_dense().float().cpu()
            expected = torch.from_numpy(stored[name][ids].toarray().astype(np.float32))
            assert torch.equal(found, expected.to(X[name].dtype).float())
    half = ps.Dataset(path, measurements={"RNA": {"dtype": dtype}, "ATAC": {}}, format="torch")
    X, _ = half.head(5)
    assert X["RNA"].dtype == getattr(torch, dtype)
    assert X["ATAC"].dtype == torch.float32
    if dtype != "float32":
        with pytest.raises(ps.InvalidArgument, match="needs format='torch'"):
            ps.Dataset(path, measurements={"RNA": {"dtype": dtype}, "ATAC": {}}, format="numpy")


def test_what_is_refused(path: Path, tmp_path: Path) -> None:
    for arguments, match in (
        ({"measurements": []}, "one name or more"),
        ({"measurements": ["RNA", "RNA"]}, "a name twice: RNA, RNA"),
        ({"measurements": ["RNA", 3]}, "measurements"),
        ({"measurements": {"RNA": 3}}, r"measurements\['RNA'\] must be a dict"),
        ({"measurements": {"RNA": {"batch_size": 3}}}, "takes measurement, layer.*'batch_size'"),
        ({"measurements": {"RNA": {"sparse": "csc"}}}, "sparse must be True, False, 'csr'"),
        ({"measurements": {"RNA": {"dtype": "complex64"}}}, "dtype must be one of"),
        ({"measurements": ["RNA"], "measurement": "RNA"}, "exclude each other"),
        ({"measurements": ["RNA"], "obs_columns": ["missing_RNA"]}, "missing_RNA"),
        ({"measurements": ["RNA"], "pad_column": "missing_RNA"}, "obs has 'missing_RNA' twice"),
    ):
        with pytest.raises((ps.InvalidArgument, ps.NotFound), match=match):
            ps.Dataset(path, **arguments)
    with pytest.raises(ps.NotFound, match="no measurement 'ADT'"):
        ps.Dataset(path, measurements=["RNA", "ADT"])
    with pytest.raises(ps.NotFound, match="counts"):
        ps.Dataset(path, measurements={"RNA": {"layer": "counts"}})
    ds = ps.Dataset(path, measurements=["RNA", "ATAC"])
    for call in (
        ds.to_anndata,
        lambda: ps.gene_statistics(ds),
        lambda: ps.highly_variable_genes(ds, 10),
    ):
        with pytest.raises(ps.InvalidArgument, match="measurement"):
            call()
    assert ds.with_settings(sparse=True).head(2)[0]["RNA"].format == "csr"


@pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning")
@given(st.integers(0, 2**32 - 1))
def test_random_experiments(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Shapes, tiles, types, missing rows and settings at random."""
    rng = np.random.default_rng(seed)
    n_obs = int(rng.integers(1, 300))
    dtypes = [np.float32, np.float64, np.int16, np.uint8, np.int64, np.uint32]
    layers: dict[str, Layer] = {
        f"m{i}": random_layer(
            rng, n_obs, int(rng.integers(1, 200)), dtype=rng.choice(dtypes),
            missing=float(rng.choice([0, 0.5, 1])), dense=bool(rng.random() < 0.2),
        )
        for i in range(int(rng.integers(1, 5)))
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("random")
    path = write_measurements(folder / "experiment", layers)
    measurements = {
        name: {"sparse": bool(rng.random() < 0.5), "dtype": "float64"}
        for name in rng.permutation(list(layers))
    }
    ds = ps.Dataset(
        path, measurements=measurements, batch_size=int(rng.integers(1, 80)),
        shuffle=[True, False, "scatter", "global"][int(rng.integers(4))],
        memory_budget=f"{int(rng.integers(8, 64))}MiB", threads=int(rng.integers(1, 4)),
    )  # fmt: skip
    stored = {name: layer.X.astype(np.float64) for name, layer in layers.items()}
    for _ in range(2):
        assert sorted(check(ds, stored, measurements)) == list(range(n_obs))


def write_bands(path: Path) -> Path:
    """Two measurements in bands of 16 and of 170 rows, each band many tiles side by side."""
    rng = np.random.default_rng(2)
    layers = {}
    for name, rows in (("short", 16), ("tall", 170)):
        X = sp.random(1700, 2000, 0.02, "csr", np.float32, rng)
        X.data = np.round(X.data * 50 + 1)
        layers[name] = Layer(X, (rows, 20), 100)
    return write_measurements(path, layers)


def test_bands_that_do_not_fit(tmp_path: Path) -> None:
    """They cost reads, with a warning, and memory, which is planned for."""
    path = write_bands(tmp_path / "experiment")
    said = r"reads and decodes .* times what the cells need.*short \+ tall .*penstock pack"
    ds = ps.Dataset(path, measurements=["short", "tall"], sparse=True, shuffle=False)
    with pytest.warns(ReadAgainWarning, match=said) as caught:
        _ = [[obs for _, obs in ds] for _ in range(2)]
    assert len([each for each in caught if each.category is ReadAgainWarning]) == 1
    alone = ps.Dataset(path, measurement="tall", sparse=True, shuffle=False)
    assert ds.plan().planned_bytes > alone.plan().planned_bytes
    # A piece of a tall band reads all of its tiles, so it takes as much as the band.
    least = {}
    for name, each in (("both", ds), ("tall", alone)):
        with pytest.raises(ps.ResourceExhausted) as error:
            each.with_settings(memory_budget="10KB").plan()
        least[name] = int(re.findall(r"at least (\d+) bytes", str(error.value))[0])
    assert least["both"] > 0.7 * least["tall"]
    packed = ps.pack(path, tmp_path / "cells.pack")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadAgainWarning)
        for _ in ps.Dataset(packed, measurements=["short", "tall"], sparse=True):
            pass


def test_two_layers_of_one_measurement(path: Path, stored: dict[str, sp.csr_matrix]) -> None:
    ds = ps.Dataset(
        path,
        measurements={
            "counts": {"measurement": "RNA"},
            "logs": {"measurement": "RNA", "transforms": [ps.Log1p()]},
        },
    )
    for X, obs in ds:
        counts = stored["RNA"][obs["soma_joinid"]].toarray()
        np.testing.assert_array_equal(X["counts"], counts)
        np.testing.assert_allclose(X["logs"], np.log1p(counts), rtol=1e-6)


def test_errors_name_the_measurement(path: Path) -> None:
    wide = write_measurements(
        path.parent / "wide",
        {
            "RNA": Layer(sp.csr_matrix(np.array([[1, 0], [0, 2]], np.float32))),
            "ADT": Layer(sp.csr_matrix(np.array([[0, 300], [5, 0]], np.float32))),
        },
    )
    with pytest.raises(ps.InvalidArgument, match=r"^ADT: a value does not fit uint8.* gene 1"):
        list(ps.Dataset(wide, measurements={"RNA": {}, "ADT": {"dtype": "uint8"}}))
    for own, match in (
        ({"layer": "none"}, "^measurement 'ATAC': .*none"),
        ({"var_query": "nope == 1"}, "^measurement 'ATAC': .*nope"),
        ({"transforms": [ps.SelectGenes(["no such"])]}, "^measurement 'ATAC': .*no such"),
        ({"transforms": [ps.Log1p()], "dtype": "int64"}, "^measurement 'ATAC': transforms that"),
    ):
        with pytest.raises((ps.InvalidArgument, ps.NotFound), match=match):
            ps.Dataset(path, measurements={"RNA": {}, "ATAC": own})
    for other in ({"device": "cpu"}, {"dtype": "bfloat16"}):
        with pytest.raises(
            ps.InvalidArgument, match=r"^measurement 'ATAC': torch makes no X of dty"
        ):
            ps.Dataset(path, measurements={"RNA": {}, "ATAC": {"dtype": "uint16"}}, **other)
    ds = ps.Dataset(path, measurements={"RNA": {}, "ATAC": {"dtype": "uint16"}})
    with pytest.raises(ps.InvalidArgument, match="torch makes no X of dtype 'uint16'"):
        ds.with_settings(device="cpu", format="torch")
    for steps in ([], None, [ps.Log1p()]):
        with pytest.raises(ps.InvalidArgument, match="does not change transforms of several"):
            ds.with_settings(transforms=steps)
    with (
        tiledbsoma.open(str(path)) as experiment,
        experiment.axis_query("RNA") as query,
        pytest.raises(ps.InvalidArgument, match="an ExperimentAxisQuery is of one measurement"),
    ):
        ps.Dataset(query, measurements=["RNA"])
    with pytest.warns(NoCellsWarning) as caught:
        ps.Dataset(path, measurements=NAMES, obs_query="soma_joinid < 0")
    assert len(caught) == 1
    single = ps.Dataset(path, measurement="RNA")
    with pytest.raises(ps.InvalidArgument) as error:
        ps.Dataset(path, measurements=["RNA"]).load_state_dict(single.state_dict())
    assert "transforms" not in str(error.value)
    assert "joined" not in str(error.value)


def test_sources_are_opened_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_and_note(source: Any, *arguments: Any) -> Any:
        opened.append(source)
        return open_source(source, *arguments)

    monkeypatch.setattr("penstock.dataset.measurements.open_source", open_and_note)
    both = {"a": path, "b": path}
    ps.Dataset(both, measurements=["RNA", "ATAC"], obs_query="soma_joinid < 30")
    assert opened == [path, path]
    ps.Dataset(path, measurements=NAMES)
    assert opened[2:] == [path]
    whole = ps.Dataset(path, measurements=NAMES).reader.planner.options(Shard(), 0)
    assert whole.columns is None
