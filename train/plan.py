"""The parts of a run as its flags set them: the game, self-play, the replay and the learner."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from gozero.games.registry import make_game, named_game
from gozero.go import rules as go
from gozero.nets import kinds, weights
from gozero.nets import network as nets
from gozero.nets.features import feature_set
from gozero.nets.katago.network import KataGoConfig
from gozero.nets.network import NetworkConfig
from gozero.play import shards
from gozero.play.evaluators import in_symmetries
from gozero.play.networks import network_evaluator
from gozero.play.openings import Openings
from gozero.play.player import as_game
from gozero.play.resignation import ResignConfig
from gozero.play.searches import gumbel_search, puct_search, to_win
from gozero.play.selfplay_config import PlayoutCap, SelfPlayConfig
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game, symmetries_of
from gozero.search.move_choice import Temperature
from gozero.search.rules.forced import ForcedPlayouts
from train import buffer as buffers
from train import games, learner
from train.buffer import BufferConfig, Window
from train.config import TrainConfig
from train.learner import LearnerConfig
from train.losses import LossWeights
from train.optimizer import OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Plan:
    """The static settings of a run's parts; see `make_plan`."""

    config: TrainConfig
    num_devices: int
    play: SelfPlayConfig
    buffer: BufferConfig
    learner: LearnerConfig
    teacher: kinds.Config | None = None  # of the teacher's network, if there is a teacher

    @property
    def rules(self) -> go.Rules | Game:
        """The rules of Go, or another game."""
        return rules_of(self.config)

    @property
    def rules_record(self) -> dict:
        """The rules as the shards of workers record them, see `shards.rules_of`."""
        config, rules = self.config, self.rules
        return shards.rules_of(
            rules if isinstance(rules, go.Rules) else named_game(config.game, config.size)
        )

    @functools.cached_property
    def evaluator(self) -> Evaluator:
        """The network as the search evaluates it; its params are not those of a run."""
        network = self.learner.network
        if self.config.play_dtype is not None:
            network = dataclasses.replace(network, dtype=self.config.play_dtype)
        return in_symmetries(self.rules, evaluator(self.rules, network), self.config.symmetries)

    @functools.cached_property
    def teacher_evaluator(self) -> Evaluator | None:
        """The teacher as an evaluator; its params are not those of the teacher's file."""
        if self.teacher is None:
            return None
        network = self.teacher
        if isinstance(network, KataGoConfig):  # a search's root is optimistic, a target is not
            network = dataclasses.replace(network, root_optimism=0.0)
        teacher = evaluator(self.rules, network)
        return in_symmetries(self.rules, teacher, self.config.teacher_symmetries)

    def simulations(self, iteration: int) -> int:
        """The simulations of a full search in an iteration; iterations are counted from 0."""
        stages = _stages(self.config)
        return stages[min(iteration * len(stages) // self.config.iterations, len(stages) - 1)]

    def simulations_to_go(self, iteration: int) -> int:
        """The sum of `simulations` of the iterations from this one on."""
        stages, iterations = _stages(self.config), self.config.iterations
        starts = [-(-iterations * k // len(stages)) for k in range(len(stages) + 1)]
        sizes = [max(0, end - max(start, iteration)) for start, end in itertools.pairwise(starts)]
        return sum(map(operator.mul, stages, sizes))


def make_plan(
    config: TrainConfig, num_devices: int = 1, initial_devices: int | None = None
) -> Plan:
    """The plan of a config on a number of devices.

    Args:
      config: the flags.
      num_devices: D.
      initial_devices: the number of devices that the run began on, if it differs; see `in_parts`.

    Raises:
      ValueError: invalid settings; the message names the flag, its value and what is allowed.
    """
    initial_devices = initial_devices or num_devices
    asked = config.capacity
    config = on_devices(in_parts(config, initial_devices, num_devices), num_devices)
    rules, network = rules_of(config), _network(config)
    _check_symmetries(config, rules)
    if config.batch_size % num_devices:
        raise ValueError(
            f"--batch-size {config.batch_size}: expected a multiple of the {num_devices} devices"
        )
    _check_leaves(config)
    if config.opening_plies >= as_game(rules).max_moves:
        raise ValueError(
            f"--opening-plies {config.opening_plies}: expected fewer than the move limit, "
            f"{as_game(rules).max_moves}"
        )
    buffer = _buffer(config)
    in_flags = lambda rows: math.ceil(rows * num_devices / initial_devices)
    _check_learns(config, buffer, config.batch_size // num_devices, asked, in_flags)
    full = _full_search(config, rules, network)
    play = _selfplay(config, as_game(rules), full)
    if buffer.capacity < games.least_rows(play):
        raise ValueError(
            f"--capacity {asked}: too few positions for the games that may end at one move; "
            f"expected at least {in_flags(games.least_rows(play))}"
        )
    return Plan(
        config=config,
        num_devices=num_devices,
        play=play,
        buffer=buffer,
        learner=_learner(config, network, num_devices),
        teacher=None if config.teacher is None else teacher_of(config).network,
    )


def _check_symmetries(config: TrainConfig, rules: go.Rules | Game) -> None:
    has_none = symmetries_of(as_game(rules)) is None
    for name in ("symmetries", "teacher_symmetries"):
        if has_none and getattr(config, name) != "one":
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(config, name)}: {config.game} has no "
                "symmetries; expected one"
            )


def _check_leaves(config: TrainConfig) -> None:
    """Refuse numbers of simulations that are no whole steps."""
    stages, leaves = _stages(config), config.leaves
    counts = {"simulations": stages[-1], "cheap_simulations": config.cheap_simulations}
    if config.first_simulations:
        counts["first_simulations"] = next((x for x in stages if x % leaves), stages[0])
    for name, count in counts.items():
        if count and count % leaves:
            flag, given = f"--{name.replace('_', '-')}", getattr(config, name)
            doubled = "" if count == given else f", doubled to {count},"
            raise ValueError(
                f"{flag} {given}:{doubled} expected a multiple of --leaves {leaves}, such as "
                f"{-(-given // leaves) * leaves}"
            )


def _check_learns(
    config: TrainConfig,
    buffer: BufferConfig,
    per_device: int,
    asked: int,
    in_flags: Callable[[int], int],
) -> None:
    """Refuse a replay that never holds enough rows for the steps that the learner takes at once.

    `config` is for one device; `asked` is the flag's --capacity, `in_flags` converts rows to it.
    """
    steps = learner.steps_per_call()
    if buffers.most_steps_due(buffer, per_device) < steps:
        least = math.ceil(steps * per_device / config.reuse)
        some = f"{steps} steps" if steps > 1 else "a step"
        raise ValueError(
            f"--capacity {asked}: the run would never learn, as {some} of --batch-size "
            f"{config.batch_size} at --reuse {config.reuse:g} must wait for {least} positions on "
            f"each device; expected at least {in_flags(least)}, or a smaller --batch-size"
        )


class Teacher(NamedTuple):
    """Another network, whose policy and value are learnt in place of the search's."""

    network: kinds.Config
    params: dict
    sha256: str  # of its file


@functools.lru_cache(maxsize=1)
def teacher_of(config: TrainConfig) -> Teacher:
    """The network of --teacher.

    Raises:
      ValueError: a file that cannot be read, or a network for other games or rules.
    """
    assert config.teacher is not None
    rules = rules_of(config)
    network, params, about = weights.load(config.teacher, config.size)
    network_evaluator(rules, network, params)  # raises for a network of another game
    return Teacher(network, params, about["sha256"])


def in_parts(config: TrainConfig, initial_devices: int, num_devices: int) -> TrainConfig:
    """The config of a run that continues on another number of devices than it began on: each
    device has a part of the same games, replay and steps.

    Raises:
      ValueError: the games cannot be divided equally among the devices.
    """
    if initial_devices == num_devices:
        return config
    if config.batch * initial_devices % num_devices:
        raise ValueError(
            f"--devices {num_devices}: the run has {config.batch * initial_devices} games in play; "
            "give a number of devices that divides it"
        )
    part = lambda name: -(-getattr(config, name) * initial_devices // num_devices)
    names = ("batch", "capacity", "window", "min_rows", "rows_per_device")
    return dataclasses.replace(config, **{name: part(name) for name in names})


def on_devices(config: TrainConfig, num_devices: int) -> TrainConfig:
    """The config with batches of at least `rows_per_device` rows for each of the devices.

    AdamW's learning rate grows with the square root of the batch size: Malladi et al. (2022).
    """
    growth = max(1.0, config.rows_per_device * num_devices / config.batch_size)
    batch_size, rate = round(config.batch_size * growth), config.learning_rate * growth**0.5
    return dataclasses.replace(config, batch_size=batch_size, learning_rate=rate)


def rules_of(config: TrainConfig) -> go.Rules | Game:
    """The rules of Go, or another game.

    Raises:
      ValueError: there is no such game, or it is not played in that size.
    """
    if config.game == "go" and config.size is not None:
        uses_past = feature_set(config.features).past_boards > 0 or config.teacher is not None
        remember = uses_past and config.ko == "simple"
        return go.Rules(size=config.size, ko=config.ko, remember=remember)
    return make_game(config.game, config.size)


def _network(config: TrainConfig) -> NetworkConfig:
    names = ("blocks", "channels", "pool_every", "dtype")
    shape = {name: getattr(config, name) for name in names}
    rules = rules_of(config)
    if isinstance(rules, Game):
        return nets.of_game(rules, **shape)
    return NetworkConfig(features=config.features, auxiliary=config.auxiliary, **shape)


@functools.cache
def evaluator(rules: go.Rules | Game, network: kinds.Config) -> Evaluator:
    """The evaluator of a network's shape, without its params; cached, because compiled programs are
    looked up by it."""
    return network_evaluator(rules, network, None if isinstance(network, NetworkConfig) else {})


def _full_search(
    config: TrainConfig, rules: go.Rules | Game, network: NetworkConfig
) -> SearchConfig:
    transpositions = config.transpositions
    if config.root == "gumbel":
        args = config.simulations, config.max_considered, config.leaves, config.value_scale
        return dataclasses.replace(gumbel_search(*args), transpositions=transpositions)
    plain = puct_search(
        as_game(rules), evaluator(rules, network), config.simulations, config.reuse_subtree
    )
    forced, rule = config.forced_playouts, config.puct
    return dataclasses.replace(
        plain,
        select=rule,
        leaves=config.leaves,
        virtual_loss=config.virtual_loss,
        root_select=ForcedPlayouts(rule, forced) if forced else None,
        root_temperature=config.root_temperature,
        dirichlet_fraction=config.dirichlet_fraction,
        dirichlet_alpha=config.dirichlet_alpha or plain.dirichlet_alpha,
        transpositions=transpositions,
    )


def _selfplay(config: TrainConfig, game: Game, full: SearchConfig) -> SelfPlayConfig:
    cap = None
    if config.cheap_simulations:
        cheap = to_win(full, config.cheap_simulations)
        cap = PlayoutCap(dataclasses.replace(cheap, capacity=full.capacity), config.full_share)
    moves = config.temperature_moves
    selfplay = SelfPlayConfig(
        game=game,
        batch=config.batch,
        search=full,
        komi=config.komi,
        temperature=None if moves is None else Temperature(moves=moves),
        reuse_subtree=config.reuse_subtree,
        root_value=config.root_value,
        openings=Openings(0, config.opening_plies, config.opening_searched),
        cap=cap,
        resign=ResignConfig() if config.resign else None,
        more_simulations=_stages(config)[:-1],
    )
    return dataclasses.replace(
        selfplay, temperature=dataclasses.replace(selfplay.schedule, early=config.temperature)
    )


def _stages(config: TrainConfig) -> tuple[int, ...]:
    """The simulations of a full search, stage by stage, doubling up to --simulations."""
    stages = [config.first_simulations or config.simulations]
    while stages[-1] < config.simulations:
        stages.append(min(2 * stages[-1], config.simulations))
    return tuple(stages)


def _buffer(config: TrainConfig) -> BufferConfig:
    window = Window(config.window, config.window_exponent, config.window_scale)
    past_boards = feature_set(config.features).past_boards if config.game == "go" else 0
    return _subset(BufferConfig, config, window=window, past_boards=past_boards)


def _learner(config: TrainConfig, network: NetworkConfig, num_devices: int) -> LearnerConfig:
    steps = max(num_steps(config, num_devices), config.warmup_steps + 1)
    losses = LossWeights(
        value=config.value_weight, ownership=config.ownership_weight, score=config.score_weight
    )
    optimizer = _subset(OptimizerConfig, config, total_steps=steps)
    return LearnerConfig(network, optimizer, losses, config.outcome_share)


def _subset(kind: type, config: TrainConfig, **more: Any) -> Any:
    """A dataclass `kind` with the settings of the same names in the config, and with `more`."""
    names = {field.name for field in dataclasses.fields(kind)} - more.keys()
    return kind(**{name: value for name, value in vars(config).items() if name in names}, **more)


def num_steps(config: TrainConfig, num_devices: int) -> int:
    """The approximate number of learner steps in a complete run: as many as its rows allow.

    A cheap search gives no row; see `train.games`.
    """
    rows = config.iterations * config.moves * config.batch * num_devices
    if config.cheap_simulations:
        rows *= config.full_share
    return int(rows * config.reuse / config.batch_size)
