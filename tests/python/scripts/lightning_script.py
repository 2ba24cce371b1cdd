"""The script of each rank of tests/python/ranks/test_lightning_processes.py, under torchrun.

torchrun … lightning_script.py PATH FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightning.pytorch as lightning
import numpy as np
import penstock as ps
import torch
import torch.distributed as dist
from group_end import end_group
from penstock.lightning import DataModule


class Model(lightning.LightningModule):
    def __init__(self, genes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(genes, 1)
        self.losses: list[float] = []
        self.epochs: dict[str, list[int]] = {}
        self.checked: list[int] = []
        self.tested: list[int] = []

    def training_step(self, batch, index):
        X, obs = batch
        loss = self.layer(X).square().mean()
        self.losses.append(loss.item())
        self.epochs.setdefault(str(self.current_epoch), []).extend(obs["soma_joinid"].tolist())
        return loss

    def validation_step(self, batch, index):
        if not self.trainer.sanity_checking:
            self.checked += batch[1]["soma_joinid"].tolist()

    def test_step(self, batch, index):
        self.tested += batch[1]["soma_joinid"].tolist()

    def predict_step(self, batch, index):
        return batch[1]["soma_joinid"].numpy()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(path: str, folder: Path, steps: int = -1, save_at: int | None = None, checkpoint=None):
    """A run of two epochs, whole, cut short after a checkpoint, or resumed from it."""
    callbacks = []
    if save_at is not None:
        callbacks.append(
            lightning.callbacks.ModelCheckpoint(
                dirpath=folder, every_n_train_steps=save_at, save_top_k=-1, filename="{step}"
            )
        )
    ds = ps.Dataset(path, batch_size=20, memory_budget="1MiB", seed=2)
    data = DataModule(train=ds, val=ds, test=ds, predict=ds)
    model = Model(ds.n_vars)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        max_steps=steps,
        logger=False,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(folder),
    )
    trainer.fit(model, datamodule=data, ckpt_path=checkpoint)
    return model, trainer, data


def main() -> None:
    path, folder = sys.argv[1], Path(sys.argv[2])
    whole, trainer, data = fit(path, folder)
    trainer.test(whole, datamodule=data, verbose=False)
    predicted = np.concatenate(trainer.predict(whole, datamodule=data)).tolist()
    fit(path, folder, steps=12, save_at=11)
    rest, _, _ = fit(path, folder, checkpoint=folder / "step=11.ckpt")
    mine = {
        "losses": whole.losses,
        "rest": rest.losses,
        "epochs": whole.epochs,
        "checked": whole.checked,
        "tested": whole.tested,
        "predicted": predicted,
    }
    everybody: list = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(everybody), flush=True)
    end_group()


if __name__ == "__main__":
    main()
