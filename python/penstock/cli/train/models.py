"""Models that ``penstock train`` trains: the options of each, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Options that only some models take.
OF_SOME = (
    "protein", "regions", "labels_key", "fine_labels_key", "sample_key", "unlabeled",
    "n_samples_per_label", "categorical", "continuous",
)  # fmt: skip
_COVARIATES = ("categorical", "continuous")


@dataclass(frozen=True)
class Model:
    """A model of scvi-tools.

    Attributes
    ----------
    name : str
        Name of its class. The command is the same in lower case.
    what : str
        What the model learns.
    takes : sequence of str
        Those of `OF_SOME` that it takes.
    examples : sequence of str
        Ends of command lines, after ``penstock train MODEL``.
    patience : int or None
        Epochs after the best one at which scvi-tools stops by default; None: never.
    """

    name: str
    what: str
    takes: Sequence[str]
    examples: Sequence[str]
    patience: int | None = None

    @property
    def command(self) -> str:
        """Name of the command."""
        return self.name.lower()


_MODELS = (
    Model(
        "SCVI", "latent variables of cells, from counts of genes", ("labels_key", *_COVARIATES),
        ("pbmc3k --plot cell_type", "cells.h5ad --batch-key donor_id --n-top-genes 2000 --devices 2"),
    ),
    Model(
        "LinearSCVI", "latent variables with a linear decoder: loadings of genes", ("labels_key",),
        ("pbmc3k --latent 8", "cells.h5ad --batch-key donor_id --n-top-genes 2000"),
    ),
    Model(
        "SCANVI", "latent variables and cell types, from some labelled cells",
        ("labels_key", "unlabeled", "n_samples_per_label", *_COVARIATES),
        ("pbmc3k --labels-key cell_type --unlabeled unknown",
         "cells.h5ad --labels-key cell_type --unlabeled unknown --n-samples-per-label 100"),
    ),
    Model(
        "CondSCVI", "latent variables within labels, for deconvolution of spots",
        ("labels_key", "fine_labels_key", "unlabeled"),
        ("pbmc3k --labels-key cell_type", "cells.h5ad --labels-key cell_type --fine-labels-key subtype"),
    ),
    Model(
        "PEAKVI", "latent variables from accessible regions (ATAC)", ("labels_key", *_COVARIATES),
        ("cells.h5mu --measurement atac", "cells.h5mu --measurement atac --batch-key donor_id"),
        patience=50,
    ),
    Model(
        "POISSONVI", "latent variables from counts of fragments (ATAC)", ("labels_key", *_COVARIATES),
        ("cells.h5mu --measurement atac", "cells.h5mu --measurement atac --batch-key donor_id"),
        patience=50,
    ),
    Model(
        "AUTOZI", "latent variables, and which genes are zero-inflated", ("labels_key",),
        ("pbmc3k", "cells.h5ad --batch-key donor_id --n-top-genes 2000"),
    ),
    Model(
        "MRVI", "latent variables and differences between samples", ("sample_key", "labels_key"),
        ("cells.h5ad --sample-key donor_id", "cells.h5ad --sample-key donor_id --batch-key dataset_id"),
    ),
    Model(
        "TOTALVI", "latent variables from genes and proteins (CITE-seq)", ("protein", *_COVARIATES),
        ("cells.h5mu --measurement rna --protein prot", "cells.soma --protein ADT --batch-key donor_id"),
        patience=45,
    ),
    Model(
        "MULTIVI", "latent variables from genes and accessible regions, with or without proteins",
        ("regions", "protein", *_COVARIATES),
        ("cells.h5mu --measurement rna --regions atac",
         "cells.h5mu --measurement rna --regions atac --protein prot"),
        patience=50,
    ),
)  # fmt: skip

#: Each model by its command.
MODELS: Mapping[str, Model] = {model.command: model for model in _MODELS}


def model_name(text: str) -> str:
    """Return the name of a model that is given in any case; another text as it is."""
    model = MODELS.get(text.lower())
    return text if model is None else model.name
