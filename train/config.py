"""The flags of ``python -m train --preset NAME``, as one frozen dataclass."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any, Literal

from gozero.runs import settings
from gozero.runs.settings import same_as, setting
from train.buffer import BufferConfig, Window
from train.losses import LossWeights
from train.optimizer import OptimizerConfig

Root = Literal["gumbel", "puct"]

_GAME, _NETWORK, _SELFPLAY = "the game", "the network", "self-play"
_REPLAY, _LEARNER, _RUN = "targets and replay", "the learner", "the run"


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Learn a game from self-play: play, learn from what was played, and again.

    A preset has a value for every flag, and any flag overrides it. The same command goes on with a
    run that was stopped, bit for bit.
    """

    preset: str = setting(
        "",
        "Where the other flags come from: 3x3, 5x5, 7x7, 9x9-cpu, 9x9-gpu or 19x19-slice, of Go; "
        "connect4, hex.",
    )
    out: pathlib.Path | None = setting(None, "The run's folder.", unset="runs/zero-PRESET")
    iterations: int = setting(
        100,
        "Rounds of self-play and learning, in all. A run that is done goes on with more of them; "
        "its learning rate and --first-simulations then go by the new number, and so back to where "
        "a longer run would be.",
        least=1,
    )
    minutes: float | None = setting(
        None,
        "Stop after this long in this session; the same command goes on, with an evaluation first "
        "if the last iteration was due for one.",
        least=0,
        unset="no limit",
    )
    seed: int = settings.seed_setting("The seed of every random draw.")

    game: str = setting(
        "go", "What is played: go, connect4, hex or pgx:NAME, a game of pgx.", group=_GAME
    )
    size: int | None = setting(
        9, "Lines of the board.", group=_GAME, least=2, most=25, unset="the game's usual size"
    )
    komi: tuple[float, ...] = setting(
        (7.0,), "Points for White, of Go; of several each game draws one.", group=_GAME
    )
    ko: Literal["simple", "positional", "situational"] = setting(
        "positional", "The ko rule of Go: which positions may not be repeated.", group=_GAME
    )

    blocks: int = setting(6, "Residual blocks.", group=_NETWORK, least=1)
    channels: int = setting(64, "Channels of the trunk.", group=_NETWORK, least=1)
    features: Literal["compact"] = setting(
        "compact",
        "The input planes of Go; all others look at earlier boards, which the replay does not "
        "keep.",
        group=_NETWORK,
    )
    pool_every: int = setting(
        2, "One of this many blocks pools the whole board; 0: none does.", group=_NETWORK, least=0
    )
    auxiliary: bool = setting(
        True,
        "Of Go: whether it also predicts the owner of each point and the score.",
        group=_NETWORK,
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32", "What the trunk computes in; parameters and sums are float32.", group=_NETWORK
    )
    weights: pathlib.Path | None = setting(
        None,
        "Weights of such a network to begin from, made for any board size.",
        group=_NETWORK,
        unset="random weights",
    )

    batch: int = setting(256, "Games at once, on each device.", group=_SELFPLAY, least=1)
    moves: int = setting(16, "Moves of each game in an iteration.", group=_SELFPLAY, least=1)
    root: Root = setting(
        "gumbel",
        "How the root is searched: gumbel, or puct with Dirichlet noise.",
        group=_SELFPLAY,
    )
    simulations: int = setting(32, "Simulations of a full search.", group=_SELFPLAY, least=1)
    first_simulations: int | None = setting(
        None,
        "Simulations at first: they double until they are all, each for an equal part of the "
        "iterations.",
        group=_SELFPLAY,
        least=1,
        most="simulations",
        unset="all from the beginning",
    )
    max_considered: int = setting(
        16, "The moves that a root considers, with gumbel.", group=_SELFPLAY, least=1
    )
    cheap_simulations: int = setting(
        0,
        "Simulations of searches that are not learnt from and only get a game to its end; 0: every "
        "search is full.",
        group=_SELFPLAY,
        least=0,
        below="fewest_simulations",
    )
    full_share: float = setting(
        0.25,
        "The share of searches that are full, where there are cheap ones.",
        group=_SELFPLAY,
        above=0,
        most=1,
    )
    temperature_moves: int | None = setting(
        None,
        "Moves of a game that are drawn by visits.",
        group=_SELFPLAY,
        least=0,
        unset="none with gumbel, whose root draws what it plays; with puct 30 on 19x19, fewer on "
        "smaller boards",
    )
    opening_plies: int = setting(
        0,
        "A game begins with random moves, from 0 to this many.",
        group=_SELFPLAY,
        least=0,
    )
    resign: bool = setting(
        False,
        "Whether games are resigned, at a threshold by which fewer than 5% of those resigned would "
        "have been won; a tenth is always played to the end, to know.",
        group=_SELFPLAY,
    )

    outcome_share: float = setting(
        1.0,
        "The share of the game's outcome in the value target; the rest is the value that the "
        "search found.",
        group=_REPLAY,
        least=0,
        most=1,
    )
    capacity: int = same_as(BufferConfig, "capacity", 100_000, group=_REPLAY)
    window: int = same_as(Window, "least", 20_000, group=_REPLAY)
    window_exponent: float = same_as(Window, "exponent", group=_REPLAY)
    window_scale: float = same_as(Window, "scale", group=_REPLAY)
    reuse: float = same_as(BufferConfig, "reuse", group=_REPLAY)
    min_rows: int = same_as(BufferConfig, "min_rows", 2_000, group=_REPLAY)
    surprise: float = same_as(BufferConfig, "surprise", group=_REPLAY)

    batch_size: int = setting(
        256, "Positions of a step, of all devices together.", group=_LEARNER, least=1
    )
    learning_rate: float = same_as(OptimizerConfig, "learning_rate", group=_LEARNER)
    final_fraction: float = same_as(OptimizerConfig, "final_fraction", 0.05, group=_LEARNER)
    warmup_steps: int = same_as(OptimizerConfig, "warmup_steps", group=_LEARNER)
    weight_decay: float = same_as(OptimizerConfig, "weight_decay", group=_LEARNER)
    ema_decay: float = same_as(OptimizerConfig, "ema_decay", 0.995, group=_LEARNER)
    value_weight: float = same_as(LossWeights, "value", group=_LEARNER)
    ownership_weight: float = same_as(LossWeights, "ownership", group=_LEARNER)
    score_weight: float = same_as(LossWeights, "score", group=_LEARNER)

    devices: int | None = setting(
        None,
        "Devices to divide the work among.",
        group=_RUN,
        least=1,
        unset="all that there are",
    )
    workers: bool = setting(
        False,
        "Also learn from what `python -m train worker` plays for this run's folder: what is learnt "
        "then depends on when it comes. The learning rate falls by the run's own positions.",
        group=_RUN,
    )
    coordinator: str | None = setting(
        None,
        "For a run on several hosts, with the same command on each: HOST:PORT of the first, with "
        "--processes and --process; auto where they find each other by themselves (TPU slices, "
        "Slurm).",
        group=_RUN,
        unset="one host",
    )
    processes: int | None = setting(
        None, "How many hosts, or processes, there are.", group=_RUN, least=1
    )
    process: int | None = setting(
        None,
        "Which of them this is, from 0; the first writes what is written.",
        group=_RUN,
        least=0,
        below="processes",
    )
    checkpoint_every: int = setting(
        10,
        "Iterations from one checkpoint to the next; each evaluation has one before it as well.",
        group=_RUN,
        least=1,
    )
    evaluate_every: int = setting(
        0, "Iterations from one evaluation to the next; 0: none.", group=_RUN, least=0
    )
    evaluate_games: int = setting(
        64,
        "Games of an evaluation against each opponent.",
        group=_RUN,
        least=2,
        step=2,
    )
    evaluate_simulations: int = setting(
        32, "Simulations of each move in evaluations.", group=_RUN, least=1
    )

    EXAMPLES = (
        "python -m train --game connect4 --out runs/connect4",
        "python -m train --preset 3x3 --out runs/3x3",
        "python -m train --preset 9x9-cpu --weights runs/7x7/weights.safetensors --minutes 60",
    )

    def __post_init__(self):
        settings.check(self)
        if self.game == "go" and not (self.komi and self.size):
            raise ValueError(f"--{'size' if self.komi else 'komi'}: expected one number or more")
        numbers = (self.processes, self.process)
        if self.coordinator in (None, "auto"):
            if numbers != (None, None):
                raise ValueError("--processes and --process go with --coordinator HOST:PORT")
        elif not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"--coordinator {self.coordinator}: expected HOST:PORT or auto")
        elif None in numbers:
            raise ValueError(f"--coordinator {self.coordinator}: needs --processes and --process")

    @property
    def fewest_simulations(self) -> int:
        """Of a full search, at any time."""
        return self.first_simulations or self.simulations

    @property
    def folder(self) -> pathlib.Path:
        """Of the run."""
        return self.out or pathlib.Path("runs") / f"zero-{self.preset}"

    @property
    def plain(self) -> dict[str, Any]:
        """All flags, as config.json has them."""
        plain = dataclasses.asdict(self) | {"out": str(self.folder), "komi": list(self.komi)}
        return plain | {"weights": self.weights and str(self.weights)}


MAY_CHANGE = frozenset(
    {
        "out",
        "iterations",
        "minutes",
        "learning_rate",
        "workers",
        "coordinator",
        "processes",
        "process",
        "checkpoint_every",
        "evaluate_every",
        "evaluate_games",
        "evaluate_simulations",
    }
)
"""Flags that may differ when a run goes on."""
