"""Throughput of the rules, the playouts, the search and self-play.

    python -m experiments.throughput.run rules|playouts|search|selfplay|features [--json]

Each row is a ratio to a peer (pgx, mctx: ``pip install -e '.[bench]'``) or a bound measured
in the same run; without the peer installed the row has our figure alone.
"""

from __future__ import annotations

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from experiments.throughput import features, judges, peers
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, best_seconds
from gozero.apps import flags
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.montecarlo import policies
from gozero.montecarlo.playout import uniform_playouts
from gozero.players import selfplay
from gozero.players.evaluators import make_evaluator
from gozero.players.go_game import go_game
from gozero.search.search import SearchConfig, search


def start(rules: go.Rules, batch: int) -> go.GameState:
    return jax.vmap(lambda _: go.init(rules))(jnp.arange(batch))


def record_games(rules: go.Rules, batch: int, seed: int) -> jax.Array:
    """i32[T, B]: whole random games that fill no eyes, up to the ply where all have ended."""

    def move(states, key):
        def choose(state, key):
            own, opponent = go.own_and_opponent(state.position)
            eyes = bb.unpack(rules.layout, policies.eyes(rules.layout, own, opponent))
            free = go.legal_actions(rules, state)[:-1] & ~eyes
            logits = jnp.where(free, 0.0, -jnp.inf)
            return jnp.where(free.any(), jax.random.categorical(key, logits), rules.pass_action)

        actions = jax.vmap(choose)(states, jax.random.split(key, batch)).astype(jnp.int32)
        states = jax.vmap(lambda s, a: go.play(rules, s, a))(states, actions)
        return states, (actions, states.ended.all())

    keys = jax.random.split(jax.random.key(seed), rules.move_limit)
    _, (actions, ended) = jax.jit(lambda s: lax.scan(move, s, keys))(start(rules, batch))
    length = int(np.argmax(np.asarray(ended))) + 1 if bool(ended.any()) else rules.move_limit
    return actions[:length]


def replay(rules: go.Rules):
    """jitted (states, actions [T, B]) -> a number that needs every mask; states are donated."""

    def step(state, action):
        state = go.play(rules, state, action)
        return state, go.legal_actions(rules, state).sum() + state.ended

    def run(states, actions):
        def body(carry, row):
            states, total = carry
            states, seen = jax.vmap(step)(states, row)
            return (states, total + seen.sum()), None

        return lax.scan(body, (states, jnp.int32(0)), actions)[0]

    return jax.jit(run, donate_argnums=0)


def measure_rules(config: ThroughputConfig, report: Report) -> None:
    """Play + full legal mask + terminal test over whole random games, against pgx's env.step."""
    rows = [(9, 1024, 20.0)] if config.quick else [(9, 1024, 20.0), (19, 256, 40.0)]
    for size, batch, must in rows:
        actions = record_games(go.Rules(size=size), batch, config.seed)
        positions = actions.size
        peer = None
        if peers.installed("pgx"):
            arguments = lambda s=size, b=batch, a=actions: (peers.pgx_start(s, b), a)
            repeats = config.repeats if size < 13 else 1
            peer = positions / best_seconds(peers.pgx_replay(size), arguments, repeats)
        for ko in ("positional", "simple"):
            rules = go.Rules(size=size, ko=ko)
            arguments = lambda r=rules, b=batch, a=actions: (start(r, b), a)
            seconds = best_seconds(replay(rules), arguments, config.repeats)
            report.add(
                Result(
                    row=f"rules {size}x{size} B={batch}, {ko} ko",
                    ours=positions / seconds,
                    unit="positions/s",
                    peer=peer,
                    peer_name="pgx env.step",
                    must=must if ko == "positional" else None,
                    note=f"{len(actions)} plies",
                )
            )


