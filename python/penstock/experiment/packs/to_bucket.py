"""Packs in buckets: packed into scratch on a local disk, and written from there file by file.

A folder in a bucket is a pack once ``pack.json`` is there. Until then it has ``pack.partial``, with the
key of what is packed, as the folder of an unfinished pack has. Row files that are there are kept: the
packer is shown their headers and indexes.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import _core
from penstock.base.scratch import scratch_folder
from penstock.base.text import plural
from penstock.errors import InvalidArgument, IoError
from penstock.executors.parts import Executor
from penstock.experiment.bucket import Bucket, in_threads

from .job import PackJob, PackProgress, run_packer
from .parts import PartsProgress, counted_parts, run_parts

_CONTENTS, _MARKER = "pack.json", "pack.partial"

# Of docs/reference/pack-format.md: the header of a row file, and where its index is.
_HEADER_BYTES, _INDEX_PLACE = 112, 88
_READ_BYTES = 4 << 20
_MAGIC = b"psrowf\x01\n"


def pack_to_bucket(
    job: PackJob,
    bucket: Bucket,
    executor: Executor | None,
    parts: int | None,
    progress: Callable[[PackProgress], Any] | None,
) -> None:
    """Pack into a bucket, the files of X by an executor if there is one."""
    with _packer(job) as (packer, folder):
        if executor is not None:
            parts = counted_parts(job, packer, parts)
        there = _begun(bucket, packer.key)
        if there is None:
            bucket.delete(_MARKER)  # of a call that was killed just before
            if progress is not None:
                progress(_all_kept(packer))
            return
        if executor is not None and parts is not None:
            run_parts(job, packer, executor, parts, _pack_part, progress)
            progress = None
            there = bucket.sizes()
        written = _pack_files(bucket, packer, folder, there, progress)
        _check_marker(bucket, packer.key)
        tables = _files_below(folder, but={_CONTENTS, _MARKER, *packer.files()})
        bucket.put_files(folder, tables)
        expected = written | {path: (folder / path).stat().st_size for path in tables}
        _check_whole(bucket, expected)
        contents = (folder / _CONTENTS).read_bytes()
    if not bucket.create(_CONTENTS, contents):
        raise InvalidArgument(f"another pack was made there meanwhile: {bucket.address}")
    bucket.delete(_MARKER)


def pack_part_to_bucket(
    job: PackJob,
    bucket: Bucket,
    number: int,
    count: int,
    progress: Callable[[PackProgress], Any] | None = None,
) -> PackProgress:
    """Pack the files of a part, and write them to the bucket."""
    with _packer(job, (number, count, False)) as (packer, folder):
        there = _begun(bucket, packer.key)
        if there is not None:
            _pack_files(bucket, packer, folder, there, progress)
            return packer.progress()
        if progress is not None:
            progress(_all_kept(packer))
        return _all_kept(packer)


def _all_kept(packer: _core.Packer) -> PartsProgress:
    rows = packer.progress().rows_total
    return PartsProgress(rows, rows, rows)


def _pack_part(job: PackJob, number: int, parts: int) -> tuple[int, int, int]:
    """Pack a part, on a worker. Return rows done, rows kept and bytes written."""
    bucket = job.bucket
    assert bucket is not None
    with _packer(job, (number, parts, False)) as (packer, folder):
        _check_marker(bucket, packer.key)  # the caller has made it
        if bucket.read(_CONTENTS) is not None:
            rows = packer.progress().rows_total
            return rows, rows, 0
        _pack_files(bucket, packer, folder, bucket.sizes(), None)
        now = packer.progress()
    return now.rows_done, now.rows_kept, now.bytes_written


@contextmanager
def _packer(
    job: PackJob, part: tuple[int, int, bool] | None = None
) -> Iterator[tuple[_core.Packer, Path]]:
    """Yield a packer, and the folder in scratch that it will write."""
    with scratch_folder("penstock-pack-", job.scratch) as scratch:
        packer = replace(job, path=str(scratch / "pack")).packer(part)
        try:
            yield packer, scratch / "pack"
        finally:
            packer.close()


def _begun(bucket: Bucket, key: str) -> dict[str, int] | None:
    """Mark the folder as one that is being packed. Return its objects, None if the pack is there.

    Raises
    ------
    InvalidArgument
        Something else is there.
    """
    there = bucket.sizes()  # once: others may begin or end meanwhile
    if there and not {_CONTENTS, _MARKER} & there.keys():
        raise InvalidArgument(
            f"there is something that is no pack, which is not overwritten: {bucket.address}"
        )
    if _is_there(bucket, key):
        return None
    if not bucket.create(_MARKER, key.encode()):
        raise InvalidArgument(
            "a pack of other content was begun there, or of other cells or layers, or the source was "
            f"written to since (delete what is there to begin again): {bucket.address}"
        )
    if _is_there(bucket, key):  # it came just before the marker
        bucket.delete(_MARKER)
        return None
    return there


def _is_there(bucket: Bucket, key: str) -> bool:
    """Whether the pack is there. Raises InvalidArgument for another one."""
    found = bucket.read(_CONTENTS)
    if found is not None and _key_of(found) != key:
        raise InvalidArgument(
            "there is a pack of other content, or other cells or layers of it, and a pack in a bucket is "
            f"not replaced: give another address, or delete it first: {bucket.address}"
        )
    return found is not None


def _key_of(contents: bytes) -> Any:
    try:
        return json.loads(contents)["key"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _check_marker(bucket: Bucket, key: str) -> None:
    """Raise IoError if what is packed here was given up, so that no file of another pack is written over."""
    if bucket.read(_MARKER) == key.encode():
        return
    found = bucket.read(_CONTENTS)
    if found is None or _key_of(found) != key:
        raise IoError(f"the pack that this belongs to was deleted meanwhile: {bucket.address}")


def _pack_files(
    bucket: Bucket,
    packer: _core.Packer,
    folder: Path,
    there: dict[str, int],
    progress: Callable[[PackProgress], Any] | None,
) -> dict[str, int]:
    """Pack the row files that are not there, and write them. Return bytes of all, by path."""
    partial = folder.with_name(folder.name + ".partial")
    files = packer.files()
    packer.begin()
    outlines = _outlines(bucket, partial, {path: there[path] for path in files if path in there})
    sizes = {path: there[path] for path in outlines}
    made = iter([path for path in files if path not in outlines])
    writing: tuple[str, Future[Any]] | None = None
    path = next(made, None)

    def write(now: PackProgress) -> None:
        """Write the files that are whole. One is on its way while the next is packed."""
        nonlocal path, writing
        while path is not None and (whole := _existing(folder, partial, path)) is not None:
            if writing is not None:
                bucket.wait_for(*writing)
            _check_marker(bucket, packer.key)
            sizes[path] = whole.stat().st_size
            writing = path, bucket.begin_to_put(path, whole)
            whole.unlink()
            path = next(made, None)
        if progress is not None:
            progress(now)

    run_packer(packer, write)
    if writing is not None:
        bucket.wait_for(*writing)
    for outline, inode in outlines.items():
        file = _existing(folder, partial, outline)
        assert file is not None
        if file.stat().st_ino != inode:  # what was there was of no use
            bucket.put(outline, file)
            sizes[outline] = file.stat().st_size
    return sizes


def _existing(folder: Path, partial: Path, path: str) -> Path | None:
    """Return the file in the folder, which has its name once the pack is whole."""
    return next((each / path for each in (partial, folder) if (each / path).exists()), None)


def _outlines(bucket: Bucket, partial: Path, files: dict[str, int]) -> dict[str, int]:
    """Write headers and indexes of row files that are there, with holes between. Return inodes by path."""

    def outlined(path: str) -> tuple[str, int] | None:
        size = files[path]
        header = bucket.read(path, 0, _HEADER_BYTES) if size > _HEADER_BYTES else None
        if header is None or not header.startswith(_MAGIC) or len(header) != _HEADER_BYTES:
            return None
        offset, length = struct.unpack_from("<QQ", header, _INDEX_PLACE)
        if not _HEADER_BYTES <= offset < size or length != size - offset:
            return None
        with (partial / path).open("wb") as file:
            file.write(header)
            file.seek(offset)
            # A damaged header may call the whole file an index: it does not go through memory.
            for start in range(offset, size, _READ_BYTES):
                file.write(bucket.read(path, start, min(_READ_BYTES, size - start)) or b"")
            file.truncate(size)
            return path, os.fstat(file.fileno()).st_ino

    return dict(each for each in in_threads(outlined, files) if each is not None)


def _files_below(folder: Path, but: set[str]) -> list[str]:
    """Return the files in a folder by path below it, in order."""
    paths = (each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
    return sorted(path for path in paths if path not in but)


def _check_whole(bucket: Bucket, expected: dict[str, int]) -> None:
    there = bucket.sizes()
    wrong = [path for path, size in expected.items() if there.get(path) != size]
    if wrong:
        were = "was" if len(wrong) == 1 else "were"
        raise IoError(
            f"{plural(len(wrong), 'object')} of the pack {were} deleted or replaced while it was made, "
            f"such as {wrong[0]}; call again to make the pack whole: {bucket.address}"
        )
