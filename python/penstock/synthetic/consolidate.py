"""Consolidation of an experiment's arrays, as in the published Census."""

from __future__ import annotations

from pathlib import Path

from penstock.base.validation import checked_local_path

# The order of the Census builder (build_soma/consolidate.py), with a vacuum after each. The
# consolidated commits therefore still name fragments that the last vacuum removes.
_MODES = ("fragment_meta", "array_meta", "commits", "fragments")


def consolidate_like_census(path: str | Path, *, memory_bytes: int = 1 << 30) -> None:
    """Consolidate every array of the experiment into one fragment with TileDB. Needs tiledb.

    It takes several times as long as ``make_experiment(consolidated=True)``, which writes X as one
    fragment directly. But only this leaves the commit, vacuum and timestamp files of a real
    consolidation.
    """
    for schema in sorted(Path(checked_local_path("path", path)).rglob("__schema")):
        for mode in _MODES:
            _consolidate(str(schema.parent), mode, memory_bytes)


def consolidate_fragments(uri: str, *, memory_bytes: int) -> None:
    """Consolidate only the fragments of an array into one. Needs tiledb."""
    _consolidate(uri, "fragments", memory_bytes)


def _consolidate(uri: str, mode: str, memory_bytes: int) -> None:
    import tiledb

    settings = {
        "sm.consolidation.mode": mode,
        "sm.vacuum.mode": mode,
        "sm.mem.total_budget": memory_bytes,
        "sm.consolidation.total_buffer_size": memory_bytes // 4,
    }
    tiledb.consolidate(uri, config=tiledb.Config(settings))
    tiledb.vacuum(uri, config=tiledb.Config(settings))
