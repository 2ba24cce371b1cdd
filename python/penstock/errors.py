"""The errors that Penstock raises.

Each has the class of the same name in C++ (``include/penstock/error.h``) and, beside
`PenstockError`, the built-in class that fits, so that code which knows nothing of Penstock can
catch it. A message says what was wrong with which value, then where.
"""


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose."""


class InvalidArgument(PenstockError, ValueError):
    """The caller's fault: a value out of range, a filter that does not parse."""


class NotFound(PenstockError, LookupError):
    """No such path, measurement, layer or column; the message lists what there is."""


class Unsupported(PenstockError, NotImplementedError):
    """Well-formed, but not read by this version; the message says what can be done."""


class CorruptData(PenstockError):
    """Stored bytes contradict the format."""


class IoError(PenstockError, OSError):
    """The operating system or the network refused."""


class ResourceExhausted(PenstockError, MemoryError):
    """The memory budget, the disk or the number of open files does not suffice."""


class Internal(PenstockError, RuntimeError):
    """A defect of Penstock; please report it."""


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
