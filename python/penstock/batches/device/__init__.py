"""Batches on an accelerator.

The engine makes batches as CSR, with counts in 16 bits if they fit. `arrays` lists the arrays to
copy, `staging` gathers them in page-locked memory, `stream` queues the copy beside the training
step, and `matrix` makes X on the device. `copier` runs these steps for a batch.
`epochs.device_iterator` works one batch ahead.

Nothing is imported here, since all modules import torch.
"""
