"""The search: PUCT on Go against mctx on pgx, the same stub evaluator on both sides."""

from __future__ import annotations

import functools

import jax

from experiments.throughput import games, judges, peers
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, best_seconds
from gozero.go import rules as go
from gozero.players.go_game import go_game
from gozero.search.search import SearchConfig, search


def measure(config: ThroughputConfig, report: Report) -> None:
    """PUCT on Go with exact superko in the tree, stub evaluator, against mctx on pgx."""
    rows = [(64, 32, 10.0)] if config.quick else [(64, 32, 10.0), (64, 100, None), (64, 400, 80.0)]
    size = 9
    for batch, simulations, must in rows:
        rules = go.Rules(size=size)
        opening = games.record_games(rules, batch, config.seed)[:2]
        settings = SearchConfig(num_simulations=simulations, max_depth=64)
        states, _ = games.replay(rules)(games.start(rules, batch), opening)
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
