"""Batches on an accelerator.

A batch leaves the engine as CSR, its counts in 16 bits where they fit; `staging` gathers its arrays
in page-locked memory, `stream` queues their copy beside the training step, `matrix` makes X of them on
the device, `copier` does one after the other for a batch, and `iterator` is one batch ahead.

Nothing is imported here: all but `checks` import torch.
"""
