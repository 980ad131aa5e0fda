"""The notebooks run from top to bottom, and the .ipynb files match their sources."""

import importlib.util
import os
import pathlib
import re
import time

import jupytext
import nbformat
import pytest

from gozero.apps import sgf

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


def test_another_game_is_reviewed_as_its_file_says(monkeypatch):
    """Its size selects the player; with fewer moves the rest of the record stays."""
    monkeypatch.setenv("GOZERO_MOVES", "1")
    (source,) = (one for one in SOURCES if one.stem == "review_your_game")
    code = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code"]
    until = next(i for i, text in enumerate(code) if text.startswith("GAME"))
    given = '"(;SZ[13]HA[2]KM[0.5]RU[Japanese]PB[me]AB[dd][jj];W[cc]C[one];B[dj])"'
    game = re.sub(r'"""[^"]*"""', given, code[until])
    found: dict = {}
    exec("\n".join([*code[:until], game]), found)
    written = sgf.read(found["folder"] / "game.sgf")
    assert written == found["record"]
    assert (written.size, written.handicap, written.black_stones) == (13, 2, (42, 126))
    assert (written.black, written.rules, written.move_comments) == ("me", "Japanese", ("one",))


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
