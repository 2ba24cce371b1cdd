"""Epochs: count, iterate and resume them, and agree on them with other processes."""
