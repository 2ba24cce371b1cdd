"""Helpers that are independent of cells: argument checks, text for people, shared integers."""
