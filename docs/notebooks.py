"""Run notebooks and save them with what they show: ``python docs/notebooks.py [NAME ...]``.

The text of a notebook is notebooks/NAME.py (jupytext, percent); NAME.ipynb has its outputs too.
"""

from __future__ import annotations

import pathlib
import sys
import time

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
TIMEOUT_S = 600


def executed(source: pathlib.Path) -> nbformat.NotebookNode:
    """A notebook after a run from top to bottom, in its folder.

    Raises:
      CellExecutionError: a cell that failed.
    """
    notebook = jupytext.read(source)
    where = {"metadata": {"path": str(source.parent)}}
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=where).execute()
    return notebook


def main(names: list[str]) -> None:
    for source in sorted(FOLDER.glob("*.py")):
        if names and source.stem not in names:
            continue
        started = time.monotonic()
        try:
            notebook = executed(source)
        except CellExecutionError as error:
            print(f"{source.stem}: {error}", file=sys.stderr)
            continue
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"{source.stem}-{number}"  # not new ones in every run
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":  # what compilers warn of is not the notebook's
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        jupytext.write(notebook, source.with_suffix(".ipynb"), fmt="ipynb")
        print(f"{source.stem}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
