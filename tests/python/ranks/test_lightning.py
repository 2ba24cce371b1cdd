"""Lightning: epochs, checkpoints within an epoch, prediction."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle, write_small_tiles

lightning = pytest.importorskip("lightning.pytorch")

from penstock.lightning import DataModule  # noqa: E402


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 500, 60)


def dataset(path, **arguments) -> ps.Dataset:
    given = {"batch_size": 40, "memory_budget": "1MiB", "seed": 2, "shard": True, **arguments}
    return ps.Dataset(path, **given)


class Model(lightning.LightningModule):
    def __init__(self, genes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(genes, 1)
        self.seen: list[tuple[str, int, list[int]]] = []
        self.losses: list[float] = []

    def note(self, stage: str, batch) -> None:
        self.seen.append((stage, self.current_epoch, np.asarray(batch[1]["soma_joinid"]).tolist()))

    def training_step(self, batch, index):
        self.note("train", batch)
        loss = self.layer(batch[0]).square().mean()
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.note("val", batch)

    def test_step(self, batch, index):
        self.note("test", batch)

    def predict_step(self, batch, index):
        return np.asarray(batch[1]["soma_joinid"]), self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

    def cells(self, stage: str, epoch: int) -> list[int]:
        return [j for s, e, ids in self.seen if (s, e) == (stage, epoch) for j in ids]


def trainer(folder, **arguments):
    return lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(folder),
        **{"enable_checkpointing": False, **arguments},
    )


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs_are_whole_and_differ(tiled, tmp_path, num_workers: int) -> None:
    whole = dataset(tiled)
    data = DataModule.from_dataset(whole, 0.7, 0.2, 0.1, seed=1, num_workers=num_workers)
    model = Model(whole.n_vars)
    trainer(tmp_path, max_epochs=2).fit(model, datamodule=data)
    first, second = model.cells("train", 0), model.cells("train", 1)
    assert len(first) == data.train.n_obs == 350
    assert sorted(first) == sorted(second)
    assert first != second
    checked = model.cells("val", 1)
    assert sorted(checked) == checked
    assert len(checked) == 100
    assert set(checked).isdisjoint(first)


@pytest.mark.parametrize(
    ("parts", "cells"),
    [((), (400, 50, 50)), ((0.8, 0.2), (400, 100, 0)), ((0.5,), (250, 50, 200)),
     ((300, 120), (300, 120, 80)), ((300, 200), (300, 200, 0)), ((0.7, 0.2, 0.1), (350, 100, 50))],
)  # fmt: skip
def test_the_test_part_is_the_rest(tiled, parts: tuple[float, ...], cells: tuple[int, ...]) -> None:
    data = DataModule.from_dataset(dataset(tiled), *parts)
    made = [0 if part is None else part.n_obs for part in (data.train, data.val, data.test)]
    assert tuple(made) == cells


def test_a_test_is_in_stored_order(tiled, tmp_path) -> None:
    whole = dataset(tiled)
    model = Model(whole.n_vars)
    data = DataModule.from_dataset(whole, 0.7, 0.2, 0.1, seed=1)
    trainer(tmp_path).test(model, datamodule=data)
    expected = data.test.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist()
    assert len(expected) == 50
    assert model.cells("test", 0) == expected == sorted(expected)


def test_prediction_is_in_stored_order(tiled, tmp_path) -> None:
    whole = dataset(tiled, obs_columns=[])
    model = Model(whole.n_vars)
    answers = trainer(tmp_path).predict(model, datamodule=DataModule(predict=whole))
    assert np.concatenate([ids for ids, _ in answers]).tolist() == list(range(500))


# In the first epoch of a fit the trainer makes the iterator before it says the epoch; at the end of
# an epoch (13) it saves no state of the loader, and only says the epoch when it resumes.
@pytest.mark.parametrize(
    ("num_workers", "saved"),
    [(0, (18,)), (0, (7,)), (0, (13,)), (0, (7, 11, 26)), (2, (18,)), (2, (7, 13))],
)
def test_checkpoints(tiled, tmp_path, num_workers: int, saved: tuple[int, ...]) -> None:
    def fit(folder, callbacks=(), checkpoint=None, steps=-1):
        model = Model(60)
        data = DataModule(dataset(tiled), num_workers=num_workers)
        fitter = trainer(
            folder,
            max_epochs=3,
            max_steps=steps,
            callbacks=list(callbacks),
            enable_checkpointing=bool(callbacks),
        )
        fitter.fit(model, datamodule=data, ckpt_path=checkpoint)
        return model

    whole = fit(tmp_path / "whole")
    assert len(whole.losses) == 3 * 13
    losses: list[float] = []
    checkpoint = None
    for step in saved:  # killed some steps after each checkpoint
        saver = lightning.callbacks.ModelCheckpoint(
            dirpath=tmp_path / "saved", every_n_train_steps=step, save_top_k=-1, filename="{step}"
        )
        begun = fit(tmp_path / "begun", [saver], checkpoint, steps=step + 2)
        losses = losses + begun.losses[: step - len(losses)]
        checkpoint = tmp_path / "saved" / f"step={step}.ckpt"
    rest = fit(tmp_path / "rest", checkpoint=checkpoint)
    assert losses + rest.losses == whole.losses


def test_what_is_no_dataset_is_refused(soma_small: Oracle) -> None:
    with pytest.raises(ps.InvalidArgument, match="val must be a penstock Dataset"):
        DataModule(val=[1, 2])
    with pytest.raises(ps.InvalidArgument, match="without 'test'"):
        DataModule(ps.Dataset(soma_small.path)).test_dataloader()


def test_an_argument_that_no_loader_has(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    with pytest.raises(TypeError, match=r"no argument 'val_split'.*from_dataset\(ds, 0\.8"):
        DataModule(ds, val_split=0.1)


def test_a_part_that_comes_to_no_cell_is_a_warning(soma_small: Oracle) -> None:
    few = ps.Dataset(soma_small.path, obs_query="soma_joinid < 5")
    with pytest.warns(
        ps.NoCellsWarning, match="part 'val' of the split has none of the 5"
    ) as record:
        data = DataModule.from_dataset(few, 0.95, 0.05, 0)
    assert [each.filename for each in record] == [__file__]
    assert str(data) == "DataModule(train=5 cells, val=0 cells, predict=5 cells)"
