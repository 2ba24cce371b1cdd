"""A plot of a latent space. Needs matplotlib; uses UMAP if umap-learn is installed, else PCA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch


def draw(latent: Any, labels: Any, name: str, path: Path) -> None:
    """Draw cells in two dimensions, coloured by the column `name`, and save the plot at `path`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    places, axes = _two_dimensions(latent)
    figure, plot = plt.subplots(figsize=(7, 5), dpi=120)
    for i, value in enumerate(np.unique(labels.astype(str))):
        chosen = labels.astype(str) == value
        x, y = places[chosen].T
        plot.scatter(x, y, s=3, label=value, color=plt.cm.tab20(i % 20), linewidths=0)
    plot.set_xlabel(f"{axes} 1")
    plot.set_ylabel(f"{axes} 2")
    plot.legend(title=name, markerscale=4, fontsize=7, frameon=False, bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _two_dimensions(latent: Any) -> tuple[Any, str]:
    try:
        import umap
    except ImportError:
        cells = torch.tensor(latent)
        _, _, axes = torch.pca_lowrank(cells, q=min(cells.shape))
        places = (cells @ axes[:, :2]).numpy()
        return np.pad(places, ((0, 0), (0, 2 - places.shape[1]))), "PC"  # a latent space may have 1
    return umap.UMAP(random_state=0, n_jobs=1).fit_transform(latent), "UMAP"
