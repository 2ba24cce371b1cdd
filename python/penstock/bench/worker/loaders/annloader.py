"""anndata's AnnLoader over a backed h5ad file, which reads each row of a batch separately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work


def imports(variant: str, work: Work) -> None:
    """Import AnnLoader, which imports torch."""
    import anndata  # noqa: F401
    import torch  # noqa: F401
    from anndata.experimental import AnnLoader  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the file. AnnLoader makes dense batches; sparse ones are converted here."""
    import anndata
    import torch
    from anndata.experimental import AnnLoader

    torch.manual_seed(work.seed)
    adata: Any = anndata.read_h5ad(work.source, backed="r")
    adata.obs = adata.obs[["soma_joinid"]]
    # Its own converter passes a Series to torch, which fails with pandas 3.
    arrays = {"obs": {"soma_joinid": np.asarray}}
    loader = AnnLoader(adata, batch_size=work.batch_size, shuffle=True, convert=arrays)
    genes = work.chosen_genes()

    def epoch(number: int) -> Iterator[Batch]:
        for batch in loader:
            x = batch.X
            if genes is not None:
                x = x[:, genes]
            if work.sparse:
                x = x.to_sparse_csr() if not x.is_sparse else x
            elif x.is_sparse:
                x = x.to_dense()
            yield x, np.asarray(batch.obs["soma_joinid"]).astype(np.int64)

    return Opened(epoch, len(loader))
