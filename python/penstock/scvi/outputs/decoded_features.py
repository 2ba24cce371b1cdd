"""The decoder for a model and a kind of features, and the names of what it decodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.suggestions import did_you_mean
from penstock.base.validation import described
from penstock.errors import InvalidArgument

from ..registry.loaders import BATCH, PROTEINS, REGIONS, X
from ..registry.model_classes import name_of
from ..registry.registration import Registration
from .decoders import (
    Accessibility,
    Decoder,
    Expression,
    Fragments,
    GenesBesideProteins,
    GenesBesideRegions,
    ProteinOptions,
    Proteins,
    SampleExpression,
)

GENES_OF, PROTEINS_OF, REGIONS_OF = "genes", "proteins", "regions"
_TENSORS = {GENES_OF: X, PROTEINS_OF: PROTEINS, REGIONS_OF: REGIONS}

#: Decoders by kind of features; the first is the default. Models that are not named have `_ONE`.
_ONE: dict[str, type[Decoder]] = {GENES_OF: Expression}
_DECODERS: dict[str, dict[str, type[Decoder]]] = {
    "MRVI": {GENES_OF: SampleExpression},
    "TOTALVI": {GENES_OF: GenesBesideProteins, PROTEINS_OF: Proteins},
    "MULTIVI": {GENES_OF: GenesBesideRegions, REGIONS_OF: Accessibility},
    "PEAKVI": {REGIONS_OF: Accessibility},
    "POISSONVI": {REGIONS_OF: Fragments},
}

#: Why a decoder takes no library size.
_NO_LIBRARY: dict[type[Decoder], str] = {
    Accessibility: "which are probabilities",
    Proteins: "which have no library size: for shares, use scale_protein=True",
    GenesBesideRegions: "which are shares of a cell's counts: multiply the values",
}


class Decoded(NamedTuple):
    """A decoder, and the names of its columns."""

    decoder: Decoder
    names: npt.NDArray[Any]


def decoded_features(
    model: Any,
    of: str | None,
    features: Iterable[str] | None,
    transform_batch: Any,
    library_size: Any,
    options: ProteinOptions,
) -> Decoded:
    """Return the decoder for arguments of `penstock.scvi.normalized`.

    Raises
    ------
    InvalidArgument
        The model does not decode such features, has no such feature or batch, or an argument does
        not apply to them.
    """
    _check_library_size(library_size)
    kinds = _kinds(model)
    kind = next(iter(kinds)) if of is None else of
    name = name_of(type(model))
    if not isinstance(kind, str) or kind not in kinds:
        listed = " or ".join(map(repr, kinds))
        raise InvalidArgument(f"of must be {listed} for this {name}, got {described(of)}")
    made = kinds[kind]
    if library_size != 1 and made in _NO_LIBRARY:
        raise InvalidArgument(
            f"library_size must be 1 for the {kind} of a {name}, {_NO_LIBRARY[made]}; "
            f"got {described(library_size)}"
        )
    names = _names(model, kind)
    places = _places(names, kind, features)
    decoder = made(places, batch_codes(model, transform_batch), library_size)
    if isinstance(decoder, Proteins):
        decoder = decoder.with_options(options)
    else:
        _check_no_options(options)
    return Decoded(decoder, names if places is None else names[places])


def _kinds(model: Any) -> dict[str, type[Decoder]]:
    """Return the decoders of a model for the features that it has."""
    kinds = _DECODERS.get(name_of(type(model)), _ONE)
    if len(kinds) == 1:
        return kinds
    return {kind: made for kind, made in kinds.items() if len(_names(model, kind))}


def _names(model: Any, kind: str) -> npt.NDArray[Any]:
    registered = Registration(None, model.registry)
    # A model of one measurement has it as X, also if it is of regions.
    is_one = len(_DECODERS.get(name_of(type(model)), _ONE)) == 1
    return np.asarray(registered.columns(X if is_one else _TENSORS[kind])).astype(str)


def _check_no_options(options: ProteinOptions) -> None:
    for field in fields(options):
        if getattr(options, field.name):
            raise InvalidArgument(f"{field.name} is for of='proteins', which a TOTALVI has")


def _check_library_size(value: Any) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and float(value) > 0) and not (isinstance(value, str) and value == "latent"):
        raise InvalidArgument(
            f"library_size must be a number above 0 or 'latent', got {described(value)}"
        )


def _places(
    names: npt.NDArray[Any], kind: str, features: Iterable[str] | None
) -> npt.NDArray[np.int64] | None:
    """Return the indices of features in the model, None for all; raise if one is unknown."""
    if features is None:
        return None
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise InvalidArgument(f"genes must be a list of names, got {described(features)}")
    wanted = [str(each) for each in features]
    places = {name: place for place, name in enumerate(names.tolist())}
    unknown = [each for each in wanted if each not in places]
    if unknown:
        raise InvalidArgument(
            f"the model has no {kind[:-1]} {', '.join(map(repr, unknown[:5]))}; its {kind} are named "
            f"such as {str(names[0])!r}"
        )
    return np.array([places[each] for each in wanted], np.int64)


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
    known = Registration(None, model.registry).categories(BATCH).tolist()
    for batch in wanted:
        if batch is not None and batch not in known:
            listed = ", ".join(map(repr, known[:5]))
            meant = did_you_mean(batch, map(str, known)) if isinstance(batch, str) else ""
            raise InvalidArgument(
                f"the model has no batch {batch!r}{f'{meant} It' if meant else '; it'} has {listed}"
                + (", …" if len(known) > 5 else "")
            )
    return [None if batch is None else known.index(batch) for batch in wanted]
