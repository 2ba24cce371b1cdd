"""Invalid arguments and invalid sources."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle
from penstock.experiment.packs.pack import pack_part


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ps.InvalidArgument, "batch_size must be 1 or more, got 0"),
        ({"batch_size": -5}, ps.InvalidArgument, "got -5"),
        ({"batch_size": 2.5}, ps.InvalidArgument, "integer, got 2.5"),
        ({"batch_size": True}, ps.InvalidArgument, "integer, got True"),
        ({"shuffle": "yes"}, ps.InvalidArgument, "'global' or 'chunks', got 'yes'"),
        ({"seed": -1}, ps.InvalidArgument, "seed must be 0 or more, got -1"),
        ({"seed": None}, ps.InvalidArgument, "seed must be an integer, got None"),
        (
            {"memory_budget": "lots"},
            ps.InvalidArgument,
            "memory_budget must be .*'2GiB', got 'lots'",
        ),
        ({"memory_budget": 0}, ps.InvalidArgument, "memory_budget must be 1 or more"),
        ({"memory_budget": 2}, ps.InvalidArgument, "2 bytes; did you mean '2GiB'"),
        ({"memory_budget": 2.0}, ps.InvalidArgument, "got 2.0; did you mean '2GiB'"),
        ({"memory_budget": 4096}, ps.InvalidArgument, "4,096 bytes; did you mean '4096MiB'"),
        ({"memory_budget": "2048"}, ps.InvalidArgument, "2,048 bytes; did you mean '2048MiB'"),
        ({"memory_budget": "1kb"}, ps.InvalidArgument, "bytes; did you mean '1GiB'"),
        ({"memory_budget": "1 B"}, ps.InvalidArgument, "1 byte; did you mean '1GiB'"),
        ({"threads": 0}, ps.InvalidArgument, "threads must be 1 or more"),
        ({"dtype": "complex64"}, ps.InvalidArgument, "float32, .*complex64"),
        ({"dtype": "no such"}, ps.InvalidArgument, "no such"),
        ({"format": "jax"}, ps.InvalidArgument, "'numpy', 'torch', got 'jax'"),
        ({"obs_format": "polars"}, ps.InvalidArgument, "got 'polars'"),
        ({"uneven": "maybe"}, ps.InvalidArgument, "'drop', 'pad', 'exact'"),
        ({"rank": 1}, ps.InvalidArgument, "come together"),
        ({"rank": 2, "world_size": 2}, ps.InvalidArgument, "rank must be 1 or less"),
        ({"measurement": "protein"}, ps.NotFound, "no measurement 'protein'; choose from RNA, in "),
        ({"layer": "normalized"}, ps.NotFound, "no layer 'normalized'; choose from raw, in "),
        (
            {"obs_columns": ["celltype"]},
            ps.NotFound,
            "no column 'celltype'; did you mean 'cell_type'. It has ",
        ),
        ({"obs_columns": b"cell_type"}, ps.InvalidArgument, "list of names"),
        ({"obs_columns": ["soma_joinid", "soma_joinid"]}, ps.InvalidArgument, "twice"),
        ({"obs_columns": ["cell_type"], "obs_format": "torch"}, ps.InvalidArgument, "LabelEncoder"),
        (
            {"encoders": ["cell_type"]},
            ps.InvalidArgument,
            r"such as ps.LabelEncoder\('cell_type'\), got 'cell_type'; obs_columns=\['cell_type'\]",
        ),
        ({"encoders": [ps.LabelEncoder("nope")]}, ps.NotFound, "obs has no column 'nope'; it has "),
        (
            {"encoders": [ps.LabelEncoder("cell_type")], "obs_columns": ["cell_type"]},
            ps.InvalidArgument,
            "'cell_type' twice",
        ),
        (
            {"obs_query": "cell_type = 'B'"},
            ps.InvalidArgument,
            r"^obs_query: .* found '='.*, in \S*/obs\n  cell_type = 'B'\n {12}\^$",
        ),
        (
            {"obs_query": "cell_type == "},
            ps.InvalidArgument,
            "^obs_query: .* the end of the filter",
        ),
        ({"obs_query": "nope == 1"}, ps.NotFound, r"^obs_query: .*'nope'.*cell_type.*, in \S*/obs"),
        ({"obs_query": "a\0b"}, ps.InvalidArgument, "obs_query must hold no NUL"),
        ({"obs_query": "a\udc80b"}, ps.InvalidArgument, "obs_query must be valid Unicode"),
        ({"obs_query": 5}, ps.InvalidArgument, r"obs_query must be a filter, .*, got 5 \(int\)"),
        ({"obs_query": ps.AxisQuery(5)}, ps.InvalidArgument, "obs_query must be a string, got 5"),
        ({"obs_query": ps.AxisQuery(coords=5)}, ps.InvalidArgument, "tuple .*, got 5 .*obs_query"),
        ({"obs_query": ps.AxisQuery(coords=(1.5,))}, ps.InvalidArgument, "integers or .* got 1.5"),
        (
            {"obs_query": ps.AxisQuery(coords=([[1], [2, 3]],))},
            ps.InvalidArgument,
            r"list of integers .* got \[\[1\], \[2, 3\]\]",
        ),
        (
            {"var_query": ps.AxisQuery(coords=(slice("a", "b"),))},
            ps.InvalidArgument,
            "integers as ends, got slice.*, in var_query",
        ),
        ({"obs_query": ps.AxisQuery(coords=(slice(0, 1.5),))}, ps.InvalidArgument, "1.5"),
        ({"obs_query": ps.AxisQuery(coords=(slice(5, 2),))}, ps.InvalidArgument, "slice"),
        ({"obs_query": ps.AxisQuery(coords=(slice(0, 9, 2),))}, ps.InvalidArgument, "step"),
        (
            {"obs_query": ps.AxisQuery(coords=([-1],))},
            ps.InvalidArgument,
            "coords must be 0 or more",
        ),
        ({"obs_query": ps.AxisQuery(coords=(["a"],))}, ps.InvalidArgument, "integers"),
        ({"obs_query": ps.AxisQuery(coords=(1, 2))}, ps.InvalidArgument, "2 entries"),
        ({"obs_query": ps.AxisQuery(coords="ab")}, ps.InvalidArgument, "tuple"),
        (
            {"var_query": "nope == 1"},
            ps.NotFound,
            r"^var_query: .*'nope'.*feature_id.*, in \S*/ms/RNA/var\n",
        ),
        ({"layer": 5}, ps.InvalidArgument, r"layer must be a string, got 5 \(int\)"),
        ({"layer": "a\udc80"}, ps.InvalidArgument, "layer must be valid Unicode"),
        ({"measurement": 5}, ps.InvalidArgument, "measurement must be a string, got 5"),
        ({"obs_columns": 5}, ps.InvalidArgument, "obs_columns must be a list of names, got 5"),
        ({"obs_columns": [5]}, ps.InvalidArgument, "name in obs_columns must be a string, got 5"),
        ({"encoders": 5}, ps.InvalidArgument, "list of penstock Encoders, got 5"),
        ({"seed": "x"}, ps.InvalidArgument, r"seed must be an integer, got 'x' \(str\)"),
        ({"threads": -1}, ps.InvalidArgument, "threads must be 1 or more, got -1"),
        ({"dtype": None}, ps.InvalidArgument, "dtype must be one of .*, got None"),
        ({"dtype": 5}, ps.InvalidArgument, "dtype must be one of .*, got 5"),
        ({"memory_budget": 1.5}, ps.InvalidArgument, "memory_budget must be a whole number"),
        ({"memory_budget": "9" * 400 + "GiB"}, ps.InvalidArgument, r"less than 2\*\*63 bytes"),
    ],
)
def test_bad_arguments(soma_small: Oracle, arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        ps.Dataset(soma_small.path, **arguments)


def test_a_filter_error_points_at_the_place(soma_small: Oracle) -> None:
    text = "cell_type == 'B cell' and and n_genes > 3"
    with pytest.raises(ps.InvalidArgument) as error:
        ps.Dataset(soma_small.path, obs_query=text)
    _, shown, pointer = str(error.value).split("\n")
    assert shown == f"  {text}"
    assert pointer == " " * (2 + text.index("and", text.index("and") + 1)) + "^^^"


def test_bad_arguments_of_methods(soma_small: Oracle) -> None:
    exp = ps.open(soma_small.path)
    ds = ps.Dataset(exp)
    for call, message in [
        (lambda: exp.var(5), "measurement must be a string, got 5"),
        (lambda: exp.layers(None), "measurement must be a string, got None"),
        (lambda: exp.x("RNA", 5), "layer must be a string, got 5"),
        (lambda: exp.obs.read(5), "columns must be a list of names, got 5"),
        (lambda: exp.obs.to_pandas(5), "columns must be a list of names, got 5"),
        (lambda: exp.obs.to_pandas(None, 5), "value_filter must be a string, got 5"),
        (lambda: exp.obs.to_pandas("a == 1"), "a filter is value_filter='a == 1', not columns"),
        (lambda: exp.obs.to_pandas(value_filter="a ="), r"^value_filter: .*, in \S*/obs\n  a =\n"),
        (lambda: ds.set_epoch(1.5), "epoch must be an integer, got 1.5"),
        (lambda: ds.set_epoch(-1), "epoch must be 0 or more, got -1"),
        (lambda: ds.head("a"), "n must be an integer, got 'a'"),
        (lambda: ds.random_split(0.5, 0.5, seed="x"), "seed must be an integer, got 'x'"),
        (lambda: ds.random_split(np.array([[0.5, 0.5]])), "two parts or more"),
        (
            lambda: ds.random_split("ab"),
            r"parts must be fractions, .*; a column is group= or stratify=",
        ),
        (lambda: ds.random_split(0.8), r"two parts or more, such as 0.8, 0.2, got 1"),
        (lambda: ps.group_split(ds, 0.75, "donor", group="donor"), "a column is group="),
        (lambda: ds.random_split(np.array([0.8]), 0.2), r"a fraction .*, got array\(\[0.8\]\)"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            call()
    whole, fractions = (ds.random_split(np.array(parts)) for parts in ([240, 60], [0.8, 0.2]))
    assert [part.n_obs for part in whole] == [part.n_obs for part in fractions] == [240, 60]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("a\0b", r"uri must hold no NUL character, got 'a\\x00b'"),
        (os.fsdecode(b"a\xff"), r"uri must be valid Unicode \(UTF-8\), got 'a\\udcff'"),
        (b"a", "uri must be a path or URI, got b'a'"),
        (5, "uri must be a path or URI, got 5"),
        ("", "an empty string"),
    ],
)
def test_bad_paths(uri, message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        ps.open(uri)
    if isinstance(uri, str):
        with pytest.raises(ps.InvalidArgument, match=message):
            ps.Dataset(uri)


def test_bad_timestamps(soma_small: Oracle) -> None:
    with pytest.raises(ps.NotFound, match=r"not there yet at timestamp 1 .milliseconds since 1970"):
        ps.open(soma_small.path, timestamp=1)
    for timestamp in ("2020", 1.5, True):
        with pytest.raises(ps.InvalidArgument, match="a datetime or an integer, milliseconds"):
            ps.open(soma_small.path, timestamp=timestamp)
    with pytest.raises(ps.InvalidArgument, match="timestamp must be 0 or more, got -1"):
        ps.open(soma_small.path, timestamp=-1)


def test_bad_sources(tmp_path, soma_small: Oracle) -> None:
    with pytest.raises(ps.NotFound, match="no-such"):
        ps.open(tmp_path / "no-such")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path, what in [
        (soma_small.path / "ms", "it is a SOMACollection"),
        (soma_small.path / "obs", "it is a SOMADataFrame"),
    ]:
        with pytest.raises(ps.InvalidArgument) as error:
            ps.open(path)
        assert str(error.value) == f"not a SOMA experiment: {what}, {path}"
    neither = "neither a SOMA experiment, a pack nor a zarr store of AnnData"
    with pytest.raises(ps.InvalidArgument, match=f"^{neither}: the folder is empty, .*empty$"):
        ps.open(tmp_path / "empty")
    (tmp_path / "many").mkdir()
    for name in "gfedcba":
        (tmp_path / "many" / name).write_text("x")
    with pytest.raises(
        ps.InvalidArgument, match=f"^{neither}: the folder has a, b, c, d, e and 2 more, "
    ):
        ps.open(tmp_path / "many")
    with pytest.raises(ps.InvalidArgument, match=r"neither HDF5 \(h5ad, h5mu, 10x .h5\) nor a zip"):
        ps.open(tmp_path / "file")
    (tmp_path / "empty.h5ad").write_bytes(b"")
    with pytest.raises(ps.InvalidArgument, match=r"the file is empty: .*empty\.h5ad"):
        ps.open(tmp_path / "empty.h5ad")
    with pytest.raises(ps.InvalidArgument, match=r"join what it matches with penstock\.join\("):
        ps.open(tmp_path / "*.h5ad")
    with pytest.raises(ps.Unsupported, match="gs"):
        ps.open("gs://bucket/experiment")
    with pytest.raises(ps.InvalidArgument, match=r"made from a path or URI, .*, got 5"):
        ps.Dataset(5)


def test_progress_of_a_pack_is_checked_first(soma_small: Oracle, tmp_path: Path) -> None:
    for pack in (
        lambda: ps.pack(soma_small.path, tmp_path / "pack", progress="x"),
        lambda: pack_part(soma_small.path, tmp_path / "pack", 0, 2, progress="x"),
    ):
        with pytest.raises(ps.InvalidArgument, match="progress must be a function, got 'x'"):
            pack()
    assert not list(tmp_path.iterdir())
