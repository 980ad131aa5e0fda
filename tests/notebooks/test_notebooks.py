"""The notebooks run from top to bottom, and what Colab opens is what the source says."""

import os
import pathlib
import sys

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
TINY = {"GOZERO_BOARDS": "8", "GOZERO_MOVES": "4", "GOZERO_SIMULATIONS": "8"}


def test_there_are_notebooks():
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_runs(source, monkeypatch, as_here):
    for name, value in TINY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XLA_FLAGS", as_here.get("XLA_FLAGS", ""))
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    notebook = jupytext.read(source)
    same = f"import sys; assert sys.executable == {sys.executable!r}, sys.executable"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(same))
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(source.parent)}},
    )
    client.execute()
    pictures = [
        output.data["image/svg+xml"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(pictures) == 4
    assert all(picture.startswith("<svg ") for picture in pictures)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_ipynb_is_the_source(source):
    """If not: ``jupytext --to ipynb notebooks/NAME.py``."""
    committed = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    expected = jupytext.read(source)

    def content(notebook):
        return [(cell.cell_type, cell.source) for cell in notebook.cells]

    assert content(committed) == content(expected)
    assert not any(cell.get("outputs") for cell in committed.cells)
    assert f"blob/main/notebooks/{source.stem}.ipynb" in committed.cells[0].source
