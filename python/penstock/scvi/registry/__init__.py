"""Columns of obs that a model reads, scvi-tools' registries, and the tensors that it takes."""
