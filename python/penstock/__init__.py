"""Stream single-cell count matrices that do not fit in memory into PyTorch.

    import penstock as ps

    ds = ps.Dataset("census_data/homo_sapiens", obs_query="tissue_general == 'tongue'",
                    obs_columns=["cell_type"], batch_size=128)
    for X, obs in ds:
        ...

Only numpy is required. torch, scipy, pandas and tiledbsoma are imported when they are needed.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import guesses as _guesses
from ._core import version as __version__
from .base import forked_child as _forked_child  # noqa: F401  acts in processes that fork
from .base.missing_package import MissingPackage
from .base.progress_bar import progress
from .batches.batch import Batch
from .batches.matrix import Tokens
from .dataset.dataset import Dataset
from .dataset.functions import (
    group_split,
    random_split,
    shuffle_report,
    stratified_split,
    to_anndata,
)
from .encoders import (
    BatchEncoder,
    Encoder,
    LabelEncoder,
    MultiHotEncoder,
    NumericEncoder,
    OneHotEncoder,
)
from .errors import (
    CorruptData,
    Internal,
    InvalidArgument,
    IoError,
    NotFound,
    PenstockError,
    ResourceExhausted,
    Unsupported,
)
from .examples.example import example
from .experiment.axis_query import AxisQuery
from .experiment.census import census_releases, open_census
from .experiment.columns import ColumnValues
from .experiment.data_frame import DataFrame
from .experiment.experiment import Experiment
from .experiment.joined import JoinedExperiment, join
from .experiment.open_source import open
from .experiment.packs.pack import pack
from .genes.highly_variable import highly_variable_genes
from .genes.statistics import cell_statistics, gene_statistics
from .inference.map_batches import map_batches
from .plan.epoch_size import NoCellsWarning, NoGenesWarning
from .plan.sampling import Balance
from .plan.shard import find_rank
from .plan.shuffle_cost import ReadAgainWarning, RequestPerCellWarning
from .plan.shuffle_report import ShuffleReport
from .plan.stats import LoaderStats
from .pytorch.dataloader import dataloader
from .transforms import (
    Binarize,
    Clip,
    Expm1,
    Log1p,
    NormalizeTotal,
    RankTokens,
    Scale,
    SelectGenes,
    Transform,
)

__all__ = [
    "AxisQuery",
    "Balance",
    "Batch",
    "BatchEncoder",
    "Binarize",
    "Clip",
    "ColumnValues",
    "CorruptData",
    "DataFrame",
    "Dataset",
    "Encoder",
    "Experiment",
    "Expm1",
    "Internal",
    "InvalidArgument",
    "IoError",
    "JoinedExperiment",
    "LabelEncoder",
    "LoaderStats",
    "Log1p",
    "MissingPackage",
    "MultiHotEncoder",
    "NoCellsWarning",
    "NoGenesWarning",
    "NormalizeTotal",
    "NotFound",
    "NumericEncoder",
    "OneHotEncoder",
    "PenstockError",
    "RankTokens",
    "ReadAgainWarning",
    "RequestPerCellWarning",
    "ResourceExhausted",
    "Scale",
    "SelectGenes",
    "ShuffleReport",
    "Tokens",
    "Transform",
    "Unsupported",
    "__version__",
    "cell_statistics",
    "census_releases",
    "dataloader",
    "example",
    "find_rank",
    "gene_statistics",
    "group_split",
    "highly_variable_genes",
    "join",
    "map_batches",
    "open",
    "open_census",
    "pack",
    "progress",
    "random_split",
    "shuffle_report",
    "stratified_split",
    "to_anndata",
]


def __dir__() -> list[str]:
    """Return the public names, with the modules that are imported when they are used."""
    return sorted([*__all__, *_guesses.MODULES])


def __getattr__(name: str) -> _Any:
    """Import a public module; say of a name that does not exist what replaces it."""
    if name in _guesses.MODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(_guesses.message(name, __dir__()))
