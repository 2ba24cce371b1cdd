"""Penstock: ``scatter`` (its own shuffle), ``chunks`` (the Census loaders'), ``global``, ``pack``.

``streamed`` is ``scatter`` with ``keep=False``. ``pack`` reads a pack with ``shuffle=True``, which is
global on a local disk. ``pack-global`` always uses the global shuffle. ``device`` makes batches on
the device. ``annbatch``, ``zarr2``, ``zarr3`` and ``h5ad`` read AnnData where it is stored; ``memory`` reads an
AnnData object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..reach import storage_options
from ..request import Work

_SHUFFLES: dict[str, bool | str] = {
    "scatter": True, "streamed": True, "chunks": "chunks", "global": "global", "pack": True,
    "pack-global": "global", "device": True, "annbatch": True, "zarr2": True, "zarr3": True,
    "h5ad": True, "memory": True,
}  # fmt: skip

#: Variants whose source is AnnData, where the layer is X.
_ANNDATA = ("annbatch", "zarr2", "zarr3", "h5ad", "memory")


def imports(variant: str, work: Work) -> None:
    """Import Penstock and the package of the batches."""
    import penstock
    from penstock.base.missing_package import require

    if work.torch or variant == "device":
        require("torch")
    if work.sparse and not work.torch:
        require("scipy.sparse")
    if variant == "memory":
        require("anndata")
    _ = penstock.Dataset  # `import penstock` may import it lazily


def open_loader(variant: str, work: Work) -> Opened:
    """Open the source with Penstock's settings in `work`."""
    import penstock

    settings: dict[str, Any] = {"shuffle": _SHUFFLES[variant], "keep": variant != "streamed"}
    if work.memory_budget is not None:
        settings["memory_budget"] = work.memory_budget
    if work.threads is not None:
        settings["threads"] = work.threads
    if work.world_size > 1:
        settings |= {"rank": work.rank, "world_size": work.world_size, "uneven": "exact"}
    if work.genes_path is not None:
        settings["var_query"] = penstock.AxisQuery(coords=(np.load(work.genes_path),))
    elif work.n_vars is not None:
        settings["var_query"] = penstock.AxisQuery(coords=(slice(0, work.n_vars - 1),))
    if variant == "chunks":
        if work.chunk_size is not None:
            settings["chunk_size"] = work.chunk_size
        if work.chunks_per_block is not None:
            settings["chunks_per_block"] = work.chunks_per_block
    if variant == "device":
        on_gpu = work.device is not None and work.device.startswith("cuda")
        settings |= {"device": work.device if on_gpu else "cuda", "format": "torch"}
    elif work.torch:
        settings["format"] = "torch"
    source: Any = work.source
    if variant == "memory":
        import anndata

        source = anndata.read_h5ad(work.source)
        genes = work.chosen_genes()
        if genes is not None:  # as the other loaders of cells in memory take them
            source = source[:, genes].copy()
            settings.pop("var_query")
    dataset = penstock.Dataset(
        source,
        measurement=None if variant in _ANNDATA else work.measurement,
        layer=None if variant in _ANNDATA else work.layer,
        obs_query=work.obs_filter,
        obs_columns=["soma_joinid"],
        batch_size=work.batch_size,
        seed=work.seed,
        sparse=work.sparse,
        storage_options=None
        if variant == "memory"
        else storage_options(work.source, work.region, work.endpoint),
        **settings,
    )

    # Exports name cells by their joinids. Rows of AnnData are numbers of rows.
    joinids = None
    if variant in _ANNDATA:
        from penstock.experiment.open_source import open_source

        names = open_source(source, None).obs.read(["obs_names"])["obs_names"].to_numpy()
        joinids = names.astype(np.int64)

    def epoch(number: int) -> Iterator[Batch]:
        dataset.set_epoch(number)
        for x, obs in dataset:
            rows = np.asarray(obs["soma_joinid"])
            yield x, rows if joinids is None else joinids[rows]

    def statistics() -> dict[str, Any]:
        told = dataset.stats
        return {name: getattr(told, name) for name in type(told).__dataclass_fields__}

    return Opened(epoch, len(dataset), statistics)
