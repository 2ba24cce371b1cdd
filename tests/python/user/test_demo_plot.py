"""The demo's plots: whole epochs as ticks, nothing cut off, and what each row shows in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("plotly")
from penstock.base.cpu import cpu_name  # noqa: E402
from penstock.demo import plot  # noqa: E402
from penstock.demo.classifier import Epoch, History  # noqa: E402
from penstock.demo.training import Result  # noqa: E402
from saved_figures import saved_figures  # noqa: E402


def result(epochs: int, note: str = "") -> Result:
    made = Result("Cells of a test", "cell_type", note)
    for name, accuracy in ((plot.SHUFFLED, 1.0), (plot.IN_ORDER, 0.5)):
        history = History([Epoch(validation_accuracy=accuracy) for _ in range(epochs)])
        history.batch_losses = [2.0, 1.0, 0.5] * epochs
        made.histories[name] = history
    return made


def drawn(results: list[Result], path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    figures = saved_figures(monkeypatch)
    plot.save_png(results, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    return figure


@pytest.mark.parametrize("epochs", [1, 2, 3, 10, 11, 57, 1000])
def test_epochs_are_whole_numbers(
    epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = drawn([result(epochs)], tmp_path / "a.png", monkeypatch)
    ticks = figure.axes[1].get_xticks().tolist()
    assert ticks == [int(tick) for tick in ticks]
    assert min(ticks) >= 1
    assert max(ticks) <= epochs
    assert 1 <= len(ticks) <= 10
    assert (len(ticks) == epochs) == (epochs <= 10)


def test_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn([result(3)], tmp_path / "a.png", monkeypatch)
    loss, accuracy = figure.axes
    assert accuracy.get_ylim()[1] == 100, "no accuracy is above"
    assert loss.get_ylim()[0] == 0
    lines = accuracy.get_lines()
    assert [line.get_ydata()[0] for line in lines] == [100, 50]
    assert not any(line.get_clip_on() for line in lines), "the curve at 100 % is whole"
    assert len({line.get_marker() for line in lines}) == 2, "equal values are both seen"
    low, high = accuracy.get_xlim()
    assert low < 1
    assert high > 3


def test_a_row_says_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [result(2, "Stored in mixed order."), result(2)]
    figure = drawn(results, tmp_path / "a.png", monkeypatch)
    first, second = figure.axes[0], figure.axes[2]
    assert first.get_title(loc="left") == "Cells of a test\nStored in mixed order."
    assert second.get_title(loc="left") == "Cells of a test"
    assert figure.get_supxlabel().startswith(f"One run on {cpu_name()}, ")
    plot.save_html(results, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "Stored in mixed order." in page
    layout, _ = json.JSONDecoder().raw_decode(
        page, page.index("{", page.index("]", page.rindex('"cliponaxis":false')))
    )
    assert layout["xaxis2"]["tickvals"] == [1, 2]
    assert f"One run on {cpu_name()}, " in layout["title"]["text"]
