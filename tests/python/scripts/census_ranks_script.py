"""The script of each rank of test_peer_faults.py, with the Python of either loader.

torchrun … census_ranks_script.py MODULE PATH CASES     prints cells and batches of each rank, by case
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys

import tiledbsoma
import torch.distributed as dist
from group_end import end_group

BATCH = 8


def taken(pipe) -> tuple[int, int]:
    """Cells and batches of an epoch of this rank."""
    sizes = [len(X) for X, _ in pipe]
    return sum(sizes), len(sizes)


def main() -> None:
    module, path, cases = sys.argv[1:]
    pipe_of = importlib.import_module(module).ExperimentDataPipe
    results = []
    with tiledbsoma.open(path) as experiment:
        for cells, chunk_cells in json.loads(cases):
            query = tiledbsoma.AxisQuery(coords=(slice(0, cells - 1),))
            pipe = pipe_of(
                experiment,
                obs_query=query,
                batch_size=BATCH,
                seed=1,
                soma_chunk_size=chunk_cells,
            )
            everybody = [None] * dist.get_world_size()
            dist.all_gather_object(everybody, taken(pipe))
            results.append(everybody)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(results), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    main()
    end_group()
