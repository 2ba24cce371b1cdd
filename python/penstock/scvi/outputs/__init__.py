"""Answers of a trained model for stored cells, and models of scvi-tools' TileDBDataModule."""
