"""Collections as annbatch writes them, of chosen columns of obs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from anndata_cases import write_collection


def collection_of(path: Path, *tables: dict[str, Any]) -> tuple[Path, dict[str, Path]]:
    """A dataset for each table of obs; returns the path of all and that of each."""
    datasets = []
    for number, columns in enumerate(tables):
        rows = max((len(values) for values in columns.values()), default=3)
        obs = pd.DataFrame(columns, index=[f"{number}-{i}" for i in range(rows)])
        counts = np.arange(len(obs) * 4).reshape(-1, 4).astype(np.float32)
        datasets.append(anndata.AnnData(sp.csr_matrix(counts), obs=obs))
    write_collection(path, datasets)
    return path, {f"number {i}": path / f"dataset_{i}" for i in range(len(tables))}
