"""Measurements of a model that reads several, such as the genes and proteins of TOTALVI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_text, described
from penstock.dataset.dataset import Dataset
from penstock.dataset.reader import Reader
from penstock.errors import InvalidArgument, Unsupported
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.planner import Planner
from penstock.plan.selection import Selection
from penstock.plan.settings import LoaderSettings
from penstock.transforms.steps import SelectGenes

from .loaders import PROTEINS, REGIONS, X
from .model_classes import name_of

#: scvi-tools' names of the layers, in its order, and the tensors that they become.
_TENSORS = {"rna_layer": X, "atac_layer": REGIONS, "protein_layer": PROTEINS}


class _Layers(NamedTuple):
    """Layers of a model."""

    needed: tuple[str, ...]
    one_of: tuple[str, ...]  #: of which it needs one or more
    others: tuple[str, ...]

    def have(self, names: Collection[str]) -> bool:
        """Whether a model can be made of these layers."""
        is_enough = set(self.needed) <= set(names) and (
            not self.one_of or not set(self.one_of).isdisjoint(names)
        )
        return is_enough and set(names) <= {*self.needed, *self.one_of, *self.others}

    def __str__(self) -> str:
        example = ", ".join(f"{layer!r}: …" for layer in self.needed or self.one_of)
        more = " or one of them" if self.one_of else ""
        last = "".join(f" and, if there is one, {layer!r}" for layer in self.others)
        return f"modalities={{{example}}}{more}{last}"


#: What the layers have.
FEATURES = {"rna_layer": "gene", "atac_layer": "region", "protein_layer": "protein"}

_LAYERS = {
    "TOTALVI": _Layers(("rna_layer", "protein_layer"), (), ()),
    "MULTIVI": _Layers((), ("rna_layer", "atac_layer"), ("protein_layer",)),
}


@dataclass(frozen=True)
class Modalities:
    """Measurements of a model.

    Attributes
    ----------
    layers : mapping
        Name of the measurement for each layer, by scvi-tools' name of the layer.
    is_mudata : bool
        Whether scvi-tools sets the model up with a MuData, and not with an AnnData.
    called : mapping
        scvi-tools' name of each layer, which is that of a saved model, or of the measurement.
    """

    layers: Mapping[str, str]
    is_mudata: bool
    called: Mapping[str, str]

    @classmethod
    def of(cls, model_class: Any, given: Any) -> Modalities | None:
        """Check the names that a user gave; None for a model of one measurement.

        Raises
        ------
        InvalidArgument
            The model reads one measurement, or a layer is missing, unknown or no name.
        """
        name = name_of(model_class)
        if name not in _LAYERS:
            if given is not None:
                raise InvalidArgument(f"{name} reads one measurement, so it takes no modalities")
            return None
        known = given if isinstance(given, Mapping) else {}
        if not _LAYERS[name].have(known):
            raise InvalidArgument(
                f"{name} reads several measurements: give {_LAYERS[name]}, each the name of one, "
                f"got {described(given)}"
            )
        return cls._named(name, known)

    @classmethod
    def saved(
        cls,
        model_class: Any,
        registry: Mapping[str, Any],
        measurements: Mapping[str, str] | None,
        given: Any = None,
    ) -> Modalities | None:
        """Return those of a saved model.

        Parameters
        ----------
        registry : mapping
            The model's registry.
        measurements : mapping, optional
            Measurements that the model was trained with here, if it was.
        given : mapping, optional
            Measurements of other cells, as a user gave them.

        Raises
        ------
        InvalidArgument
            A user gave other layers than the model reads.
        Unsupported
            scvi-tools set the model up in a way that has no counterpart here.
        """
        name, setup = name_of(model_class), registry["setup_args"]
        if name not in _LAYERS:
            return None
        if name == "MULTIVI":
            called = {key: each for key, each in setup["modalities"].items() if each is not None}
        else:
            called = {"protein_layer": setup.get("protein_expression_obsm_key")}
        names = {key: setup.get(key) for key in _TENSORS}
        if not set(called) <= set(_TENSORS) or None in called.values() or any(names.values()):
            raise Unsupported(
                f"the {name} was set up in a way that is not mapped on: TOTALVI is by setup_anndata, "
                "and MULTIVI by setup_mudata(mdata, modalities={'rna_layer': …, 'atac_layer': …}) with X "
                "of each modality and keys in mdata.obs"
            )
        first = {} if name == "MULTIVI" else {"rna_layer": "RNA"}
        own = cls.of(model_class, given) if given is not None else None
        if own is not None and set(own.layers) != {*first, *called}:
            layers = " and ".join(map(repr, [*first, *called]))
            raise InvalidArgument(
                f"the model reads {layers}: give modalities= a name for each of these, got "
                f"{described(given)}"
            )
        found = own.layers if own is not None else measurements or {**first, **called}
        made = cls._named(name, found)
        return replace(made, called={**made.layers, **called})

    @classmethod
    def _named(cls, model: str, names: Mapping[str, Any]) -> Modalities:
        layers = {
            layer: checked_text(f"modalities[{layer!r}]", names[layer])
            for layer in _TENSORS
            if names.get(layer) is not None
        }
        return cls(layers, model == "MULTIVI", layers)

    @property
    def first(self) -> str:
        """The first layer, of genes or, if the model reads none, of regions."""
        return next(iter(self.layers))

    @property
    def protein(self) -> str | None:
        """Measurement of the proteins, if there are some."""
        return self.layers.get("protein_layer")

    @property
    def tensors(self) -> dict[str, str]:
        """Measurement of each tensor."""
        return {_TENSORS[layer]: name for layer, name in self.layers.items()}

    @property
    def tensor_of(self) -> dict[str, str]:
        """Tensor of each layer."""
        return {layer: _TENSORS[layer] for layer in self.layers}

    def selection(self, cells: Dataset, layer: str) -> Selection:
        """Return the selection of a layer."""
        selection = cells.reader.selection
        assert isinstance(selection, SeveralMeasurements)
        return selection.parts[self.layers[layer]].selection

    def alone(self, cells: Dataset, layer: str) -> Dataset:
        """Return all cells of one layer in stored order, dense."""
        settings = replace(
            cells.reader.settings, shuffle=False, sparse=None, dtype="float32", batch_size=1024,
            drop_last=False, min_batch=1, shard=False, rank=None, world_size=None, device=None,
            sampling=None, keep=False, uneven="drop",
        )  # fmt: skip
        return _with(cells, self.selection(cells, layer), settings)

    @property
    def setup_arguments(self) -> dict[str, Any]:
        """Arguments of ``setup_anndata`` or ``setup_mudata``."""
        if self.is_mudata:
            return {"modalities": dict(self.called)}
        return {"protein_expression_obsm_key": self.called["protein_layer"]}

    def dataset_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of a Dataset, with these measurements unless they are given."""
        return {"measurements": list(self.layers.values()), **arguments}

    def checked(self, cells: Dataset) -> Dataset:
        """Return the cells with counts as float32; proteins are dense, the rest as the loader has it.

        Raises
        ------
        InvalidArgument
            The Dataset has other measurements, or one has transforms.
        """
        selection = cells.reader.selection
        names = list(self.layers.values())
        if not isinstance(selection, SeveralMeasurements) or set(selection.parts) != set(names):
            raise InvalidArgument(
                f"the model reads {' and '.join(map(repr, names))}: make the Dataset with "
                f"measurements={names!r}; or, if its measurements have other names, make a DataModule "
                "(for a trained model by from_model) with modalities="
            )
        parts = {}
        for name in names:
            part = selection.parts[name]
            if part.chain is not None:
                steps = ", ".join(type(each).__name__ for each in part.chain.steps)
                raise InvalidArgument(
                    f"the model takes counts, but {name} has transforms ({steps}): remove them; to "
                    "choose genes, use var_query"
                )
            own = {"sparse": None} if name == self.protein else {}
            parts[name] = replace(part, given={"dtype": "float32", **own})
        return _with(cells, replace(SeveralMeasurements.of(parts), kept=selection.kept))

    def with_features(
        self, cells: Dataset, layer: str, wanted: npt.NDArray[Any], column: str | None
    ) -> Dataset:
        """Return the cells with the wanted features of a layer as columns, zero where they lack one."""
        selection = cells.reader.selection
        assert isinstance(selection, SeveralMeasurements)
        name = self.layers[layer]
        part = selection.parts[name]
        steps = [SelectGenes(wanted.tolist(), column=column, missing="zero")]
        parts = {
            **selection.parts,
            name: replace(part, selection=part.selection.with_transforms(steps)),
        }
        return _with(cells, replace(selection, parts=parts))

    def names(self, cells: Dataset, layer: str = "rna_layer") -> npt.NDArray[Any]:
        """Return the names of the features of a layer, by default of the genes; none if it is not read."""
        if layer not in self.layers:
            return np.empty(0, "U1")
        names: npt.NDArray[Any] = cells.var_names[self.layers[layer]].astype(str)
        return names


def _with(cells: Dataset, selection: Selection, settings: LoaderSettings | None = None) -> Dataset:
    """Return a dataset of another selection of the same cells."""
    kept = cells.reader.cells
    planner = Planner(selection, settings or kept.planner.settings)
    return cells.with_reader(Reader(kept.with_planner(planner)))
