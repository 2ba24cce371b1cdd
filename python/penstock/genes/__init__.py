"""Statistics of genes, and the most variable ones."""
