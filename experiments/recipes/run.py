"""Which parts of training pay off on two cores: one change at a time, at equal compute.

    python -m experiments.recipes.run [--only puct] [--size 7] [--out DIR]

OUT/costs.jsonl    the cost of an iteration of each recipe, measured in turn
OUT/networks/      the network of each run, and a .json that describes the run
OUT/matches.jsonl  the matches
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
from scipy import stats

from experiments import command, output
from experiments.recipes import readme
from experiments.recipes.config import BASE, RECIPES, RecipesConfig
from gozero.apps import flags
from gozero.nets import weights
from gozero.play import devices
from gozero.play.player import Player
from gozero.runs import files
from gozero.runs import folder as folders
from gozero.runs.folder import RunFolder
from gozero.runs.statistics import elo
from train import matches, steps
from train.loop import Loop
from train.matches import Terms
from train.plan import make_plan
from train.presets import PRESETS

PROG = "python -m experiments.recipes.run"
COSTS, MATCHES, NETWORKS = "costs.jsonl", "matches.jsonl", "networks"
FIRST_STEPS = 2
"""Untimed iterations at the start: the learner takes no step until there are enough rows."""
KOMI = (0.5, 4.5, 8.5, 16.5)
"""Komi of 5x5 matches: no opening of four random plies is won for one colour at all of them."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A recipe compared with its reference."""

    recipe: str
    against: str
    elo: float
    """Elo of its networks above the reference's, over all seeds of both."""
    low: float
    """The 95% interval of `elo`, over seeds, is `low` to `high`: see `compare`."""
    high: float
    seeds: int
    games: int
    """Games of the matches."""
    cost: float
    """CPU time of an iteration, in seconds."""
    iterations: int
    """Iterations of a run."""
    played: float
    """Mean number of self-play games of a run."""
    positions: float
    """Mean number of positions added to the replay buffer in a run, one row each."""
    seconds: float
    """Mean CPU time of a run, in seconds."""


def main() -> int:
    config = command.parse(RecipesConfig, prog=PROG)
    output.check_plots()
    with flags.exit_on_error(PROG), _folder(config):
        study = Study(config)
        study.measure_costs()
        for seed, name in itertools.product(range(config.seeds), config.names):
            study.train(name, seed)
        rows = [study.row(name) for name in config.only]
        write(rows, config.out)
    print(readme.elo(config.out / "results.csv"))
    command.print_results(config.out)
    return 0


def _folder(config: RecipesConfig) -> RunFolder:
    """The run's folder, new or resumed: with more recipes or seeds, but the same terms, and the
    same flags of the recipes that are there already (which older folders do not name)."""
    all_flags = {name: _flags_of(config, name) for name in config.names}
    record = {"experiment": "recipes", "terms": config.terms, "recipes": all_flags}

    def check(before: dict) -> None:
        if differences := folders.differences(before.get("terms", {}), config.terms):
            raise ValueError(
                f"--out {config.out}: begun with other terms: {'; '.join(differences)}"
            )
        begun = before.get("recipes", {})
        for name in begun.keys() & all_flags.keys():
            if differences := folders.differences(begun[name], all_flags[name]):
                raise ValueError(
                    f"--out {config.out}: {name} was begun with other flags: "
                    f"{'; '.join(differences)}"
                )
        record["recipes"] = begun | all_flags

    folder = RunFolder(config.out, "comparison of recipes", check, "run.lock")
    with folder.opening():
        (config.out / NETWORKS).mkdir(exist_ok=True)
        for name in (COSTS, MATCHES):
            files.cut_torn_line(config.out / name)
        folder.write_config(record)
        folder.write_manifest(folders.manifest(0))
    return folder


def train_config(config: RecipesConfig, name: str, seed: int = 0):
    """The flags of a run."""
    preset = PRESETS[f"{config.size}x{config.size}"]
    changes = {**BASE, **RECIPES[name].changes}
    return dataclasses.replace(preset, seed=seed, out=config.out / "unused", **changes)


def _flags_of(config: RecipesConfig, name: str) -> dict:
    """The flags of a recipe's runs, as JSON, without what differs from run to run."""
    flags_of_run = train_config(config, name).plain
    return {key: value for key, value in flags_of_run.items() if key not in ("seed", "out")}


