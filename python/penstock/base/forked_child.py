"""State that a forked child inherits and must leave alone."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any


def _leave_garbage() -> None:
    """Leave what the parent had not collected yet.

    Freeing a tiledbsoma context waits for its threads, which a forked child does not have. A
    DataLoader worker whose garbage collector found one would hang or crash.
    """
    if "tiledbsoma" in sys.modules:
        gc.freeze()


def keep_torch_from_waiting() -> None:
    """Give torch one thread if this process was forked from another.

    A forked child does not have the threads of its parent's OpenMP, and waits for them for ever.
    """
    torch: Any = sys.modules.get("torch")
    if os.getpid() != _FIRST and torch is not None:
        torch.set_num_threads(1)


#: Id of the process that imported this package.
_FIRST = os.getpid()
os.register_at_fork(after_in_child=_leave_garbage)
