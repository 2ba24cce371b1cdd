"""The script of each rank of test_scvi_train.py: scvi-tools' call and Penstock's.

torchrun … scvi_script.py PATH FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import penstock.scvi as pscvi
import torch
import torch.distributed as dist
from group_end import end_group


def main() -> None:
    path, folder = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    data = pscvi.DataModule(path, batch_key="donor", batch_size=40)
    model = data.create_model(n_latent=4)
    model.train(
        datamodule=data,
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy="ddp_find_unused_parameters_true",
        check_val_every_n_epoch=1,
        enable_progress_bar=False,
        log_save_dir=str(folder / f"logs-{os.environ['RANK']}"),
    )
    first = model.history["elbo_validation"]["elbo_validation"].tolist() if model.history else []
    other = data.create_model(n_latent=4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="early_stopping was automatically disabled")
        pscvi.train(
            other, data, max_epochs=5, early_stopping={"patience": 1, "min_delta": 1e9},
            checkpoint=folder / "checkpoint", accelerator="cpu", seed=0, progress=False,
        )  # fmt: skip
    mine = {"rank": dist.get_rank(), "first": first, "epochs": other.trainer.current_epoch}
    everybody: list = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(everybody), flush=True)
    end_group()


if __name__ == "__main__":
    main()
