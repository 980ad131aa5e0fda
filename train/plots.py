"""``python -m train plots --out DIR``: plots of a run's metrics and matches, DIR/plots/*.svg."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib.util
import io
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gozero.apps import flags
from gozero.runs import files, settings, store
from gozero.runs.settings import setting
from gozero.runs.store import Bucket
from train import folder, matches
from train.calibration import curve
from train.folder import MATCHES
from train.matches import RANDOM, UNIFORM, Rated
from train.mirror import MOST_BYTES
from train.ratings import Rating
from train.tensorboard import scalars

PROG = "python -m train plots"
TABLE = "training.csv"
_COLOURS = ("#2e8b57", "#4c72b0", "#b5651d", "#8172b3", "#c44e52", "#64707c")
_MARGIN_ELO = 300.0
"""The margin around the ratings, in Elo; intervals of players who won every game exceed it."""

MIN_FITTED, EXTRAPOLATION = 4, 4
"""See `elo_by_hours`."""


@dataclasses.dataclass(frozen=True)
class PlotsConfig:
    """Plot a run's metrics.jsonl and matches.jsonl, as DIR/plots/*.svg; and write the numbers of
    its iterations as a table, DIR/plots/training.csv. With --root puct the policy's calibration and
    the surprise are those of the root's priors with their noise."""

    out: pathlib.Path = setting()
    """The run's folder; or the URL of its bucket, s3://, gs://, az://, whose plots are written to
    plots/NAME in the current folder."""

    every: int = setting(1, least=1)
    """10 writes every tenth iteration to the table, counted from the newest."""

    EXAMPLES = (
        "python -m train plots --out runs/zero-9x9-cpu --every 10",
        "python -m train plots --out runs/zero-3x3",
    )

    def __post_init__(self):
        settings.check(self)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 without matplotlib, 2 for bad input."""
    config = flags.parse(PlotsConfig, argv, prog=PROG)
    if importlib.util.find_spec("matplotlib") is None:
        flags.fail(PROG, "plots need matplotlib: pip install -e '.[plots]'", status=1)
    with flags.exit_on_error(PROG):
        paths = draw_at(config.out, config.every)
    for path in paths:
        print(path)
    return 0


def write_table(path: pathlib.Path, lines: list[dict]) -> None:
    """Write the training curves as a table: a row for each iteration, a column for each number of
    the metrics."""
    rows = [dict(scalars(line)) for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows({name: f"{value:.10g}" for name, value in row.items()} for row in rows)
    files.write_whole(path, text.getvalue().encode())


def draw_at(out: pathlib.Path, every: int = 1) -> list[pathlib.Path]:
    """`draw` for a folder, or for the files in a bucket, as of the newest checkpoint.

    Raises:
      OSError: the bucket cannot be read.
    """
    shared = store.at(out)
    if not isinstance(shared, Bucket):
        return draw(out, every)
    with tempfile.TemporaryDirectory() as copy:
        for name in (folder.METRICS, MATCHES):
            with contextlib.suppress(FileNotFoundError):
                (pathlib.Path(copy) / name).write_bytes(shared.get(name, MOST_BYTES))
        return draw(pathlib.Path(copy), every, pathlib.Path("plots", out.name), shared.name)


def draw(
    run: pathlib.Path, every: int = 1, to: pathlib.Path | None = None, name: str = ""
) -> list[pathlib.Path]:
    """Draw the plots for which a run's folder has data, and write its table; returns their paths.

    Args:
      run: the folder.
      every: see `PlotsConfig`.
      to: the folder of the plots; None: run/plots.
      name: the run's name in error messages; if empty, its folder.

    Raises:
      ValueError: there are no metrics, or they cannot be drawn.
    """
    name, to = name or str(run), to or run / "plots"
    lines, played = (folder.read_lines(run / file) for file in (folder.METRICS, MATCHES))
    if not lines:
        raise ValueError(f"--out {name}: there is no metrics.jsonl, or it is empty")
    try:
        return _draw(lines, played, every, to)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        what = f"a line of {folder.METRICS} or {MATCHES} is not of a run ({error!r})"
        raise ValueError(f"--out {name}: {what}") from error


def _draw(
    lines: list[dict], played: list[dict], every: int, to: pathlib.Path
) -> list[pathlib.Path]:
    plots = {
        "losses": (losses, [line for line in lines if line["losses"]]),
        "lengths": (lengths, [line for line in lines if line["lengths"]]),
        "black_won": (black_won, [line for line in lines if line["lengths"]]),
        "by_komi": (by_komi, [line for line in lines if len(line.get("by_komi", {})) > 1]),
        "surprise": (surprise, [line for line in lines if "surprise" in line]),
        "replay": (replay, lines),
        "calibration": (calibration, [line for line in lines if "calibration" in line]),
        "resignations": (resignations, [line for line in lines if "wrong_resigns" in line]),
        "gate": (gate, [line for line in lines if "gate" in line]),
        "elo": (elo, played),
        "elo_by_hours": (elo_by_hours, _with_hours(played, lines)),
    }
    to.mkdir(parents=True, exist_ok=True)
    write_table(to / TABLE, lines[::-every][::-1])
    return [
        _picture(to / f"{name}.svg", draw_into, selected)
        for name, (draw_into, selected) in plots.items()
        if selected
    ]


def losses(axes: Any, lines: list[dict]) -> None:
    """Each head's loss, on a panel of its own; with the policy's, the entropy of its targets, below
    which it cannot fall."""
    names = [name for name in lines[0]["losses"] if all(name in line["losses"] for line in lines)]
    x = [line["iteration"] for line in lines]
    for axis, name, colour in zip(axes(len(names)), names, _COLOURS, strict=False):
        axis.plot(x, [line["losses"][name] for line in lines], color=colour)
        axis.set(ylabel=f"{name} loss")
        floor = [line.get("target_entropy") for line in lines]
        if name == "policy" and any(value is not None for value in floor):
            axis.plot(x, floor, color=colour, linestyle="--", label="entropy of the targets")


def lengths(axes: Any, lines: list[dict]) -> None:
    """Lengths of the games that ended in an iteration: the median, and the middle 80%."""
    (axis,) = axes(1)
    x = [line["iteration"] for line in lines]
    low, middle, high = zip(*(line["lengths"] for line in lines), strict=True)
    axis.fill_between(x, low, high, color=_COLOURS[0], alpha=0.2, linewidth=0, label="10% to 90%")
    axis.plot(x, middle, color=_COLOURS[0], label="median")
    axis.set(ylabel="plies of a game", ylim=(0, None))


def _curves(
    axis: Any, lines: list[dict], labels: dict[str, str], scale: float, **sets: Any
) -> None:
    """Draw a curve for each of some numbers of the metrics, with a label if there are several."""
    x = [line["iteration"] for line in lines]
    for (name, label), colour in zip(labels.items(), _COLOURS, strict=False):
        label = label if len(labels) > 1 else None
        axis.plot(x, [scale * line[name] for line in lines], color=colour, label=label)
    axis.set(**{"ylim": (0, None)} | sets)


def black_won(axes: Any, lines: list[dict]) -> None:
    """Shares of games won by Black, drawn and truncated, of those that ended in an iteration."""
    (axis,) = axes(1)
    labels = {"black_won": "Black won", "drawn": "drawn", "truncated": "at the move limit"}
    _curves(axis, lines, labels, 100, ylabel="games, %", ylim=(0, 100))


def by_komi(axes: Any, lines: list[dict]) -> None:
    """Black's score at each komi in the games that ended in an iteration; a draw is half a win."""
    (axis,) = axes(1)
    komi = sorted({value for line in lines for value in line["by_komi"]}, key=float)
    for value, colour in zip(komi, itertools.cycle(_COLOURS), strict=False):
        counts = [(line["iteration"], *line["by_komi"].get(value, (0, 0, 0))) for line in lines]
        points = [
            (i, 100 * (won + drawn / 2) / games) for i, games, won, drawn in counts if games > 0
        ]
        axis.plot(*zip(*points, strict=True), color=colour, label=f"komi {value}")
    axis.set(ylabel="Black's score, %", ylim=(0, 100))


