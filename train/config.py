"""The flags of ``python -m train --preset NAME``, as one frozen dataclass."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import tempfile
from typing import Any, Literal

from gozero.games.registry import ALL_NAMES
from gozero.go.coords import KoRule
from gozero.runs import settings, store
from gozero.runs.settings import Conflict, same_as, setting
from gozero.runs.store import Store
from train.buffer import BufferConfig, Window
from train.losses import LossWeights
from train.optimizer import OptimizerConfig

Root = Literal["gumbel", "puct"]


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Learn a game from self-play: play, learn from what was played, and again.

    A preset has a value for every flag, and any flag overrides it. The same command goes on with a
    run that was stopped, bit for bit.
    """

    preset: str = setting("")
    """Where the other flags come from: 3x3, 5x5, 7x7, 9x9-cpu, 9x9-gpu or 19x19-slice, of Go;
    connect4, hex."""

    out: pathlib.Path | None = setting(None, unset="runs/zero-PRESET")
    """The run's folder, or the URL of its bucket: s3://, gs://, az://."""

    iterations: int = setting(100, least=1)
    """Rounds of self-play and learning, in all. A run that is done goes on with more of them; its
    learning rate and --first-simulations then go by the new number, and so back to where a longer
    run would be."""

    minutes: float | None = setting(None, least=0, unset="no limit")
    """Stop after this long in this session; the same command goes on, with an evaluation first if
    the last iteration was due for one."""

    seed: int = settings.seed_setting()
    """The seed of every random draw."""

    game: str = setting("go", f"What is played: {ALL_NAMES}.", group="the game")

    size: int | None = setting(9, least=2, most=25, unset="the game's usual size")
    """Lines of the board."""

    komi: tuple[float, ...] = setting((7.0,))
    """Points for White, of Go; of several each game draws one."""

    ko: KoRule = setting("positional")
    """The ko rule of Go: which positions may not be repeated."""

    blocks: int = setting(6, group="the network", least=1)
    """Residual blocks."""

    channels: int = setting(64, least=1)
    """Channels of the trunk."""

    features: Literal["compact", "full", "full-no-ladders", "zero"] = setting("compact")
    """The input planes of Go. All but compact look at earlier boards, which the replay keeps for
    them; full reads the ladders of three boards too, which takes longer than a network of 4 blocks
    and 32 channels (experiments/throughput)."""

    pool_every: int = setting(2, least=0)
    """One of this many blocks pools the whole board; 0: none does."""

    auxiliary: bool = setting(True)
    """Of Go: whether it also predicts the owner of each point and the score."""

    dtype: Literal["float32", "bfloat16"] = setting("float32")
    """What the trunk computes in; parameters and sums are float32."""

    play_dtype: Literal["int8"] | None = setting(None, unset="--dtype")
    """What its blocks compute in where self-play evaluates: 8-bit integers, for TPUs, which
    multiply them faster; learning goes on in --dtype."""

    weights: pathlib.Path | None = setting(None, unset="random weights")
    """Weights of such a network to begin from, made for any board size."""

    batch: int = setting(256, group="self-play", least=1)
    """Games at once, on each device; on a CPU, whose cores are devices, on all of them together. So
    it is with the replay."""

    moves: int = setting(16, least=1)
    """Moves of each game in an iteration."""

    root: Root = setting("gumbel")
    """How the root is searched: gumbel, or puct with Dirichlet noise."""

    dirichlet_fraction: float = setting(0.25, least=0, most=1)
    """The share of Dirichlet noise in the root's priors, with puct."""

    dirichlet_alpha: float | None = setting(
        None, above=0, unset="0.03 on 19x19, and so much more on boards of fewer points"
    )
    """The concentration of that noise."""

    forced_playouts: float = setting(0.0, least=0)
    """k: a root's action of prior P that was visited is visited sqrt(k P N) times, with puct, and
    policy targets leave out what was only forced; KataGo takes 2, 0 forces none."""

    leaves: int = setting(1, least=1)
    """Leaves of a tree that are evaluated together; divides all numbers of simulations."""

    virtual_loss: int = setting(3, least=1)
    """Simulations that count as lost on the path to each until then, with puct; with gumbel a leaf
    counts as one."""

    reuse_subtree: bool = setting(False)
    """A search goes on from what the one before found below the move played, with puct."""

    transpositions: bool = setting(False)
    """Positions of a tree that the network sees alike share one evaluation."""

    simulations: int = setting(32, least=1)
    """Simulations of a full search."""

    first_simulations: int | None = setting(
        None, least=1, most="simulations", unset="all from the beginning"
    )
    """Simulations at first: they double until they are all, each for an equal part of the
    iterations."""

    max_considered: int = setting(16, least=1)
    """The moves that a root considers, with gumbel."""

    value_scale: float = setting(1.0, above=0)
    """How much a move's value moves the policy, with gumbel: its c_scale."""

    cheap_simulations: int = setting(0, least=0, below="fewest_simulations")
    """Simulations of searches that are not learnt from and only get a game to its end; 0: every
    search is full."""

    full_share: float = setting(0.25, above=0, most=1)
    """The share of searches that are full, where there are cheap ones."""

    temperature_moves: int | None = setting(
        None,
        least=0,
        unset="none with gumbel, whose root draws what it plays; with puct 30 on 19x19, fewer on "
        "smaller boards",
    )
    """Moves of a game that are drawn by visits."""

    temperature: float = setting(1.0, above=0)
    """T of these moves: an action is drawn in proportion to N^(1 / T), N its visits."""

    opening_plies: int = setting(0, least=0)
    """A game begins with random moves, from 0 to this many."""

    opening_searched: bool = setting(False)
    """Of these moves only the last is random; those before it are searched, as any other, but not
    learnt from."""

    resign: bool = setting(False)
    """Whether games are resigned, at a threshold by which fewer than 5% of those resigned would
    have been won; a tenth is always played to the end, to know."""

    outcome_share: float = setting(1.0, group="targets and replay", least=0, most=1)
    """The share of the game's outcome in the value target; the rest is the value that the search
    found."""

    teacher: pathlib.Path | None = setting(None, unset="none: the search's own")
    """Weights of another network, KataGo's too (.bin.gz): its policy and value of each position are
    learnt in place of the search's. With --outcome-share 0 the value is its alone."""

    capacity: int = same_as(BufferConfig, "capacity", 100_000)
    window: int = same_as(Window, "least", 20_000)
    window_exponent: float = same_as(Window, "exponent")
    window_scale: float = same_as(Window, "scale")
    reuse: float = same_as(BufferConfig, "reuse")
    min_rows: int = same_as(BufferConfig, "min_rows", 2_000)
    surprise: float = same_as(BufferConfig, "surprise")
    policy_dtype: Literal["uint8", "float16", "float32"] = same_as(BufferConfig, "policy_dtype")

    batch_size: int = setting(256, group="the learner", least=1)
    """Positions of a step, of all devices together."""

    rows_per_device: int = setting(1, least=1)
    """Of them at least so many for each device: on more devices a step has more positions than
    --batch-size, and the learning rate grows by the root of how many times as many."""

    learning_rate: float = same_as(OptimizerConfig, "learning_rate")
    final_fraction: float = same_as(OptimizerConfig, "final_fraction", 0.05)
    warmup_steps: int = same_as(OptimizerConfig, "warmup_steps")
    weight_decay: float = same_as(OptimizerConfig, "weight_decay")
    ema_decay: float = same_as(OptimizerConfig, "ema_decay", 0.995)
    value_weight: float = same_as(LossWeights, "value")
    ownership_weight: float = same_as(LossWeights, "ownership")
    score_weight: float = same_as(LossWeights, "score")

    devices: int | None = setting(None, group="the run", least=1, unset="all that there are")
    """Devices to divide the work among. A run goes on with another number of them too, with the
    same network, games and replay; from then on it is not bit for bit what it would have been."""

    workers: bool = setting(False)
    """Also learn from what `python -m train worker` plays for this run: what is learnt then depends
    on when it comes. The learning rate falls by the run's own positions."""

    coordinator: str | None = setting(None, unset="one host")
    """For a run on several hosts, with the same command on each: HOST:PORT of the first, with
    --processes and --process; auto where they find each other by themselves (TPU slices, Slurm)."""

    processes: int | None = setting(None, least=1)
    """How many hosts, or processes, there are."""

    process: int | None = setting(None, least=0, below="processes")
    """Which of them this is, from 0; the first writes what is written."""

    gate: float | None = setting(None, least=0.5, below=1, unset="each plays as it is learnt")
    """The newest network plays only once it has scored more than this against the one that plays:
    0.55 in AlphaGo Zero. Both are averages, of --ema-decay."""

    gate_every: int = setting(10, least=1)
    """Iterations from one such match to the next."""

    gate_games: int = setting(100, least=2, step=2)
    """Games of such a match, with --evaluate-simulations of each move."""

    tensorboard: bool = setting(False)
    """Also write the metrics for TensorBoard, to DIR/tensorboard."""

    checkpoint_every: int = setting(10, least=1)
    """Iterations from one checkpoint to the next; each evaluation has one before it as well."""

    evaluate_every: int = setting(0, least=0)
    """Iterations from one evaluation to the next; 0: none."""

    evaluate_games: int = setting(64, least=2, step=2)
    """Games of an evaluation against each opponent."""

    evaluate_simulations: int = setting(32, least=1)
    """Simulations of each move in evaluations."""

    CONFLICTS = (
        Conflict("reuse_subtree", "root=gumbel", "its root counts the visits of one search"),
        Conflict("forced_playouts", "root=gumbel", "its root visits what it has drawn"),
        Conflict("dirichlet_fraction dirichlet_alpha", "root=gumbel", "it draws noise of its own"),
        Conflict("virtual_loss", "root=gumbel", "its root counts a leaf as one"),
        Conflict("virtual_loss", "!leaves", "of one leaf at a time none is lost"),
        Conflict("teacher", "workers", "what they play has no teacher"),
        Conflict("teacher", "dry_run", "it is not compiled there"),
        Conflict("gate_every gate_games", "!gate", "of its matches"),
        Conflict("features", "!game=go", "planes of Go, and other games have their own"),
    )

    EXAMPLES = (
        "python -m train --game connect4 --out runs/connect4",
        "python -m train --preset 3x3 --out runs/3x3",
        "python -m train --preset 9x9-cpu --weights runs/7x7/weights.safetensors --minutes 60",
        "python -m train --preset 5x5 --root puct --leaves 8 --reuse-subtree --features zero",
    )

    def __post_init__(self):
        settings.check(self)
        if self.game == "go" and not (self.komi and self.size):
            raise ValueError(f"--{'size' if self.komi else 'komi'}: expected one number or more")
        if self.temperature != 1 and self.root == "gumbel" and not self.temperature_moves:
            raise ValueError(
                f"--temperature {self.temperature:g}: gumbel draws no move by visits unless "
                "--temperature-moves says so"
            )
        numbers = (self.processes, self.process)
        if self.coordinator in (None, "auto"):
            if numbers != (None, None):
                raise ValueError("--processes and --process go with --coordinator HOST:PORT")
        elif not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"--coordinator {self.coordinator}: expected HOST:PORT or auto")
        elif None in numbers:
            raise ValueError(f"--coordinator {self.coordinator}: needs --processes and --process")
        if self.coordinator and self.out and store.is_url(self.out):
            raise ValueError(f"--out {self.out}: a run on several hosts needs a folder they share")

    @property
    def fewest_simulations(self) -> int:
        """Of a full search, at any time."""
        return self.first_simulations or self.simulations

    @property
    def shared(self) -> Store:
        """Where the run is, and its workers."""
        return _shared(self.out or pathlib.Path("runs") / f"zero-{self.preset}")

    @property
    def folder(self) -> pathlib.Path:
        """Of the run; one of this process, if it is in a bucket: see `train.mirror`."""
        shared = self.shared
        if isinstance(shared, store.Folder):
            return shared.path
        digest = hashlib.sha256(shared.name.encode()).hexdigest()[:16]
        return pathlib.Path(tempfile.gettempdir()) / f"gozero-{digest}-{os.getpid()}"

    @property
    def plain(self) -> dict[str, Any]:
        """All flags, as config.json has them."""
        plain = dataclasses.asdict(self) | {"out": self.shared.name, "komi": list(self.komi)}
        paths = {"weights": self.weights, "teacher": self.teacher}
        return plain | {name: path and str(path) for name, path in paths.items()}


@functools.lru_cache(maxsize=8)
def _shared(place: pathlib.Path) -> Store:
    return store.at(place)


MAY_CHANGE = frozenset(
    {
        "out",
        "iterations",
        "minutes",
        "learning_rate",
        "policy_dtype",
        "devices",
        "workers",
        "coordinator",
        "processes",
        "process",
        "tensorboard",
        "checkpoint_every",
        "evaluate_every",
        "evaluate_games",
        "evaluate_simulations",
    }
)
"""Flags that may differ when a run goes on."""
