"""Cells of an h5ad file that are in memory as a whole: what out-of-core loaders compete with.

``rows`` takes the rows of each batch from a CSR matrix, by scipy. ``AnnDataLoader`` is scvi-tools'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work


def imports(variant: str, work: Work) -> None:
    """Import anndata, and scvi-tools if its loader is measured."""
    import anndata  # noqa: F401

    if variant == "AnnDataLoader":
        import scvi.dataloaders  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Read the whole file, with the genes of `work`."""
    import anndata
    import scipy.sparse as sp

    adata: Any = anndata.read_h5ad(work.source)
    joinids = adata.obs["soma_joinid"].to_numpy().astype(np.int64)
    genes = work.chosen_genes()
    x = sp.csr_matrix(adata.X if genes is None else adata.X[:, genes])
    # Both index arrays of one type. If they differ, scipy converts the whole matrix for each batch.
    x = sp.csr_matrix((x.data, x.indices, x.indptr), shape=x.shape)
    return _scvi(x, joinids, work) if variant == "AnnDataLoader" else _rows(x, joinids, work)


def _rows(x: Any, joinids: Any, work: Work) -> Opened:
    def epoch(number: int) -> Iterator[Batch]:
        order = np.random.default_rng((work.seed, number)).permutation(len(joinids))
        for begin in range(0, len(order), work.batch_size):
            rows = order[begin : begin + work.batch_size]
            yield x[rows] if work.sparse else x[rows].toarray(), joinids[rows]

    return Opened(epoch, -(-len(joinids) // work.batch_size))


def _scvi(x: Any, joinids: Any, work: Work) -> Opened:
    """Batches of torch tensors, without other columns than the joinids."""
    import anndata
    import scvi
    from scvi.data.fields import LayerField, NumericalObsField
    from scvi.dataloaders import AnnDataLoader

    scvi.settings.seed = work.seed
    adata = anndata.AnnData(x)
    adata.obs["soma_joinid"] = joinids
    manager: Any = scvi.data.AnnDataManager(
        fields=[
            LayerField("X", None, is_count_data=True),
            NumericalObsField("soma_joinid", "soma_joinid"),
        ]
    )
    manager.register_fields(adata)
    loader = AnnDataLoader(
        manager,
        batch_size=work.batch_size,
        shuffle=True,
        data_and_attributes={"X": np.float32, "soma_joinid": np.int64},
        load_sparse_tensor=work.sparse,
    )

    def epoch(number: int) -> Iterator[Batch]:
        for batch in loader:
            yield batch["X"], batch["soma_joinid"].numpy().ravel()

    return Opened(epoch, len(loader))
