"""Differential abundance of stored cells, by scvi-tools' own computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock.base.validation import checked_int, checked_number, checked_text, described
from penstock.errors import InvalidArgument, Unsupported
from penstock.genes.statistics import group_codes
from penstock.inference.rows import Rows, checked_out, create, finished, rows_file

from ..registry.model_classes import model_class, name_of
from .inference import latent
from .inference_rows import aligned_cells, device_of


def differential_abundance(
    model: Any,
    data: Any,
    sample_key: str,
    *,
    num_cells_posterior: int | None = None,
    dof: float | None = None,
    seed: int = 0,
    batch_size: int = 512,
    devices: int | str = "auto",
    accelerator: str = "auto",
    out: Any = None,
    dataset: dict[str, Any] | None = None,
) -> Rows:
    """Return how likely each cell is in each sample: scvi-tools' ``differential_abundance``.

    The density of a sample is a mixture of the latent distributions of its cells, with equal
    weights. A value is the logarithm of it at the latent mean of a cell.

    Parameters
    ----------
    model, data, batch_size, devices, accelerator, out, dataset
        See `latent`.
    sample_key : str
        Column of obs with the samples. Cells without a value are in no mixture.
    num_cells_posterior : int, optional
        Most cells in a mixture, chosen at random; by default all. Time is the number of cells times
        the number of cells in mixtures: for more than some 10,000 cells, give one.
    dof : float, optional
        Degrees of freedom of Student's distributions; by default they are normal.
    seed : int, default 0
        Seed of the choice.

    Returns
    -------
    Rows
        ``values`` float32, (cells, samples), in stored order; ``columns`` are the samples, sorted.
        Latent variables of all cells are held in memory, 8 bytes for each variable of a cell.

    Notes
    -----
    scvi-tools up to 1.5.1 takes variances for scales here, which its pull request 3789 mends. For
    ``latent_distribution="ln"``, densities and means are those of the normal variables.

    Raises
    ------
    InvalidArgument, NotFound, Unsupported
        An argument is invalid, the column does not exist, or the model is a MRVI, which compares samples
        in a way of its own.
    """
    if name_of(model_class(model)) == "MRVI":
        raise Unsupported(
            "a MRVI has a differential_abundance of its own, which needs cells in memory: save the model, and "
            "load it with an AnnData of them"
        )
    device = device_of(accelerator)
    most = num_cells_posterior
    if most is not None:
        most = checked_int("num_cells_posterior", most, least=1)
    if dof is not None:
        dof = checked_number("dof", dof)
        if not 0 < dof < np.inf:
            raise InvalidArgument(f"dof must be a number above 0, got {described(dof)}")
    seed = checked_int("seed", seed, least=0, most=2**63 - 1)
    path = checked_out(out)
    cells = aligned_cells(model, data, dataset)
    samples = group_codes(cells.dataset, checked_text("sample_key", sample_key))
    rows = latent(
        model,
        cells,
        return_dist=True,
        batch_size=batch_size,
        devices=devices,
        accelerator=accelerator,
    )
    means, variances = (torch.from_numpy(each).to(device) for each in np.hsplit(rows.values, 2))
    random = np.random.default_rng(seed)
    chosen = []
    for sample in range(len(samples.values)):
        places = np.flatnonzero(samples.codes == sample)
        if most is not None and most < len(places):
            places = np.sort(random.choice(places, most, replace=False))
        chosen.append(places)
    mixtures = [_Mixture(means[places], variances[places].sqrt(), dof) for places in chosen]
    shape = cells.n_obs, len(samples.values)
    with rows_file(path) as file:
        values: Any = (
            np.empty(shape, np.float32) if path is None else create(file, shape, "float32")
        )
        # Rows are written once, in order: a file may be larger than memory.
        size = max(1, _PAIRS // (max(len(each) for each in chosen) * means.shape[1]))
        for begin in range(0, shape[0], size):
            points = means[begin : begin + size]
            densities = [mixture.log_density(points) for mixture in mixtures]
            values[begin : begin + size] = torch.stack(densities, dim=1).cpu().numpy()
        if path is not None:
            values.flush()
            values = finished(file, rows.joinids, path)
    index_name = cells.dataset.obs.index_name
    return Rows(values, rows.joinids, np.asarray(samples.values), _index_name=index_name)


#: Most pairs of a cell and a component at once.
_PAIRS = 1 << 22


class _Mixture:
    """Mixture of distributions of independent variables with equal weights."""

    def __init__(self, means: torch.Tensor, scales: torch.Tensor, dof: float | None) -> None:
        of = torch.distributions
        each = of.Normal(means, scales) if dof is None else of.StudentT(dof, means, scales)
        self._count = len(means)
        self._components = of.Independent(each, 1)

    def log_density(self, points: torch.Tensor) -> torch.Tensor:
        """Log densities of points, (cells,)."""
        each = self._components.log_prob(points[:, None, :])  # type: ignore[no-untyped-call]
        return torch.logsumexp(each, dim=1) - float(np.log(self._count))
