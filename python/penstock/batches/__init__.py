"""Batches: X, columns of obs, and copies on a device, from batches of the engine."""
