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
from gozero.limits import Dtype, FeaturesName, RootValue
from gozero.play.player_config import SymmetryMode
from gozero.runs import settings, store
from gozero.runs.settings import Conflict, same_as, setting
from gozero.runs.store import Store
from gozero.search.rules.puct import Puct
from train.buffer import BufferConfig, Window
from train.losses import LossWeights
from train.optimizer import OptimizerConfig

Root = Literal["gumbel", "puct"]

TeacherSymmetries = Literal["one", "all"]

PUCT = {"c_puct": 1.25, "c_base": 19_652.0}
"""The constants of PUCT in AlphaZero (Silver et al. 2018, supplement), for runs that begin now."""

EARLIER_PUCT = {"c_puct": 1.5, "c_base": 0.0}
"""Those of runs that began before --c-puct was a flag."""


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Learn a game from self-play: play games, learn from them, repeat.

    A preset sets every flag, and any flag overrides it. The same command continues a run that was
    stopped, bit for bit.
    """

    preset: str = setting("")
    """The preset that sets the other flags: 3x3, 5x5, 7x7, 9x9-cpu, 9x9-gpu or 19x19-slice for Go;
    connect4; hex."""

    out: pathlib.Path | None = setting(None, unset="runs/zero-PRESET")
    """The run's folder, or the URL of its bucket: s3://, gs://, az://."""

    iterations: int = setting(100, least=1)
    """Rounds of self-play and learning, in all. A finished run continues if given more of them; its
    learning rate and --first-simulations then follow the new total, so they go back to what they
    would be at this point of a longer run."""

    minutes: float | None = setting(None, least=0, unset="no limit")
    """Stop after this many minutes of this session. The same command continues the run, with an
    evaluation first if the last iteration was due for one."""

    seed: int = settings.seed_setting()
    """The seed of every random draw."""

    game: str = setting("go", f"The game: {ALL_NAMES}.", group="the game")

    size: int | None = setting(9, least=2, most=25, unset="the game's usual size")
    """The number of lines of the board."""

    komi: tuple[float, ...] = setting((7.0,))
    """Points for White, in Go; if several are given, each game draws one."""

    ko: KoRule = setting("positional")
    """The ko rule of Go: which positions may not be repeated."""

    blocks: int = setting(6, group="the network", least=1)
    """Residual blocks."""

    channels: int = setting(64, least=1)
    """Channels of the network's trunk."""

    features: FeaturesName = setting("compact")
    """The input planes for Go. All but compact use earlier boards, which the replay stores for
    them; full also reads the ladders on three boards, which takes longer than a network of 4 blocks
    and 32 channels (experiments/throughput)."""

    pool_every: int = setting(2, least=0)
    """Every block whose number is a multiple of this pools the whole board; 0: none does."""

    auxiliary: bool = setting(True)
    """In Go: whether the network also predicts the owner of each point and the score."""

    dtype: Dtype = setting("float32")
    """The type the trunk computes in; parameters and sums are float32."""

    play_dtype: Literal["float32", "bfloat16", "int8"] | None = setting(None, unset="--dtype")
    """The type its trunk computes in during self-play; learning uses --dtype. bfloat16 is for
    processors that multiply it faster (AVX512-BF16, AMX), where learning in float32 takes less time
    than in bfloat16; int8 is for TPUs, which multiply 8-bit integers faster."""

    weights: pathlib.Path | None = setting(None, unset="random weights")
    """Weights to begin from, trained on any board size: of a network of the same shape, or of one
    with fewer blocks or channels, which is grown to a larger one with the same outputs."""

    batch: int = setting(256, group="self-play", least=1)
    """Games played at once on each device; on a CPU, whose cores are the devices, on all of them
    together. The sizes of the replay are counted in the same way."""

    moves: int = setting(16, least=1)
    """Moves played in each game per iteration."""

    root: Root = setting("gumbel")
    """How the root is searched: gumbel, or puct with Dirichlet noise."""

    c_puct: float | None = setting(None, least=0, unset="1.25 with puct, as in AlphaZero")
    """With puct: c. A prior's weight at a node of N visits is c + log((1 + N + b) / b), with b of
    --c-base. (A player's --exploration is such a c.)"""

    c_base: float | None = setting(None, least=0, unset="19,652 with puct, as in AlphaZero")
    """With puct: b. The larger it is, the more visits it takes until the weight grows; 0: it does
    not grow."""

    dirichlet_fraction: float = setting(0.25, least=0, most=1)
    """With puct: the share of Dirichlet noise in the root's priors."""

    dirichlet_alpha: float | None = setting(
        None, above=0, unset="0.03 on 19x19, inversely proportional to the number of points"
    )
    """The concentration of that noise."""

    forced_playouts: float = setting(0.0, least=0)
    """k, with puct: a root action of prior P, once visited, gets at least sqrt(k P N) of the root's
    N visits. Visits that were only forced count neither for policy targets nor for the move played.
    KataGo uses 2; 0 forces none."""

    root_temperature: float = setting(1.0, above=0)
    """With puct: T; the root's priors are P^(1/T), normalised, before the noise is added. Above 1
    they are flatter, which keeps moves alive; KataGo's paper has 1.03."""

    leaves: int = setting(1, least=1)
    """Leaves of a tree that are evaluated together; must divide all numbers of simulations."""

    virtual_loss: int = setting(3, least=1)
    """With puct: the number of simulations counted as lost on the path to each of these leaves
    until it is evaluated. With gumbel a leaf counts as one."""

    reuse_subtree: bool = setting(False)
    """With puct: each search starts from the subtree that the one before it built below the move
    played."""

    symmetries: SymmetryMode = setting("one")
    """The symmetries in which self-play's searches evaluate a position: as it stands (one), one of
    them drawn at random, as in AlphaGo Zero (random), or all, whose evaluations are averaged (all).
    Matches of the run evaluate positions as they stand."""

    transpositions: bool = setting(False)
    """Positions of a tree that have the same network inputs share one evaluation. On 5x5 and 7x7
    this takes 11 to 17% more time, and is not shown to pay (experiments/recipes)."""

    simulations: int = setting(32, least=1)
    """Simulations of a full search."""

    first_simulations: int | None = setting(
        None, least=1, most="simulations", unset="--simulations from the beginning"
    )
    """Simulations of a full search at first. They double until they reach --simulations; each
    number is used for an equal part of the iterations."""

    max_considered: int = setting(16, least=1)
    """With gumbel: the most moves that a root considers."""

    value_scale: float = setting(1.0, above=0)
    """With gumbel: how strongly a move's value changes the policy (c_scale)."""

    cheap_simulations: int = setting(0, least=0, below="fewest_simulations")
    """Simulations of cheap searches, which are not learnt from and only bring games to their end;
    0: every search is full."""

    full_share: float = setting(0.25, above=0, most=1)
    """The share of searches that are full, with --cheap-simulations."""

    temperature_moves: int | None = setting(
        None,
        least=0,
        unset="0 with gumbel, whose root samples the move; with puct 30 on 19x19 and fewer on "
        "smaller boards",
    )
    """The number of moves at the start of a game that are sampled from the visits."""

    temperature: float = setting(1.0, above=0)
    """The temperature T of these moves: an action with N visits is sampled in proportion to
    N^(1 / T)."""

    opening_plies: int = setting(0, least=0)
    """Each game begins with random moves: from 0 to this many."""

    opening_searched: bool = setting(False)
    """Only the last of these moves is random; those before it are searched like any other, but not
    learnt from."""

    resign: bool = setting(False)
    """Whether players resign, at a threshold where fewer than 5% of the resigned games would have
    been won or drawn. A tenth of the games are always played to the end, to measure this."""

    outcome_share: float = setting(1.0, group="targets and replay", least=0, most=1)
    """The share of the game's outcome in the value target; the rest is the root value of the
    search."""

    root_value: RootValue = setting("mean")
    """That root value: the mean of the simulations, or the mean of the moves' values by the policy
    target, which is nearer to the outcome with gumbel: its root spends simulations on bad moves."""

    teacher: pathlib.Path | None = setting(None, unset="no teacher")
    """Weights of another network, which may be one of KataGo's (.bin.gz): its policy and value of
    each position replace the search's in the targets. With --outcome-share 0 the value target is
    the teacher's alone."""

    teacher_symmetries: TeacherSymmetries = setting("one")
    """The symmetries in which the teacher evaluates a position: as it stands (one), or all, whose
    evaluations are averaged (all)."""

    capacity: int = same_as(BufferConfig, "capacity", 100_000)
    window: int = same_as(Window, "least", 20_000)
    window_exponent: float = same_as(Window, "exponent")
    window_scale: float = same_as(Window, "scale")
    reuse: float = same_as(BufferConfig, "reuse")
    min_rows: int = same_as(BufferConfig, "min_rows", 2_000)
    surprise: float = same_as(BufferConfig, "surprise")
    policy_dtype: Literal["uint8", "float16", "float32"] = same_as(BufferConfig, "policy_dtype")

    batch_size: int = setting(256, group="the learner", least=1)
    """Positions in a learner step, on all devices together."""

    rows_per_device: int = setting(1, least=1)
    """The least number of positions in a step for each device. If on all devices together that is
    more than --batch-size, a step has that many, and the learning rate is scaled by the square root
    of the ratio."""

    learning_rate: float = same_as(OptimizerConfig, "learning_rate")
    final_fraction: float = same_as(OptimizerConfig, "final_fraction", 0.05)
    warmup_steps: int = same_as(OptimizerConfig, "warmup_steps")
    weight_decay: float = same_as(OptimizerConfig, "weight_decay")
    ema_decay: float = same_as(OptimizerConfig, "ema_decay", 0.995)
    value_weight: float = same_as(LossWeights, "value")
    ownership_weight: float = same_as(LossWeights, "ownership")
    score_weight: float = same_as(LossWeights, "score")

    devices: int | None = setting(None, group="the run", least=1, unset="all devices")
    """Devices to divide the work among. A run can continue on another number of them, with the same
    network, games and replay; from then on it is not bit for bit what it would have been."""

    workers: bool = setting(False)
    """Also learn from what `python -m train worker` plays for this run. What is learnt then depends
    on when that arrives. Workers get new weights with each checkpoint (--checkpoint-every)."""

    coordinator: str | None = setting(None, unset="one host")
    """For a run on several hosts, with the same command on each: HOST:PORT of the first host, with
    --processes and --process; or auto where the hosts find each other (TPU slices, Slurm)."""

    processes: int | None = setting(None, least=1)
    """The number of hosts, or processes."""

    process: int | None = setting(None, least=0, below="processes")
    """The index of this process, from 0; process 0 writes the shared files."""

    gate: float | None = setting(None, least=0.5, below=1, unset="no gate, the newest always plays")
    """The newest network replaces the one that plays only if it scores more than this against it:
    0.55 in AlphaGo Zero. Both are moving averages, of --ema-decay."""

    gate_every: int = setting(10, least=1)
    """Iterations between these matches; there is also one after the last."""

    gate_games: int = setting(100, least=2, step=2)
    """Games in each of these matches, with --evaluate-simulations for each move."""

    tensorboard: bool = setting(False)
    """Also write the metrics for TensorBoard, to DIR/tensorboard."""

    checkpoint_every: int = setting(10, least=1)
    """Iterations between checkpoints; there is also one before each evaluation."""

    evaluate_every: int = setting(0, least=0)
    """Iterations between evaluations; 0: no evaluations."""

    evaluate_games: int = setting(64, least=2, step=2)
    """Games against each opponent in an evaluation."""

    evaluate_simulations: int = setting(32, least=1)
    """Simulations for each move in evaluations, and in the gate's matches."""

    CONFLICTS = (
        Conflict("c_puct c_base", "root=gumbel", "its rule has no such constants"),
        Conflict("reuse_subtree", "root=gumbel", "its root counts the visits of one search"),
        Conflict("forced_playouts", "root=gumbel", "its root visits only the moves it sampled"),
        Conflict("dirichlet_fraction dirichlet_alpha", "root=gumbel", "it adds its own noise"),
        Conflict("root_temperature", "root=gumbel", "it samples moves by the priors themselves"),
        Conflict(
            "!virtual_loss=1", "root=gumbel", "its root counts a leaf as one visit; omit it", True
        ),
        Conflict("virtual_loss", "!leaves", "one leaf at a time needs no virtual loss", True),
        Conflict(
            "max_considered value_scale", "root=puct", "its root considers every move by PUCT", True
        ),
        Conflict("root_value", "!outcome_share", "value targets are outcomes alone", True),
        Conflict("root_value", "teacher", "the teacher's value replaces it", True),
        Conflict("full_share", "!cheap_simulations", "without it every search is full", True),
        Conflict("opening_searched", "!opening_plies", "there is no opening", True),
        Conflict("temperature", "temperature_moves=0", "no move is sampled", True),
        Conflict("dirichlet_alpha", "dirichlet_fraction=0", "there is no noise", True),
        Conflict(
            "ko auxiliary ownership_weight score_weight",
            "!game=go",
            "other games have neither ko nor points",
            True,
        ),
        Conflict("ownership_weight score_weight", "!auxiliary", "no head learns them", True),
        Conflict(
            "teacher",
            "workers",
            "the teacher does not evaluate their games; without --workers this run plays them all",
        ),
        Conflict(
            "teacher",
            "dry_run",
            "a dry run does not compile the teacher; make the dry run without --teacher",
        ),
        Conflict("teacher_symmetries", "!teacher", "there is no teacher", True),
        Conflict("gate_every gate_games", "!gate", "they configure its matches"),
        Conflict("features", "!game=go", "other games have their own input planes"),
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
                f"--temperature {self.temperature:g}: --root gumbel does not sample moves from "
                "visits; give --temperature-moves too"
            )
        process_numbers = (self.processes, self.process)
        if self.coordinator in (None, "auto"):
            if process_numbers != (None, None):
                raise ValueError("--processes and --process need --coordinator HOST:PORT")
        elif not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"--coordinator {self.coordinator}: expected HOST:PORT or auto")
        elif None in process_numbers:
            raise ValueError(f"--coordinator {self.coordinator}: needs --processes and --process")
        if self.coordinator and self.out and store.is_url(self.out):
            raise ValueError(
                f"--out {self.out}: a run on several hosts needs a folder that they share"
            )

    @property
    def fewest_simulations(self) -> int:
        """The fewest simulations that a full search has at any time of the run."""
        return self.first_simulations or self.simulations

    @property
    def puct(self) -> Puct:
        """The rule of --root puct."""
        values = {name: getattr(self, name) for name in PUCT}
        values |= {name: PUCT[name] for name, value in values.items() if value is None}
        return Puct(c_puct=values["c_puct"], c_base=values["c_base"] or None)

    @property
    def shared(self) -> Store:
        """The store of the run, which its workers share."""
        return _shared(self.out or pathlib.Path("runs") / f"zero-{self.preset}")

    @property
    def folder(self) -> pathlib.Path:
        """The run's folder; if the run is in a bucket, a local copy of this process, see
        `train.mirror`."""
        shared = self.shared
        if isinstance(shared, store.Folder):
            return shared.path
        digest = hashlib.sha256(shared.name.encode()).hexdigest()[:16]
        return pathlib.Path(tempfile.gettempdir()) / f"gozero-{digest}-{os.getpid()}"

    @property
    def plain(self) -> dict[str, Any]:
        """All flags, as config.json stores them."""
        plain = dataclasses.asdict(self) | {"out": self.shared.name, "komi": list(self.komi)}
        paths = {"weights": self.weights, "teacher": self.teacher}
        return plain | {name: path and str(path) for name, path in paths.items()}


@functools.lru_cache(maxsize=8)
def _shared(out: pathlib.Path) -> Store:
    return store.at(out)


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
"""The flags that may differ when a run continues."""
