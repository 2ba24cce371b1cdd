"""C++ errors arrive as the Python class of the same name."""

from __future__ import annotations

import pickle

import penstock as ps
import pytest
from penstock import _core, errors

# ErrorCode of include/penstock/error.h, the class, the built-in that it also is.
MAPPING = [
    (0, errors.InvalidArgument, ValueError),
    (1, errors.NotFound, LookupError),
    (2, errors.Unsupported, NotImplementedError),
    (3, errors.CorruptData, Exception),
    (4, errors.IoError, OSError),
    (5, errors.ResourceExhausted, MemoryError),
    (6, errors.Internal, RuntimeError),
]


@pytest.mark.parametrize(("code", "error", "builtin"), MAPPING)
def test_each_class(code: int, error: type[Exception], builtin: type[Exception]) -> None:
    message = "a value is wrong, value 5, in obs/__schema/abc"
    with pytest.raises(builtin) as caught:
        _core._throw(code, message.encode())
    assert type(caught.value) is error
    assert isinstance(caught.value, ps.PenstockError)
    assert str(caught.value) == message
    assert getattr(ps, error.__name__) is error
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is error
    assert str(copy) == message


def test_all_classes_are_mapped() -> None:
    assert {error.__name__ for _, error, _ in MAPPING} | {"PenstockError"} == set(errors.__all__)


def test_a_message_need_not_be_utf8() -> None:
    with pytest.raises(ps.CorruptData, match=r"name \\xff"):
        _core._throw(3, b"name \xff")
