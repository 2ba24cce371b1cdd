"""Train a model, and save and print what it gives."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from penstock.base.text import plural, printable
from penstock.base.validation import checked_int, checked_local_path, parse_memory_size
from penstock.bench.machine import described
from penstock.dataset.source import DEFAULT_MEASUREMENT
from penstock.errors import InvalidArgument

from .options import BUNDLED, SHUFFLES


def run(parsed: argparse.Namespace) -> None:
    """Train, save, and print the paths of the results."""
    folder = Path(checked_local_path("--output", parsed.output))
    import numpy as np
    import torch

    from penstock import scvi as pscvi
    from penstock.dataset.dataset import Dataset
    from penstock.inference.rows import checked_out
    from penstock.scvi.outputs.latent_plot import draw
    from penstock.scvi.registry.model_classes import model_class
    from penstock.scvi.registry.model_fields import ModelFields
    from penstock.scvi.run.devices import checked_devices
    from penstock.scvi.run.trace_plot import draw_traces

    devices = _devices(parsed.devices)
    n_latent = checked_int("--latent", parsed.latent, least=1, most=100_000)
    seed = checked_int("--seed", parsed.seed, least=0, most=2**63 - 1)
    _check_numbers(parsed)
    keys = {
        "batch_key": parsed.batch_key,
        "labels_key": parsed.labels_key,
        "fine_labels_key": parsed.fine_labels_key,
        "sample_key": parsed.sample_key,
        "unlabeled_category": parsed.unlabeled,
        "size_factor_key": None,
        "categorical_covariate_keys": parsed.categorical,
        "continuous_covariate_keys": parsed.continuous,
    }
    checked_devices(parsed.accelerator, devices)
    modalities = _modalities(parsed)
    fields = ModelFields.of(model_class(parsed.model), **keys)
    fields.check_samples_per_label(parsed.n_samples_per_label)
    # Nothing is written before this line.
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {
        "measurement": parsed.measurement,
        "layer": parsed.layer,
        "obs_query": parsed.obs_query,
        "var_query": parsed.var_query,
        "memory_budget": parsed.memory,
        "shuffle": SHUFFLES[parsed.shuffle],
    }
    source = _source(parsed.uri, folder)
    cells = Dataset(source, **settings)
    if parsed.cells is not None:
        settings["obs_query"] = _first_cells(cells, parsed)
        cells = Dataset(source, **settings)
    if parsed.n_top_genes is not None:
        settings["var_query"] = _most_variable(cells, parsed)
        cells = Dataset(source, **settings)
    if modalities is not None:
        genes = {"var_query": settings.pop("var_query")}
        settings["measurement"] = None
        measurements = {
            name: genes if layer == "rna_layer" else {} for layer, name in modalities.items()
        }
        cells = Dataset(source, measurements=measurements, **settings)
    latent = checked_out(folder / "latent.npy")  # checked before the training
    if parsed.plot:
        cells.obs.read([parsed.plot])
    if parsed.plot or parsed.trace:
        import matplotlib  # noqa: F401
    data = pscvi.DataModule(
        cells,
        parsed.model,
        modalities=modalities,
        n_samples_per_label=parsed.n_samples_per_label,
        batch_size=parsed.batch_size,
        sparse=False if parsed.dense else None,
        **keys,
    )
    print(
        f"{plural(data.n_obs, 'cell')} of {plural(data.n_vars, 'gene')} in "
        f"{plural(data.n_batch, 'batch')}; "
        f"{data.n_train:,} to train on, {data.n_val:,} to validate on",
        flush=True,
    )
    torch.manual_seed(seed)
    model = data.create_model(n_latent=n_latent)
    trace = folder / "trace.csv"
    if not parsed.resume:  # of an earlier run
        for name in ("trace.csv", "trace.png", "trace.json"):
            (folder / name).unlink(missing_ok=True)
    began = time.perf_counter()
    pscvi.train(
        model,
        data,
        devices=devices,
        accelerator=parsed.accelerator,
        max_epochs=parsed.epochs,
        early_stopping=None if parsed.patience is None else {"patience": parsed.patience},
        checkpoint=folder / "run",
        resume=parsed.resume,
        seed=seed,
        callbacks=(pscvi.Trace(trace),) if parsed.trace else (),
    )
    seconds = time.perf_counter() - began
    print(f"trained in {seconds:,.1f} s, the start of processes included", flush=True)
    model.save(str(folder / "model"), overwrite=True)
    rows = pscvi.latent(
        model,
        data,
        out=latent,
        devices=devices,
        accelerator=parsed.accelerator,
    )
    _tell_validation(model.history, data.n_val, folder)
    if parsed.trace:
        steps = {"": pscvi.read_trace(trace)}
        title = f"{parsed.model}, {parsed.uri}"
        draw_traces(steps, folder / "trace.png", title, f"{described()}; one run")
        (folder / "trace.json").write_text(json.dumps({"train_seconds": seconds}) + "\n")
    if parsed.plot:
        labels = cells.obs.read([parsed.plot])[parsed.plot].to_numpy()
        draw(np.asarray(rows.values), labels, parsed.plot, folder / "latent.png")
    for path in sorted(folder.iterdir()):
        if path.name in _SAYS:
            print(printable(f"  {path}  {_SAYS[path.name]}"))


def _modalities(parsed: argparse.Namespace) -> dict[str, str] | None:
    """Return the measurements of a TOTALVI or MULTIVI, None for another model."""
    takes = {"TOTALVI": ("protein",), "MULTIVI": ("regions", "protein")}.get(parsed.model, ())
    given = {"protein": parsed.protein, "regions": parsed.regions}
    for name, measurement in given.items():
        if measurement is not None and name not in takes:
            raise InvalidArgument(f"{parsed.model} takes no --{name}")
    if parsed.model == "TOTALVI" and parsed.protein is None:
        raise InvalidArgument("TOTALVI needs --protein, the name of a measurement")
    if not takes:
        return None
    layers = {
        "rna_layer": parsed.measurement or DEFAULT_MEASUREMENT,
        "atac_layer": parsed.regions,
        "protein_layer": parsed.protein,
    }
    return {layer: name for layer, name in layers.items() if name is not None}


def _check_numbers(parsed: argparse.Namespace) -> None:
    """Check the numbers that are not used before the cells are opened."""
    checked_int("--batch-size", parsed.batch_size, least=1, most=2**31 - 1)
    parse_memory_size("--memory", parsed.memory)
    for name in ("cells", "n_top_genes"):
        if getattr(parsed, name) is not None:
            checked_int(f"--{name.replace('_', '-')}", getattr(parsed, name), least=1)
    if parsed.epochs is not None:
        checked_int("--epochs", parsed.epochs, least=1)
    if parsed.patience is not None:
        checked_int("--patience", parsed.patience, least=0)


def _first_cells(cells: Any, parsed: argparse.Namespace) -> Any:
    """Return the query of the first cells that ``--obs-query`` selects."""
    from penstock import AxisQuery

    number = parsed.cells
    if number > cells.n_obs:
        raise InvalidArgument(
            f"--cells must be at most {cells.n_obs:,}, the selected cells, got {number:,}"
        )
    last = int(cells.reader.selection.rows.at(number - 1))
    return AxisQuery(value_filter=parsed.obs_query, coords=(slice(0, last),))


def _most_variable(cells: Any, parsed: argparse.Namespace) -> Any:
    """Return the query of the most variable genes."""
    import penstock as ps

    table = ps.highly_variable_genes(cells, parsed.n_top_genes, batch_key=parsed.batch_key)
    return ps.AxisQuery(coords=(table["soma_joinid"][table["highly_variable"]].to_numpy(),))


def _tell_validation(history: Any, n_val: int, folder: Path) -> None:
    path = folder / "elbo_validation.csv"
    if "elbo_validation" not in history:
        path.unlink(missing_ok=True)  # from an earlier run
        print(
            "no cell to validate on: the model was trained on all of them"
            if n_val == 0
            else "the model has no ELBO of the validation cells"
        )
        return
    values = history["elbo_validation"]["elbo_validation"].astype(float)
    values.to_csv(path)
    print(
        f"negative ELBO of the validation cells: {values.iloc[0]:,.1f} after the first epoch, "
        f"{values.iloc[-1]:,.1f} after the last of {len(values)}"
    )


_SAYS = {
    "model": "for scvi.model's load",
    "run": "the best model, and where to resume",
    "latent.npy": "latent variables of each cell, in stored order",
    "latent.joinids.npy": "soma_joinid of each",
    "latent.png": "the latent space",
    "trace.csv": "loss, seconds and memory by step",
    "trace.png": "a plot of it",
    "elbo_validation.csv": "negative ELBO of validation, by epoch",
}


def _source(uri: str, folder: Path) -> Any:
    if uri != BUNDLED or Path(uri).exists():
        return uri
    from penstock.examples.bundled import unpack

    return unpack(folder)


def _devices(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"--devices must be a number or auto, got {text!r}") from None
