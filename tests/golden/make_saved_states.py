"""Writes tests/data/saved_states.tar.gz and .json: states that this version saves, and what is left.

A later version must load them and give the same batches bit for bit. So this is run by the version
whose states are kept, and again only when the version of plans changes on purpose:

    PYTHONPATH=tests/python:tests/python/shared:tests/python/resume python tests/golden/make_saved_states.py
"""

import json
import pathlib
import tarfile
import tempfile

import saved_epochs
from conftest import write_small_tiles

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TAKEN = (0, 5)


def plain(tar_info):
    """Without the user's name."""
    tar_info.uid = tar_info.gid = 0
    tar_info.uname = tar_info.gname = ""
    return tar_info


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    experiment = write_small_tiles(folder / "experiment", saved_epochs.CELLS, 200)
    with tarfile.open(DATA / "saved_states.tar.gz", "w:gz") as tar:
        tar.add(experiment, "experiment", filter=plain)
    sources = saved_epochs.sources(experiment, folder)
    records = []
    for taken in TAKEN:
        for kind in saved_epochs.KINDS:
            state = json.loads(json.dumps(saved_epochs.saved(kind, sources, taken)))
            records.append(
                {"kind": kind, "state": state, **saved_epochs.resumed(kind, sources, state)}
            )
    # A rank of two that resumed as one of three, and was left again.
    first, batches = saved_epochs.batches_of("default", sources, rank=0, world_size=2)
    held = saved_epochs.take(batches, 4)
    second, batches = saved_epochs.batches_of("rank 1 of 3", sources)
    second.load_state_dict(first.state_dict())
    held = saved_epochs.take(batches, 2)
    state = json.loads(json.dumps(second.state_dict()))
    assert len(state["segments"]) == 2
    records.append(
        {
            "kind": "rank 1 of 3",
            "state": state,
            **saved_epochs.resumed("rank 1 of 3", sources, state),
        }
    )
(DATA / "saved_states.json").write_text(json.dumps(records, indent=1) + "\n")
print(len(records), "states,", (DATA / "saved_states.tar.gz").stat().st_size, "bytes of cells")
