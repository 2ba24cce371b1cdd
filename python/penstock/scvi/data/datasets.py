"""Datasets with the settings that a data module needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.validation import described
from penstock.batches.format import BatchFormat
from penstock.dataset.dataset import Dataset
from penstock.dataset.reader import Reader
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument
from penstock.plan.epoch_size import warn_of_empty_parts
from penstock.plan.measurements import SeveralMeasurements
from penstock.transforms import SelectGenes

if TYPE_CHECKING:
    from ..registry.modalities import Modalities

#: Names of the parts, in the order of `part_sizes`.
_PARTS = ("the training part", "the validation part", "the test part")


def checked_cells(
    data: Any,
    arguments: Mapping[str, Any] | None,
    batch_size: int | None,
    modalities: Modalities | None = None,
    default_batch_size: int = 128,
) -> Dataset:
    """Return a Dataset of counts, of the measurements of `modalities` if there are some.

    Raises
    ------
    InvalidArgument
        Dataset arguments are given with a Dataset, or X holds no counts: it has other transforms
        than `SelectGenes`.
    """
    given = dict(arguments or {})
    if isinstance(data, Dataset):
        if given:
            raise InvalidArgument(
                f"data is a Dataset already: give it {', '.join(given)} when it is made"
            )
        cells = data
    else:
        if modalities is not None:
            given = modalities.dataset_arguments(given)
        cells = Dataset(data, **{"batch_size": default_batch_size, **given})
    if not cells.n_obs:
        query = given.get("obs_query")
        by = "the Dataset" if query is None else f"obs_query={query!r}"
        raise InvalidArgument(f"no cell is selected by {by}")
    if modalities is not None:
        cells = modalities.checked(cells)
    elif isinstance(cells.reader.selection, SeveralMeasurements):
        raise InvalidArgument(
            "the model reads one measurement, but the Dataset was made with measurements=: make it with "
            "measurement=, the name of the one"
        )
    elif others := [each for each in cells.transforms if not isinstance(each, SelectGenes)]:
        names = ", ".join(getattr(each, "__name__", type(each).__name__) for each in others)
        raise InvalidArgument(
            f"the model takes counts, but X has transforms ({names}): leave them out. SelectGenes is "
            "fine, since it chooses genes and keeps the counts"
        )
    changes: dict[str, Any] = {"drop_last": False, "pad_column": None, "device": None}
    if batch_size is not None:
        changes["batch_size"] = batch_size
    kept = cells.reader.cells
    plain = cells.with_reader(Reader(kept.with_encoders([], kept.format)))
    return plain.with_settings(
        dtype="float32",
        sparse=False,
        format="numpy",
        obs_format="arrays",
        obs_columns=[],
        **changes,
    )


def encoded(cells: Dataset, encoders: Sequence[Encoder]) -> Dataset:
    """Return the cells with these fitted encoders in place of their own."""
    kept = cells.reader.cells
    form = BatchFormat.checked(encoders, kept.planner, **kept.format.given)
    return cells.with_reader(Reader(kept.with_encoders(list(encoders), form)))


def evaluated(part: Dataset) -> Dataset:
    """Return the cells in stored order, each once over all ranks."""
    return part.with_settings(shuffle=False, uneven="exact", drop_last=False, min_batch=1)


def all_codes(part: Dataset, name: str) -> npt.NDArray[np.int64]:
    """Return the output of an encoder for all cells in stored order, without reading X."""
    rows = part.reader.cells.obs_batches().encoded[name]
    codes: npt.NDArray[np.int64] = rows.take(np.arange(part.n_obs, dtype=np.int64))
    return codes


def part_sizes(
    n_obs: int, train_size: float, validation_size: float | None
) -> tuple[int, int, int]:
    """Return the numbers of training, validation and test cells, rounded as scvi-tools does.

    Warn with `NoCellsWarning` if a part with a share above 0 gets no cells.

    Raises
    ------
    InvalidArgument
        The shares are not between 0 and 1, or their sum exceeds 1.
    """
    for name, size in (("train_size", train_size), ("validation_size", validation_size)):
        if size is None and name == "validation_size":
            continue
        if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 <= size <= 1:
            raise InvalidArgument(f"{name} must be a share, 0 to 1, got {described(size)}")
    if not train_size:
        raise InvalidArgument("train_size must be above 0")
    # Rounding makes shares such as 0.1 * 3 slightly too large.
    train = min(n_obs, math.ceil(train_size * n_obs - 1e-9))
    if validation_size is None:
        if train_size < 1:
            warn_of_empty_parts(_PARTS[:2], [train, n_obs - train])
        return train, n_obs - train, 0
    if train_size + validation_size > 1 + 1e-9:
        raise InvalidArgument(
            f"train_size and validation_size sum to more than 1: {train_size} and {validation_size}"
        )
    validation = min(n_obs - train, math.floor(validation_size * n_obs + 1e-9))
    sizes = (train, validation, n_obs - train - validation)
    shares = (train_size, validation_size, 1 - train_size - validation_size)
    wanted = [share > 1e-9 for share in shares]
    warn_of_empty_parts(list(compress(_PARTS, wanted)), list(compress(sizes, wanted)))
    return sizes
