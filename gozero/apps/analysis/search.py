"""Searches of many positions in lockstep, run in pieces, for queries of the analysis engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps.forecast import forecast
from gozero.compile import executables
from gozero.games.go import go_game
from gozero.go.rules import GameState, Position, Rules, play
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.search import search as pieces
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator, Game, History, Trail
from gozero.search.variations import lines_below

DETAILED = 12
"""The number of a position's moves that get a line and a forecast."""

LINE = 15
"""The number of moves of a line, after its first."""


class Asked(NamedTuple):
    """A game, and the moves that its search must not consider."""

    state: GameState
    avoid: Any  # i32[2, A]: depth until which a player avoids an action; 0: it does not


class Analysis(NamedTuple):
    """The results of a search for positions [B]; Q and values are for the player to move."""

    visits: jax.Array  # i32[B, A]
    q: jax.Array  # f32[B, A]
    prior: jax.Array  # f32[B, A]; negative where illegal
    value: jax.Array  # f32[B]
    ok: jax.Array  # bool[B]
    actions: jax.Array  # i32[B, M]: the most visited
    lines: jax.Array  # i32[B, M, L]: the moves expected after each
    line_visits: jax.Array  # i32[B, M, L]


class Told(NamedTuple):
    """`Analysis`, and forecasts of how the games will end."""

    visits: jax.Array
    q: jax.Array
    prior: jax.Array
    value: jax.Array
    ok: jax.Array
    actions: jax.Array
    lines: jax.Array
    line_visits: jax.Array
    lead: jax.Array  # f32[B]: Black's
    ownership: jax.Array  # f32[B, N]: +1 Black's
    leads: Any  # f32[B, M]: Black's, after each of the actions
    ownerships: Any  # f32[B, M, N]


def without_avoided(game: Game, evaluator: Evaluator) -> tuple[Game, Evaluator]:
    """The game and its evaluator for states `Asked`: avoided moves are illegal in the search,
    unless no other move is legal."""
    history, own = game.history, evaluator.observe
    assert history is not None  # Go has one

    def root(asked: Asked) -> tuple[Asked, Position]:
        context, position = history.root(asked.state)
        return Asked(context, asked.avoid), position

    def legal(asked: Asked, position: Position, trail: Trail) -> jax.Array:
        allowed = history.legal(asked.state, position, trail)
        wanted = allowed & (trail.length >= asked.avoid[position.to_play])
        return jnp.where(jnp.any(wanted), wanted, allowed)

    of_state = lambda function: lambda asked, *rest: function(asked.state, *rest)
    if own is not None:
        evaluator = evaluator._replace(observe=lambda asked, *rest: own(asked.state, *rest))
    avoiding = game._replace(
        history=History(
            root=root,
            play=history.play,
            legal=legal,
            outcome=of_state(history.outcome),
            observe=of_state(history.observe),
            sees_ancestors=history.sees_ancestors,
        )
    )
    return avoiding, evaluator


def analysis_of(settings: SearchConfig, running: pieces.Running) -> Analysis:
    """The results of a search so far. If a game has several trees, the lines are the first's."""
    result = pieces.finish(running, settings)
    tree, trees_each = result.tree, settings.ensemble.trees if settings.ensemble else 1
    edges = trees.by_action(tree, trees.ROOT, tree.num_actions)
    actions = jax.lax.top_k(result.visits, min(DETAILED, tree.num_actions))[1]
    each = jnp.repeat(actions, trees_each, axis=0)
    nodes = jnp.take_along_axis(edges.nodes, each, axis=1)
    lines, visits = lines_below(tree, nodes, LINE)
    prior = jnp.nan_to_num(edges.edges.prior[::trees_each], nan=-1.0, neginf=-1.0)
    return Analysis(
        result.visits,
        result.q,
        jnp.maximum(prior, -1.0),
        result.value,
        result.ok,
        actions,
        lines[::trees_each],
        visits[::trees_each],
    )


class Searches:
    """Searches under given rules; each number of positions is compiled once."""

    def __init__(self, rules: Rules, config: PlayerConfig, seed: int, score_playouts: int):
        setup = make_setup(rules, config, seed)
        self.settings = settings = setup.search
        foresee = forecast(rules, config.weights, score_playouts)
        game, own = without_avoided(go_game(rules), setup.evaluator)
        self._params, own = own.params, own._replace(params=None)

        def begin(params: Any, key: jax.Array, asked: Asked):
            return pieces.begin(game, own._replace(params=params), key, asked, settings)

        def advance(params: Any, running: pieces.Running, steps: jax.Array):
            evaluator = own._replace(params=params)
            return pieces.advance(game, evaluator, running, settings, steps)

        def tell(running: pieces.Running, key: jax.Array, states: GameState) -> Told:
            found = analysis_of(settings, running)
            many = found.actions.shape[1]
            step = jax.vmap(lambda s, a: play(rules, s, a), in_axes=(None, 0))
            after = jax.vmap(step)(states, found.actions)
            flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), after)
            keys = jax.random.split(key)
            lead, owners = foresee(keys[0], states)
            leads, all_owners = foresee(keys[1], flat)
            return Told(
                *found,
                lead,
                owners,
                leads.reshape(-1, many),
                all_owners.reshape(-1, many, rules.num_points),
            )

        self._begin, self._tell = executables.jit(begin), executables.jit(tell)
        self.found = executables.jit(functools.partial(analysis_of, settings))
        self._advance = executables.jit(advance, donate_argnums=1)
        self._key = jax.random.key(seed)
        self._compiled: set[int] = set()

    def compile(self, asked: Sequence[Asked]) -> None:
        """Compile searches of this many positions, unless that was done, so that a time limit
        covers the search only."""
        if len(asked) not in self._compiled:
            running, states = self.begin(0, asked)
            self.tell(self.advance(running, 1), states)
            self._compiled.add(len(asked))

    def begin(self, number: int, asked: Sequence[Asked]) -> tuple[pieces.Running, GameState]:
        """Begin a search whose random streams `number` selects; returns (search, games)."""
        stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *asked)
        key = jax.random.fold_in(self._key, number)
        return self._begin(self._params, key, stacked), stacked.state

    def advance(self, running: pieces.Running, steps: int) -> pieces.Running:
        """Run `steps` more steps, unless the search is at its end. `running` is donated."""
        running = self._advance(self._params, running, jnp.int32(steps))
        return jax.block_until_ready(running)

    def tell(self, running: pieces.Running, states: GameState) -> Told:
        """The results so far with forecasts, on the host."""
        return jax.device_get(self._tell(running, self._key, states))
