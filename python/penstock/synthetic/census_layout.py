"""Storage settings of the CELLxGENE Census: TileDB settings and column types.

The values are those of the public Census builder (chanzuckerberg/cellxgene-census,
``build_soma/globals.py`` and ``experiment_builder.py``, schema 2.4.0). Nothing here imports
tiledbsoma; ``obs_schema`` and ``var_schema`` import pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BAND = 2048
"""Extent of ``soma_dim_0``: the rows of one space tile."""
GENES_PER_TILE = 2048
"""Extent of ``soma_dim_1``."""
CAPACITY = 2**16

DICTIONARY_COLUMNS = (
    "dataset_id",
    "assay",
    "assay_ontology_term_id",
    "cell_type",
    "cell_type_ontology_term_id",
    "development_stage",
    "disease",
    "donor_id",
    "self_reported_ethnicity",
    "sex",
    "suspension_type",
    "tissue",
    "tissue_ontology_term_id",
    "tissue_type",
    "tissue_general",
    "tissue_general_ontology_term_id",
)
_OBS_NUMBERS = ("raw_sum", "nnz", "raw_mean_nnz", "raw_variance_nnz", "n_measured_vars")
_OBS_OTHER = ("is_primary_data", "observation_joinid")
_VAR_STRINGS = ("feature_id", "feature_name", "feature_type")
_VAR_NUMBERS = ("nnz", "n_measured_obs", "feature_length")


def _zstd(level: int) -> dict[str, Any]:
    return {"_type": "ZstdFilter", "level": level}


def _axis_config(attributes: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "tiledb": {
            "create": {
                "capacity": CAPACITY,
                "dims": {"soma_joinid": {"filters": ["DoubleDeltaFilter", _zstd(19)]}},
                "attrs": {name: {"filters": filters} for name, filters in attributes.items()},
                "offsets_filters": ["DoubleDeltaFilter", _zstd(19)],
                "allows_duplicates": True,
            }
        }
    }


OBS_CONFIG = _axis_config(
    {name: ["ByteShuffleFilter", _zstd(9)] for name in _OBS_NUMBERS}
    | {name: [_zstd(9)] for name in DICTIONARY_COLUMNS}
    | {name: [_zstd(19)] for name in _OBS_OTHER}
)
VAR_CONFIG = _axis_config(
    {name: [_zstd(19)] for name in _VAR_STRINGS}
    | {name: ["ByteShuffleFilter", _zstd(9)] for name in _VAR_NUMBERS}
)
X_CONFIG: dict[str, Any] = {
    "tiledb": {
        "create": {
            "capacity": CAPACITY,
            "dims": {
                "soma_dim_0": {"tile": ROWS_PER_BAND, "filters": [_zstd(9)]},
                "soma_dim_1": {"tile": GENES_PER_TILE, "filters": ["ByteShuffleFilter", _zstd(9)]},
            },
            "attrs": {"soma_data": {"filters": ["ByteShuffleFilter", _zstd(9)]}},
            "cell_order": "row-major",
            "tile_order": "row-major",
            "allows_duplicates": True,
        }
    }
}


def obs_schema(dictionary_sizes: dict[str, int]) -> pa.Schema:
    """Return the Arrow schema of ``obs``, each dictionary with the narrowest signed index."""
    import pyarrow as pa

    def dictionary(name: str) -> pa.DataType:
        size = dictionary_sizes[name]
        index = pa.int8() if size <= 2**7 else pa.int16() if size <= 2**15 else pa.int32()
        return pa.dictionary(index, pa.large_string())

    types: dict[str, pa.DataType] = {"soma_joinid": pa.int64()}
    types |= {name: dictionary(name) for name in DICTIONARY_COLUMNS[:9]}
    types |= {"is_primary_data": pa.bool_(), "observation_joinid": pa.large_string()}
    types |= {name: dictionary(name) for name in DICTIONARY_COLUMNS[9:]}
    types |= {
        "raw_sum": pa.float64(),
        "nnz": pa.int64(),
        "raw_mean_nnz": pa.float64(),
        "raw_variance_nnz": pa.float64(),
        "n_measured_vars": pa.int64(),
    }
    return pa.schema(list(types.items()))


def var_schema() -> pa.Schema:
    """Return the Arrow schema of ``var``."""
    import pyarrow as pa

    return pa.schema(
        [
            ("soma_joinid", pa.int64()),
            ("feature_id", pa.large_string()),
            ("feature_name", pa.large_string()),
            ("feature_type", pa.large_string()),
            ("feature_length", pa.int64()),
            ("nnz", pa.int64()),
            ("n_measured_obs", pa.int64()),
        ]
    )
