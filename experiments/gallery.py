"""experiments/README.md, the gallery: ``python -m experiments.gallery`` writes it anew."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from experiments.usage import FOLDER

README = FOLDER / "README.md"


class Entry(NamedTuple):
    """What the gallery says of an experiment beside its figures."""

    shows: str
    full: str
    """How long a whole run takes on two cores, by its README's records."""


ENTRIES = {
    "ablation": Entry(
        "what leaves a step, virtual loss, subtree reuse and shared evaluations cost or give",
        "50 minutes (with `--resign -0.9`, 100 games a point)",
    ),
    "accelerators": Entry(
        "the hot programs compiled for TPUs and GPUs that need not be there: memory, kernels, time",
        "an hour or more",
    ),
    "against_gnugo": Entry(
        "UCT, MC-RAVE and heuristic MC-RAVE against GNU Go 3.8, as in Gelly & Silver (2011)",
        "some hours",
    ),
    "array_tree": Entry(
        "one search tree as Python objects, in NumPy arrays, and ours: time and memory",
        "5 minutes",
    ),
    "connect_four": Entry(
        "Connect Four from zero, measured against solved positions and plain MCTS",
        "an hour of learning, and some minutes",
    ),
    "heuristic_prior": Entry(
        "MC-RAVE that begins with a heuristic, by its confidence (Figure 6 of the paper)",
        "77 minutes (400 simulations, 100 games a point)",
    ),
    "katago": Entry(
        "a network of KataGo in our search, against KataGo with the same network and GNU Go",
        "four hours",
    ),
    "playout_policies": Entry(
        "what playouts are worth in a tree: uniform, MoGo's, learnt ones",
        "20 minutes (400 simulations, 100 games a point)",
    ),
    "rave_equivalence": Entry(
        "MC-RAVE by its equivalence parameter, and UCT (Figure 5 of the paper)",
        "20 minutes (400 simulations, 100 games a point)",
    ),
    "recipes": Entry(
        "which parts of the training pay at equal compute, one change at a time (5x5 and 7x7)",
        "two hours (`--budget 120`, three seeds)",
    ),
    "scaling": Entry(
        "what twice the simulations are worth, in Elo (Table 1 and Figure 7)",
        "20 minutes (100 games a point)",
    ),
    "schedules": Entry(
        "MC-RAVE's schedules, hand-selected and of least mean squared error (section 4.6)",
        "22 minutes (400 simulations, 100 games a point)",
    ),
    "solved_3x3": Entry(
        "self-play finds the known result of 3x3, and fails with one part broken, as it must",
        "6 minutes",
    ),
    "solved_5x5": Entry(
        "a network that learnt 5x5 by self-play opens in the centre and owns the board",
        "5 minutes, and half an hour to learn",
    ),
    "surveyed": Entry(
        "the programs that Gelly & Silver (2011) survey, in our search, against MC-RAVE",
        "an hour (200 simulations, 40 games a point)",
    ),
    "throughput": Entry(
        "rules, playouts, search, self-play and features against pgx, mctx, a C engine or a bound",
        "5 minutes a subject",
    ),
    "zero_strength": Entry(
        "7x7 and 9x9 networks from self-play alone, against MC-RAVE and GNU Go",
        "up to an hour for each board, and some hours to learn",
    ),
}


def figures(name: str) -> list[pathlib.Path]:
    """All that are committed of an experiment, from its folder."""
    folder = FOLDER / name
    return sorted(path.relative_to(folder) for path in folder.glob("results/**/*.svg"))


def text() -> str:
    """The README."""
    lines = [
        "# Experiments",
        "",
        "Each has a folder: what it asks, its settings, its results with command, seed, hardware.",
        "It runs from a checkout, says first how long it will take, last where its results are.",
        "`--quick` is a small run, meant to end within two minutes, that shows only that it works.",
        "(`python -m experiments.gallery` writes this page.)",
        "",
        "| experiment | what it shows | in full, two cores | with `--quick` |",
        "|---|---|---|---|",
    ]
    for name, entry in sorted(ENTRIES.items()):
        lines.append(
            f"| [{name}]({name}/README.md) | {entry.shows} | {entry.full} | {_quick(name)} |"
        )
    for name, entry in sorted(ENTRIES.items()):
        if drawn := figures(name):
            lines += ["", f"## {name}", "", f"{entry.shows[0].upper()}{entry.shows[1:]}.", ""]
            lines += [f"![{name}: {_caption(path)}]({name}/{path.as_posix()})" for path in drawn]
    return "\n".join(lines) + "\n"


def _quick(name: str) -> str:
    subject = " SUBJECT" if name == "throughput" else ""
    return f"`python -m experiments.{name}.run{subject} --quick`"


def _caption(path: pathlib.Path) -> str:
    return path.relative_to("results").with_suffix("").as_posix()


if __name__ == "__main__":
    README.write_text(text())
