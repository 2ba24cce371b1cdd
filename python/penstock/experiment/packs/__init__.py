"""Packs: copies of experiments in which each cell can be read by itself."""
