"""The names of other loaders over Penstock: `penstock.compat.census`, `penstock.compat.tiledbsoma_ml`.

Code written for them runs when its import is changed; docs/compat.md says what differs.
"""
