"""Statistics of genes and cells, and highly variable genes."""