def measure_playouts(config: ThroughputConfig, report: Report) -> None:
    """Uniform playouts from the empty board, one a lane."""
    rows = [(9, 64), (9, 1024)] if config.quick else [(9, 64), (9, 1024), (13, 256), (19, 256)]
    for size, batch in rows:
        rules = go.Rules(size=size, ko="simple")
        run = jax.jit(functools.partial(uniform_playouts, rules))
        positions = start(rules, batch).position
        arguments = lambda positions=positions: (positions, jax.random.key(config.seed))
        seconds = best_seconds(run, arguments, config.repeats)
        report.add(Result(f"playouts {size}x{size} B={batch}", batch / seconds, "playouts/s"))


def measure_search(config: ThroughputConfig, report: Report) -> None:
    """PUCT on Go with exact superko in the tree, stub evaluator, against mctx on pgx."""
    rows = [(64, 32, 10.0)] if config.quick else [(64, 32, 10.0), (64, 100, None), (64, 400, 80.0)]
    size = 9
    for batch, simulations, must in rows:
        rules = go.Rules(size=size)
        opening = record_games(rules, batch, config.seed)[:2]
        settings = SearchConfig(num_simulations=simulations, max_depth=64)
        states, _ = replay(rules)(start(rules, batch), opening)
        run = jax.jit(functools.partial(_search_stub, rules, settings))
        key = jax.random.key(config.seed)
        seconds = best_seconds(run, lambda s=states, k=key: (s, k), config.repeats)
        depth = float(run(states, key)[1])
        peer, note = None, f"mean depth {depth:.1f}"
        if peers.installed("mctx") and peers.installed("pgx"):
            theirs = peers.mctx_search(size, simulations, 64)
            roots = functools.reduce(
                jax.jit(jax.vmap(peers.pgx_go(size).step)), opening, peers.pgx_start(size, batch)
            )
            peer_seconds = best_seconds(theirs, lambda r=roots, k=key: (r, k), 1)
            peer = batch * simulations / peer_seconds
            note += f", mctx {peers.mean_depth(theirs(roots, key)):.1f}"
        report.add(
            Result(
                row=f"search 9x9 positional superko B={batch}, {simulations} sims",
                ours=batch * simulations / seconds,
                unit="simulations/s",
                peer=peer,
                peer_name="mctx on pgx",
                must=must,
                note=note,
            )
        )


def _search_stub(rules, settings, states, key):
    game = go_game(rules, judges.observe)
    evaluate = functools.partial(judges.stub, rules.num_actions)
    result = search(game, evaluate, None, key, states, states.position, settings)
    return result.visits, result.tree.visits.sum() / result.visits.sum()  # edges a simulation


def measure_selfplay(config: ThroughputConfig, report: Report) -> None:
    """Self-play with the network against the bare network on the same batch."""
    rules = go.Rules(size=9)
    batch, simulations, moves = 64, 32, 4
    evaluator = make_evaluator(rules, "network")
    settings = selfplay.SelfPlayConfig(
        rules,
        7.0,
        num_games=10**6,
        batch=batch,
        search=selfplay.search_config(rules, evaluator, simulations),
    )
    run = selfplay.make_play_moves(settings, evaluator, moves)
    arguments = lambda: (evaluator.params, selfplay.start(settings, config.seed))
    seconds = best_seconds(run, arguments, config.repeats)

    states = start(rules, batch)
    planes = jax.vmap(lambda s: evaluator.observe(s, s.position, None))(states)
    bare = jax.jit(lambda params, x: evaluator.evaluate(params, jax.random.key(0), x))
    bound = (
        20
        * batch
        / best_seconds(
            lambda params, x: [bare(params, x) for _ in range(20)],
            lambda: (evaluator.params, planes),
            config.repeats,
        )
    )
    report.add(
        Result(
            row=f"self-play 9x9 B={batch}, {simulations} sims, 2x32 network",
            ours=moves * batch * simulations / seconds,
            unit="simulations/s",
            peer=bound,
            peer_name="the bare network",
        )
    )


MEASURES = {
    "rules": measure_rules,
    "playouts": measure_playouts,
    "search": measure_search,
    "selfplay": measure_selfplay,
    "features": features.measure,
}


def main() -> int:
    config = flags.parse(ThroughputConfig, prog="python -m experiments.throughput.run")
    report = Report(config.json)
    MEASURES[config.subject](config, report)
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
