"""C++ errors are raised as the Python class of the same name."""

from __future__ import annotations

import pickle
from pathlib import Path

import penstock as ps
import pyarrow as pa
import pytest
import tiledbsoma
from penstock import _core, errors
from soma_tables import write_experiment

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
    again = error.__new__(error, message)  # as tblib does, which Dask brings
    again.__init__(message)
    assert (type(again), str(again)) == (error, message)


def test_all_classes_are_mapped() -> None:
    assert {error.__name__ for _, error, _ in MAPPING} | {"PenstockError"} == set(errors.__all__)


def test_a_message_need_not_be_utf8() -> None:
    with pytest.raises(ps.CorruptData, match=r"name \\xff"):
        _core._throw(3, b"name \xff")


def encrypted(path: Path) -> Path:
    context = tiledbsoma.SOMATileDBContext(
        tiledb_config={
            "sm.encryption_type": "AES_256_GCM",
            "sm.encryption_key": "0123456789abcdef0123456789abcdef",
        }
    )
    with tiledbsoma.Experiment.create(str(path), context=context) as experiment:
        schema = pa.schema([("soma_joinid", pa.int64())])
        obs = experiment.add_new_dataframe("obs", schema=schema, domain=[(0, 9)])
        obs.write(pa.table({"soma_joinid": range(10)}))
        obs.close()
    return path


def test_encryption_says_what_to_do(tmp_path: Path) -> None:
    """Of the experiment as a whole, and of an array in one that is not."""
    whole = encrypted(tmp_path / "whole")
    with pytest.raises(
        ps.Unsupported, match=r"encrypted .*write the array again without"
    ) as caught:
        ps.open(whole).obs.to_pandas()
    assert str(whole) in str(caught.value)

    part = tmp_path / "part"
    write_experiment(part, pa.table({"soma_joinid": pa.array(range(3), pa.int64())}))
    (part / "obs").rename(tmp_path / "readable")
    (whole / "obs").rename(part / "obs")
    experiment = ps.open(part)
    with pytest.raises(
        ps.Unsupported, match=r"encrypted .*write the array again without"
    ) as caught:
        experiment.obs.to_pandas()
    assert str(part / "obs") in str(caught.value)
    assert len(experiment.var("RNA").to_pandas()) == 2