class Study:
    """The runs and matches of a folder, both complete and missing ones."""

    def __init__(self, config: RecipesConfig):
        self.config, self.mesh = config, devices.mesh_of(1)
        self._programs: dict[str, dict] = {}

    def _loop(self, name: str, seed: int = 0) -> Loop:
        """A run at its start; runs of a recipe share their compiled programs."""
        plan = make_plan(train_config(self.config, name, seed))
        loop = Loop(plan, self.mesh, steps.begin(plan, self.mesh))
        compiled = self._programs.setdefault(name, {})
        if compiled:
            loop._compiled = compiled
        else:
            loop._play(plan.config.simulations)
            loop._step()
            compiled |= loop._compiled
        return loop

    @functools.cached_property
    def costs(self) -> dict[str, float]:
        """CPU time of an iteration of each recipe, in seconds."""
        lines = _lines(self.config.out / COSTS)
        return {line["recipe"]: line["seconds"] for line in lines}

    def measure_costs(self) -> None:
        """Measures the recipes that have no cost yet, in turn, and records the medians.

        One that has a cost is measured again with them: if the machine is slower or faster than it
        was, so are they, and their costs are divided by as much.
        """
        new = [name for name in self.config.names if name not in self.costs]
        if not new:
            return
        known = list(self.costs)[:1]
        loops = {name: self._loop(name) for name in [*known, *new]}
        for loop in loops.values():
            for _ in range(FIRST_STEPS):
                loop.iterate()
        times: dict[str, list[float]] = {name: [] for name in loops}
        for _, name in itertools.product(range(self.config.rounds), loops):
            times[name].append(_processor_time(loops[name].iterate))
        scale = self.costs[known[0]] / statistics.median(times[known[0]]) if known else 1.0
        for name in new:
            cost = round(scale * statistics.median(times[name]), 4)
            files.add_line(self.config.out / COSTS, {"recipe": name, "seconds": cost})
            _say(f"{name}: {cost:.2f} s of processor time an iteration")
        self.__dict__.pop("costs", None)

    def iterations(self, name: str) -> int:
        """Iterations of a run: those of --iterations, or as many as the budget allows."""
        return self.config.iterations or max(1, round(self.config.budget / self.costs[name]))

    def train(self, name: str, seed: int) -> None:
        """Does a run, unless its network exists."""
        path = self._network(name, seed)
        if path.exists():
            return
        loop, seconds, line = self._loop(name, seed), 0.0, {}
        for _ in range(self.iterations(name)):
            started = time.process_time()
            line = loop.iterate()
            seconds += time.process_time() - started
        network = loop.plan.learner.network
        facts = {name: line[name] for name in ("iteration", "games", "steps", "added", "losses")}
        about = {"recipe": name, "seed": seed, "processor_s": round(seconds, 2), **facts}
        files.write_json(path.with_suffix(".json"), about)
        params = jax.device_get(loop.state.play_params)
        weights.save(path, params, network, self.config.size, **about)
        _say(f"{name}, seed {seed}: {line['games']:,} games in {seconds:.0f} s of processor time")

    def _network(self, name: str, seed: int) -> pathlib.Path:
        stem = name.replace(", ", "-").replace(" ", "-")
        return self.config.out / NETWORKS / f"{stem}-{seed}.safetensors"

    def row(self, name: str) -> Row:
        """A recipe's row; plays the missing matches of its networks with the reference's."""
        against, seeds = RECIPES[name].against, range(self.config.seeds)
        scores = {
            (i, j): self._score(name, i, against, j)
            for i, j in itertools.product(seeds, seeds)
            if name != against or i < j
        }
        abouts = [files.parse_json(self._about(name, seed)) for seed in seeds]
        mean = lambda key: round(statistics.mean(about[key] for about in abouts), 1)
        difference, low, high = compare(scores, self.config.seeds)
        return Row(
            recipe=name,
            against=against,
            elo=round(difference, 1),
            low=round(low, 1),
            high=round(high, 1),
            seeds=len(seeds),
            games=len(scores) * self.config.games,
            cost=self.costs[name],
            iterations=self.iterations(name),
            played=mean("games"),
            positions=mean("added"),
            seconds=mean("processor_s"),
        )

    def _about(self, name: str, seed: int) -> bytes:
        return self._network(name, seed).with_suffix(".json").read_bytes()

    def _score(self, name: str, i: int, against: str, j: int) -> float:
        """The score of a network against another, from 0 to 1; each match is played only once."""
        identity = {"first": [name, i], "second": [against, j]}
        for line in _lines(self.config.out / MATCHES):
            if identity.items() <= line.items():
                return float(line["score"])
        plan = make_plan(train_config(self.config, name))
        terms = Terms.of(plan.config, plan.rules)
        terms = dataclasses.replace(
            terms,
            komi=KOMI if self.config.size == 5 else terms.komi,
            games=self.config.games,
            simulations=self.config.simulations,
            search="gumbel",
        )
        players = self._player(terms, name, i), self._player(terms, against, j)
        numbers = (sum(map(ord, name)), sum(map(ord, against)), i, j)
        line: dict = identity | matches.line_of(matches.play(terms, *players, numbers), terms)
        files.add_line(self.config.out / MATCHES, line)
        _say(f"{name} {i} against {against} {j}: {line['score']:.3f} of {terms.games}")
        return float(line["score"])

    def _player(self, terms: Terms, name: str, seed: int) -> Player:
        shape, params, _ = weights.load_own(self._network(name, seed), self.config.size)
        shape = dataclasses.replace(shape, board_size=self.config.size)
        return matches.network_player(terms, shape, params)


