"""Choosing settings for a user's data by a short sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.base.text import markdown_table
from penstock.base.validation import parse_memory_size
from penstock.errors import InvalidArgument, ResourceExhausted

from .methods import METHODS
from .reports.comparison import came_at_once
from .sources import Sources
from .sweep import Settings, measurements
from .sweep import run as run_sweep
from .target import Target
from .worker.request import Work

#: A setting with this share of the highest speed counts as equal; the smallest of these is chosen.
_NEAR_ENOUGH = 0.95


def sweep(
    target: Target, budgets: Sequence[str], threads: Sequence[int], *, batch_size: int, sparse: bool,
    max_seconds: float, label: str | None, cache: str, timeout: float, memory_limit: int | None,
    results: str | None, command: str, labels: Mapping[str, Any], say: Callable[[str], object],
) -> tuple[list[dict[str, Any]], dict[str, float]]:  # fmt: skip
    """Measure each budget with each number of threads; return rows and shares by budget."""
    work = Work(target.uri, target.measurement, target.layer, batch_size=batch_size, sparse=sparse,
                region=target.region)  # fmt: skip
    shares: dict[str, float] = {}
    if label is not None:
        for budget in budgets:
            share = _share(target, label, budget, batch_size, sparse)
            if share is not None:
                shares[budget] = share
    planned = []
    request = {"max_seconds": max_seconds, "memory_limit": memory_limit}
    settings = Settings(work, request, cache, timeout, labels)
    for each in measurements([METHODS["penstock"]], [None], Sources(target), settings, say):
        for budget in budgets:
            for number in threads:
                mine = replace(each.request.work, memory_budget=budget, threads=number)
                planned.append(replace(each, request=replace(each.request, work=mine)))
    return run_sweep(planned, results, command, say), shares


def _share(target: Target, label: str, budget: str, batch_size: int, sparse: bool) -> float | None:
    import penstock

    dataset = penstock.Dataset(
        target.uri,
        measurement=target.measurement,
        layer=target.layer,
        obs_query=target.obs_filter,
        batch_size=batch_size,
        sparse=sparse,
        memory_budget=budget,
        storage_options=target.storage_options,
    )
    try:
        return dataset.shuffle_report(label).share
    except ResourceExhausted:
        return None


def choose(
    rows: Sequence[Mapping[str, Any]], shares: Mapping[str, float], least_share: float
) -> Mapping[str, Any]:
    """Return the row with the settings to use: the smallest ones near the highest speed.

    Only budgets that mix well enough are considered; if there is none, those that mix best.

    Raises
    ------
    InvalidArgument
        No measurement succeeded.
    """
    at = rates(rows)
    good = [row for row in rows if row["status"] == "ok" and at(row)]
    if not good:
        why = next((row["error"] for row in rows if row["error"]), None)
        raise InvalidArgument(
            f"nothing could be measured: {why or 'time was up with the first batch; raise --max-seconds'}"
        )
    if shares:
        enough = [row for row in good if shares.get(row["memory_budget"], 0.0) >= least_share]
        most = max(shares.get(row["memory_budget"], 0.0) for row in good)
        good = enough or [row for row in good if shares.get(row["memory_budget"], 0.0) == most]
    best = max(map(at, good))
    near = [row for row in good if at(row) >= _NEAR_ENOUGH * best]
    return min(
        near, key=lambda row: (parse_memory_size("budget", row["memory_budget"]), row["threads"])
    )


def rates(rows: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], float]:
    """Return a function from a row to its cells a second.

    If all epochs are whole, it is the speed of the whole epoch. If some were cut, it is the speed
    after the first batch, because opening and filling the shuffle weigh more in a cut epoch. But if
    the first batch took more than half of the time, it is the speed from opening on, because the
    rest was in memory. A cut epoch of one batch has speed 0.
    """
    whole = all(row["whole_epoch"] for row in rows if row["status"] == "ok")

    def rate(row: Mapping[str, Any]) -> float:
        if not row["whole_epoch"] and not row["cells_per_second"]:
            return 0.0
        of_all = whole or came_at_once(row)
        return float(row["epoch_cells_per_second" if of_all else "cells_per_second"] or 0.0)

    return rate


def _speed(rate: float) -> str:
    return f"{rate:,.0f}" if rate else "time was up with the first batch"


def advice(
    target: Target, rows: Sequence[Mapping[str, Any]], shares: Mapping[str, float],
    label: str | None, least_share: float, batch_size: int, sparse: bool,
) -> str:  # fmt: skip
    """Return a table of the measurements, and the call to use."""
    rate = rates(rows)

    def cells(row: Mapping[str, Any]) -> list[str]:
        setting = [str(row["memory_budget"]), str(row["threads"])]
        if row["status"] != "ok":
            return [*setting, f"{row['status']}: {row['error']}"]
        share = shares.get(row["memory_budget"])
        return [
            *setting,
            _speed(rate(row)),
            f"{row['max_mem'] / 2**20:,.0f}",
            f"{row['first_batch_seconds']:.2f}",
            "" if share is None else f"{share:.1%}",
        ]

    head = ("memory_budget", "threads", "cells/s", "peak USS MiB", "first batch s", "mixed")
    lines = [markdown_table(head, map(cells, rows))]
    chosen = choose(rows, shares, least_share)
    settings = [f"    {target.uri!r},"]
    for name, value, default in (
        ("measurement", target.measurement, "RNA"),
        ("layer", target.layer, "raw"),
        ("obs_query", target.obs_filter, None),
        ("batch_size", batch_size, None),
        ("sparse", sparse, None),
        ("memory_budget", chosen["memory_budget"], None),
        ("threads", chosen["threads"], None),
        ("storage_options", target.storage_options, None),
    ):
        if value != default:
            settings.append(f"    {name}={value!r},")
    if target.n_vars is not None:
        settings.append(
            f"    var_query=penstock.AxisQuery(coords=(slice(0, {target.n_vars - 1}),)),"
        )
    lines += ["Use", "", "ds = penstock.Dataset(", *settings, ")", ""]
    lines.append(
        f"{rate(chosen):,.0f} cells/s in {chosen['max_mem'] / 2**20:,.0f} MiB"
        + (f"; {shares[chosen['memory_budget']]:.1%} of a uniform shuffle's entropy of {label}"
           if chosen["memory_budget"] in shares else "")
        + "."
    )  # fmt: skip
    if sparse:
        lines.append(
            "sparse=True makes CSR batches, as measured. For a model that takes dense arrays, leave it "
            "out and measure with --dense."
        )
    reached = shares.get(chosen["memory_budget"])
    if reached is not None and reached < least_share:
        lines.append(
            f"No budget reaches {least_share:.0%}: Dataset.shuffle_report({label!r}).budget_for"
            f"({least_share}) says which would."
        )
    return "\n".join(lines)
