"""Output and errors of the command line."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import ROOT, Oracle, write_small_tiles
from penstock.cli import main


def penstock(*arguments: object, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        **kwargs,
    )


def test_info_of_something_else(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        done = penstock("info", path)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("penstock: ")
        assert str(path) in done.stderr
        assert "Traceback" not in done.stderr


def test_usage() -> None:
    assert penstock("--help").returncode == 0
    assert penstock("--version").stdout.startswith("penstock 0.")
    for wrong in (["nonsense"], ["info"], ["demo", "--cells", "many"]):
        done = penstock(*wrong)
        assert done.returncode == 2
        assert "usage:" in done.stderr


def test_a_closed_pipe_is_no_error(pbmc3k: Oracle) -> None:
    command = f"'{sys.executable}' -m penstock info '{pbmc3k.path}' | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["soma", "h5ad"])
def test_demo_on_data_of_ones_own(kind: str, pbmc3k: Oracle, tmp_path: Path) -> None:
    path = pbmc3k.path
    if kind == "h5ad":
        anndata = pytest.importorskip("anndata")
        path = tmp_path / "cells.h5ad"
        anndata.AnnData(pbmc3k.X, pbmc3k.obs.astype({"cell_type": "category"})).write_h5ad(path)
    done = penstock(
        "demo", "--data", path, "--label", "cell_type", "--epochs", 3,
        "--filter", "n_counts > 1500", "--output", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    accuracies = [
        float(word) for word in done.stdout.replace("%", " % ").split() if _is_share(word)
    ]
    assert max(accuracies) > 80, done.stdout
    assert "cells/s" in done.stdout
    assert "Next" in done.stdout
    png = (tmp_path / "out" / "penstock-demo.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    page = (tmp_path / "out" / "penstock-demo.html").read_text()
    assert "plotly" in page
    assert not re.search(r'<script[^>]* src="http', page)
    assert_shows_what_was_said(page, done.stdout)


def assert_shows_what_was_said(page: str, said: str) -> None:
    """The traces of the page: the accuracy of each epoch as it was printed, and losses that fall to those."""
    lines = [
        line.split()
        for line in said.splitlines()
        if re.match(r" +[0-9]+ +[0-9.]+ +[0-9.]+ %", line)
    ]
    printed = np.array([[float(words[at]) for at in (1, 2, 5, 6)] for words in lines])
    traces, _ = json.JSONDecoder().raw_decode(page, page.index("[", page.rindex("Plotly.newPlot(")))
    for name, (loss, accuracy) in {"shuffled": (0, 1), "in stored order": (2, 3)}.items():
        raw, means, accuracies = (trace for trace in traces if trace["name"] == name)
        assert np.round(accuracies["y"], 1).tolist() == printed[:, accuracy].tolist()
        assert accuracies["x"] == list(range(1, len(printed) + 1))
        batches = len(raw["y"]) // len(printed)
        by_epoch = np.reshape(raw["y"][: batches * len(printed)], (len(printed), batches)).mean(
            axis=1
        )
        np.testing.assert_allclose(by_epoch, printed[:, loss], rtol=0.1)
        x, y = (numbers(means[of]) for of in "xy")
        assert len(x) == len(y) >= 10
        assert abs(y.mean() - np.mean(raw["y"])) < 0.05


def numbers(stored: Any) -> np.ndarray:
    """An array as plotly writes it: plotly 5 as a list."""
    if isinstance(stored, list):
        return np.array(stored)
    return np.frombuffer(base64.b64decode(stored["bdata"]), stored["dtype"])


def _is_share(word: str) -> bool:
    return word.count(".") == 1 and word.replace(".", "").isdigit() and float(word) <= 100


def test_demo_at_both_scales(tmp_path: Path) -> None:
    done = penstock("demo", "--cells", 2_000, "--epochs", 1, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Real cells" in done.stdout
    assert "At scale" in done.stdout
    assert (tmp_path / "census-like-2000.soma").exists()
    assert (tmp_path / "penstock-demo.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "celltype"], "cell_type"),
        (["--layer", "normalized"], "raw"),
        (["--measurement", "protein"], "RNA"),
        (["--filter", "cell_type == "], "filter"),
        (["--filter", "n_counts > 1000000"], "10 cells or more"),
        (["--filter", "cell_type == 'B cells'"], "two classes"),
        (["--label", "obs_id"], "at most 1000 classes"),
        (["--label", "obs_id", "--filter", "soma_joinid < 50"], "50 distinct values in 50 cells"),
        (["--label", "percent_mito"], "holds float32 values"),
        (["--cells", "3000"], "--cells is for the experiment that is made"),
        (["--epochs", "0"], "--epochs must be 1 or more"),
        (["--memory", "much"], "'much'"),
    ],
)
def test_demo_errors_without_tracebacks(
    pbmc3k: Oracle,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["demo", "--data", str(pbmc3k.path), "--output", str(tmp_path), *arguments])
    said = capsys.readouterr()
    assert status == 1
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "sex"], "--label is for an experiment of yours; give its --data"),
        (["--filter", "a == 1"], "--filter is for"),
        (["--layer", "raw"], "--layer is for"),
        (["--measurement", "RNA"], "--measurement is for"),
        (["--data", ""], "--data must name an experiment"),
    ],
)
def test_demo_refuses_what_it_would_ignore(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--output", str(tmp_path / "out"), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_demo_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    assert main(["demo", "--epochs", "1", "--output", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"penstock: {os.strerror(errno.ENOSPC)}") or "space" in error
    assert "Traceback" not in error
    assert not list(tmp_path.glob("census-like*"))


def test_demo_where_nothing_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = penstock("demo", "--output", file / "folder")
    assert done.returncode == 1
    ours = [line.startswith("penstock: ") for line in done.stderr.splitlines()]
    assert ours.index(True) == len(ours) - 1  # one line; some versions of packages warn before it
    assert "Traceback" not in done.stderr


def test_the_classifier_leaves_cells_without_a_label_out() -> None:
    """Whole batches of them, too, whose mean loss would be no number."""
    import torch
    from penstock.demo.classifier import Classifier, History

    torch.manual_seed(1)
    X = torch.rand(30, 5)
    labels = torch.tensor([0, 1, -1] * 10)
    batches = [
        (X.clone(), {"label": torch.full((30,), -1)}),
        (X.clone(), {"label": labels}),
    ]
    advanced: list[int] = []
    history = History()
    epoch = Classifier(5, 2, "label").train_epoch(batches, history, advanced.append)
    assert epoch.cells == sum(advanced) == 60
    assert len(history.batch_losses) == 1
    assert epoch.loss == pytest.approx(history.batch_losses[0])
    assert 0 <= epoch.train_accuracy <= 1


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_the_classifier_refuses_what_is_no_count(value: float) -> None:
    import torch
    from penstock.demo.classifier import Classifier, History

    X = torch.ones(10, 5)
    X[3, 2] = value
    batch = X, {"label": torch.tensor([0, 1] * 5)}
    with pytest.raises(ps.InvalidArgument, match="negative or NaN"):
        Classifier(5, 2, "label").train_epoch([batch], History(), lambda cells: None)


def test_a_demo_on_few_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = write_small_tiles(tmp_path / "few", 3, 20)
    assert main(["demo", "--data", str(few), "--label", "obs_id", "--output", str(tmp_path)]) == 1
    assert "10 cells or more, 3 are in obs" in capsys.readouterr().err


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_a_latent_space_is_drawn_without_umap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dimensions: int
) -> None:
    latent_plot = pytest.importorskip("penstock.scvi.outputs.latent_plot")
    monkeypatch.setitem(sys.modules, "umap", None)
    latent = np.random.default_rng(0).random((50, dimensions), np.float32)
    latent_plot.draw(latent, np.array(["a", "b"] * 25), "label", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_train_scvi(
    pbmc3k: Oracle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scvi = pytest.importorskip("scvi")
    query = "cell_type in ['B cells', 'NK cells', 'CD8 T cells']"
    arguments = [
        "train",
        "scvi",
        str(pbmc3k.path),
        "--obs-query",
        query,
        "--labels-key",
        "cell_type",
    ]
    arguments += ["--latent", "4", "--epochs", "2", "--accelerator", "cpu", "--patience", "5"]
    arguments += ["--batch-size", "256", "--output", str(tmp_path / "out"), "--plot", "cell_type"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    chosen = ps.Dataset(pbmc3k.path, obs_query=query)
    assert f"{chosen.n_obs:,} cells of 13,714 genes" in out
    latent = np.load(tmp_path / "out" / "latent.npy")
    joinids = np.load(tmp_path / "out" / "latent.joinids.npy")
    assert joinids.tolist() == chosen.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist()
    model = scvi.model.SCVI.load(
        str(tmp_path / "out" / "model"), chosen.to_anndata(), accelerator="cpu"
    )
    np.testing.assert_allclose(latent, model.get_latent_representation(), rtol=1e-4, atol=1e-5)
    assert (tmp_path / "out" / "latent.png").stat().st_size > 10_000
    monkeypatch.chdir(tmp_path)
    assert main(["train", "scvi", str(pbmc3k.path), "--model", "SOLO"]) == 1
    assert "not SOLO" in capsys.readouterr().err
    assert main(["train", "scvi", str(pbmc3k.path), "--model", "TOTALVI"]) == 1
    assert "TOTALVI needs --protein" in capsys.readouterr().err
    assert main(["train", "scvi", str(pbmc3k.path), "--protein", "ADT"]) == 1
    assert "SCVI takes no --protein" in capsys.readouterr().err
    assert main(["train", "scvi", str(pbmc3k.path), "--devices", "two"]) == 1
    assert "--devices must be a number" in capsys.readouterr().err
    assert main(["train", "scvi", str(pbmc3k.path), "--n-samples-per-label", "9"]) == 1
    assert "--n-samples-per-label needs SCANVI" in capsys.readouterr().err


def test_the_command_of_make_demo_scvi(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands in the Makefile, but for one epoch."""
    pytest.importorskip("scvi")
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\ndemo-scvi:")[1].split("\n\n")[0].partition("\n")[2]
    _, *arguments = shlex.split(recipe.replace("\\\n", " "))
    arguments[arguments.index("--epochs") + 1] = "1"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert main(arguments) == 0
    out = capsys.readouterr().out
    folder = tmp_path / arguments[arguments.index("--output") + 1]
    for name in ("model", "run", "latent.npy", "latent.joinids.npy", "latent.png"):
        assert (folder / name).exists()
        assert f"{name}  " in out
    assert "after the last of 1" in out
    # It is not trained for nothing, where its output could not be written.
    (folder / "latent.joinids.npy").unlink()
    assert main(arguments) == 1
    assert "latent.npy is a file that holds something else" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_train_scvi_says_what_is_wrong_before_it_trains(
    pbmc3k: Oracle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("scvi")
    monkeypatch.chdir(tmp_path)
    query = ["--obs-query", "soma_joinid < 60", "--var-query", "soma_joinid < 300"]
    few = ["train", "scvi", str(pbmc3k.path), *query, "--accelerator", "cpu", "--epochs", "2"]
    for wrong, said in (
        (["--plot", "nocol"], "nocol"),
        (["--patience", "-2"], "--patience must be 0 or more, got -2"),
        (["--latent", "0"], "--latent must be 1 or more, got 0"),
        (["--latent", "99999999999"], "--latent must be 100000 or less, got 99999999999"),
    ):
        assert main([*few, *wrong]) == 1
        assert said in capsys.readouterr().err
        assert not (tmp_path / "penstock_scvi" / "run" / "last.ckpt").exists()
    assert main([*few, "--patience", "0", "--latent", "3"]) == 0
    assert (tmp_path / "penstock_scvi" / "elbo_validation.csv").exists()
    for wrong, said in (
        (["--latent", "4"], "of another model"),
        (
            ["--latent", "3", "--epochs", "1"],
            "but --epochs 1: use --epochs 2 or more, or start over without --resume",
        ),
    ):
        assert main([*few, "--resume", *wrong]) == 1
        assert said in capsys.readouterr().err
    six = [*few, "--obs-query", "soma_joinid < 6"]
    assert main(six) == 0
    assert "no cell to validate on" in capsys.readouterr().out
    assert not (tmp_path / "penstock_scvi" / "elbo_validation.csv").exists()


def test_control_characters_of_a_store_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of columns, layers and values, paths, and errors that have them."""
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    obs = pandas.DataFrame({"c\x1b[31mol": ["v\x1b]0;x\x07"] * 3, "right\u202eleft": ["a"] * 3})
    cells = anndata.AnnData(np.ones((3, 2), np.float32), obs.set_index(pandas.Index(list("abc"))))
    cells.layers["l\x1b[31m"] = cells.X
    path = tmp_path / "p\x1b[31m.h5ad"
    cells.write_h5ad(path)
    said = {}
    for name, words in {
        "info": ["info", path], "values": ["info", path, "--counts", "c\x1b[31mol"],
        "pattern": ["info", f"{path.parent}/p\x1b*.h5ad"], "pack": ["pack", path, f"{path}.pack"],
        "layer": ["pack", path, tmp_path / "x", "--layer", "\x1b"], "none": ["info", "\x9bnone"],
        "trace": ["--traceback", "info", "\x9bnone"], "index": ["index", tmp_path],
    }.items():  # fmt: skip
        main([str(word) for word in words])
        said[name] = "".join(capsys.readouterr())
    with pytest.raises(SystemExit):
        main(["info", str(path), "--\x1b"])
    said["option"] = "".join(capsys.readouterr())
    for name, text in said.items():
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text), (name, text)
    assert r"c\x1b[31mol" in said["info"]
    assert r"right\u202eleft" in said["info"]
    assert r"X/l\x1b[31m" in said["info"]
    assert r"v\x1b]0;x\x07" in said["values"]
    assert r"\x9bnone" in said["none"]


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for given, same in ((["help"], ["-h"]), (["help", "info"], ["info", "-h"])):
        shown = []
        for arguments in (given, same):
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            assert ended.value.code == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
