"""What a saved state remembers of the cells, genes and values that it is of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from penstock.base.digest import digest64
from penstock.base.validation import described

if TYPE_CHECKING:
    from .selection import Selection


@dataclass(frozen=True)
class Fingerprint:
    """64-bit fingerprints of all that X of a cell depends on, the same on every machine.

    Not of the place where it is stored: a copy elsewhere is as good. Nor of labels: encoders and
    columns of obs change no batch's cells.
    """

    cells: int
    genes: int
    layer: int  # its name and the measurement's
    transforms: int
    joined: int  # which experiments, in which order, and how their genes are matched; 0 for one

    @classmethod
    def of(cls, selection: Selection) -> Fingerprint:
        """Of a selection as it is now."""
        transforms = selection.transforms
        return cls(
            selection.rows.fingerprint(),
            selection.genes.fingerprint(),
            digest64(json.dumps([selection.measurement, selection.layer]).encode()),
            0 if transforms is None else transforms.fingerprint(),
            selection.experiment.joined_fingerprint,
        )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Fingerprint:
        """Take it from a saved state; KeyError or ValueError where there is none."""
        if not isinstance(state, Mapping):
            raise ValueError(f"selection must be a dict, got {described(state)}")
        values = {each.name: state[each.name] for each in fields(cls)}
        for name, value in values.items():
            if type(value) is not int or not 0 <= value < 2**64:
                raise ValueError(
                    f"{name} of the selection must be an integer from 0 to 2**64 - 1, got "
                    + described(value)
                )
        return cls(**values)

    def state(self) -> dict[str, int]:
        """As a dict of integers."""
        return asdict(self)

    def differences(self, other: Fingerprint) -> str:
        """What differs, in words; empty where all is the same."""
        words = {"joined": "joined experiments or genes matched"}
        found = [
            words.get(each.name, each.name)
            for each in fields(self)
            if getattr(self, each.name) != getattr(other, each.name)
        ]
        return " and ".join(f"other {each}" for each in found)
