"""Decoders for the cells of a batch: expression, proteins, accessibility. Imports torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..registry.loaders import BATCH


@dataclass(frozen=True)
class Decoder(ABC):
    """Decoded values of some features, as the mean over some batches; a `RowFunction`.

    The kwargs of `forward` are those of scvi-tools' own call, so that the draws are the same.

    Attributes
    ----------
    places : ndarray or None
        Numbers of the features among those that the model decodes; None for all.
    batches : sequence of int or None
        Codes of batches to decode the cells in; None for a cell's own.
    library_size : float or "latent"
        Sum of a cell's expression, or the model's own; 1 for values that have no sum.
    """

    places: npt.NDArray[np.int64] | None
    batches: Sequence[int | None]
    library_size: float | str

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        total: torch.Tensor | None = None
        for batch in self.batches:
            values = self.decoded(model, tensors, batch)
            if self.places is not None:
                values = values[:, torch.as_tensor(self.places, device=values.device)]
            total = values if total is None else total + values
        assert total is not None
        total = total / len(self.batches) if len(self.batches) > 1 else total
        return total if isinstance(self.library_size, str) else total * self.library_size

    @abstractmethod
    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all features, (cells, features), decoded in one batch."""


class Expression(Decoder):
    """Expression of a SCVI and its relatives."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all genes."""
        _, made = model.module.forward(
            tensors=tensors,
            inference_kwargs={"n_samples": 1},
            generative_kwargs=model._get_transform_batch_gen_kwargs(batch),
            compute_loss=False,
        )
        key = "mu" if self.library_size == "latent" else "scale"
        return made["px"].get_normalized(key)  # type: ignore[no-any-return]


class SampleExpression(Decoder):
    """Expression of a MRVI, of each cell in its own sample."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all genes."""
        _, made = model.module.forward(
            tensors=tensors,
            inference_kwargs={"use_mean": False, "mc_samples": 1},
            generative_kwargs=model._get_transform_batch_gen_kwargs(batch),
            compute_loss=False,
        )
        # The distribution has no scale: `h` is the mean of a count, divided by the cell's sum of counts.
        values = made["px"].mean if self.library_size == "latent" else made["h"]
        return values[0]  # type: ignore[no-any-return]


class GenesBesideProteins(Decoder):
    """Expression of the genes of a TOTALVI."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all genes."""
        parts = _totalvi(model, tensors, batch)["px_"]
        return parts["rate" if self.library_size == "latent" else "scale"]


@dataclass(frozen=True)
class ProteinOptions:
    """Arguments of `penstock.scvi.normalized` for proteins."""

    sample_protein_mixing: bool = False
    scale_protein: bool = False
    include_protein_background: bool = False


@dataclass(frozen=True)
class Proteins(Decoder):
    """Expression of the proteins of a TOTALVI: the foreground, by its probability."""

    options: ProteinOptions = ProteinOptions()

    def with_options(self, options: ProteinOptions) -> Proteins:
        """Return a copy with these options."""
        return replace(self, options=options)

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all proteins."""
        parts = _totalvi(model, tensors, batch)["py_"]
        background = torch.sigmoid(parts["mixing"])
        if self.options.sample_protein_mixing:
            background = torch.bernoulli(background)
        values: torch.Tensor = parts["rate_fore"] * (1 - background)
        if self.options.include_protein_background:
            values = values + parts["rate_back"] * background
        if self.options.scale_protein:
            values = torch.nn.functional.normalize(values, p=1, dim=-1)
        return values


def _totalvi(
    model: Any, tensors: dict[str, torch.Tensor], batch: int | None
) -> dict[str, dict[str, torch.Tensor]]:
    _, made = model.module.forward(
        tensors=tensors,
        inference_kwargs={"n_samples": 1},
        generative_kwargs={"transform_batch": batch},
        compute_loss=False,
    )
    return made  # type: ignore[no-any-return]


class GenesBesideRegions(Decoder):
    """Expression of the genes of a MULTIVI, decoded from the latent means."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all genes."""
        # As in scvi-tools, a MULTIVI that encodes the batch encodes this one.
        given = tensors
        if batch is not None:
            given = {**tensors, BATCH: torch.full_like(tensors[BATCH], batch)}
        _, made = model.module.forward(
            tensors=given,
            inference_kwargs={"n_samples": 1},
            generative_kwargs={"use_z_mean": True},
            compute_loss=False,
        )
        return made["px_scale"]  # type: ignore[no-any-return]


class Accessibility(Decoder):
    """Probability that regions of a PEAKVI or MULTIVI are accessible, from the latent means."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all regions."""
        _, made = model.module.forward(
            tensors=tensors,
            get_generative_input_kwargs={"transform_batch": batch},
            generative_kwargs={"use_z_mean": True},
            compute_loss=False,
        )
        return made["p" if "p" in made else "px"]  # type: ignore[no-any-return]


class Fragments(Expression):
    """Accessibility of the regions of a POISSONVI, without what it learnt of a region."""

    def decoded(
        self, model: Any, tensors: dict[str, torch.Tensor], batch: int | None
    ) -> torch.Tensor:
        """Return the values of all regions."""
        factors = model.module.decoder.px_scale_decoder[-2].bias
        kept = factors.detach().clone()
        factors.data.zero_()
        try:
            return super().decoded(model, tensors, batch)
        finally:
            factors.data.copy_(kept)