def surprise(axes: Any, lines: list[dict]) -> None:
    """How far full searches diverge from the network's policy; with --root puct, from the root's
    priors, which are that policy with noise."""
    (axis,) = axes(1)
    _curves(axis, lines, {"surprise": ""}, 1, ylabel="KL(target || prior), nats")


def replay(axes: Any, lines: list[dict]) -> None:
    """Positions played, held and learnt from; and the age, in iterations, of the oldest that is
    learnt from."""
    axis, age = axes(2)
    labels = {"added": "played", "rows": "held", "window": "learnt from"}
    _curves(axis, lines, labels, 1, ylabel="positions")
    age.plot([line["iteration"] for line in lines], _ages(lines), color=_COLOURS[3])
    age.set(ylabel="oldest, iterations", ylim=(0, None))


def _ages(lines: list[dict]) -> list[int]:
    """For each line: the iterations since the first row of the window was added."""
    ages, first = [], 0
    for i, line in enumerate(lines):
        while first < i and lines[first]["added"] <= line["added"] - line["window"]:
            first += 1
        ages.append(line["iteration"] - lines[first]["iteration"])
    return ages


def resignations(axes: Any, lines: list[dict]) -> None:
    """The share of wrong resignations, in games that were played to the end; the threshold."""
    wrong, threshold = axes(2)
    _curves(wrong, lines, {"wrong_resigns": ""}, 100, ylabel="wrong, % of resignations")
    wrong.axhline(5, color="black", linewidth=0.5)
    _curves(threshold, lines, {"resign_threshold": ""}, 1, ylabel="resigns below", ylim=None)


