"""One act of the demo: stream and split an experiment, and train a classifier on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.base.text import plural
from penstock.dataset.dataset import Dataset
from penstock.encoders import LabelEncoder
from penstock.errors import InvalidArgument
from penstock.experiment.experiment import Experiment

from .classifier import Classifier, History

VALIDATION_SHARE = 0.2
MOST_CLASSES = 1000


@dataclass
class Job:
    """Settings of a training."""

    experiment: Experiment
    label: str
    measurement: str = "RNA"
    layer: str | None = None
    obs_query: str | None = None
    epochs: int = 3
    batch_size: int = 128
    memory_budget: int | str = "1GiB"


@dataclass
class Streamed:
    """Measurements of one epoch without a model."""

    cells: int = 0
    nonzeros: int = 0
    seconds: float = 0.0
    first_batch_seconds: float = 0.0
    peak_bytes: int = 0
    read_bytes: int = 0

    @property
    def cells_per_second(self) -> float:
        """Speed, in cells a second."""
        return self.cells / self.seconds if self.seconds else 0.0


@dataclass
class Result:
    """Measurements of an act."""

    title: str
    label: str
    note: str = ""  # what the plot shows about shuffling, if it is known
    classes: list[str] = field(default_factory=list)
    streamed: Streamed = field(default_factory=Streamed)
    histories: dict[str, History] = field(default_factory=dict)


#: Makes a progress bar: (description, total) to a callable that advances it.
Progress = Callable[[str, int], Callable[[int], Any]]


def check_label(job: Job) -> None:
    """Raise if a classifier cannot learn the label from the selected cells.

    Raises
    ------
    NotFound
        obs has no such column.
    InvalidArgument
        There are too few cells, the values are not classes, or the number of classes is below two
        or too large.
    """
    labels = job.experiment.obs.read([job.label], job.obs_query)[job.label]
    if len(labels) < 10:
        where = "in obs" if job.obs_query is None else f"selected by {job.obs_query!r}"
        raise InvalidArgument(f"a classifier needs 10 cells or more, {len(labels)} are {where}")
    distinct = labels.distinct()
    column = f"obs column {job.label!r}"
    if distinct.dtype.kind == "f":
        raise InvalidArgument(
            f"a classifier needs labels that are names or whole numbers, {column} holds "
            f"{distinct.dtype} values"
        )
    if len(distinct) < 2:
        raise InvalidArgument(
            f"a classifier needs two classes or more, {column} has {len(distinct)} in the cells "
            "selected"
        )
    if len(distinct) > MOST_CLASSES or 2 * len(distinct) > len(labels):
        raise InvalidArgument(
            f"a classifier needs at most {MOST_CLASSES} classes and two cells of each, {column} "
            f"has {plural(len(distinct), 'distinct value')} in {plural(len(labels), 'cell')}"
        )


def stream(job: Job, progress: Progress) -> Streamed:
    """Stream all selected cells once, shuffled, as CSR."""
    start = time.perf_counter()
    cells = Dataset(
        job.experiment,
        measurement=job.measurement,
        layer=job.layer,
        obs_query=job.obs_query,
        batch_size=job.batch_size,
        memory_budget=job.memory_budget,
        sparse=True,
    )
    advance = progress("stream", cells.n_obs)
    seen = Streamed()
    for X, _ in cells:
        if not seen.cells:
            seen.first_batch_seconds = time.perf_counter() - start
        seen.cells += X.shape[0]
        advance(X.shape[0])
    seen.seconds = time.perf_counter() - start
    stats = cells.stats
    seen.nonzeros, seen.read_bytes = stats.nonzeros, stats.bytes_read
    seen.peak_bytes = stats.peak_buffered_bytes
    return seen


def datasets(job: Job, shuffle: bool) -> tuple[Dataset, Dataset, LabelEncoder]:
    """Return training and validation cells; `shuffle` does not change the split."""
    encoder = LabelEncoder(job.label)
    cells = Dataset(
        job.experiment,
        measurement=job.measurement,
        layer=job.layer,
        obs_query=job.obs_query,
        obs_columns=[],
        encoders=[encoder],
        batch_size=job.batch_size,
        shuffle=shuffle,
        memory_budget=job.memory_budget,
        obs_format="torch",
        format="torch",
    )
    train, validation = cells.random_split(1 - VALIDATION_SHARE, VALIDATION_SHARE, seed=0)
    return train, validation, encoder


def train(job: Job, shuffle: bool, progress: Progress) -> tuple[History, list[str]]:
    """Train for `job.epochs` epochs; return the history and the classes."""
    training, validation, encoder = datasets(job, shuffle)
    model = Classifier(training.n_vars, len(encoder.classes_), encoder.name)
    history = History()
    for number in range(job.epochs):
        advance = progress(f"epoch {number + 1}", training.n_obs)
        epoch = model.train_epoch(training, history, advance)
        epoch.validation_accuracy = model.accuracy(validation)
    return history, [str(name) for name in encoder.classes_]
