"""first_batch.py [SOURCE]: reads a batch of real cells, by default of those in the package, and checks its shape."""

import sys

import penstock as ps

source = sys.argv[1] if len(sys.argv) > 1 else ps.example()
X, obs = next(iter(ps.Dataset(source, obs_columns=["cell_type"])))
assert X.shape == (128, 13714), X.shape
assert X.sum() > 0
print(X.shape, obs["cell_type"][:3])
