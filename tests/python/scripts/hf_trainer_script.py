"""The script of each process of tests/python/ranks/test_hf_trainer.py, under torchrun.

torchrun … hf_trainer_script.py PATH FOLDER CELLS WORKERS
"""

from __future__ import annotations

import json
import sys

import penstock as ps
import torch
import transformers
from accelerate.utils import gather_object
from group_end import end_group


class Model(torch.nn.Module):
    def __init__(self, genes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(genes, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.layer(X)


class Trainer(transformers.Trainer):
    """The one of docs/guides/processes.md, which also notes the cells."""

    def __init__(self, *arguments, **more) -> None:
        super().__init__(*arguments, **more)
        self.seen: list[list[int]] = []
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self):
        workers = self.args.dataloader_num_workers
        return self.accelerator.prepare(ps.dataloader(self.train_dataset, num_workers=workers))

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        X, obs = inputs
        self.seen.append([int(self.state.epoch), *obs["soma_joinid"].tolist()])
        loss = model(X).square().mean()
        return (loss, None) if return_outputs else loss


def train(path: str, folder: str, cells: int, workers: int, prepares: bool) -> dict:
    query = ps.AxisQuery(coords=(slice(0, cells - 1),))
    ds = ps.Dataset(
        path,
        obs_query=query,
        batch_size=8,
        memory_budget="8MiB",
        shard=not prepares,
        uneven="drop" if prepares else "exact",
    )

    class Divided(Trainer):
        def get_train_dataloader(self):
            workers = self.args.dataloader_num_workers
            return ps.dataloader(self.train_dataset, num_workers=workers)

    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_num_workers=workers,
    )
    trainer = (Trainer if prepares else Divided)(
        model=Model(ds.n_vars), args=arguments, train_dataset=ds
    )
    steps = trainer.train().global_step
    epochs = [[], []]
    for epoch, *joinids in trainer.seen:
        epochs[epoch] += joinids
    return {"steps": steps, "epochs": epochs}


def main() -> None:
    path, folder, cells, workers = *sys.argv[1:3], *map(int, sys.argv[3:5])
    mine = {
        "prepared": train(path, folder, cells, workers, prepares=True),
        "own": train(path, folder, cells, workers, prepares=False),
    }
    everybody = gather_object([mine])
    from accelerate import PartialState

    if PartialState().is_main_process:
        print("RESULTS " + json.dumps(everybody), flush=True)
    end_group()


if __name__ == "__main__":
    main()
