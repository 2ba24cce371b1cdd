"""One module per loader: ``imports(variant, work)`` and ``open_loader(variant, work) -> Opened``.

Imports are separate, so that their time and memory are not counted for the loader.
"""
