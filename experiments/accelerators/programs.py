"""The hot programs: our own, those of the presets for accelerators, and the peers'.

Each is built for a target and compiled from shapes; its arguments are created only if it is run.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from experiments.throughput import games, peers, stub_evaluator
from gozero.compile import mode
from gozero.compile.ahead import Target
from gozero.games.go import go_game
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.go.coords import KoRule
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.play.evaluators import playout_evaluator
from gozero.play.networks import network_evaluator
from gozero.playouts.policies.mogo.playouts import mogo_playouts
from gozero.playouts.policies.uniform import uniform_playouts
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from train import dry_run, learner, steps, worker
from train import games as training_games
from train.plan import make_plan
from train.presets import PRESETS

MOVES = 16  # per call of a program of the rules
SIMULATIONS = 32
LANES = 4096  # for playouts
MAX_DEPTH = 64


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, ready to be compiled.

    Attributes:
      function: the function to compile; already jitted, if it donates arguments.
      make: returns the arguments; called under `jax.eval_shape`, or jitted if the program is run.
      unit: the unit in which its work is counted.
      units: the units of work of a call, on all devices.
      hot: the path to the hot loop, whose round is reported; see `estimate.LoopEstimate.find`.
      rounds: trip counts of loops of unknown length; see `estimate.read`.
      where: shardings of the arguments, a pytree like theirs; None: on one device.
    """

    function: Callable
    make: Callable[[], tuple]
    unit: str
    units: int
    hot: tuple[int | str, ...]
    rounds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    where: Any = None


def _rules(target: Target, size: int, batch: int, ko: KoRule) -> Program:
    """Moves of a batch of games, each with its full legal mask."""
    rules = go.Rules(size=size, ko=ko)
    make = lambda: (games.start(rules, batch), _moves(size, batch))
    rounds = {rf"branch_0_fun/while$|{_SUPERKO}": COMPARED[size]}
    return Program(games.replay(rules), make, "positions", MOVES * batch, (MOVES,), rounds)


COMPARED = {9: 1.3, 19: 0.3}
"""Boards that a TPU compares stone by stone per move, for superko: the maximum over the batch,
averaged over random games (counted on a CPU with 2,048 games of 9x9 and 512 of 19x19: 1.0 and 0.1;
without `closely` 4.8 and 1.1). The searches here start from the empty board, where there are
none; self-play games are assumed to be like random ones."""


_SUPERKO = r"vmap\(\)/(cond/branch_0_fun/)?while$"
"""Pattern of the superko loops; without the branch if only one platform's form is traced."""


def _superko(size: int | None) -> dict[str, float]:
    """Trip counts of both superko loops of a simulation (game and tree); {}: not known."""
    return {_SUPERKO: COMPARED[size]} if size in COMPARED else {}


def _pgx_rules(target: Target, size: int, batch: int) -> Program:
    make = lambda: (peers.pgx_start(size, batch), _moves(size, batch))
    return Program(peers.pgx_replay(size), make, "positions", MOVES * batch, (MOVES,))


def _moves(size: int, batch: int) -> jax.Array:
    """i32[MOVES, batch]: different points in each game, and no point twice in a game."""
    move, game = jnp.arange(MOVES)[:, None], jnp.arange(batch)[None]
    return (7 * move + 13 * game) % size**2


TURNS = {("uniform", 9): 8, ("mogo", 9): 7, ("uniform", 19): 27}
"""Trip counts of the outer loop of playouts of `LANES` games from the empty board, counted on a
CPU."""


def _playouts(target: Target, size: int, policy: str) -> Program:
    """Playouts from the empty board, one per lane, until the last has ended."""
    rules = go.Rules(size=size, ko="simple")

    def play(positions, key):
        if policy == "uniform":
            return uniform_playouts(rules, positions, key)
        last_moves = jnp.full(LANES, bb.NO_POINT)
        return mogo_playouts(rules, positions, key, last=last_moves)

    def make():
        empty = lambda _: go.empty_position(rules)
        return jax.vmap(empty)(jnp.arange(LANES)), jax.random.key(0)

    rounds = {_OUTER: TURNS[policy, size], _BLOCKS: 1}
    return Program(play, make, "playouts", LANES, ("while",), rounds)


_OUTER, _BLOCKS = r"^[^/]*/while$", r"^[^/]*/while/body/while$"


def _stub(rules: go.Rules) -> Evaluator:
    spread = stub_evaluator.NETWORK_SPREAD
    evaluate = functools.partial(stub_evaluator.evaluate, rules.num_actions, spread)
    return Evaluator(evaluate, None, stub_evaluator.observe)


def _search(rules, evaluator, batch, params=None, rounds=None, **settings) -> Program:
    config = SearchConfig(SIMULATIONS, max_depth=MAX_DEPTH, **settings)
    game = go_game(rules, evaluator.observe)

    def run(params, states, key):
        result = search(game, evaluator._replace(params=params), key, states, config)
        return result._replace(tree=None)

    make = lambda: (params() if params else None, games.start(rules, batch), jax.random.key(0))
    units = SIMULATIONS * batch
    rounds = (rounds or {}) | _superko(rules.size)
    return Program(run, make, "simulations", units, (SIMULATIONS,), rounds)


