"""Settings of the comparison of training recipes. Imports no JAX."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from experiments.command import ExperimentConfig
from gozero.runs.settings import check, seed_setting, setting

BASE: Mapping[str, Any] = {
    "iterations": 1_000_000,  # the budget ends a run; nothing depends on this number
    "first_simulations": None,
    "final_fraction": 1.0,
    "blocks": 2,
    "channels": 24,
    "batch": 128,
    "simulations": 16,
    "min_rows": 1000,
    "devices": 1,
}
"""Flags of every run, on top of its board's preset. The learning rate is constant, so that networks
can be compared at any amount of compute."""


class Recipe(NamedTuple):
    """A training recipe."""

    asks: str
    changes: Mapping[str, Any] = {}
    against: str = "gumbel"
    """The reference recipe, from which it differs in one change."""


_PUCT = {"root": "puct"}

RECIPES = {
    "gumbel": Recipe("chance: against itself with other seeds"),
    "puct": Recipe("PUCT, Dirichlet noise and drawn moves in place of Gumbel", _PUCT),
    "22 planes": Recipe("KataGo's planes in place of 9", {"features": "full"}),
    "22 planes, no ladders": Recipe("... without ladders", {"features": "full-no-ladders"}),
    "17 planes": Recipe("AlphaGo Zero's planes in place of 9", {"features": "zero"}),
    "4 leaves": Recipe("four leaves a step, with gumbel", {"leaves": 4}),
    "puct, 4 leaves": Recipe("... with puct and virtual loss 3", _PUCT | {"leaves": 4}, "puct"),
    "puct, reuse": Recipe("subtree reuse", _PUCT | {"reuse_subtree": True}, "puct"),
    "transpositions": Recipe("shared evaluations", {"transpositions": True}),
    "random symmetries": Recipe(
        "leaves evaluated in a symmetry drawn at random, as in AlphaGo Zero",
        {"symmetries": "random"},
    ),
    "playout cap": Recipe(
        "a quarter of the searches with 40 simulations, the others with 8 and not learnt from",
        {"simulations": 40, "cheap_simulations": 8},
    ),
    "puct, forced playouts": Recipe(
        "forced playouts and pruned targets, k = 2", _PUCT | {"forced_playouts": 2.0}, "puct"
    ),
    "no auxiliary heads": Recipe("neither ownership nor score", {"auxiliary": False}),
    "no pooling": Recipe("no global pooling", {"pool_every": 0}),
    "surprise": Recipe("half of the rows' frequency by the search's surprise", {"surprise": 0.5}),
    "outcome alone": Recipe(
        "value targets of 1 z, in place of 3/4 z + 1/4 v", {"outcome_share": 1.0}
    ),
    "half and half": Recipe("value targets of 1/2 z + 1/2 v", {"outcome_share": 0.5}),
    "value of the policy": Recipe(
        "in the value target the policy target's mean of Q, in place of that of the simulations",
        {"root_value": "policy"},
    ),
    "float16 targets": Recipe(
        "policy targets of float16 in the replay, in place of uint8", {"policy_dtype": "float16"}
    ),
    "less reuse": Recipe(
        "each row learnt from 1.5 times, in place of 4 on 5x5 and 2.5 on 7x7", {"reuse": 1.5}
    ),
    "gate": Recipe(
        "AlphaGo Zero's gate, whose matches come on top", {"gate": 0.55, "gate_games": 40}
    ),
}
"""The recipes by name. A reference comes before the recipes compared with it."""


@dataclasses.dataclass(frozen=True)
class RecipesConfig(ExperimentConfig):
    """Training recipes, one change at a time, at equal compute: Elo of the networks above those of
    the recipe without the change, over several seeds of each.

    The same command resumes where it was stopped; a kill costs only the run or match in progress.
    """

    QUICK: ClassVar = {"only": ("puct",), "seeds": 2, "budget": 4.0, "games": 8, "rounds": 2}

    only: tuple[str, ...] = setting(tuple(RECIPES))
    """Which recipes to compare; their references are trained too."""

    size: Literal[5, 7] = setting(5)
    """The board's size; its preset sets the flags that the recipes do not."""

    seeds: int = setting(3, least=2)
    """Runs of each recipe, with seeds 0, 1, ..."""

    budget: float = setting(120.0, above=0, unit="seconds")
    """CPU time of a run, summed over all cores, without compilation."""

    iterations: int | None = setting(None, least=1, unset="as many as --budget allows")
    """Iterations of each run, the same for all recipes: for changes that do not affect the cost."""

    rounds: int = setting(6, least=1)
    """Iterations of each recipe, in turn, from which the cost of one is measured."""

    games: int = setting(40, least=2, step=2)
    """Games of each network against each of the reference's; two of each opening."""

    simulations: int = setting(16, least=1)
    """Simulations per move in these games, by Gumbel search without noise for all networks."""

    out: pathlib.Path = setting(pathlib.Path("runs/recipes"))
    """The folder of the networks, the matches, results.csv and results.svg."""

    EXAMPLES = (
        "python -m experiments.recipes.run",
        "python -m experiments.recipes.run --size 7 --budget 600 --only puct 'playout cap'",
    )

    def __post_init__(self):
        check(self)
        unknown = [name for name in self.only if name not in RECIPES]
        if unknown:
            raise ValueError(f"--only {unknown[0]}: expected some of {', '.join(RECIPES)}")

    @property
    def names(self) -> list[str]:
        """The recipes to train, each reference before the recipes compared with it."""
        needed = {*self.only, *(RECIPES[name].against for name in self.only)}
        needed |= {RECIPES[name].against for name in needed}
        return [name for name in RECIPES if name in needed]

    @property
    def estimate(self) -> float:
        """From the record in README.md: compilation, runs and matches, on two cores."""
        runs = len(self.names) * (self.seeds * self.budget / 2 + 20)
        matches = len(self.only) * (15 + self.seeds**2 * self.games * 0.03)
        return (runs + matches) / 60

    @property
    def terms(self) -> dict[str, Any]:
        """The settings that a folder's results depend on, besides the recipes."""
        names = ("size", "budget", "iterations", "rounds", "games", "simulations")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True)
