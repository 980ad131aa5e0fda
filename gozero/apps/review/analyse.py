"""Searches all positions of the games in lockstep: who is ahead, the best moves, the losses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gozero.apps import settled
from gozero.apps.forecast import forecast
from gozero.apps.host_game import HostGame, IllegalMove, ample_move_limit, move_limit_for
from gozero.apps.restricted import to_analyse
from gozero.apps.review.config import ReviewConfig
from gozero.apps.sgf import GameRecord
from gozero.compile import executables
from gozero.games.go import go_game
from gozero.go.rules import GameState, Rules, position_stones, with_to_play
from gozero.go.setup import from_points
from gozero.play.setups import check_memory, make_setup
from gozero.search.game import NO_ACTION
from gozero.search.search import search
from gozero.search.variations import principal_variation

VARIATION = 10
"""The most moves of a variation."""


class ReviewedPosition(NamedTuple):
    """The evaluation of a position of a game; winning probabilities are from 0 to 1."""

    stones: np.ndarray  # i8[size, size]: +1 Black, -1 White
    to_play: int  # 0 Black, 1 White
    win: float  # Black's winning probability by the search; 0, 1/2 or 1 once the game is over
    lead: float  # Black's expected final score, points after komi; in the end without dead stones
    ownership: np.ndarray  # f32[size * size]: +1 Black's at the end, -1 White's
    visits: np.ndarray  # i32[A]
    variation: tuple[int, ...]  # the expected moves by the search; empty once the game is over
    played: int | None  # the move that was played; None at the end
    lost: float  # winning probability that it lost; 0 if the search would play it, too


class ReviewedGame(NamedTuple):
    """A game and its positions, from the first on: one more than it has moves."""

    name: str
    record: GameRecord
    positions: list[ReviewedPosition]

    def mistakes(self, count: int) -> list[int]:
        """The positions whose moves lost the most, in descending order; only losses from 1% on."""
        numbers = sorted(range(len(self.positions)), key=lambda i: -self.positions[i].lost)
        return [i for i in numbers[:count] if self.positions[i].lost >= 0.01]


def analyse(
    config: ReviewConfig,
    games: Sequence[tuple[str, GameRecord]],
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[ReviewedGame]:
    """Review games.

    Args:
      config: the flags.
      games: (name, game) of each, all of one size.
      progress: called with (positions searched, total).
      tell: called with the number, size and memory of the trees, before they are allocated.

    Raises:
      ValueError: there are no games, or they have several sizes, illegal moves or too many of them;
        files that the flags name do not fit; or the evaluator's values are not finite or not in
        [-1, 1].
    """
    sizes = sorted({record.size for _, record in games})
    if len(sizes) != 1:
        raise ValueError(
            f"games: of sizes {', '.join(map(str, sizes))}; review each size separately"
        )
    limit = ample_move_limit(sizes[0])
    rules = Rules(sizes[0], config.ko, config.suicide, limit, config.needs_past_boards)
    lines = [_states(rules, name, record) for name, record in games]
    states = [state for line in lines for state in line]
    review, trees = _make_review(rules, config)
    tell(trees)
    results, batch = [], config.batch  # always full: another number would be recompiled
    for start in range(0, len(states), batch):
        chunk = states[start : start + batch]
        padded = chunk + chunk[-1:] * (batch - len(chunk))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *map(to_analyse, padded))
        chunk_results = jax.device_get(
            review(jax.random.fold_in(jax.random.key(config.seed), start), stacked)
        )
        results += [jax.tree.map(lambda x, i=i: x[i], chunk_results) for i in range(len(chunk))]
        if progress:
            progress(len(results), len(states))
    if not all(result.ok for result in results):
        raise ValueError("the evaluator returned values that are not finite, or not in [-1, 1]")
    reviewed, first = [], 0
    for (name, record), line in zip(games, lines, strict=True):
        game_results = [
            _settled(rules, state, result) if state.ended else result
            for state, result in zip(line, results[first : first + len(line)], strict=True)
        ]
        reviewed.append(ReviewedGame(name, record, _reviewed_positions(record, line, game_results)))
        first += len(line)
    return reviewed


def _states(rules: Rules, name: str, record: GameRecord) -> list[GameState]:
    """The game before each move, with its player on turn, and at its end; on the host.

    All share the past of the last, as a past is indexed by ply: what it holds beyond a position's
    ply is ignored.

    Raises:
      ValueError: the game cannot be played, or has more moves than the rules' limit.
    """
    try:
        move_limit_for(rules.size, len(record.moves))
        stones = record.black_stones, record.white_stones
        start = from_points(rules, *stones, record.first_player, record.komi)
        game = HostGame(rules, start=start)
        states = []
        for number, (colour, action) in enumerate(record.moves, start=1):
            states.append(with_to_play(game.state, colour).replace(past=None))
            try:
                game.play(colour, action)
            except IllegalMove as error:
                raise ValueError(f"move {number}: {error}; --ko and --suicide may help") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    end = jax.device_get(game.state)
    return [*(jax.device_get(state).replace(past=end.past) for state in states), end]


class _DeviceResults(NamedTuple):
    """The device's results for positions [B]; values are for the player to move."""

    stones: jax.Array
    value: jax.Array
    visits: jax.Array
    ok: jax.Array
    variation: jax.Array
    lead: jax.Array
    ownership: jax.Array


