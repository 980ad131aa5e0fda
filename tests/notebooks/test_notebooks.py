"""The notebooks run from top to bottom, and the .ipynb files match their sources."""

import importlib.util
import os
import pathlib
import time

import jupytext
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
TINY = {"BOARDS": 8, "MOVES": 4, "SIMULATIONS": 8, "GAMES": 8, "ITERATIONS": 2, "DEVICES": 2}
MOST_S, MOST_BYTES = 180, 500_000
QUICK = "first_search"  # the others take much longer to compile


def _module():
    """The module docs/notebooks.py, which saves the notebooks."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executed(source, monkeypatch, flags=""):
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    monkeypatch.setenv("XLA_FLAGS", flags)
    return _module().executed(source)


def pictures(notebook):
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    svgs = [one.data["image/svg+xml"] for one in outputs if "image/svg+xml" in one.get("data", {})]
    return ["".join(one) for one in svgs]


def marked(names, mark):
    return [pytest.param(one, id=one.stem, marks=mark(one)) for one in names]


@pytest.mark.parametrize(
    "source",
    marked(SOURCES, lambda one: pytest.mark.thorough if one.stem == QUICK else pytest.mark.slow),
)
def test_it_runs(source, monkeypatch, as_here):
    for name, value in TINY.items():
        monkeypatch.setenv(f"GOZERO_{name}", str(value))
    drawn = pictures(executed(source, monkeypatch, as_here.get("XLA_FLAGS", "")))
    assert len(drawn) == 4 if source.stem == QUICK else drawn
    assert all(picture.startswith("<svg ") for picture in drawn)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_runs_in_three_minutes_as_users_run_it(source, monkeypatch):
    started = time.monotonic()
    executed(source, monkeypatch)
    assert time.monotonic() - started < MOST_S  # on two idle cores


def test_there_are_seven_notebooks():
    assert len(SOURCES) == 7


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_ipynb_matches_its_source_and_output(source):
    """If this fails, run ``python docs/notebooks.py NAME``."""
    path = source.with_suffix(".ipynb")
    committed = nbformat.read(path, as_version=4)

    def content(notebook):
        return [(cell.cell_type, cell.source) for cell in notebook.cells]

    assert content(committed) == content(jupytext.read(source))
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    assert all(picture.startswith("<svg ") for picture in pictures(committed))
    assert pictures(committed)
    assert path.stat().st_size < MOST_BYTES
    assert f"blob/main/notebooks/{source.stem}.ipynb" in committed.cells[0].source
