"""Forks while a context of tiledbsoma is garbage, and collects in the child."""

import gc
import os
import sys
import time

import penstock  # noqa: F401  what is tested
from tiledbsoma import pytiledbsoma


class Cycle:
    """An object that only the collector frees."""

    def __init__(self, experiment: str) -> None:
        self.itself = self
        mode = pytiledbsoma.OpenMode
        read = mode.read if hasattr(mode, "read") else mode.soma_read
        self.context = pytiledbsoma.SOMAContext({})
        self.table = pytiledbsoma.SOMADataFrame.open(f"{experiment}/obs", read, self.context)


gc.disable()
cycle = Cycle(sys.argv[1])
del cycle
child = os.fork()
if child == 0:
    gc.collect()
    os._exit(0)
for _ in range(300):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended == child:
        print("the child ended" if status == 0 else f"the child crashed: {status}")
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    os.waitpid(child, 0)
    print("the child waits for ever")
