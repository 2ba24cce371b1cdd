"""Logistic regression of cell types on expression, as in the Census's article on its loaders."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument

_COUNTS_A_CELL = 10_000.0


@dataclass
class Epoch:
    """One pass over the training cells."""

    cells: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    train_accuracy: float = 0.0
    validation_accuracy: float = 0.0

    @property
    def cells_per_second(self) -> float:
        """Training speed, in cells a second."""
        return self.cells / self.seconds if self.seconds else 0.0


@dataclass
class History:
    """Losses, accuracies and speeds of a training."""

    epochs: list[Epoch] = field(default_factory=list)
    batch_losses: list[float] = field(default_factory=list)


def log_normalized(X: torch.Tensor) -> torch.Tensor:
    """Return log1p of counts scaled to 10,000 a cell, computed in place."""
    total = X.sum(dim=1, keepdim=True).clamp_(min=1)
    return X.mul_(_COUNTS_A_CELL / total).log1p_()


class Classifier:
    """A linear layer from genes to classes, trained batch by batch.

    Parameters
    ----------
    n_genes, n_classes : int
        Size of the layer.
    label : str
        Key of the codes in obs; cells with code -1 are left out.
    learning_rate : float
        Learning rate of Adam.
    """

    def __init__(
        self, n_genes: int, n_classes: int, label: str, learning_rate: float = 1e-3
    ) -> None:
        torch.manual_seed(0)
        self._label = label
        self._layer = torch.nn.Linear(n_genes, n_classes)
        torch.nn.init.zeros_(self._layer.weight)
        self._loss = torch.nn.CrossEntropyLoss(ignore_index=-1)
        self._optimizer = torch.optim.Adam(self._layer.parameters(), lr=learning_rate, fused=True)

    def train_epoch(self, cells: Dataset, history: History, advance: Callable[[int], Any]) -> Epoch:
        """Train on one epoch of `cells`; `advance` is called with the cells of each batch.

        Raises
        ------
        InvalidArgument
            The loss is not a number, as with values that are not counts.
        """
        epoch = Epoch()
        correct, labelled, total_loss = 0, 0, 0.0
        start = time.perf_counter()
        for X, obs in cells:
            labels = obs[self._label]
            advance(len(labels))
            epoch.cells += len(labels)
            known = int((labels >= 0).sum())
            if known == 0:  # the mean loss of zero cells is NaN
                continue
            logits = self._layer(log_normalized(X))
            loss = self._loss(logits, labels)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
            history.batch_losses.append(float(loss.detach()))
            if not math.isfinite(history.batch_losses[-1]):
                raise InvalidArgument(
                    "the classifier needs counts, but its loss is not a number: X has values that are "
                    "negative or NaN; choose a layer of counts with --layer"
                )
            correct += int((logits.detach().argmax(dim=1) == labels).sum())
            total_loss += history.batch_losses[-1] * known
            labelled += known
        epoch.seconds = time.perf_counter() - start
        epoch.loss = total_loss / max(1, labelled)
        epoch.train_accuracy = correct / max(1, labelled)
        history.epochs.append(epoch)
        return epoch

    @torch.no_grad()
    def accuracy(self, cells: Dataset) -> float:
        """Return the share of cells whose class is predicted correctly."""
        correct = total = 0
        for X, obs in cells:
            labels = obs[self._label]
            known = labels >= 0
            predicted = self._layer(log_normalized(X)).argmax(dim=1)
            correct += int((predicted == labels)[known].sum())
            total += int(known.sum())
        return correct / max(1, total)
