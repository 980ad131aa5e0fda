"""Self-play and its rows: its speed as a share of the bare network's, and the speed at which a
learner reads workers' shards."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from experiments.throughput import games, peers
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, against, in_turn, make_timed
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.play import shards
from gozero.play.networks import network_evaluator
from gozero.play.rows import FREQUENCY_UNIT
from gozero.play.searches import gumbel_search
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.play.shards import About, Place
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.search import search
from train import games as training_games
from train.buffer import BufferConfig

RULES = go.Rules(size=9)
_SIMULATIONS = 32


def measure(config: ThroughputConfig, report: Report) -> None:
    """Adds rows: self-play against the bare network on the same batch and against pgx's recipe,
    many leaves per step of one tree, and reading shards."""
    _selfplay(config, report, blocks=2, channels=32, batch=64, moves=8)
    if not config.quick:
        _selfplay(config, report, blocks=6, channels=64, batch=256, moves=3, must=0.8, aim=0.95)
        _leaves(config, report, blocks=6, channels=64, leaves=64)
    _recipe(config, report, blocks=2, channels=16, batch=256, must=1.7)
    if not config.quick:
        _recipe(config, report, blocks=6, channels=64, batch=256)
    _read_shards(config, report, count=2**11 if config.quick else 2**15)


def _evaluator(blocks: int, channels: int) -> Evaluator:
    return network_evaluator(RULES, NetworkConfig(blocks=blocks, channels=channels))


def bare_network(evaluator: Evaluator, batch: int, calls: int):
    """A timer of `calls` successive calls of the bare network on a batch of positions, with its
    parameters prepared once, as by a search."""
    states = games.start(RULES, batch)
    planes = jax.jit(jax.vmap(go_game(RULES, evaluator.observe).observe))(states)
    network = jax.jit(lambda params, x: evaluator.evaluate(params, jax.random.key(0), x))
    several = lambda params, x: [network(params, x) for _ in range(calls)]
    prepared = jax.jit(lambda: evaluator.prepared().params)()
    return make_timed(several, lambda: (prepared, planes))


def _training_play(
    config: ThroughputConfig, evaluator: Evaluator, batch: int, moves: int
) -> Callable[[], float]:
    """A timer of some moves of self-play as in training: Gumbel search, games at all stages; the
    rows of finished games go into the replay buffer."""
    settings = SelfPlayConfig(go_game(RULES), batch, gumbel_search(_SIMULATIONS), komi=7.0)
    buffer = BufferConfig(capacity=64 * RULES.move_limit)
    play = training_games.make_play(settings, buffer, evaluator, moves)
    start = lambda: (evaluator.params, training_games.start(settings, buffer, config.seed))
    return make_timed(play, start)


def _selfplay(config, report, blocks, channels, batch, moves, must=None, aim=None) -> None:
    calls = 8
    evaluator = _evaluator(blocks, channels)
    plays = _training_play(config, evaluator, batch, moves)
    ours, peer = in_turn([plays, bare_network(evaluator, batch, calls)], config.repeats)
    # A move does one evaluation more than simulations: the root's.
    rates = (
        [moves * batch * (_SIMULATIONS + 1) / x for x in ours],
        [calls * batch / x for x in peer],
    )
    report.add(
        Result(
            row=f"self-play 9x9 B={batch}, {_SIMULATIONS} sims, {blocks}x{channels} network",
            unit="evaluations/s",
            must=must,
            aim=aim,
            note="Gumbel, rows kept, games at all stages",
            **against(*rates, "the bare network"),
        )
    )


def _recipe(config, report, blocks, channels, batch, must=None) -> None:
    """Self-play for training, with its rows kept, against pgx's AlphaZero recipe: pgx's Go and
    mctx's Gumbel search, with the same network on the same 17 planes, simulations and lanes."""
    if not (peers.installed("pgx") and peers.installed("mctx")):
        report.say("pgx's recipe: skipped, because pgx and mctx are not installed")
        return
    moves = 4
    shape = NetworkConfig(blocks, channels, features="zero")
    evaluator = network_evaluator(RULES, shape)

    def evaluate(params, observations):
        output = network.apply(shape, params, observations)
        return output.policy_logits, output.value

    theirs = peers.pgx_selfplay(RULES.size, evaluate, _SIMULATIONS, moves)
    pgx_start = lambda: (
        evaluator.params,
        peers.pgx_start(RULES.size, batch),
        jax.random.key(config.seed),
    )
    play = _training_play(config, evaluator, batch, moves)
    ours, peer = in_turn([play, make_timed(theirs, pgx_start)], config.repeats)
    rates = ([moves * batch / x for x in ours], [moves * batch / x for x in peer])
    report.add(
        Result(
            row=f"training 9x9 B={batch}, {_SIMULATIONS} sims, {blocks}x{channels} network",
            unit="moves/s",
            must=must,
            note="and so in games: they are as long on both sides, two passes end them",
            **against(*rates, "pgx's AlphaZero recipe"),
        )
    )


