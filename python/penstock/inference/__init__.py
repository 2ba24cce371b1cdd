"""Rows of results for cells: where they go, and the parts in which they are made."""
