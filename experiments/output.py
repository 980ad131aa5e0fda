"""Output of experiments: rows as CSV or as a Markdown table, and figures as SVG."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib.util
import io
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gozero.runs.files import write_whole


def check_plots() -> None:
    """Checks, before anything is measured, that the figure can be drawn.

    Raises:
      SystemExit: if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("plots need matplotlib: pip install -e '.[plots]'")


def write_csv(
    kind: type, rows: Iterable[Any], path: pathlib.Path, digits: int | None = None, more: str = ""
) -> None:
    """Writes rows to a CSV file, atomically, also while other processes write it.

    Args:
      kind: the dataclass of the rows; its fields are the columns.
      rows: instances of `kind`.
      path: the file.
      digits: significant digits of floats; None: all.
      more: a property of the rows to add as the last column, if not empty.
    """
    text = io.StringIO()
    names = [*(field.name for field in dataclasses.fields(kind)), *([more] if more else [])]
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    for row in rows:
        cells = {name: getattr(row, name) for name in names}
        is_rounded = lambda value: digits and isinstance(value, float)
        writer.writerow({k: f"{v:.{digits}g}" if is_rounded(v) else v for k, v in cells.items()})
    write_whole(path, text.getvalue().encode(), shared=True)


@contextlib.contextmanager
def appended_csv(path: pathlib.Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that adds a row to a new CSV file and flushes it: a run that is stopped keeps its
    rows. The keys of the first row are the columns.
    """
    with path.open("w", newline="") as file:
        names: list[str] = []
        writer = csv.DictWriter(file, names, lineterminator="\n")

        def add(row: Mapping[str, Any]) -> None:
            if not names:
                names.extend(row)
                writer.writeheader()
            writer.writerow(row)
            file.flush()

        yield add


def read_csv(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


@contextlib.contextmanager
def picture(out: pathlib.Path, columns: int = 1, **settings: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes (an array of them if `columns` > 1), saved as SVG on exit, like a CSV
    file by `write_csv`."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gozero"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, layout="constrained", **settings)
    yield figure, axes
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    write_whole(out, svg.getvalue(), shared=True)
    pyplot.close(figure)
