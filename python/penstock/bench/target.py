"""The target of a run: an experiment, a selection of cells and genes, and facts about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import numpy.typing as npt

from penstock.base.validation import check_no_secrets
from penstock.errors import InvalidArgument, IoError, NotFound, PenstockError
from penstock.experiment.census import CensusRelease, find_release

from .dataset_slice import DatasetSlice, value_filter
from .worker.reach import is_remote, storage_options, tiledb_config

COLLECTION = "283d65eb-dd53-496d-adb7-7570c7caa443"  # the collection that alb slices, with 138 human datasets

#: Buffer size of each column that tiledbsoma reads. Its tables keep their buffers, 1 GiB by
#: default, and a process that maps more than the memory of the machine cannot fork.
_BUFFER = 1 << 24


@dataclass(frozen=True)
class Target:
    """An experiment and a selection. `labels` are the columns of a row that describe them."""

    uri: str
    measurement: str = "RNA"
    layer: str = "raw"
    obs_filter: str | None = None
    n_vars: int | None = None
    region: str | None = None
    n_obs: int | None = None
    joinid_sum: int | None = None
    nonzeros: int | None = None  # of the selected cells with all genes
    labels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the experiment is in a local folder."""
        return not is_remote(self.uri)

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """Penstock's storage options for this experiment."""
        return storage_options(self.uri, self.region)


def make_target(
    uri: str | None,
    *,
    census: str | None = None,
    organism: str | None = None,
    directory: str | None = None,
    census_uri: str | None = None,
    collection_id: str | None = None,
    datasets: DatasetSlice | None = None,
    measurement: str = "RNA",
    layer: str | None = None,
    obs_filter: str | None = None,
    n_vars: int | None = None,
    region: str | None = None,
    say: Callable[[str], object] = print,
) -> Target:
    """Resolve addresses and slices of datasets.

    Give either `uri`, a release of the Census (`census`, looked up in `directory`) or the address
    of a Census (`census_uri`). In a Census, the experiment is that of `organism` (default:
    homo_sapiens), and datasets are those of the collection, in the order of ``census_info``.

    Raises
    ------
    InvalidArgument
        Not exactly one of the three is given; an organism, a directory or a collection is given
        without a Census; or no cell or no dataset is selected.
    """
    version = None
    for what, address in (("URI", uri), ("--census-uri", census_uri), ("--directory", directory)):
        if address is not None:  # rows and reports of results contain them
            check_no_secrets(what, address)
    if [uri, census, census_uri].count(None) != 2:
        raise InvalidArgument(
            "give the address of an experiment, --census or --census-uri, one of them"
        )
    if uri is not None and organism is not None:
        raise InvalidArgument(
            f"organism {organism} is looked up in a Census: give --census or --census-uri in place of "
            "an experiment's address"
        )
    if census is None and directory is not None:
        raise InvalidArgument(
            f"--directory {directory} is where releases are looked up: give --census"
        )
    if uri is None:
        if census_uri is None:
            assert census is not None
            release = find_release(census, directory)
            census_uri, region = release.uri, region or release.region
            version = release.version
        name = (organism or "homo_sapiens").strip().lower().replace(" ", "_")
        uri = CensusRelease("", census_uri).experiment(name)
    elif collection_id is not None:
        raise InvalidArgument(
            f"collection {collection_id} is looked up in a Census: give --census or --census-uri "
            "in place of an experiment's address"
        )
    uri = local_path(uri)
    labels: dict[str, Any] = {"census_version": version, "census_uri": census_uri}
    if datasets is not None or collection_id is not None:
        datasets = datasets or DatasetSlice()
        if census_uri is not None:
            collection_id = collection_id or COLLECTION
            ids, sizes = _of_census(str(census_uri), collection_id, region)
        else:
            ids, sizes = _of_experiment(uri, region)
        chosen = datasets.of(ids, sizes)
        say(f"{len(chosen)} of {len(ids)} datasets, slice {datasets}")
        labels |= {
            "start_idx": datasets.start,
            "end_idx": datasets.start + len(chosen),
            "sorted_datasets": datasets.sorted_datasets,
        }
        more = value_filter(chosen)
        obs_filter = more if obs_filter is None else f"({obs_filter}) and {more}"
    labels["collection_id"] = collection_id
    n_obs, total = _cells(uri, obs_filter, region)
    labels |= {"total_rows": n_obs, "uri": uri}
    layer = layer or _default_layer(uri, measurement, region)
    nonzeros = _nonzeros(uri, measurement, layer, obs_filter)
    return Target(
        uri, measurement, layer, obs_filter, n_vars, region, n_obs, total, nonzeros, labels
    )


