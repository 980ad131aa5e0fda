"""The effect of leaves per step, subtree reuse and shared evaluations on speed and memory.

python -m experiments.ablation.speed [--simulations 1024] [--out DIR]
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

from experiments import command
from experiments.ablation.config import SpeedConfig
from experiments.ablation.run import SHARED
from experiments.output import markdown, write_csv
from experiments.sweeps import speed
from experiments.sweeps.points import Contestant
from gozero.apps import flags
from gozero.go.rules import Rules
from gozero.play.player_config import PlayerConfig
from gozero.runs import files
from gozero.runs import folder as folders

PROG = "python -m experiments.ablation.speed"
KOMI = 7.0


@dataclasses.dataclass(frozen=True)
class Row:
    """A search of `trees` boards at once."""

    search: str
    trees: int
    leaves: int
    simulations: int
    simulations_per_s: float
    gain: float
    """The speed relative to the same search of as many boards with the first of --leaves."""
    evaluated: float
    """Leaves that were evaluated, as a fraction of simulations."""
    bytes_a_node: float
    mb: float
    """Memory of all trees, in 10^6 bytes."""


def contestants(config: SpeedConfig) -> Iterator[tuple[str, Contestant]]:
    """Yields (name, contestant); the baseline of each gain comes first."""
    searches = {
        "MoGo's playouts, MC-RAVE": PlayerConfig(search="rave", playouts="mogo"),
        "network, PUCT": PlayerConfig(evaluator="network"),
    }
    for name, player in searches.items():
        for leaves in config.leaves:
            yield (
                name,
                Contestant(
                    dataclasses.replace(player, simulations=config.simulations, leaves=leaves)
                ),
            )
    network = dataclasses.replace(searches["network, PUCT"], simulations=config.simulations)
    yield "network, PUCT, room for reuse", Contestant(network, reuse=True)
    yield "network, PUCT, shared evaluations", Contestant(network, change=SHARED)


def measure(config: SpeedConfig) -> Iterator[Row]:
    """Yields the rows of each number of trees as they are measured."""
    names, searches = zip(*contestants(config), strict=True)
    for trees in config.trees:
        print(f"{trees} at once ...", file=sys.stderr, flush=True)
        speeds = speed.measure(
            Rules(config.size), searches, trees, KOMI, config.seed, config.repeats
        )
        first: dict[str, float] = {}
        for name, one, result in zip(names, searches, speeds, strict=True):
            base = next((other for other in first if name.startswith(other)), name)
            rate = result.simulations_per_s
            yield Row(
                name,
                trees,
                one.flags.leaves,
                config.simulations,
                rate,
                rate / first.setdefault(base, rate),
                result.evaluated,
                result.bytes_a_node,
                result.mb,
            )


def play(config: SpeedConfig) -> int:
    """Measures, then writes and prints the results."""
    folders.claim(config.out)
    rows = list(measure(config))
    write_csv(Row, rows, config.out / "speed.csv", digits=4)
    files.write_json(config.out / "config.json", config)
    files.write_json(config.out / "manifest.json", folders.manifest(config.seed))
    print(table(rows))
    command.print_results(config.out)
    return 0


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    formats = {
        "search": "{0.search}",
        "boards": "{0.trees}",
        "leaves": "{0.leaves}",
        "simulations/s": "{0.simulations_per_s:,.0f}",
        "gain": "{0.gain:.2f}",
        "evaluated": "{0.evaluated:.1%}",
        "bytes a node": "{0.bytes_a_node:,.0f}",
        "MB": "{0.mb:,.1f}",
    }
    return markdown([*formats], ([f.format(row) for f in formats.values()] for row in rows))


def main() -> int:
    config = command.parse(SpeedConfig, prog=PROG)
    with folders.removed_if_empty(config.out), flags.exit_on_error(PROG):
        return play(config)


if __name__ == "__main__":
    sys.exit(main())
