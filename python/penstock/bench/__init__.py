"""The benchmark suite: `penstock bench`; docs/reference/benchmarks.md, docs/design/0011-benchmarks.md.

It imports nothing, because `bench.worker` also runs in environments of other loaders.
"""
