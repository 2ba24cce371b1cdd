"""The loaders of penstock.compat on two real ranks, and the epochs of their DataLoaders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import penstock.compat.census as census_ml
import penstock.compat.tiledbsoma_ml as soma_ml
import pytest
import tiledbsoma
from conftest import SCRIPTS, Oracle, write_small_tiles
from torch.utils.data import DataLoader
from torchrun import finish, torchrun

SCRIPT = SCRIPTS / "compat_script.py"
N_CELLS = 301
BATCH = 16


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 50)


def test_two_ranks(tiled: Path) -> None:
    out = finish(torchrun(2, SCRIPT, tiled))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    results = json.loads(line.removeprefix("RESULTS "))
    assert len(results) == 6
    for ranks in results:
        for epoch in range(3):
            batches = [each["epochs"][epoch] for each in ranks]
            sizes = [[len(batch) for batch in each] for each in batches]
            assert sizes[0] == sizes[1] == [BATCH] * 9 + [6], "equally many, equally large"
            read = [joinid for each in batches for batch in each for joinid in batch]
            assert len(set(read)) == len(read) == N_CELLS - 1
        for each in ranks:
            assert each["len"] == 10
            assert each["epochs"][0] != each["epochs"][1]
            assert each["epochs"][2] == each["epochs"][0], "set_epoch of the sampler"
            assert each["epoch"] == 1
        cells = [set(sum(each["epochs"][0], [])) for each in ranks]
        again = [set(sum(each["epochs"][1], [])) for each in ranks]
        assert cells != again, "another cut"


def census(experiment):
    return census_ml.ExperimentDataPipe(experiment, batch_size=BATCH, seed=1)


def soma(experiment):
    with experiment.axis_query("RNA") as query:
        return soma_ml.ExperimentDataset(query, "raw", batch_size=BATCH, seed=1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [census, soma])
def test_resumes(tiled: Path, make, workers: int) -> None:
    """What the originals lack: their loaders save where they are."""
    library = census_ml if make is census else soma_ml

    def loader():
        with tiledbsoma.open(str(tiled)) as experiment:
            dataset = make(experiment)
        return library.experiment_dataloader(dataset, num_workers=workers)

    def sums(batches):
        return [float(X.sum()) for X, _ in batches]

    whole = loader()
    epochs = [sums(whole), sums(whole)]
    assert epochs[0] != epochs[1]
    begun = loader()
    sums(begun)
    batches = iter(begun)
    assert sums(next(batches) for _ in range(7)) == epochs[1][:7]
    state = begun.state_dict()
    assert (state["epoch"], state["segments"][0]["batches"]) == (1, 7)
    again = loader()
    again.load_state_dict(state)
    assert sums(again) == epochs[1][7:]


def test_what_is_made_of_a_pipe_has_a_plain_loader(tiled: Path) -> None:
    with tiledbsoma.open(str(tiled)) as experiment:
        pipe = census(experiment)
    loader = census_ml.experiment_dataloader(pipe)
    assert isinstance(loader, DataLoader)
    assert hasattr(loader, "state_dict")
    mapped = census_ml.experiment_dataloader(pipe.map(lambda batch: batch[0].shape[0]))
    assert type(mapped) is DataLoader
    assert sum(mapped) == N_CELLS


def test_a_forked_child_leaves_the_contexts_of_its_parent(pbmc3k: Oracle) -> None:
    """Freeing a context of tiledbsoma waits for its threads, which the child lacks."""
    program = SCRIPTS / "collect_in_forked_child.py"
    done = subprocess.run(
        [sys.executable, program, str(pbmc3k.path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "the child ended\n", done.stdout + done.stderr
