"""The demo: cells stream from disk into a cell-type classifier. Run by ``penstock demo``."""
