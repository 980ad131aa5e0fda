"""Self-play: what the search, the rules and the records leave of the bare network's speed."""

from __future__ import annotations

import jax

from experiments.throughput import games
from experiments.throughput.config import ThroughputConfig
from experiments.throughput.measure import Report, Result, best_seconds
from gozero.go import rules as go
from gozero.players import selfplay
from gozero.players.evaluators import make_evaluator


def measure(config: ThroughputConfig, report: Report) -> None:
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

    states = games.start(rules, batch)
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
