"""Packs in a bucket that several calls and parts write at once, or that change meanwhile."""

from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from bucket_packs import Place, rows_in
from packed_experiments import contents, put_cells, write_growing
from penstock.experiment.packs import to_bucket
from penstock.experiment.packs.pack import pack_part

pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("obstore")
from remote_servers import BUCKET, Gate, client, fault_proxy

pytestmark = pytest.mark.usefixtures("no_credentials")


def test_another_pack_comes_meanwhile(
    many_units: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pack.json is not written over."""
    came = []

    def comes(*given: Any) -> None:
        place.put("pack.json", b"another")
        came.append(True)

    monkeypatch.setattr(to_bucket, "_check_whole", comes)
    with pytest.raises(ps.InvalidArgument, match="another pack was made there meanwhile"):
        ps.pack(many_units, place.address, destination_options=place.options)
    assert came
    assert place.objects()["pack.json"] == hashlib.sha256(b"another").hexdigest()


@pytest.mark.parametrize("what", ["lost", "replaced"])
def test_objects_that_vanish_meanwhile(
    what: str, many_units: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, key = to_bucket._check_whole, f"{place.name}/ms/RNA/X/raw/"

    def vanishing(*given: Any) -> None:
        s3 = client(place.server)
        row_file = s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"][1]["Key"]
        if what == "lost":
            s3.delete_object(Bucket=BUCKET, Key=row_file)
        else:
            s3.put_object(Bucket=BUCKET, Key=row_file, Body=b"other")
        real(*given)

    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    with monkeypatch.context() as patch:
        patch.setattr(to_bucket, "_check_whole", vanishing)
        with pytest.raises(ps.IoError, match="1 object of the pack was deleted or replaced"):
            ps.pack(many_units, place.address, **options)
    assert not place.is_pack()
    seen: list[Any] = []
    ps.pack(many_units, place.address, **options, progress=seen.append)
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    files = sorted((tmp_path / "whole.pack").rglob("*.rows"))
    assert seen[-1].rows_kept == 3_000 - rows_in(files[1])
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_a_part_of_a_pack_that_was_given_up(many_units: Path, place: Place) -> None:
    """It stops after the file that was on its way. Whoever reads that is told: it has another key."""
    options: dict[str, Any] = {"rows_per_file": 500}
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        errors: list[BaseException] = []

        def late() -> None:
            try:
                through = place.through(proxy)
                pack_part(many_units, place.address, 0, 1, **options, destination_options=through)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=late)
        thread.start()
        assert gate.reached.wait(60)
        s3 = client(place.server)
        for path in place.objects():
            s3.delete_object(Bucket=BUCKET, Key=f"{place.name}/{path}")
        # At a timestamp it is another pack, whose files have the same names.
        other = ps.open(many_units, timestamp=2**42)
        ps.pack(other, place.address, **options, destination_options=place.options)
        before = place.objects()
        gate.open.set()
        thread.join()
    assert re.search("was deleted meanwhile", str(errors[0])), errors
    after = place.objects()
    assert after.keys() == before.keys()
    (changed,) = [path for path in after if after[path] != before[path]]
    assert changed.endswith(".rows")
    with pytest.raises(ps.CorruptData, match=changed):
        for _ in ps.Dataset(place.open(), batch_size=100):
            pass


def test_a_part_of_an_executor_that_comes_late(many_units: Path, place: Place) -> None:
    """After its pack was deleted it leaves nothing that another pack would meet."""
    with fault_proxy(place.server) as proxy, ThreadPoolExecutor(1) as pool:
        gate = Gate(proxy, "PUT", ".rows")
        held: list[tuple[Any, ...]] = []

        class Late:
            """Runs the first part, and keeps the others for later."""

            def submit(self, *call: Any) -> Any:
                held.append(call)
                return pool.submit(*call)

        with pytest.raises(ps.IoError, match="deleted meanwhile"):
            thread = threading.Thread(
                target=lambda: (gate.reached.wait(60), delete(), gate.open.set())
            )

            def delete() -> None:
                for path in place.objects():
                    key = f"{place.name}/{path}"
                    client(place.server).delete_object(Bucket=BUCKET, Key=key)

            thread.start()
            ps.pack(
                many_units, place.address, rows_per_file=500, executor=Late(), parts=3,
                destination_options=place.through(proxy),
            )  # fmt: skip
        thread.join()
    before = set(place.objects())
    assert len(held) == 3
    for _, function, arguments in (call[1:] for call in held):
        with pytest.raises(ps.IoError, match="deleted meanwhile"):
            function(*arguments)
    assert set(place.objects()) == before


def test_a_part_that_runs_on_after_the_end(many_units: Path, place: Place) -> None:
    """Changes nothing, and is no error: it was a copy of one that is done."""
    options: dict[str, Any] = {"rows_per_file": 500}
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        done: list[Any] = []
        thread = threading.Thread(
            target=lambda: done.append(
                pack_part(
                    many_units,
                    place.address,
                    0,
                    1,
                    **options,
                    destination_options=place.through(proxy),
                )
            )
        )
        thread.start()
        assert gate.reached.wait(60)
        ps.pack(many_units, place.address, **options, destination_options=place.options)
        before = place.objects()
        gate.open.set()
        thread.join()
    assert done[0].rows_done == done[0].rows_total == 3_000
    assert place.objects() == before
    again = pack_part(many_units, place.address, 0, 1, **options, destination_options=place.options)
    assert again.rows_total == 3_000
    assert place.objects() == before


def test_two_callers_at_once(many_units: Path, place: Place, tmp_path: Path) -> None:
    """Both begin before either has written a file: both end with the one pack."""
    together = threading.Barrier(2)
    ends: list[Any] = []

    def call() -> None:
        waited = False

        def progress(now: Any) -> None:
            nonlocal waited
            if not waited:
                together.wait(60)
                waited = True

        ends.append(
            ps.pack(
                many_units, place.address, rows_per_file=500, destination_options=place.options,
                progress=progress,
            ).n_obs
        )  # fmt: skip

    threads = [threading.Thread(target=call) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ends == [3_000, 3_000]
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    assert place.objects() == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("round_", range(3))
def test_parts_that_begin_at_once(
    round_: int, many_units: Path, place: Place, tmp_path: Path
) -> None:
    """All of a job array, before there is anything."""
    together = threading.Barrier(4)
    rows: list[int] = []
    errors: list[BaseException] = []

    def part(number: int) -> None:
        together.wait(60)
        try:
            to = {"rows_per_file": 500, "destination_options": place.options}
            rows.append(pack_part(many_units, place.address, number, 4, **to).rows_total)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=part, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
    assert sum(rows) == 3_000
    ps.pack(many_units, place.address, rows_per_file=500, destination_options=place.options)
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    assert place.objects() == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("after", ["the listing", "pack.json was looked for"])
def test_the_pack_ends_while_a_part_begins(after: str, many_units: Path, place: Place) -> None:
    """The part has nothing to do, and leaves nothing."""
    to: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    pack_part(many_units, place.address, 0, 2, **to)
    kind, text = ("GET", "pack.json") if after == "the listing" else ("PUT", "pack.partial")
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, kind, text)
        done: list[Any] = []

        def late() -> None:
            through = place.through(proxy)
            done.append(
                pack_part(many_units, place.address, 1, 2, **{**to, "destination_options": through})
            )

        thread = threading.Thread(target=late)
        thread.start()
        assert gate.reached.wait(60)
        ps.pack(many_units, place.address, **to)
        before = place.objects()
        gate.open.set()
        thread.join()
        assert not [path for path in proxy.requests if ".rows" in path]
    assert done[0].rows_kept == done[0].rows_total > 0
    assert place.objects() == before


def test_the_source_grows_meanwhile(place: Place, tmp_path: Path) -> None:
    path = write_growing(tmp_path / "cells")
    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    pack_part(path, place.address, 0, 2, **options)
    put_cells(path, np.arange(3_000, 3_100))
    with pytest.raises(ps.InvalidArgument, match="or the source was written to since"):
        ps.pack(path, place.address, **options)
