"""The same measurements in two places, as in the article on the Census's loaders.

The places are cells sliced in advance or while reading, and cells on a local disk or in S3
(chanzuckerberg.github.io/cellxgene-census, articles/2024/20240709-pytorch; alb's `download`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.errors import InvalidArgument

from .exports.cells import Cells
from .exports.kept import kept_export
from .loopback_s3 import BUCKET, sent
from .measuring.measurement import Measurement
from .reports.comparison import contestants, ratio_line, table

IN_ADVANCE, WHILE_READING = "sliced in advance", "sliced while reading"
DISK = "local disk"


def sliced_both_ways(
    planned: Sequence[Measurement], say: Callable[[str], object]
) -> list[Measurement]:
    """Return each measurement on the experiment and on a copy of only the selected data.

    Raises
    ------
    InvalidArgument
        Nothing is sliced, or a method does not read experiments.
    """
    found: list[Measurement] = []
    for each in planned:
        work = each.request.work
        _check_reads_experiments(each)
        if work.obs_filter is None and work.n_vars is None:
            raise InvalidArgument("nothing is sliced: give -s and -e, -v or --filter")
        cells = Cells(work.source, work.measurement, work.layer, work.obs_filter, work.n_vars)
        copy = str(kept_export(cells, "slice", say))
        advance = replace(work, source=copy, obs_filter=None, n_vars=None)
        found.append(_placed(each, WHILE_READING))
        found.append(_placed(each, IN_ADVANCE, advance))
    return found


def on_disk_and_in_s3(
    planned: Sequence[Measurement], endpoint: str, key: str, place: str
) -> list[Measurement]:
    """Return each measurement on the local folder and on `key` of the loopback server.

    Raises
    ------
    InvalidArgument
        A method does not read experiments.
    """
    found: list[Measurement] = []
    for each in planned:
        _check_reads_experiments(each)
        source = f"s3://{BUCKET}/{key}"
        remote = replace(each.request.work, source=source, endpoint=endpoint)
        found.append(_placed(each, DISK))
        found.append(replace(_placed(each, place, remote), cache="as-is"))
    return found


def counting_bytes_sent(endpoint: str) -> Callable[[Measurement, dict[str, Any]], None]:
    """Return a callback for `sweep.run` that sets bytes read to bytes from the network."""
    before = sent(endpoint).bytes

    def note(each: Measurement, row: dict[str, Any]) -> None:
        nonlocal before
        after = sent(endpoint).bytes
        if each.request.work.endpoint is not None and row["status"] in ("ok", "wrong"):
            row["bytes_read"], row["disk_bytes_read"] = after - before, None
        before = after

    return note


def _placed(each: Measurement, place: str, work: Any = None) -> Measurement:
    request = each.request if work is None else replace(each.request, work=work)
    return replace(each, request=request, place=place, labels={**each.labels, "place": place})


def _check_reads_experiments(each: Measurement) -> None:
    if each.method.source != "experiment":
        raise InvalidArgument(
            f"{each.method.name} reads a {each.method.source}; here are measured methods that read the "
            "experiment itself: penstock, penstock:chunks, penstock:global, tiledbsoma_ml, "
            "cellxgene_census, np.array, scipy.csr"
        )


def report(rows: Sequence[Mapping[str, Any]], place: str, other: str) -> str:
    """Return the table, and for each method the ratios of one place to the other."""
    lines = [table(rows)]
    names = list(contestants(rows))
    for name in names:
        against = f"{name.removesuffix(place)}{other}"
        if name.endswith(place) and against in names and (line := ratio_line(rows, name, against)):
            lines.append(f"- {line}")
    return "\n".join(lines).rstrip() + "\n"


def folder_of(uri: str) -> Path:
    """Return the experiment's folder, which must be local.

    Raises
    ------
    InvalidArgument
        The experiment is not in a local folder.
    """
    path = Path(uri.removeprefix("file://"))
    if "://" in str(path) or not path.is_dir():
        raise InvalidArgument(f"only an experiment in a local folder can be served, not {uri}")
    return path.resolve()
