"""Datasets cut into parts."""
