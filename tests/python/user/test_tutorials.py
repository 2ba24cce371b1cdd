"""The notebooks of docs/tutorials run from the first cell to the last, in a Jupyter kernel."""

from __future__ import annotations

import re
from pathlib import Path

import penstock as ps
import pytest
from conftest import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

FOLDER = ROOT / "docs" / "tutorials"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
#: Many times what a cell takes.
TIME_LIMIT_SECONDS = 900


def files_below(folder: Path) -> dict[str, int]:
    """Return when each file was written last."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(FOLDER / name, as_version=4)
    if "penstock.scvi" in (FOLDER / name).read_text():
        pytest.importorskip("scvi")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    client = nbclient.NotebookClient(
        notebook,
        timeout=TIME_LIMIT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    shared = Path(ps.example())
    before = files_below(shared)
    client.execute()
    assert files_below(shared) == before  # the cells of all who ask for the example
    text = "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    if name.startswith("1-"):
        reached, commonest = (float(each) for each in re.findall(r"([\d.]+)%", text)[-2:])
        assert reached > commonest + 10, text
    if name.startswith("2-"):
        first, last = (int(each) for each in re.findall(r"(\d+) after", text)[:2])
        assert last < first, text
        assert float(re.findall(r"spaces: ([\d.]+e[+-]\d+)", text)[0]) < 1e-4
    if name.startswith("3-"):  # labels that were hidden, and the commonest
        hidden, labelled, commonest = (float(each) for each in re.findall(r"([\d.]+)%", text)[-3:])
        assert min(hidden, labelled) > commonest + 20, text
    if name.startswith("4-"):
        mapped, commonest = (float(each) for each in re.findall(r"([\d.]+)%", text)[-2:])
        assert mapped > commonest + 30, text
    shares = [int(each) for each in re.findall(r"(\d+)%", text)]
    if name.startswith("6-"):
        assert len(shares) == 14
        assert all(
            inside > outside + 30 for inside, outside in zip(shares[::2], shares[1::2], strict=True)
        ), text
    if name.startswith("7-"):  # PEAKVI, MULTIVI, cells with genes only
        assert min(shares) > 60, text
    if name.startswith("8-"):
        _, held_out, commonest = shares
        assert held_out > commonest + 30, text
    if name.startswith("10-"):
        assert shares[0] > 80, text
        first, last = (int(each) for each in re.findall(r"(\d+) after", text)[:2])
        assert last < first, text
        assert "equal: True" in text
    if name.startswith("11-"):  # neighbours of the same type, and of the same donor
        assert shares[0] > 80, text
        assert shares[1] < 20, text
        first, last = (int(each) for each in re.findall(r"(\d+) after", text)[:2])
        assert last < first, text
    if name.startswith("9-"):
        same, other = (float(each) for each in re.findall(r"\d+\.\d+", text)[-2:])
        assert other > 5 * max(same, 0.01), text


def test_they_show_their_outputs() -> None:
    assert len(NOTEBOOKS) == 11
    for name in NOTEBOOKS:
        notebook = nbformat.read(FOLDER / name, as_version=4)
        nbformat.validate(notebook)
        kept = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        assert kept, name
        assert not any(output.output_type == "error" for output in kept), name
