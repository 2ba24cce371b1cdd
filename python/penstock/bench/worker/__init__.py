"""One measurement in its own process; uses the standard library, numpy and the loader's packages.

`bench.worker_process` starts it, also in environments where Penstock is not installed.
"""
