"""Templates of models that read several measurements, with real proteins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.dataset.dataset import Dataset

from .loaders import BATCH, PANEL, PROTEINS
from .modalities import Modalities
from .registration import Parts, Registration

#: Rows of TOTALVI's template for each batch; it draws 100 of them for the prior of its background.
ROWS_OF_A_BATCH = 200
_MOST_ROWS = 50_000


def least_rows(modalities: Modalities, batches: int) -> int:
    """Return the least number of rows of a template."""
    return 0 if modalities.is_mudata else min(_MOST_ROWS, ROWS_OF_A_BATCH * max(1, batches))


def with_other_layers(first: Any, modalities: Modalities, cells: Dataset) -> Any:
    """Return a template of the first layer with the others, each feature there in every row."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    proteins = None
    if modalities.protein is not None:
        names = modalities.names(cells, "protein_layer")
        proteins = pd.DataFrame(1, first.obs_names, names, np.float32)
    if not modalities.is_mudata:
        first.obsm[modalities.called["protein_layer"]] = proteins
        return first
    parts = {}
    for layer in modalities.layers:
        if layer == "protein_layer":
            part = anndata.AnnData(proteins)
        else:
            var = pd.DataFrame(index=modalities.names(cells, layer))
            ones = (first.X.data, first.X.indices, first.X.indptr)
            X = sp.csr_matrix(ones, (first.n_obs, len(var)))
            part = anndata.AnnData(X, pd.DataFrame(index=first.obs_names), var)
        parts[modalities.called[layer]] = part
    return Parts(parts, first.obs).to_mudata()


def batch_field(registration: Registration) -> str:
    """Return the field by whose categories proteins can be missing."""
    return PANEL if PANEL in registration.fields else BATCH


def fill(
    modalities: Modalities,
    model_class: Any,
    registration: Registration,
    cells: Dataset,
    codes: npt.NDArray[np.int64],
) -> None:
    """Put real proteins into the template, and what batches lack into the registry.

    scvi-tools computes the background's prior from proteins of 100 cells of each batch, and takes
    a protein as missing in a batch where all its counts are 0. It takes one pass over the
    proteins of all cells. `codes` are those of `batch_field`, of each cell in stored order.
    """
    if modalities.protein is None:
        return
    called = modalities.called["protein_layer"]
    template, field = registration.template, batch_field(registration)
    count = len(registration.categories(field))
    key = registration.registry["field_registries"][field]["data_registry"]["attr_key"]
    rows_of = [np.flatnonzero(template.obs[key] == code) for code in range(count)]
    drawn, places = _drawn(codes, rows_of)
    there = np.zeros((count, len(modalities.names(cells, "protein_layer"))), bool)
    # A copy: to_numpy of a DataFrame cannot be written to from pandas 3 on.
    stored = template[called].X if modalities.is_mudata else template.obsm[called]
    values = np.array(stored)
    first = 0
    for proteins, _ in modalities.alone(cells, "protein_layer"):
        own = codes[first : first + len(proteins)]
        for code in np.unique(own):
            there[code] |= (proteins[own == code] != 0).any(axis=0)
        begin, end = np.searchsorted(drawn, (first, first + len(proteins)))
        values[places[begin:end]] = proteins[drawn[begin:end] - first]
        first += len(proteins)
    if modalities.is_mudata:
        template[called].X = values
    else:
        template.obsm[called].iloc[:, :] = values
    present = np.unique(codes)
    mask = {str(code): there[code] for code in present}
    manager = model_class._setup_adata_manager_store[template.uns["_scvi_uuid"]]
    for registry in (manager.registry, registration.registry):
        state = registry["field_registries"][PROTEINS]["state_registry"]
        state.pop("protein_batch_mask", None)
        if not there[present].all():
            state["protein_batch_mask"] = {code: each.copy() for code, each in mask.items()}


def _drawn(
    codes: npt.NDArray[np.int64], rows_of: list[npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw a cell of its batch for each row of a template; return cells, ascending, and their rows."""
    random = np.random.default_rng(0)
    cells, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for code, places in enumerate(rows_of):
        own = np.flatnonzero(codes == code)
        if len(own):
            cells.append(np.resize(random.permutation(own), len(places)))
            rows.append(places)
    drawn = np.concatenate(cells)
    order = np.argsort(drawn, kind="stable")
    return drawn[order], np.concatenate(rows)[order]
