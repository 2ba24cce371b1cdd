"""The APIs of other loaders on top of Penstock: `penstock.compat.census` and `.tiledbsoma_ml`.

Code written for those loaders runs after a change of its import. docs/compat.md lists differences.
"""
