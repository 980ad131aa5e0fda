"""What experiments write: rows as CSV and as a table in Markdown, and pictures as SVG."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib.util
import io
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gozero.runs.files import write_whole


def check_plots() -> None:
    """Say before anything is measured what the picture will want.

    Raises:
      SystemExit: without matplotlib.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("the plot wants matplotlib: pip install -e '.[plots]'")


def write_csv(
    kind: type, rows: Iterable[Any], path: pathlib.Path, digits: int | None = None, more: str = ""
) -> None:
    """Write rows whole or not at all.

    Args:
      kind: the dataclass of the rows; its fields are the columns.
      rows: of that kind.
      path: of the file.
      digits: that are kept of a float; None: all.
      more: a property that is a last column.
    """
    text = io.StringIO()
    names = [*(field.name for field in dataclasses.fields(kind)), *([more] if more else [])]
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    for row in rows:
        cells = {name: getattr(row, name) for name in names}
        is_cut = lambda value: digits and isinstance(value, float)
        writer.writerow({k: f"{v:.{digits}g}" if is_cut(v) else v for k, v in cells.items()})
    write_whole(path, text.getvalue().encode())


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


@contextlib.contextmanager
def picture(out: pathlib.Path, columns: int = 1, **settings: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, one or an array of them in a row, which are written as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gozero"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, layout="constrained", **settings)
    yield figure, axes
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)
