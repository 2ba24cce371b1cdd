"""Outputs of a model for a batch: one row per cell. Imports torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from penstock.base.validation import described
from penstock.errors import InvalidArgument, Unsupported

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


@dataclass(frozen=True)
class Normalized:
    """Decoded expression of some genes, as the mean over some batches."""

    places: npt.NDArray[np.int64] | None
    batches: Sequence[int | None]
    library_size: float | str

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        total: torch.Tensor | None = None
        key = "mu" if self.library_size == "latent" else "scale"
        for batch in self.batches:
            _, made = model.module.forward(
                tensors=tensors,
                inference_kwargs={"n_samples": 1},
                generative_kwargs=model._get_transform_batch_gen_kwargs(batch),
                compute_loss=False,
            )
            values = made["px"].get_normalized(key)
            if self.places is not None:
                values = values[:, torch.as_tensor(self.places, device=values.device)]
            total = values if total is None else total + values
        assert total is not None
        total = total / len(self.batches) if len(self.batches) > 1 else total
        return total if isinstance(self.library_size, str) else total * self.library_size


@dataclass(frozen=True)
class Accessibility:
    """Probability that some regions are accessible, as the mean over some batches (PEAKVI)."""

    places: npt.NDArray[np.int64] | None
    batches: Sequence[int | None]

    def __call__(self, model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """Rows of a batch."""
        rows = []
        for batch in self.batches:
            _, made = model.module.forward(
                tensors=tensors,
                get_generative_input_kwargs={"transform_batch": batch},
                generative_kwargs={"use_z_mean": True},
                compute_loss=False,
            )
            values = made["px"]
            if self.places is not None:
                values = values[:, torch.as_tensor(self.places, device=values.device)]
            rows.append(values)
        return torch.stack(rows).mean(dim=0)


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


def gene_places(
    names: npt.NDArray[Any], genes: Iterable[str] | None
) -> npt.NDArray[np.int64] | None:
    """Return the indices of genes in the model, None for all; raise if a gene is unknown."""
    if genes is None:
        return None
    if isinstance(genes, str):
        raise InvalidArgument(f"genes must be a list of names, got {described(genes)}")
    wanted = [str(gene) for gene in genes]
    places = {name: place for place, name in enumerate(names.tolist())}
    unknown = [gene for gene in wanted if gene not in places]
    if unknown:
        raise InvalidArgument(
            f"the model has no gene {', '.join(map(repr, unknown[:5]))}; its genes are named such as "
            f"{names[0]!r}"
        )
    return np.array([places[gene] for gene in wanted], np.int64)


def batch_codes(model: Any, batches: Any) -> Sequence[int | None]:
    """Return codes of batches, None for a cell's own; raise if a batch is unknown."""
    if batches is None:
        return [None]
    wanted = (
        [batches]
        if isinstance(batches, (str, int)) or not isinstance(batches, Iterable)
        else list(batches)
    )
    if not wanted:
        raise InvalidArgument("transform_batch must name a batch, got an empty list")
    state = model.registry["field_registries"]["batch"]["state_registry"]
    known = np.asarray(state["categorical_mapping"]).tolist()
    for batch in wanted:
        if batch is not None and batch not in known:
            listed = ", ".join(map(repr, known[:5]))
            raise InvalidArgument(f"the model has no batch {batch!r}; it has {listed}, …")
    return [None if batch is None else known.index(batch) for batch in wanted]
