"""Streams single-cell count matrices that do not fit in memory into PyTorch.

    import penstock as ps

    ds = ps.Dataset("census_data/homo_sapiens", obs_query="tissue_general == 'tongue'",
                    obs_columns=["cell_type"], batch_size=128)
    for X, obs in ds:
        ...

Needs numpy alone; torch, scipy, pandas and tiledbsoma are imported where they are used.
"""

from ._core import version as __version__
from .axis_query import AxisQuery
from .census import census_releases, open_census
from .dataset import Dataset
from .dataset_functions import (
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
    NumericEncoder,
    OneHotEncoder,
)
from .epoch_size import NoCellsWarning, NoGenesWarning
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
from .experiment import Experiment, open
from .gene_statistics import cell_statistics, gene_statistics
from .global_shuffle import ReadAgainWarning, RequestPerCellWarning
from .highly_variable_genes import highly_variable_genes
from .joined import JoinedExperiment, join
from .loader_stats import LoaderStats
from .matrix_batches import Tokens
from .missing_package import MissingPackage
from .pack import pack
from .progress import progress
from .sampling import Balance
from .shuffle_report import ShuffleReport
from .table import DataFrame
from .torch_adapter import dataloader
from .transform_chain import Transform
from .transforms import (
    Binarize,
    Clip,
    Expm1,
    Log1p,
    NormalizeTotal,
    RankTokens,
    Scale,
    SelectGenes,
)

__all__ = [
    "AxisQuery",
    "Balance",
    "BatchEncoder",
    "Binarize",
    "Clip",
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
    "gene_statistics",
    "group_split",
    "highly_variable_genes",
    "join",
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
    """Public names, without the modules that they come from."""
    return sorted(__all__)
