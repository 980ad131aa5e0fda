"""Pictures of Go states, searches and matches, which notebooks display (see `ipython`)."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gozero.apps.animation import games_svg
from gozero.apps.pictures import Svg, board_svg
from gozero.go.coords import result_text
from gozero.go.rules import GameState, Position, Rules, play_position, position_stones
from gozero.search import tree as trees

if TYPE_CHECKING:
    from gozero.play.arena import MatchResult
    from gozero.search.search import SearchResult

MOST_GAMES = 16
"""The most games of a batch that are drawn."""

COLOURS = ("Black", "White")


def state_svg(state: GameState) -> Svg | None:
    """The board of one game, or the boards of the first games of a batch [B], side by side.

    None if the state holds no values (only shapes, or tracers) or has more batch axes.
    """
    has_values = isinstance(state.komi, (jax.Array, np.ndarray)) and not isinstance(
        state.komi, Tracer
    )
    if not has_values:
        return None
    if state.komi.ndim == 0:
        title = "The game is over" if state.ended else f"{COLOURS[int(state.to_play)]} to play"
        return board_svg(_boards(state.size, _first(state.position, None))[0], title=title)
    if state.komi.ndim > 1 or not state.komi.size:
        return None
    boards = _boards(state.size, _first(state.position, MOST_GAMES))
    return games_svg(boards[None], title=f"{len(boards)} of {len(state.komi)} games")


def search_svg(result: SearchResult, index: int = 0) -> Svg | None:
    """The visits and values at the root of a Go search, for one game of its batch.

    None for games other than Go, and for a result without its tree.
    """
    tree = result.tree
    if tree is None:
        return None
    trees_per_game = max(1, tree.num_trees // len(result.visits))  # of an ensemble, the first tree
    root = trees.read_positions(tree, tree.row(trees.ROOT)[::trees_per_game][index : index + 1])
    if not isinstance(root, Position):
        return None
    player = COLOURS[int(root.to_play[0])]
    return board_svg(
        _boards(math.isqrt(result.visits.shape[1]), root)[0],
        visits=result.visits[index],
        values=result.q[index],
        title=f"{player} to play: {50 * (1 + float(result.value[index])):.0f}%",
    )


def match_svg(match: MatchResult) -> Svg | None:
    """The first games of a Go match, move by move; None for games other than Go."""
    if not isinstance(match.start, GameState):
        return None
    start = _first(match.start.position, MOST_GAMES)
    count = len(start.ply)
    boards = replay(match.start.size, start, match.actions[:, :count])
    labels = [
        f"{'WB'[int(resigned)]}+R" if resigned >= 0 else result_text(float(score))
        for score, resigned in zip(match.score[:count], match.resigned[:count], strict=True)
    ]
    return games_svg(boards, labels=labels, title=f"{count} of {len(match.score)} games")


def replay(size: int, positions: Position, actions: Any) -> np.ndarray:
    """i8[T + 1, B, size, size]: the boards of games that start at positions [B].

    Args:
      actions: int[T, B], all legal; negative after the end of a game.
    """
    return np.asarray(_replay(size)(positions, jnp.asarray(actions, jnp.int32)))


@functools.cache
def _replay(size: int):
    rules = Rules(size=size, suicide=True)  # so that moves legal under any rules can be played
    draw = jax.vmap(lambda position: position_stones(rules, position))
    play = jax.vmap(lambda position, action: play_position(rules, position, action))

    def step(positions, action):
        after = play(positions, jnp.maximum(action, 0))
        update = lambda new, old: jax.vmap(jnp.where)(action >= 0, new, old)
        positions = jax.tree.map(update, after, positions)
        return positions, draw(positions)

    @jax.jit
    def run(positions, actions):
        boards = jax.lax.scan(step, positions, actions)[1]
        return jnp.concatenate([draw(positions)[None], boards])

    return run


def _boards(size: int, positions: Position) -> np.ndarray:
    """i8[B, size, size]: the stones of positions [B]."""
    draw = jax.vmap(lambda position: position_stones(Rules(size=size), position))
    return np.asarray(draw(positions))


def _first(positions: Position, most: int | None) -> Position:
    """The first `most` positions of a batch; None: a single position, as a batch of one."""
    return jax.tree.map(
        lambda x: jnp.asarray(x)[:most] if most else jnp.asarray(x)[None], positions
    )
