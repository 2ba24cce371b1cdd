"""Measurements of a model that reads several, such as the genes and proteins of TOTALVI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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

from .loaders import BATCH, PANEL, PROTEINS, REGIONS, X
from .model_classes import name_of
from .registration import Parts, Registration

#: scvi-tools' names of the layers, in its order, and the tensors that they become.
_TENSORS = {"rna_layer": X, "atac_layer": REGIONS, "protein_layer": PROTEINS}

#: Layers that a model needs, and those that it can read, too.
_LAYERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "TOTALVI": (("rna_layer", "protein_layer"), ()),
    "MULTIVI": (("rna_layer", "atac_layer"), ("protein_layer",)),
}

#: Rows of TOTALVI's template for each batch; it draws 100 of them for the prior of its background.
ROWS_OF_A_BATCH = 200
_MOST_ROWS = 50_000


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
        needed, others = _LAYERS[name]
        known = given if isinstance(given, Mapping) else {}
        if not set(needed) <= set(known) <= {*needed, *others}:
            example = ", ".join(f"{layer!r}: …" for layer in needed)
            more = "".join(f" and, if there is one, {layer!r}" for layer in others)
            raise InvalidArgument(
                f"{name} reads several measurements: give modalities={{{example}}}{more}, each the name "
                f"of one, got {described(given)}"
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
        own = cls.of(model_class, given) if given is not None else None
        found = own.layers if own is not None else measurements or {"rna_layer": "RNA", **called}
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
    def rna(self) -> str:
        """Measurement of the genes."""
        return self.layers["rna_layer"]

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
        """Return the names of the features of a layer, by default of the genes."""
        names: npt.NDArray[Any] = cells.var_names[self.layers[layer]].astype(str)
        return names

    def rows(self, batches: int) -> int:
        """Return the least number of rows of a template."""
        return 0 if self.is_mudata else min(_MOST_ROWS, ROWS_OF_A_BATCH * max(1, batches))

    def template(self, genes: Any, cells: Dataset) -> Any:
        """Return a template of genes with the other layers, each feature there in every row."""
        import pandas as pd

        proteins = None
        if self.protein is not None:
            names = self.names(cells, "protein_layer")
            proteins = pd.DataFrame(1, genes.obs_names, names, np.float32)
        if not self.is_mudata:
            genes.obsm[self.called["protein_layer"]] = proteins
            return genes
        import anndata
        import scipy.sparse as sp

        bare = pd.DataFrame(index=genes.obs_names)
        regions = pd.DataFrame(index=self.names(cells, "atac_layer"))
        ones = sp.csr_matrix(
            (genes.X.data, genes.X.indices, genes.X.indptr), (genes.n_obs, len(regions))
        )
        parts = {
            self.called["rna_layer"]: anndata.AnnData(genes.X, bare, genes.var),
            self.called["atac_layer"]: anndata.AnnData(ones, bare.copy(), regions),
        }
        if proteins is not None:
            parts[self.called["protein_layer"]] = anndata.AnnData(proteins)
        return Parts(parts, genes.obs).to_mudata()

    @staticmethod
    def batch_field(registration: Registration) -> str:
        """Return the field by whose categories proteins can be missing."""
        return PANEL if PANEL in registration.fields else BATCH

    def fill(
        self,
        model_class: Any,
        registration: Registration,
        cells: Dataset,
        codes: npt.NDArray[np.int64],
    ) -> None:
        """Put real proteins into the template, and what batches lack into the registry.

        scvi-tools computes the background's prior from proteins of 100 cells of each batch, and takes
        a protein as missing in a batch where all its counts are 0. It takes one pass over the
        proteins of all cells. `codes` are those of `batch_field`, of each cell in stored order.
        """
        if self.protein is None:
            return
        called = self.called["protein_layer"]
        template, field = registration.template, self.batch_field(registration)
        count = len(registration.categories(field))
        key = registration.registry["field_registries"][field]["data_registry"]["attr_key"]
        rows_of = [np.flatnonzero(template.obs[key] == code) for code in range(count)]
        drawn, places = _drawn(codes, rows_of)
        there = np.zeros((count, len(self.names(cells, "protein_layer"))), bool)
        # A copy: to_numpy of a DataFrame cannot be written to from pandas 3 on.
        stored = template[called].X if self.is_mudata else template.obsm[called]
        values = np.array(stored)
        first = 0
        for proteins, _ in self.alone(cells, "protein_layer"):
            own = codes[first : first + len(proteins)]
            for code in np.unique(own):
                there[code] |= (proteins[own == code] != 0).any(axis=0)
            begin, end = np.searchsorted(drawn, (first, first + len(proteins)))
            values[places[begin:end]] = proteins[drawn[begin:end] - first]
            first += len(proteins)
        if self.is_mudata:
            template[called].X = values
        else:
            template.obsm[called].iloc[:, :] = values
        present = np.unique(codes)
        mask = {str(code): there[code] for code in present}
        manager = model_class._setup_adata_manager_store[template.uns["_scvi_uuid"]]
        for registry in (manager.registry, registration.registry):
            state = registry["field_registries"][PROTEINS]["state_registry"]
            state.pop("protein_batch_mask", None)
            if not there[present].all():
                state["protein_batch_mask"] = {code: each.copy() for code, each in mask.items()}


def _drawn(
    codes: npt.NDArray[np.int64], rows_of: list[npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw a cell of its batch for each row of a template; return cells, ascending, and their rows."""
    random = np.random.default_rng(0)
    cells, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for code, places in enumerate(rows_of):
        own = np.flatnonzero(codes == code)
        if len(own):
            cells.append(np.resize(random.permutation(own), len(places)))
            rows.append(places)
    drawn = np.concatenate(cells)
    order = np.argsort(drawn, kind="stable")
    return drawn[order], np.concatenate(rows)[order]


def _with(cells: Dataset, selection: Selection, settings: LoaderSettings | None = None) -> Dataset:
    """Return a dataset of another selection of the same cells."""
    kept = cells.reader.cells
    planner = Planner(selection, settings or kept.planner.settings)
    return cells.with_reader(Reader(kept.with_planner(planner)))
