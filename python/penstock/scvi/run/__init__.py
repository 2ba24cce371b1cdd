"""Training on one process or many: devices, checkpoints, traces."""