def calibration(axes: Any, lines: list[dict]) -> None:
    """Reliability curves of the network of self-play, for the first and the last fifth of the
    iterations: mean outcomes by prediction, with 95% intervals; ideally on the diagonal. The policy
    of --root puct is the root's priors, with their noise."""
    count = -(-len(lines) // 5)
    titles = {"policy": "target's share", "value": "Black's points"}
    panels = axes(2)
    for axis, (name, title) in zip(panels, titles.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="black", linewidth=0.5)
        for part, colour in ((lines[:count], _COLOURS[2]), (lines[-count:], _COLOURS[0])):
            first, last = part[0]["iteration"], part[-1]["iteration"]
            x, y, error = curve(part, name)
            label = f"iterations {first} to {last}" if name == "policy" else None
            axis.errorbar(x, y, 1.96 * error, color=colour, marker="o", capsize=3, label=label)
        axis.set(ylabel=f"{name}: {title}", xlim=(0, 1), ylim=(0, 1))
    panels[-1].set(xlabel="predicted")


def gate(axes: Any, lines: list[dict]) -> None:
    """The score of the newest network in each match of the gate, against that of self-play, and
    whether it was enough to replace it."""
    (axis,) = axes(1)
    labels = {True: ("passed", _COLOURS[0]), False: ("not passed", _COLOURS[4])}
    for passed, (label, colour) in labels.items():
        points = [
            (line["iteration"], 100 * (line["gate"][0] + line["gate"][1] / 2) / sum(line["gate"]))
            for line in lines
            if line["gate_passed"] == passed
        ]
        if points:
            x, scores = zip(*points, strict=True)
            axis.plot(x, scores, color=colour, marker="o", linestyle="", label=label)
    axis.set(ylabel="score against self-play's network, %", ylim=(0, 100))


def elo(axes: Any, lines: list[dict]) -> None:
    """Elo above random moves, or above the initial network, from all matches, with 95% intervals; a
    curve for each search."""
    (axis,) = axes(1)
    rated = matches.rate_lines(lines)
    first_network = next((one for one in rated if one.name == folder.stem(0)), None)
    anchors = [one for one in rated if one.name in (RANDOM, UNIFORM)]
    anchors = {one: rated.pop(one).elo for one in anchors}
    # In a run that began with weights the anchors are below its networks by an unknown difference.
    uniform = {
        one.simulations: rating
        for one, rating in anchors.items()
        if one.name == UNIFORM and not first_network
    }
    levels = [0.0, *(one.elo for one in rated.values()), *uniform.values()]
    for colour, (label, simulations, players) in _by_search(rated):
        x = [int(one.name) for one in players]
        _intervals(axis, x, [rated[one] for one in players], colour, label)
        if simulations in uniform:
            label = f"a search without a network, {simulations}"
            axis.axhline(uniform.pop(simulations), color=colour, linestyle="--", label=label)
    limits = min(levels) - _MARGIN_ELO, max(levels) + _MARGIN_ELO
    zero = "the initial network" if first_network else "random moves"
    axis.set(ylabel=f"Elo above {zero}", ylim=limits)


def _by_search(rated: Mapping[Rated, Rating]) -> Iterator[tuple[str, tuple[str, int, list[Rated]]]]:
    """A colour for each search of networks: (its name, its simulations, the networks in order)."""
    searches = sorted({(one.simulations, one.search) for one in rated})
    for colour, search in zip(itertools.cycle(_COLOURS), searches, strict=False):
        simulations, name = search
        players = sorted(one for one in rated if one[1:] == search)
        yield colour, (f"{name}, {simulations} simulations", simulations, players)


def _intervals(axis: Any, x: list, ratings: list[Rating], colour: str, label: str) -> None:
    """Draw ratings as points with their intervals."""
    spread = [one.elo - one.low for one in ratings], [one.high - one.elo for one in ratings]
    middle = [one.elo for one in ratings]
    axis.errorbar(x, middle, spread, color=colour, marker="o", capsize=3, label=label)


def _with_hours(played: list[dict], lines: list[dict]) -> list[dict]:
    """The matches of networks, with the hours that the run had taken by then."""
    hours = {line["iteration"]: line["seconds"] / 3600 for line in lines}
    return [
        line | {"hours": hours[line["iteration"]]}
        for line in played
        if hours.get(line["iteration"], 0) > 0
    ]


def elo_by_hours(axes: Any, lines: list[dict]) -> None:
    """Elo by the logarithm of the hours of play and learning, with the newest network at 0.

    With MIN_FITTED networks or more there is also a line through the later half of them, extended
    to EXTRAPOLATION times the hours.

    The line extrapolates the progress so far, no more: matches against the previous network show a
    larger gain than matches against other opponents, and every network has its limit.
    """
    (axis,) = axes(1)
    hours = {folder.stem(line["iteration"]): line["hours"] for line in lines}
    rated = matches.rate_lines(lines, newest_at_0=True)
    networks = {one: rating for one, rating in rated.items() if one.name in hours}
    for colour, (label, _, players) in _by_search(networks):
        x, ratings = [hours[one.name] for one in players], [networks[one] for one in players]
        _intervals(axis, x, ratings, colour, label)
        if len(players) < MIN_FITTED:
            continue
        half = len(players) // 2
        extrapolate(axis, x[half:], [one.elo for one in ratings[half:]], colour)
    levels = [one.elo for one in networks.values()]
    limits = min(levels) - _MARGIN_ELO, max(levels) + 2 * _MARGIN_ELO
    label_hours(axis)
    axis.set(ylabel="Elo above the newest", ylim=limits)


def extrapolate(axis: Any, hours: Any, elo: Any, colour: str) -> None:
    """Draw the line of `elo_line` through hours [N] and Elo [N], extended to EXTRAPOLATION times
    the last of the hours."""
    slope, level = elo_line(hours, elo)
    ends = np.array([hours[0], EXTRAPOLATION * hours[-1]])
    label = f"extrapolated: {slope:+.0f} Elo for twice the hours"
    axis.plot(ends, level + slope * np.log2(ends), color=colour, linestyle=":", label=label)


def elo_line(hours: Any, elo: Any) -> tuple[float, float]:
    """(slope, level) of the least-squares line of Elo [N] over the base-2 logarithm of hours."""
    slope, level = np.polyfit(np.log2(hours), elo, 1)
    return float(slope), float(level)


def label_hours(axis: Any) -> None:
    """Give an axis a logarithmic scale of hours."""
    axis.set(xlabel="hours of play and learning")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda x, position: f"{x:g}" if x >= 1 else f"1/{1 / x:g}")


def _picture(
    path: pathlib.Path, draw_into: Callable[[Any, list[dict]], None], lines: list[dict]
) -> pathlib.Path:
    """Draw into the panels that `axes(count)` returns, and write the SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gozero"
    from matplotlib import pyplot

    figure = pyplot.figure(layout="constrained")

    def axes(count: int) -> list:
        """`count` panels, one below the other."""
        figure.set_size_inches(7, max(3.6, 2.0 * count))
        return list(figure.subplots(count, sharex=True, squeeze=False)[:, 0])

    draw_into(axes, lines)
    for axis in figure.axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    if not figure.axes[-1].get_xlabel():
        figure.axes[-1].set_xlabel("iteration")
    if figure.axes[0].get_legend_handles_labels()[1]:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
