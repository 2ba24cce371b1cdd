"""annbatch on its pre-shuffled collection, or on a store of anndata (``zarr2``, ``zarr3``), with the zarrs codecs if they are installed.

Its batches are CSR; dense ones are made from them here, as its users would. Chunks are its chunks,
and a block is the cells that it loads at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work


def imports(variant: str, work: Work) -> None:
    """Import annbatch, which imports anndata, zarr and dask."""
    import annbatch  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the collection; only X and the joinids are read."""
    import annbatch
    import zarr

    if find_spec("zarrs") is not None:
        import zarrs  # noqa: F401

        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    if work.threads is not None:
        zarr.config.set({"threading.max_workers": work.threads})
    settings: dict[str, Any] = {}
    if work.chunk_size is not None:
        settings["chunk_size"] = work.chunk_size
    if work.chunks_per_block is not None:
        settings["preload_nchunks"] = work.chunks_per_block
    genes = work.chosen_genes()
    loader = annbatch.Loader(
        shuffle=True,
        batch_size=work.batch_size,
        preload_to_gpu=False,
        rng=np.random.default_rng(work.seed),
        **settings,
    )
    if variant:
        loader.add_adata(_x_and_joinids(zarr.open_group(work.source, mode="r")))
    else:
        collection = annbatch.DatasetCollection(work.source, mode="r")
        loader.use_collection(collection, load_adata=_x_and_joinids)

    def epoch(number: int) -> Iterator[Batch]:
        for batch in loader:
            x = batch["X"]
            if genes is not None:
                x = x[:, genes]
            if not work.sparse:
                x = x.toarray()
            yield x, batch["obs"]["soma_joinid"].to_numpy().astype(np.int64)

    return Opened(epoch, len(loader))


def _x_and_joinids(group: Any) -> Any:
    import anndata
    import pandas as pd

    joinids = anndata.io.read_elem(group["obs"]["soma_joinid"])
    obs = pd.DataFrame({"soma_joinid": joinids}, index=np.arange(len(joinids)).astype(str))
    return anndata.AnnData(X=anndata.io.sparse_dataset(group["X"]), obs=obs)
