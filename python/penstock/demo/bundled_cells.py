"""Old name of `penstock.example`."""

from penstock.examples.bundled import unpack

__all__ = ["unpack"]