def _read_shards(config, report, count) -> None:
    """Reads whole shards of self-play, as workers write them to a bucket: unpacks them and checks
    every row by the rules. Measured in CPU time."""
    settings = SelfPlayConfig(go_game(RULES), 64, gumbel_search(4), komi=7.0)
    buffer = BufferConfig(capacity=64 * RULES.move_limit)
    evaluator = _evaluator(blocks=1, channels=8)
    play = training_games.make_play(settings, buffer, evaluator, 32)
    playing = training_games.start(settings, buffer, config.seed)
    while not int(playing.buffer.size) > 2000:
        playing, _ = play(evaluator.params, playing)
    size = int(playing.buffer.size)
    repeated = lambda x: np.resize(np.asarray(x)[:size], (count, *x.shape[1:]))
    rows, rules_record = jax.tree.map(repeated, playing.buffer.rows), shards.rules_of(RULES)
    frequency = np.full(count, FREQUENCY_UNIT)

    def timer(suffix: str) -> Callable[[], float]:
        about = About("worker", 0, 1, 0, len(np.unique(rows.game)), count)
        data = shards.pack(rules_record, about, rows, frequency, suffix)
        name = shards.key_of(Place(0, "worker", 1), suffix)

        def seconds() -> float:
            started = time.process_time()
            shards.read(name, rules_record, data=data)
            return time.process_time() - started

        seconds()
        return seconds

    suffixes = [".npz", *([".zst"] if importlib.util.find_spec("zstandard") else [])]
    for suffix, cpu_seconds in zip(
        suffixes, in_turn([timer(one) for one in suffixes], config.repeats), strict=True
    ):
        report.add(
            Result(
                row=f"shards of 9x9, {suffix}, read and checked",
                ours=count / statistics.median(cpu_seconds),
                unit="rows/s of a core",
                must=500_000 if suffix == ".zst" else None,
                bounds="ours",
                note=f"{count:,} rows of {size:,} of games between random networks",
            )
        )


def _leaves(config, report, blocks, channels, leaves) -> None:
    """One tree: the gain of many leaves per step over one, against the network's gain by such a
    batch."""
    evaluator = _evaluator(blocks, channels)
    game = go_game(RULES)
    states = games.start(RULES, 1)

    def timer(simulations, leaves_per_step):
        settings = SearchConfig(simulations, leaves=leaves_per_step)

        def run(params, states, key):
            result = search(game, evaluator._replace(params=params), key, states, settings)
            return result.visits

        arguments = (evaluator.params, states, jax.random.key(config.seed))
        return make_timed(jax.jit(run), lambda: arguments)

    num_batched, num_single = 512, 64
    timers = [timer(num_batched, leaves), timer(num_single, 1)]
    timers += [bare_network(evaluator, leaves, 8), bare_network(evaluator, 1, 64)]
    rounds = list(zip(*in_turn(timers, config.repeats), strict=True))
    gains = [(num_batched / a) / (num_single / b) for a, b, _, _ in rounds]
    bare = [(8 * leaves / c) / (64 / d) for _, _, c, d in rounds]
    speed = lambda x: f"{x:,.0f}"
    a, b, c, d = (statistics.median(side) for side in zip(*rounds, strict=True))
    report.add(
        Result(
            row=f"one tree 9x9, {leaves} leaves a step against 1, {blocks}x{channels} network",
            unit="x",
            must=0.8,
            aim=0.95,
            note=f"{speed(num_batched / a)} and {speed(num_single / b)} sims/s; the network alone "
            f"{speed(8 * leaves / c)} and {speed(64 / d)} evaluations/s",
            **against(gains, bare, "the network's gain"),
        )
    )
