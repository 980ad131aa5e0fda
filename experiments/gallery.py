"""The gallery, experiments/README.md: ``python -m experiments.gallery`` regenerates it."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from experiments.usage import FOLDER

README = FOLDER / "README.md"


class GalleryEntry(NamedTuple):
    """The gallery's description of an experiment, besides its figures."""

    shows: str
    full: str
    """The time of the recorded run on two cores, and its flags, according to its README."""


ENTRIES = {
    "ablation": GalleryEntry(
        "cost and gain of several leaves a step, virtual loss, subtree reuse and transpositions",
        "50 minutes (`--games 100 --resign -0.9`)",
    ),
    "accelerators": GalleryEntry(
        "the main programs compiled ahead for TPUs and GPUs: memory, kernels, estimated time",
        "an hour or more",
    ),
    "against_gnugo": GalleryEntry(
        "UCT, MC-RAVE and heuristic MC-RAVE against GNU Go 3.8, as in Gelly & Silver (2011)",
        "19 hours",
    ),
    "array_tree": GalleryEntry(
        "one search tree as Python objects, as NumPy arrays and in JAX: time and memory",
        "5 minutes",
    ),
    "connect_four": GalleryEntry(
        "Connect Four from zero, measured against solved positions and plain MCTS",
        "an hour of training, and some minutes",
    ),
    "heuristic_prior": GalleryEntry(
        "heuristic MC-RAVE by the confidence in its heuristic (Figure 6 of the paper)",
        "77 minutes (`--simulations 400 --games 100 --parallel 100 --resign -0.9`)",
    ),
    "katago": GalleryEntry(
        "a KataGo network in our search, against KataGo with the same network and GNU Go",
        "four hours",
    ),
    "network_search": GalleryEntry(
        "which search plays a small trained network best at equal simulations",
        "half an hour (200 games per point)",
    ),
    "playout_policies": GalleryEntry(
        "the strength of playout policies in a tree: uniform, MoGo's, learnt ones",
        "20 minutes (`--simulations 400 --games 100 --parallel 100 --resign -0.9`)",
    ),
    "rave_equivalence": GalleryEntry(
        "MC-RAVE by its equivalence parameter k, and UCT (Figure 5 of the paper)",
        "20 minutes (`--simulations 400 --games 100 --parallel 100 --resign -0.9 --initials`)",
    ),
    "recipes": GalleryEntry(
        "which training techniques pay at equal compute, one change at a time (5x5 and 7x7)",
        "two hours and more (5x5: `--budget 60`; 7x7: `--size 7 --budget 120`; three seeds)",
    ),
    "scaling": GalleryEntry(
        "the Elo gained by doubling the simulations, in self-play (after Figure 7 of the paper)",
        "20 minutes (`--games 100 --parallel 100 --resign -0.9`)",
    ),
    "schedules": GalleryEntry(
        "MC-RAVE's schedules, hand-selected and minimum-MSE (section 4.6)",
        "22 minutes (`--simulations 400 --games 100 --parallel 100 --resign -0.9`)",
    ),
    "solved_3x3": GalleryEntry(
        "self-play finds the known result of 3x3, and fails when one part is broken on purpose",
        "6 minutes",
    ),
    "solved_5x5": GalleryEntry(
        "a network trained by self-play on 5x5 opens in the centre and takes the whole board",
        "5 minutes, and half an hour of training",
    ),
    "surveyed": GalleryEntry(
        "the programs surveyed by Gelly & Silver (2011), in our search, against MC-RAVE",
        "two hours (`--simulations 200 --games 40 --parallel 40 --resign -0.9`)",
    ),
    "throughput": GalleryEntry(
        "rules, playouts, search, self-play and features against pgx, mctx, a C engine or a bound",
        "5 minutes a subject",
    ),
    "zero_strength": GalleryEntry(
        "7x7, 9x9 and 13x13 networks trained by self-play alone, against MC-RAVE and GNU Go",
        "half an hour per board, and some hours of training",
    ),
}


def figures(name: str) -> list[pathlib.Path]:
    """The committed figures of an experiment, relative to its folder."""
    folder = FOLDER / name
    return sorted(path.relative_to(folder) for path in folder.glob("results/**/*.svg"))


def text() -> str:
    """The README."""
    lines = [
        "# Experiments",
        "",
        "Each experiment has a folder with its question, settings and results (command, seed,",
        "hardware). Run it from a checkout: it first prints how long it will take, and at the end",
        "where its results are. The recorded run is the one in `results/`; without its flags most",
        "sweeps play more games of longer searches, for hours. `--quick` is a run of at most two",
        "minutes, which shows only that the experiment works.",
        "(`python -m experiments.gallery` writes this page.)",
        "",
        "| experiment | what it shows | recorded run, two cores | with `--quick` |",
        "|---|---|---|---|",
    ]
    for name, entry in sorted(ENTRIES.items()):
        lines.append(
            f"| [{name}]({name}/README.md) | {entry.shows} | {entry.full} | {_quick(name)} |"
        )
    for name, entry in sorted(ENTRIES.items()):
        if paths := figures(name):
            lines += ["", f"## {name}", "", f"{entry.shows[0].upper()}{entry.shows[1:]}.", ""]
            lines += [f"![{name}: {_caption(path)}]({name}/{path.as_posix()})" for path in paths]
    return "\n".join(lines) + "\n"


def _quick(name: str) -> str:
    subject = " SUBJECT" if name == "throughput" else ""
    return f"`python -m experiments.{name}.run{subject} --quick`"


def _caption(path: pathlib.Path) -> str:
    return path.relative_to("results").with_suffix("").as_posix()


if __name__ == "__main__":
    README.write_text(text())
