"""Fingerprint of the cells, genes and values that a state dict belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock import _core
from penstock.base.digest import digest64

from .measurements import SeveralMeasurements

if TYPE_CHECKING:
    from .selection import Selection


def fingerprint_of(selection: Selection) -> _core.SelectionFingerprint:
    """Return fingerprints of everything that X of a cell depends on, equal on every machine.

    They do not depend on where the cells are stored, nor on encoders and columns of obs.
    """
    if not isinstance(selection, SeveralMeasurements):
        return _core.SelectionFingerprint(*_numbers(selection))
    cells, *others = zip(
        *(_numbers(part.selection) for part in selection.parts.values()), strict=True
    )
    # 0 says that there are no transforms, and no joined experiments.
    digests = [digest64(json.dumps(each).encode()) if any(each) else 0 for each in others]
    return _core.SelectionFingerprint(cells[0], *digests)


def _numbers(selection: Selection) -> tuple[int, int, int, int, int]:
    """Return the fingerprints of cells, genes, layer, transforms and joined experiments."""
    transforms = selection.transforms
    return (
        selection.rows.fingerprint(),
        selection.genes.fingerprint(),
        digest64(json.dumps([selection.measurement, selection.layer]).encode()),
        0 if transforms is None else transforms.fingerprint(),
        selection.experiment.joined_fingerprint,
    )