class RowBytesConfig(ExperimentConfig):
    """Bytes per row of self-play, by the dtype of its policy target."""

    QUICK: ClassVar = {"sizes": (5,), "rows": 300}

    sizes: tuple[Literal[5, 7, 9], ...] = setting((5, 7, 9))
    """The boards' sizes."""

    rows: int = setting(6000, least=1)
    """The least number of rows for each board and root."""

    seed: int = seed_setting()
    """The seed of self-play."""

    out: pathlib.Path = setting(pathlib.Path("runs/row-bytes"))
    """The folder of row_bytes.csv."""

    EXAMPLES = ("python -m experiments.recipes.row_bytes",)

    @property
    def estimate(self) -> float:
        """From the record in README.md, on two cores."""
        return 2 * len(self.sizes) * self.rows / 18_000

    def __post_init__(self):
        check(self)


@dataclasses.dataclass(frozen=True)
class RootValueConfig(ExperimentConfig):
    """Estimates of a root's value that a value head might learn from, against the results of games
    by the networks that come with the library."""

    QUICK: ClassVar = {"sizes": (7,), "simulations": (8,), "games": 8}

    sizes: tuple[Literal[7, 9], ...] = setting((7, 9))
    """The boards' sizes."""

    simulations: tuple[int, ...] = setting((16, 32, 64), least=2)
    """Simulations per move."""

    games: int = setting(256, least=2)
    """Games of each board, root and number of simulations."""

    plies: int = setting(4, least=0)
    """Random plies at the start of each game."""

    seed: int = seed_setting()
    """The seed of the openings and searches."""

    out: pathlib.Path = setting(pathlib.Path("runs/root-value"))
    """The folder of root_value.csv."""

    EXAMPLES = ("python -m experiments.recipes.root_value",)

    @property
    def estimate(self) -> float:
        """From the record in README.md, on two cores."""
        return len(self.sizes) * (1 + sum(self.simulations) * self.games / 5_000)

    def __post_init__(self):
        check(self)
