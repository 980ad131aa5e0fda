"""The search: PUCT on Go against mctx on pgx, the same stub evaluator on both sides."""

from __future__ import annotations

import functools

import jax

from experiments.throughput import games, judges, peers
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, best_seconds
from gozero.go import rules as go
from gozero.players.go_game import go_game
from gozero.search.config import SearchConfig
from gozero.search.search import search

MAX_DEPTH = 64


_ROWS = (
    # size, games, simulations, must, aim, whether mctx is asked (a deep search takes it minutes)
    (9, 64, 32, 10.0, 15.0, True),
    (9, 64, 400, 80.0, 200.0, True),
    (9, 256, 100, 25.0, 50.0, True),
    (9, 64, 1600, None, None, False),
    (19, 64, 400, None, None, False),
)


def measure(config: ThroughputConfig, report: Report) -> None:
    """PUCT on Go with exact superko in the tree, stub evaluator, against mctx on pgx."""
    cost = {}
    for size, batch, simulations, must, aim, ask_mctx in _ROWS[:1] if config.quick else _ROWS:
        rules = go.Rules(size=size)
        opening = games.record_games(rules, batch, config.seed)[:2]
        settings = SearchConfig(num_simulations=simulations, max_depth=MAX_DEPTH)
        states, _ = games.replay(rules)(games.start(rules, batch), opening)
        run = jax.jit(functools.partial(_search_stub, rules, settings))
        key = jax.random.key(config.seed)
        seconds = best_seconds(run, lambda s=states, k=key: (s, k), config.repeats)
        cost[size, simulations] = seconds / simulations
        peer, note = None, f"mean depth {float(run(states, key)[1]):.1f}"
        if ask_mctx and peers.installed("mctx") and peers.installed("pgx"):
            theirs = peers.mctx_search(size, simulations, MAX_DEPTH)
            roots = functools.reduce(
                jax.jit(jax.vmap(peers.pgx_go(size).step)), opening, peers.pgx_start(size, batch)
            )
            peer_seconds = best_seconds(theirs, lambda r=roots, k=key: (r, k), 1)
            peer = batch * simulations / peer_seconds
            note += f", mctx {peers.mean_depth(theirs(roots, key)):.1f}"
        report.add(
            Result(
                row=f"search {size}x{size} positional superko B={batch}, {simulations} sims",
                ours=batch * simulations / seconds,
                unit="simulations/s",
                peer=peer,
                peer_name="mctx on pgx" if peer else "",
                must=must,
                aim=aim,
                note=note,
            )
        )
    if (9, 1600) in cost:
        report.add(
            Result(
                row="search 9x9 B=64, a simulation at 1,600 against one at 400",
                ours=cost[9, 1600] / 64 * 1e6,
                unit="us",
                peer=cost[9, 400] / 64 * 1e6,
                peer_name="at 400",
                must=1.6,
                aim=1.2,
                better="less",
            )
        )


def _search_stub(rules, settings, states, key):
    game = go_game(rules, judges.observe)
    evaluate = functools.partial(judges.stub, rules.num_actions)
    result = search(game, evaluate, None, key, states, states.position, settings)
    num_trees = result.visits.shape[0]
    # A simulation, or the root's evaluation, is a visit to each node on its path.
    edges = result.tree.visits.sum() - num_trees - result.visits.sum()
    return result.visits, edges / result.visits.sum()
