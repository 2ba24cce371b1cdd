"""The errors that Penstock raises.

Each class has a counterpart of the same name in C++ (``include/penstock/error.h``). Besides
`PenstockError`, most derive from the fitting built-in class, so generic code can catch them. A
message says what must hold, which value was given, and where.
"""

from typing import Self


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose."""


class InvalidArgument(PenstockError, ValueError):
    """An argument is invalid: a value is out of range, or a filter does not parse."""


class NotFound(PenstockError, LookupError):
    """A path, measurement, layer or column does not exist; the message lists those that do."""


class Unsupported(PenstockError, NotImplementedError):
    """The data are valid, but this version cannot read them; the message says what to do."""


class CorruptData(PenstockError):
    """Stored bytes contradict the format."""


class IoError(PenstockError, OSError):
    """The operating system or the network reported an error."""


class ResourceExhausted(PenstockError, MemoryError):
    """The memory budget, the disk space or the limit of open files is too small."""

    def __new__(cls, *args: object) -> Self:
        """Make an error as its other base does: `MemoryError.__new__` refuses the class.

        Dask and other users of tblib call `cls.__new__` to make an error again.
        """
        return Exception.__new__(cls, *args)


class Internal(PenstockError, RuntimeError):
    """Penstock has a bug; please report it."""


__all__ = [
    "CorruptData",
    "Internal",
    "InvalidArgument",
    "IoError",
    "NotFound",
    "PenstockError",
    "ResourceExhausted",
    "Unsupported",
]
