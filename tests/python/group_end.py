"""The end of a rank in the scripts of these tests."""

from __future__ import annotations

import os
import sys

import torch.distributed as dist


def end_group() -> None:
    """End the process group of torch, and this process, which has done its work.

    Without the interpreter's own end: where a DDP model is left, so are the threads of gloo, and the
    process aborts if one lets go of a tensor while Python ends (pytorch/pytorch issue 190489).
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
