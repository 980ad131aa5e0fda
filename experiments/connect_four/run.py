"""Connect Four from zero: does it open in the centre, never lose to MCTS, keep solved results?

    python -m experiments.connect_four.run --minutes 60 [--out DIR]

It can be stopped at any time: the same command resumes both learning and measuring.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from experiments import command as commands
from experiments.connect_four import measure, readme
from experiments.connect_four.config import PRESET, ConnectFourConfig
from gozero.apps import flags
from gozero.nets import weights
from gozero.runs import files
from gozero.runs import folder as folders

PROG = "python -m experiments.connect_four.run"
RESULTS = "results.json"


def main(argv: list[str] | None = None) -> int:
    config = commands.parse(ConnectFourConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        earlier_results(config)  # before learning, which takes long
    if config.minutes > 0:
        status = learn(config)
        if status:
            return status
    with flags.exit_on_error(PROG):
        results = _Results(config)
        measure_missing(config, results)
    print(results.table())
    commands.print_results(config.out)
    return 0


def learn(config: ConnectFourConfig) -> int:
    """Runs `python -m train` for `config.minutes`; returns its exit status."""
    command = [sys.executable, "-m", "train", "--preset", PRESET, "--out", str(config.run)]
    return subprocess.run([*command, "--minutes", f"{config.minutes:g}"], check=False).returncode


def earlier_results(config: ConnectFourConfig) -> dict[str, Any] | None:
    """results.json, if there is one.

    Raises:
      ValueError: it was measured with other flags, or of another network than `--weights`.
    """
    path = config.out / RESULTS
    if not path.exists():
        return None
    earlier = json.loads(path.read_text())
    learnt = {"weights"} if config.weights is None else ()  # the run's own may have learnt since
    folders.must_agree(config.out, "measurement", earlier["about"], _about(config), learnt)
    return earlier


def _about(config: ConnectFourConfig) -> dict[str, Any]:
    """What the measurements depend on; the weights by their SHA-256, None if there are none yet."""
    network = config.network
    digest = hashlib.sha256(network.read_bytes()).hexdigest() if network.exists() else None
    names = ("simulations", "playouts", "games", "positions", "batch", "seed")
    return {"weights": digest, **{name: getattr(config, name) for name in names}}


class _Results:
    """results.json: the measurements of one network, and their settings."""

    def __init__(self, config: ConnectFourConfig):
        if not config.network.exists():
            raise ValueError(
                f"--weights: there is no {config.network}; train it first with --minutes"
            )
        self.path, about = config.out / RESULTS, _about(config)
        self.all: dict[str, Any] = {"about": about, "parts": {}}
        earlier = earlier_results(config)
        if earlier is not None and earlier["about"] == about:
            self.all = earlier
        config.out.mkdir(parents=True, exist_ok=True)
        self.all["manifest"] = folders.with_sessions(
            folders.manifest(config.seed),
            self.all.get("manifest", {}),
            sum(map(len, self.all["parts"].values())),
        )

    def record(self, name: str, measure: Callable[[int], Iterator[dict]]) -> None:
        """Measures the missing parts, and records each as it comes."""
        done = self.all["parts"].setdefault(name, [])
        for part in measure(len(done)):
            done.append(part)
            files.write_json(self.path, self.all)
            print(f"{name}: {part}", file=sys.stderr, flush=True)

    def table(self) -> str:
        """The results, and whether each meets its requirement."""
        found = readme.sums(self.all)
        opening, against, positions = (found[name] for name in ("opening", "games", "positions"))
        share = readme.share_right(found)
        return "\n".join(
            [
                f"opens in column {opening['column'] + 1} of 7: {_holds(bool(opening['holds']))}",
                f"against plain MCTS {against['won']} won, {against['drawn']} drawn, "
                f"{against['lost']} lost: {_holds(not against['lost'])}",
                f"keeps the result in {share:.1%} of {positions['positions']} positions: "
                f"{_holds(share >= readme.LEAST_RIGHT)}",
            ]
        )


def _holds(is_so: bool) -> str:
    return "as it should" if is_so else "not as it should"


def measure_missing(config: ConnectFourConfig, results: _Results) -> None:
    """Measures everything that has not been measured yet.

    Raises:
      ValueError: if the weights are of another game.
    """
    shape, params, _ = weights.load(config.network)
    player = measure.network_player(shape, params, config.simulations)
    opponent = measure.plain_mcts(config.playouts)
    sizes = config.batch, config.seed
    part = functools.partial
    results.record("opening", part(measure.opening, player, config.seed))
    results.record("positions", part(measure.known_results, player, config.positions, *sizes))
    results.record("games", part(measure.games, player, opponent, config.games, *sizes))


if __name__ == "__main__":
    sys.exit(main())