def _make_review(
    rules: Rules, config: ReviewConfig
) -> tuple[Callable[[jax.Array, GameState], _DeviceResults], str]:
    """(a function from a key and a batch of positions to their results, what its trees take)."""
    setup = make_setup(rules, config, config.seed)
    game, forecast_games = go_game(rules), forecast(rules, config.weights, config.score_playouts)
    trees = 1 if setup.search.ensemble is None else setup.search.ensemble.trees
    params, evaluator = setup.evaluator.params, setup.evaluator._replace(params=None)

    def review(params: Any, key: jax.Array, states: GameState) -> _DeviceResults:
        search_key, score_key = jax.random.split(key)
        own = evaluator._replace(params=params)
        result = search(game, own, search_key, states, setup.search)
        lead, owners = forecast_games(score_key, states)
        return _DeviceResults(
            jax.vmap(lambda s: position_stones(rules, s.position))(states),
            result.value,
            result.visits,
            result.ok,
            principal_variation(result.tree, VARIATION)[::trees],
            lead,
            owners,
        )

    trees_of_batch = check_memory(rules, setup, False, config.batch)
    return functools.partial(executables.jit(review), params), trees_of_batch


def _settled(rules: Rules, state: GameState, result: _DeviceResults) -> _DeviceResults:
    """The result of a finished game: the board's area without the stones that are expected to
    die, in place of the search's results."""
    stones, ownership = np.asarray(result.stones), np.asarray(result.ownership)
    dead = settled.dead_chains(stones, ownership.reshape(stones.shape))
    owners = settled.owners(rules, stones, dead).astype(np.float32)
    score = owners.sum() - float(state.komi)
    return result._replace(
        value=np.sign(score if int(state.position.to_play) == 0 else -score),
        visits=np.zeros_like(result.visits),
        variation=np.full_like(result.variation, NO_ACTION),
        lead=score,
        ownership=owners.reshape(-1),
    )


def _reviewed_positions(
    record: GameRecord, states: Sequence[GameState], results: Sequence[_DeviceResults]
) -> list[ReviewedPosition]:
    colours = [int(state.position.to_play) for state in states]
    signs = [1 if colour == 0 else -1 for colour in colours]
    wins = [
        (1 + sign * float(result.value)) / 2 for sign, result in zip(signs, results, strict=True)
    ]
    positions = []
    for i, result in enumerate(results):
        played = record.moves[i][1] if i < len(record.moves) else None
        variation = tuple(int(a) for a in result.variation if a >= 0)
        is_best = played is None or variation[:1] == (played,)
        lost = 0.0 if is_best else max(0.0, signs[i] * (wins[i] - wins[i + 1]))
        positions.append(
            ReviewedPosition(
                np.asarray(result.stones),
                colours[i],
                wins[i],
                float(result.lead),
                np.asarray(result.ownership),
                np.asarray(result.visits),
                variation,
                played,
                lost,
            )
        )
    return positions
