"""Keep a forked child from freeing what it inherits from tiledbsoma."""

from __future__ import annotations

import gc
import os
import sys


def _leave_garbage() -> None:
    """Leave what the parent had not collected yet.

    Freeing a tiledbsoma context waits for its threads, which a forked child does not have. A
    DataLoader worker whose garbage collector found one would hang or crash.
    """
    if "tiledbsoma" in sys.modules:
        gc.freeze()


os.register_at_fork(after_in_child=_leave_garbage)
