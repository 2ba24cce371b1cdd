"""Time that training waits for its loader: an epoch beside batches that are in memory already.

python benchmarks/training_wait.py

`penstock bench train` measures training from end to end. Data: `make benchmarks/.data/census-65k` (65,536
cells), with 8,000 genes. Each measurement is a process of its own. What is compared takes turns,
`--rounds` times, and medians are over the rounds. `--device cuda` trains on a GPU, where the sparse
loader makes its batches on the device, as it does when Lightning trains there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from detected_genes import most_detected_genes

HERE = Path(__file__).parent
RESULTS = HERE / "results"
GENES = 8_000
SLEEP = 0.001


def genes_of(path: Path) -> np.ndarray:
    return np.load(most_detected_genes(path, GENES))


# What makes batches


def on(
    device: str, batches: Callable[[], Iterator[Any]], move: Callable[..., Any] | None = None
) -> Callable[[], Iterator[Any]]:
    """Batches moved to a device, as Lightning moves them."""
    import torch
    from lightning.pytorch.utilities import move_data_to_device

    move, place = move or move_data_to_device, torch.device(device)
    return lambda: (move(batch, place) for batch in batches())


def penstock_module(path: Path, cells: int, batch_size: int, sparse: bool | None = None) -> Any:
    import penstock as ps
    import penstock.scvi as pscvi

    chosen = ps.AxisQuery(coords=(slice(0, cells - 1),))
    dataset = ps.Dataset(
        path,
        obs_query=chosen,
        var_query=ps.AxisQuery(coords=(genes_of(path),)),
        memory_budget="1GiB",
        batch_size=batch_size,
    )
    return pscvi.DataModule(dataset, batch_key="dataset_id", train_size=1.0, sparse=sparse)


def penstock_loader(
    path: Path, cells: int, batch_size: int, device: str, sparse: bool = False
) -> Any:
    import torch
    from penstock.scvi.registry.loaders import to_device

    module = penstock_module(path, cells, batch_size, sparse)
    if sparse:  # as while Lightning trains on the device
        module.trainer = SimpleNamespace(
            state=SimpleNamespace(stopped=False),
            strategy=SimpleNamespace(root_device=torch.device(device)),
        )
    loader = module.train_dataloader()
    return on(device, lambda: iter(loader), to_device)


def packed_loader(path: Path, cells: int, batch_size: int, device: str) -> Any:
    import penstock as ps

    pack = path.with_name(f"{path.name}.pack")
    if not pack.exists():
        ps.pack(path, pack, layers="raw")
    return penstock_loader(pack, cells, batch_size, device, sparse=True)


def in_memory(path: Path, cells: int, batch_size: int, device: str) -> Any:
    batches = list(penstock_loader(path, cells, batch_size, device)())
    return lambda: iter(batches)


def anndata_loader(path: Path, cells: int, batch_size: int, device: str) -> Any:
    import scvi
    from scvi.dataloaders import AnnDataLoader

    adata = penstock_module(path, cells, batch_size).dataset.to_anndata(max_size="16GiB")
    scvi.model.SCVI.setup_anndata(adata, batch_key="dataset_id")
    manager = scvi.model.SCVI._setup_adata_manager_store[adata.uns["_scvi_uuid"]]
    return on(device, lambda: iter(AnnDataLoader(manager, shuffle=True, batch_size=batch_size)))


def _soma_query(path: Path, cells: int) -> Any:
    import tiledbsoma as soma

    experiment = soma.Experiment.open(str(path))
    return experiment.axis_query(
        "RNA",
        obs_query=soma.AxisQuery(coords=(slice(0, cells - 1),)),
        var_query=soma.AxisQuery(coords=(genes_of(path),)),
    )


def tiledb_data_module(path: Path, cells: int, batch_size: int, device: str) -> Any:
    from scvi.dataloaders import TileDBDataModule

    module = TileDBDataModule(
        _soma_query(path, cells), layer_name="raw", batch_size=batch_size, shuffle=True, seed=0,
        batch_column_names=["dataset_id"], train_size=1.0, accelerator="cpu",
        dataloader_kwargs={"num_workers": 0},
    )  # fmt: skip
    module.setup()
    loader = module.train_dataloader()
    return on(device, lambda: (module.on_before_batch_transfer(batch, 0) for batch in loader))


def tiledbsoma_ml_loader(path: Path, cells: int, batch_size: int, device: str) -> Any:
    import torch
    from tiledbsoma_ml import ExperimentDataset, experiment_dataloader

    dataset = ExperimentDataset(
        _soma_query(path, cells), layer_name="raw", obs_column_names=["dataset_id"],
        batch_size=batch_size, shuffle=True, seed=0,
    )  # fmt: skip
    loader = experiment_dataloader(dataset)

    def batches() -> Iterator[Any]:
        for X, obs in loader:
            zeros = torch.zeros((len(obs), 1), dtype=torch.int64)
            yield {"X": torch.as_tensor(X), "batch": zeros, "labels": zeros}

    return on(device, batches)


LOADERS: dict[str, Callable[..., Any]] = {
    "in memory": in_memory,
    "penstock": penstock_loader,
    "penstock, sparse": lambda *given: penstock_loader(*given, sparse=True),
    "penstock, pack": packed_loader,
    "AnnDataLoader": anndata_loader,
    "TileDBDataModule": tiledb_data_module,
    "tiledbsoma_ml": tiledbsoma_ml_loader,
}


# What takes them


def sleeper() -> Callable[[Any], None]:
    return lambda batch: time.sleep(SLEEP)


def scvi_step(n_genes: int, device: str, n_batch: int = 64) -> Callable[[Any], None]:
    import torch
    from scvi.module import VAE

    torch.manual_seed(0)
    module = VAE(n_genes, n_batch=n_batch).to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, eps=0.01)

    def step(batch: Any) -> None:
        _, _, losses = module(batch, loss_kwargs={"kl_weight": 1.0})
        optimizer.zero_grad()
        losses.loss.backward()
        optimizer.step()

    return step


def measure_wait(
    name: str, consumer: str, path: Path, cells: int, batch_size: int, device: str
) -> dict:
    """Seconds of two epochs after the first, opening included."""
    import torch

    make = LOADERS[name](path, cells, batch_size, device)
    take = sleeper() if consumer == "sleep" else scvi_step(len(genes_of(path)), device)
    seconds = []
    for _ in range(3):
        begun, seen = time.perf_counter(), 0
        for batch in make():
            seen += len(batch["X"])
            take(batch)
        if device != "cpu":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begun)
        assert seen == cells, (seen, cells)
    return {"seconds": seconds[1:]}


def in_its_own_process(call: str, *arguments: Any) -> dict:
    command = [sys.executable, __file__, "one", json.dumps([call, *arguments])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr[-400:]}
    result: dict = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def one(text: str) -> None:
    warnings.filterwarnings("ignore")
    call, *arguments = json.loads(text)
    arguments = [Path(each) if str(each).startswith("/") else each for each in arguments]
    print(json.dumps(globals()[call](*arguments)))


@dataclass
class Case:
    """A measurement that each round repeats, and its results."""

    key: str
    call: tuple[Any, ...]
    facts: dict[str, Any]
    got: list[dict] = field(default_factory=list)

    def result(self) -> dict[str, Any]:
        """Medians over the rounds; an error of any of them."""
        errors = [each["error"] for each in self.got if "error" in each]
        if errors:
            return {**self.facts, "error": errors[0]}
        seconds = [second for each in self.got for second in each["seconds"]]
        return {
            **self.facts, "seconds": seconds, "median": float(np.median(seconds)),
            "best": min(seconds),
        }  # fmt: skip


def wait_cases(parsed: argparse.Namespace, path: str) -> list[list[Case]]:
    """For each consumer, the loaders that take turns."""
    return [
        [
            Case(
                f"{consumer}, {name}",
                ("measure_wait", name, consumer, path, cells, size, parsed.device),
                {"consumer": consumer, "loader": name, "cells": cells, "batch_size": size},
            )
            for name in parsed.loaders
        ]
        for consumer, cells, size in (
            ("scvi", parsed.cells, parsed.batch_size),
            ("sleep", parsed.sleep_cells, 1024),
        )
    ]


def add_ratios(results: dict[str, Any], cases: list[list[Case]]) -> None:
    """Add the ratios to batches in memory."""
    for group in cases:
        found = [results[case.key] for case in group if "median" in results[case.key]]
        least = next((each for each in found if each["loader"] == "in memory"), None)
        for each in found if least else ():
            each["ratio"] = each["median"] / least["median"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("one", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--data", default=str(HERE / ".data" / "census-65k"))
    parser.add_argument("--cells", type=int, default=8_192)
    parser.add_argument("--batch-size", type=int, default=128, help="of scVI")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--sleep-cells", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder")
    parsed = parser.parse_args()
    if parsed.one:
        one(parsed.one[1])
        return
    from penstock.bench.machine import described

    cases = wait_cases(parsed, str(Path(parsed.data).absolute()))
    for number in range(parsed.rounds):
        for group in cases:
            for case in group:
                case.got.append(in_its_own_process(*case.call))
                print(f"round {number + 1},", case.key, case.got[-1], flush=True)
    results: dict[str, Any] = {"machine": described()}
    results.update({case.key: case.result() for group in cases for case in group})
    add_ratios(results, cases)
    parsed.results.mkdir(exist_ok=True)
    (parsed.results / "training_wait.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
