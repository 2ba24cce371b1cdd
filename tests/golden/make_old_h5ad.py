"""A small h5ad file by anndata 0.5 or 0.6, for tests/data.

make_old_h5ad.py FILE.h5ad, in an environment with that version: anndata 0.5.10 with Python 3.6, numpy 1.15.4,
pandas 0.23.4, scipy 1.1.0 and h5py 2.8.0; anndata 0.6.22.post1 with Python 3.7, numpy 1.17.5, pandas 0.25.3,
scipy 1.4.1 and h5py 2.10.0. X is sparse in the first, dense in the second.
"""

import sys

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

random = np.random.RandomState(0)
cells, genes = 60, 15
counts = sp.csr_matrix(random.poisson(0.7, (cells, genes + 3)).astype("float32"))
obs = pd.DataFrame(
    {
        "cell_type": pd.Categorical.from_codes(random.randint(-1, 3, cells), ["B", "T cell", "NK"]),
        "donor": np.array(["d1", "d2"], object)[random.randint(0, 2, cells)],
        "cluster": pd.Categorical(random.randint(0, 4, cells)),
        "barcode": [f"text-{i}" for i in range(cells)],
        "n_counts": random.randint(0, 9000, cells),
        "score": random.normal(size=cells),
        "score32": random.normal(size=cells).astype("float32"),
        "doublet": random.rand(cells) < 0.3,
        "one": ["only"] * cells,
    },
    index=[f"cell-{i}" for i in range(cells)],
)
var = pd.DataFrame(
    {
        "symbol": [f"gene {i % 5}" for i in range(genes + 3)],
        "chosen": random.rand(genes + 3) < 0.5,
    },
    index=[f"g{i}" for i in range(genes + 3)],
)
adata = anndata.AnnData(counts, obs=obs, var=var)
adata.raw = adata.copy()
adata = adata[:, :genes].copy()
values = np.log1p(adata.X.toarray())
adata.X = values if hasattr(adata, "layers") else sp.csr_matrix(values)
if hasattr(adata, "layers"):
    adata.layers["counts"] = counts[:, :genes]
adata.obsm["X_pca"] = random.normal(size=(cells, 3))
adata.uns["params"] = {"n": 5, "name": "text"}
adata.write(sys.argv[1])
print(anndata.__version__, adata)