def local_path(uri: str) -> str:
    """Return the path of a ``file://`` address; the page cache and exports need paths."""
    return url2pathname(urlsplit(uri).path) if uri.startswith("file://") else uri


def _cells(uri: str, obs_filter: str | None, region: str | None) -> tuple[int, int]:
    """Return the number of selected cells, and the sum of their joinids."""
    joinids = _obs(uri, ["soma_joinid"], obs_filter, region)["soma_joinid"].to_numpy()
    if len(joinids) == 0:
        raise InvalidArgument(f"no cell is selected by {obs_filter!r}, in {uri}")
    return len(joinids), int(joinids.astype(np.int64).sum())


def _default_layer(uri: str, measurement: str, region: str | None) -> str:
    """Return the layer that is read by default; "raw" if Penstock cannot find it."""
    import penstock

    try:
        opened = penstock.open(uri, storage_options=storage_options(uri, region))
        return opened.default_layer(measurement)
    except PenstockError:  # the loaders report it
        return "raw"


def _nonzeros(uri: str, measurement: str, layer: str, obs_filter: str | None) -> int | None:
    """Return the number of counts of the selected cells, from the column ``nnz`` of obs.

    None if obs has no such column, if its sum differs from the stored non-zeros, or if the
    experiment is not local.
    """
    import penstock

    if is_remote(uri):
        return None
    try:
        opened = penstock.open(uri)
        if "nnz" not in [column.name for column in opened.obs.schema]:
            return None
        every = int(opened.obs.to_pandas(columns=["nnz"])["nnz"].sum())
        if every != opened.x(measurement, layer).stored_cells():
            return None
        if obs_filter is None:
            return every
        return int(opened.obs.to_pandas(value_filter=obs_filter, columns=["nnz"])["nnz"].sum())
    except (PenstockError, ValueError, TypeError):  # such as a missing layer, or a `nnz` of strings
        return None


def label_codes(target: Target, column: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (ascending joinids, codes of the column) of the selected cells."""
    frame = _obs(target.uri, ["soma_joinid", column], target.obs_filter, target.region)
    frame = frame.sort_values("soma_joinid")
    codes = frame[column].astype(str).factorize()[0]
    return frame["soma_joinid"].to_numpy().astype(np.int64), codes.astype(np.int64)


def _obs(uri: str, columns: list[str], obs_filter: str | None, region: str | None) -> Any:
    """Return a frame of obs, read by Penstock, or by tiledbsoma if Penstock cannot."""
    import penstock

    try:
        opened = penstock.open(uri, storage_options=storage_options(uri, region))
        return opened.obs.to_pandas(value_filter=obs_filter, columns=columns)
    except (penstock.Unsupported, NotFound):
        if "://" not in uri:
            raise
    with soma_open(uri, region) as experiment:
        read = experiment.obs.read(column_names=columns, value_filter=obs_filter)
        return read.concat().to_pandas()


def soma_open(uri: str, region: str | None) -> Any:
    """Return a SOMA object of tiledbsoma, to be used in a `with`.

    Raises
    ------
    NotFound
        tiledbsoma finds no object.
    IoError
        tiledbsoma fails; with its message.
    """
    import tiledbsoma

    if "://" not in uri:  # TileDB keeps the working folder of when it was loaded
        uri = str(Path(uri).absolute())
    config = {**tiledb_config(uri, region), "soma.init_buffer_bytes": _BUFFER}
    context = tiledbsoma.SOMATileDBContext(tiledb_config=config)
    try:
        return tiledbsoma.open(uri, context=context)
    except tiledbsoma.DoesNotExistError:
        raise NotFound(f"tiledbsoma finds nothing that it can open at {uri}") from None
    except Exception as error:  # a TileDBError of the network is no SOMAError
        raise IoError(f"tiledbsoma cannot open {uri}: {error}") from None


def _of_experiment(uri: str, region: str | None) -> tuple[list[str], list[int]]:
    """Return the values of ``dataset_id`` in order of their first cells, and their sizes."""
    column = _obs(uri, ["dataset_id"], None, region)["dataset_id"].astype(str)
    counts = column.value_counts(sort=False)
    ids = list(dict.fromkeys(column))
    return ids, [int(counts[each]) for each in ids]


def _of_census(
    census_uri: str, collection_id: str, region: str | None
) -> tuple[Sequence[str], Sequence[int]]:
    with soma_open(f"{census_uri.rstrip('/')}/census_info/datasets", region) as frame:
        read = frame.read(value_filter=f"collection_id == '{collection_id}'").concat().to_pandas()
    if read.empty:
        raise InvalidArgument(f"no dataset belongs to collection {collection_id}, in {census_uri}")
    return read["dataset_id"].tolist(), read["dataset_total_cell_count"].tolist()
