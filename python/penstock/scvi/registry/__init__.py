"""What a model reads: columns of obs, scvi-tools' registries, and the tensors that it takes."""
