"""What a trained model says of stored cells, and models of scvi-tools' TileDBDataModule."""
