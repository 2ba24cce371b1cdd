"""Public names of the package, as found by introspection."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import ROOT, Oracle, write_small_tiles


@pytest.fixture
def ds(soma_small: Oracle) -> ps.Dataset:
    return ps.Dataset(soma_small.path, sparse=True)


def test_dir_has_the_public_names() -> None:
    assert dir(ps) == sorted([*ps.__all__, "compat", "executors", "lightning", "scvi"])
    assert all(hasattr(ps, name) for name in dir(ps))


def test_the_old_place_of_find_rank_warns() -> None:
    sys.modules.pop("penstock.sharding", None)
    with pytest.warns(DeprecationWarning, match=r"use penstock\.find_rank"):
        from penstock.sharding import find_rank
    assert find_rank is ps.find_rank


def test_errors_and_warnings_are_public_and_documented() -> None:
    def below(kind: type) -> list[type]:
        return [each for sub in kind.__subclasses__() for each in (sub, *below(sub))]

    pscvi = pytest.importorskip("penstock.scvi")
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    of_compat = "penstock.compat."  # what other loaders raise
    classes = [ps.PenstockError, *below(ps.PenstockError), *below(Warning)]
    ours = [
        each
        for each in classes
        if each.__module__.startswith("penstock") and not each.__module__.startswith(of_compat)
    ]
    assert {ps.MissingPackage, ps.NoCellsWarning, pscvi.RankFailed} < set(ours)
    for each in ours:
        places = {"penstock.scvi": pscvi, "penstock.executors": ps.executors}
        package = next((m for start, m in places.items() if each.__module__.startswith(start)), ps)
        assert getattr(package, each.__name__, None) is each, each
        assert each.__name__ in package.__all__
        assert f"`{each.__name__}`" in page or each is ps.PenstockError
        builtin = [base.__name__ for base in each.__bases__ if base.__module__ == "builtins"]
        assert all(
            f"`{each.__name__}` | `{name}` |" in page for name in builtin if name != "Exception"
        )


def test_methods_are_functions_too(ds: ps.Dataset) -> None:
    def rows(parts: list[ps.Dataset]) -> list[list[int]]:
        return [part.reader.selection.rows.to_numpy().tolist() for part in parts]

    assert rows(ps.random_split(ds, [0.8, 0.2])) == rows(ds.random_split(0.8, 0.2))
    given = {"seed": 3, "stratify": "cell_type"}
    expected = rows(ds.random_split(0.5, 0.5, **given))
    assert rows(ps.random_split(ds, 0.5, 0.5, **given)) == expected
    assert rows(ps.stratified_split(ds, 0.5, 0.5, **given)) == expected
    grouped = rows(ds.random_split(0.5, 0.5, group="cell_type"))
    assert rows(ps.group_split(ds, 0.5, 0.5, group="cell_type")) == grouped
    report = ps.shuffle_report(ds, "cell_type", memory_budget="1GiB")
    assert str(report) == str(ds.shuffle_report("cell_type", memory_budget="1GiB"))
    assert str(pickle.loads(pickle.dumps(report))) == str(report)
    np.testing.assert_array_equal(ps.to_anndata(ds).X.toarray(), ds.to_anndata().X.toarray())
    for function in (ps.random_split, ps.shuffle_report, ps.to_anndata):
        with pytest.raises(ps.InvalidArgument, match=r"a Dataset is made from a path .* got 5"):
            function(5, "x") if function is not ps.to_anndata else function(5)


def test_the_size_that_to_anndata_asks_for_is_the_one_it_tells(ds: ps.Dataset) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"take about (\S+) (\w+) as .*max_size='\1\2'"):
        ds.to_anndata(max_size=1000)


def test_half_types_are_tensors_without_being_asked(ds: ps.Dataset) -> None:
    import torch

    halves = ps.Dataset(ds.experiment, dtype="bfloat16")
    for X, _ in (next(iter(halves)), next(iter(ps.dataloader(halves)))):
        assert X.dtype == torch.bfloat16
    assert isinstance(next(iter(ps.Dataset(ds.experiment)))[0], np.ndarray)


@pytest.mark.parametrize(
    "changes", [{"dtype": "bfloat16"}, {"dtype": "float16"}, {"device": "cpu"}]
)
def test_what_needs_tensors_makes_them_the_default_of_with_settings(
    ds: ps.Dataset, changes: dict[str, str]
) -> None:
    import torch

    whole = ps.Dataset(ds.experiment)
    changed = whole.with_settings(**changes)
    X, _ = next(iter(changed))
    expected, _ = next(iter(ps.Dataset(ds.experiment, **changes)))
    assert isinstance(X, torch.Tensor)
    assert X.dtype == expected.dtype
    torch.testing.assert_close(X, expected)
    copy = pickle.loads(pickle.dumps(changed)).with_settings(batch_size=8)
    assert next(iter(copy))[0].dtype == expected.dtype
    back = changed.with_settings(dtype="float32", device=None)
    assert isinstance(next(iter(back))[0], np.ndarray)
    for chosen in (ps.Dataset(ds.experiment, format="numpy"), whole.with_settings(format="numpy")):
        with pytest.raises(ps.InvalidArgument, match="needs format='torch'"):
            chosen.with_settings(**changes)
    tensors = whole.with_settings(format="torch", **changes).with_settings(
        dtype="float32", device=None
    )
    assert isinstance(next(iter(tensors))[0], torch.Tensor)


def test_data_modules_are_shown(cells: Oracle) -> None:
    import penstock.scvi as pscvi
    from penstock.lightning import DataModule

    data = pscvi.DataModule(cells.path, batch_key="donor")
    assert str(data) == repr(data)
    assert str(data).startswith("DataModule(SCVI, 331 cells x 50 genes, ")
    parts = ps.Dataset(cells.path).random_split(300, 31)
    shown = str(DataModule(*parts))
    assert shown == repr(DataModule(*parts)) == "DataModule(train=300 cells, val=31 cells)"


def test_one_of_a_thing(tmp_path: Path) -> None:
    from penstock.lightning import DataModule

    path = write_small_tiles(tmp_path / "one", 1, 1, per_cell=1)
    one = ps.Dataset(path, batch_size=1, encoders=[ps.LabelEncoder("obs_id")])
    both = ps.join({"only": path})
    shown = [
        repr(one),
        one._repr_html_(),
        repr(one.obs),
        one.obs._repr_html_(),
        repr(one.experiment),
        repr(one.encoders),
        repr(both),
        both._repr_html_(),
        repr(DataModule(one)),
    ]
    with pytest.raises(ps.InvalidArgument) as few:
        iter(one.with_settings(batch_size=2, drop_last=True))
    with pytest.raises(ps.InvalidArgument) as large:
        one.to_anndata(max_size=1)
    with pytest.warns(ps.NoCellsWarning) as parts:
        one.random_split(1, 0)
    shown += [str(few.value), str(large.value), str(parts[0].message)]
    for text in shown:
        assert re.search(r"(?<![\d,.])1 \w+", text), text
        assert not re.search(r"(?<![\d,.])1 (\w+[^s]s|\w+sses)\b", text), text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
@pytest.mark.parametrize("command", [["info", "PATH"], ["--help"], ["bench", "scale", "--help"]])
def test_commands_print_in_any_encoding(
    soma_small: Oracle, encoding: str, command: list[str]
) -> None:
    arguments = [str(soma_small.path) if each == "PATH" else each for each in command]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    if command[0] == "info" and encoding == "ascii":
        assert b"300 x 400" in done.stdout


def test_the_command_names_its_options(
    cells: Oracle, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.cli import main

    arguments = ["train", "scvi", str(cells.path), "--model", "SCANVI", "--labels-key", "kind"]
    assert main([*arguments, "--output", str(tmp_path)]) == 1
    assert "SCANVI needs --unlabeled" in capsys.readouterr().err
