"""One measurement, in a process of its own; the standard library, numpy and the loader's packages.

Started by `bench.measured_process`, also in environments where Penstock is not installed.
"""