def compare(scores: dict[tuple[int, int], float], seeds: int) -> tuple[float, float, float]:
    """(Elo difference, low, high) of networks i of one recipe against networks j of another.

    The difference is the mean over the matches, with each score s moved to
    (s + 1/80) / (1 + 1/40), so that a match won outright has a finite Elo. The 95% interval is over
    the seeds of both. The variance of the mean is the variance of the means over j divided by their
    number, plus the same for the means over i; Student's t has the degrees of freedom of Welch
    (1947) and Satterthwaite, as the two variances may differ. (This counts the noise of the games
    twice.) For a recipe against itself, where only i < j is played, it follows from the variance of
    the matches, which share networks.

    Args:
      scores: {(i, j): score from 0 to 1}; all pairs, or only those with i < j.
      seeds: the number of networks of each recipe.
    """
    elos = {pair: elo((score + 1 / 80) / (1 + 1 / 40)) for pair, score in scores.items()}
    mean = statistics.mean(elos.values())
    if len(elos) == seeds**2:
        matrix = np.array([[elos[i, j] for j in range(seeds)] for i in range(seeds)])
        parts = [matrix.mean(axis=axis).var(ddof=1) / seeds for axis in (0, 1)]
        variance, squares = sum(parts), sum(part**2 for part in parts)
        freedom = (seeds - 1) * variance**2 / squares if squares else math.inf
    elif len(elos) > 1:
        variance, freedom = _variance_of_pairs(list(elos.values()), seeds), seeds - 1
    else:
        return mean, -math.inf, math.inf
    half_width = float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
    return mean, mean - half_width, mean + half_width


def _variance_of_pairs(differences: list[float], seeds: int) -> float:
    """The variance of the mean of x_i - x_j over all i < j, for independent x of equal variance.

    In units of that variance it is v = sum over i of (n - 1 - 2i)^2 / m^2, for n numbers in m
    pairs, and the expected sample variance of the differences is m (2 - v) / (m - 1).
    """
    count = len(differences)
    unit = sum((seeds - 1 - 2 * i) ** 2 for i in range(seeds)) / count**2
    expected = count * (2 - unit) / (count - 1)
    return statistics.variance(differences) * unit / expected


def write(rows: list[Row], out: pathlib.Path) -> None:
    """Writes results.csv and results.svg."""
    output.write_csv(Row, rows, out / "results.csv")
    with output.picture(out / "results.svg", figsize=(7, 1 + 0.32 * len(rows))) as (_, axis):
        place = range(len(rows), 0, -1)
        errors = [[row.elo - row.low for row in rows], [row.high - row.elo for row in rows]]
        axis.errorbar(
            [row.elo for row in rows], place, None, errors, "o", capsize=3, color="#2e8b57"
        )
        axis.axvline(0, color="black", linewidth=0.5)
        axis.set_yticks(place, [f"{row.recipe}  (against {row.against})" for row in rows])
        axis.set(xlabel="Elo of the networks above those without the change, 95% over seeds")
        axis.grid(axis="x", alpha=0.3)


def _processor_time(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _lines(path: pathlib.Path) -> list[dict]:
    return files.read_lines(path, dict) if path.exists() else []


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
