"""Outputs of a model for a batch: one row per cell. Imports torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from penstock.errors import Unsupported

from ..registry.loaders import BATCH, CATEGORICAL, CONTINUOUS, LABELS, X
from ..registry.model_classes import name_of

#: (model, tensors of a batch) -> (cells,) or (cells, columns).
RowFunction = Callable[[Any, dict[str, torch.Tensor]], torch.Tensor]


@dataclass(frozen=True)
class Latent:
    """Means of the latent variables, and optionally their variances."""

    return_dist: bool

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        module = model.module
        outputs_ = module.inference(**module._get_inference_input(tensors))
        qz = _posterior(outputs_)
        mean = qz.loc
        if self.return_dist:
            return torch.cat([mean, qz.scale.square()], dim=1)
        if getattr(module, "latent_distribution", None) == "ln":
            # The mean has no closed form; scvi-tools estimates it from as many samples.
            samples = torch.nn.functional.softmax(qz.sample([5_000]), dim=-1)
            return samples.mean(dim=0)
        return mean  # type: ignore[no-any-return]


def _posterior(outputs_: dict[str, Any]) -> Any:
    """Return the distribution of the latent variables; for MRVI, of ``u``."""
    if "qz_m" in outputs_:  # MULTIVI's
        return torch.distributions.Normal(outputs_["qz_m"], outputs_["qz_v"].sqrt())
    return outputs_["qu"] if "qu" in outputs_ else outputs_["qz"]


class Elbo:
    """Evidence lower bound."""

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        takes = inspect.signature(model.module._get_inference_input).parameters
        whole = {"full_forward_pass": True} if "full_forward_pass" in takes else {}
        _, _, losses = model.module(tensors, get_inference_input_kwargs=whole)
        made = -(_summed(losses.reconstruction_loss) + _summed(losses.kl_local))
        if made.ndim != 1:
            raise Unsupported(
                f"scvi-tools has no ELBO of a cell for a {name_of(type(model))} with labels: its "
                "divergence is of pairs of cells; make the model without labels_key"
            )
        return made


@dataclass(frozen=True)
class Labels:
    """Codes of labels, or probabilities of labels."""

    soft: bool

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        scores = self.scores(model, tensors)
        if not self.soft:
            return scores.argmax(dim=1).to(torch.int32)
        if model.module.classifier.logits:
            scores = torch.nn.functional.softmax(scores, dim=-1)
        return scores

    def scores(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Scores of labels, (cells, labels)."""
        return model.module.classify(  # type: ignore[no-any-return]
            tensors[X],
            batch_index=tensors[BATCH],
            cat_covs=tensors.get(CATEGORICAL),
            cont_covs=tensors.get(CONTINUOUS),
            use_posterior_mean=True,
        )


class FineLabels(Labels):
    """Codes of fine labels, or probabilities of them, from the latent means (CondSCVI)."""

    def scores(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Scores of fine labels, (cells, fine labels)."""
        means = Latent(False)(model, tensors)
        return model.module.classify(means, label_index=tensors[LABELS])  # type: ignore[no-any-return]


def _summed(values: Any) -> torch.Tensor:
    return sum(values.values()) if isinstance(values, dict) else values  # type: ignore[return-value]
