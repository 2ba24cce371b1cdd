"""The script of each rank of test_scvi_launchers.py, under torchrun, Slurm or Ray Train.

… scvi_rank_script.py PATH FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import penstock.scvi as pscvi
import torch
import torch.distributed as dist
from group_end import end_group


def train(path: Any, folder: Path, devices: int | str = "auto") -> dict[str, Any]:
    """Train a small model; what came of it."""
    torch.manual_seed(0)
    data = pscvi.DataModule(path, batch_key="donor", labels_key="kind", batch_size=40)
    model = data.create_model(n_latent=4, n_hidden=16)
    pscvi.train(
        model, data, devices=devices, accelerator="cpu", max_epochs=4, seed=1, progress=True,
        early_stopping={"patience": 1, "min_delta": 1e9}, checkpoint=folder / "checkpoint",
    )  # fmt: skip
    history = {
        name: frame[name].astype(float).tolist() for name, frame in (model.history or {}).items()
    }
    weights = sum(float(each.double().sum()) for each in model.module.state_dict().values())
    latent = pscvi.latent(model, data).values  # each rank, of all cells
    return {
        "split": data.val_idx.tolist(), "history": history, "weights": weights,
        "latent": latent.astype(float).tolist(), "best": model.best_ or {},
    }  # fmt: skip


def main() -> None:
    mine = train(sys.argv[1], Path(sys.argv[2]))
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {"rank": dist.get_rank(), **mine})
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(everybody), flush=True)
    end_group()


if __name__ == "__main__":
    main()
