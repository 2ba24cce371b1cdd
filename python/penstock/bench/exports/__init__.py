"""The same cells in the formats that other loaders read: h5ad, sharded zarr v3, annbatch, pack.

Cells are exported in joinid order, some thousands at a time; X is never whole in memory, obs is.
"""
