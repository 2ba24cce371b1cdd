"""One module a loader: ``imports(variant, work)`` and ``open(variant, work) -> Opened``.

Imports are kept apart so that their seconds and memory are told apart from the loader's.
"""
