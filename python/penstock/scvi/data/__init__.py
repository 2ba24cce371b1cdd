"""Stored cells as batches of a model: `DataModule` and what it is made of."""
