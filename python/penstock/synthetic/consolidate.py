"""Consolidates an experiment's arrays in the way in which the published Census is consolidated."""

from __future__ import annotations

from pathlib import Path

# In this order in the Census builder (build_soma/consolidate.py), each followed by a vacuum: the
# consolidated commits therefore still name fragments that are gone when the last step is over.
_MODES = ("fragment_meta", "array_meta", "commits", "fragments")


def consolidate_like_census(path: str | Path, *, memory_bytes: int = 1 << 30) -> None:
    """Turn every array of the experiment into one fragment, by TileDB itself. Needs tiledb.

    Takes several times as long as ``make_experiment(consolidated=True)``, which writes X as one
    fragment to begin with; this leaves the commit, vacuum and timestamp files that a real
    consolidation leaves.
    """
    for schema in sorted(Path(path).rglob("__schema")):
        for mode in _MODES:
            _consolidate(str(schema.parent), mode, memory_bytes)


def consolidate_fragments(uri: str, *, memory_bytes: int) -> None:
    """Make one fragment of an array's; nothing else is touched. Needs tiledb."""
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
