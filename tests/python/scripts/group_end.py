"""Orderly end of a rank in the scripts of these tests."""

from __future__ import annotations

import os
import sys

import torch.distributed as dist


def end_group() -> None:
    """End the process group of torch and this finished process.

    The interpreter does not shut down: with a DDP model, threads of gloo still run, and the process
    aborts if one releases a tensor during the shutdown (pytorch/pytorch issue 190489).
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
