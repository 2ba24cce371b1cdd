"""A plot of a latent space. Needs matplotlib; uses UMAP if umap-learn is installed, else PCA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from penstock.base.text import plural

_MARKERS = ("o", "^", "s", "D", "v", "P")
#: Rows of a legend that fit beside the plot.
_ROWS = 28


def draw(latent: Any, labels: Any, name: str, path: Path) -> None:
    """Draw cells in two dimensions, coloured by the column `name`, and save the plot at `path`."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure  # pyplot would change a notebook's backend

    places, axes = _two_dimensions(latent)
    figure = Figure(figsize=(7, 5), dpi=120)
    plot = figure.subplots()
    texts = labels.astype(str)
    values = np.unique(texts)
    for i, value in enumerate(values):
        chosen = texts == value
        x, y = places[chosen].T
        colour = colormaps["tab20"](i % 20)
        marker = _MARKERS[i // 20 % len(_MARKERS)]  # 20 colours are told apart
        plot.scatter(x, y, s=5, label=value, color=colour, marker=marker, linewidths=0)
    plot.set_xlabel(f"{axes} 1")
    plot.set_ylabel(f"{axes} 2")
    plot.set_title(f"{plural(len(places), 'cell')} in the latent space", fontsize=10)
    plot.spines[["top", "right"]].set_visible(False)
    plot.legend(
        title=name, markerscale=3, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1),
        ncols=-(-len(values) // _ROWS),
    )  # fmt: skip
    figure.savefig(path, bbox_inches="tight")


def _two_dimensions(latent: Any) -> tuple[Any, str]:
    try:
        import umap
    except ImportError:
        cells = torch.tensor(latent)
        _, _, axes = torch.pca_lowrank(cells, q=min(cells.shape))
        places = (cells @ axes[:, :2]).numpy()
        return np.pad(places, ((0, 0), (0, 2 - places.shape[1]))), "PC"  # a latent space may have 1
    return umap.UMAP(random_state=0, n_jobs=1).fit_transform(latent), "UMAP"