def _stub_search(target: Target, size: int, batch: int) -> Program:
    """PUCT with an evaluator that costs next to nothing, to measure the search itself."""
    rules = go.Rules(size=size)
    return _search(rules, _stub(rules), batch)


def _puct(target: Target, size: int, batch: int, blocks: int, channels: int) -> Program:
    """PUCT with a network in bfloat16."""
    rules, shape = go.Rules(size=size), NetworkConfig(blocks, channels, dtype="bfloat16")
    evaluator = network_evaluator(rules, shape)
    params = lambda: network.init(shape, jax.random.key(0))
    return _search(rules, evaluator, batch, params, select=evaluator.select)


def _rave(target: Target, size: int, batch: int) -> Program:
    """MC-RAVE with playouts by MoGo's rules."""
    rules = go.Rules(size=size)
    evaluator = playout_evaluator(rules, "mogo", first_plays=True)
    return _search(rules, evaluator, batch, select=Rave(), amaf=Amaf())


def _mctx(target: Target, size: int, batch: int) -> Program:
    spread = stub_evaluator.NETWORK_SPREAD
    run = peers.mctx_search(size, SIMULATIONS, MAX_DEPTH, spread)
    make = lambda: (peers.pgx_start(size, batch), jax.random.key(0))
    units = SIMULATIONS * batch
    return Program(run, make, "simulations", units, (SIMULATIONS,))


def _preset(target: Target, preset: str, part: str, **changes: Any) -> Program:
    """A run's self-play or learner, on all devices of the target."""
    config = dataclasses.replace(PRESETS[preset], **changes)
    mesh = target.mesh(steps.AXIS)
    with mode.target(target.platform):
        plan = make_plan(config, target.num_devices)
        num_steps = learner.steps_per_call()
    function, args_of = dry_run.programs(plan, mesh, num_steps)[part]
    begin = lambda: steps.begin(plan, mesh)
    where = args_of(steps.shardings(jax.eval_shape(begin), mesh))
    make = lambda: args_of(begin())
    if part == "learning":
        units, hot = num_steps * plan.config.batch_size, (num_steps,) if num_steps > 1 else ()
        return Program(function, make, "rows", units, hot, where=where)
    units = config.moves * config.batch * config.simulations * target.num_devices
    hot = (config.moves, config.simulations // config.leaves)
    return Program(function, make, "simulations", units, hot, _superko(config.size), where)


def _preset_worker(target: Target, preset: str) -> Program:
    """A worker's self-play for a run elsewhere, on one device."""
    config = dataclasses.replace(PRESETS[preset], workers=True)
    plan = worker.plan_of(config)

    def make():
        params = network.init(plan.learner.network, jax.random.key(0))
        return params, training_games.start(plan.play, plan.buffer, 0, 0)

    function = jax.jit(
        functools.partial(worker._play_moves, plan, config.simulations), donate_argnums=1
    )
    units = config.moves * config.batch * config.simulations
    hot = (config.moves, config.simulations)
    return Program(function, make, "simulations", units, hot, _superko(config.size))


PROGRAMS: dict[str, Callable[[Target], Program]] = {
    "rules-9x9": functools.partial(_rules, size=9, batch=4096, ko="positional"),
    "rules-9x9-simple": functools.partial(_rules, size=9, batch=4096, ko="simple"),
    "rules-19x19": functools.partial(_rules, size=19, batch=1024, ko="positional"),
    "pgx-9x9": functools.partial(_pgx_rules, size=9, batch=4096),
    "pgx-19x19": functools.partial(_pgx_rules, size=19, batch=1024),
    "playouts-9x9": functools.partial(_playouts, size=9, policy="uniform"),
    "playouts-19x19": functools.partial(_playouts, size=19, policy="uniform"),
    "mogo-playouts-9x9": functools.partial(_playouts, size=9, policy="mogo"),
    "search-9x9": functools.partial(_stub_search, size=9, batch=1024),
    "mctx-9x9": functools.partial(_mctx, size=9, batch=1024),
    "puct-9x9": functools.partial(_puct, size=9, batch=1024, blocks=6, channels=64),
    "puct-19x19": functools.partial(_puct, size=19, batch=256, blocks=10, channels=128),
    "rave-9x9": functools.partial(_rave, size=9, batch=1024),
    "play-9x9-gpu-int8": functools.partial(
        _preset, preset="9x9-gpu", part="self-play", play_dtype="int8"
    ),
    "play-9x9-cpu-leaves": functools.partial(_preset, preset="9x9-cpu", part="self-play", leaves=4),
    **{
        f"{part}-{preset}": functools.partial(make, preset=preset)
        for preset in PRESETS
        for part, make in (
            ("play", functools.partial(_preset, part="self-play")),
            ("learn", functools.partial(_preset, part="learning")),
            ("worker", _preset_worker),
        )
    },
}
"""The programs by name; peers are listed beside ours."""
