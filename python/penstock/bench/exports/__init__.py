"""The same cells in the formats that other loaders read: h5ad, sharded zarr v3, annbatch, pack.

Cells are exported in joinid order, some thousands at a time. X is never whole in memory, but obs
is. With the Census's columns, obs takes about 200 bytes a cell, and up to 560 while it is read and
written (139 MiB at 262,144 cells).
"""
