"""Perfect play in solved games, about which the search knows nothing.

With enough simulations a correct search plays a move that keeps the exact value of its position;
a plain Python solver says which moves do. Positions where every move does are left out, so that
random play would fail. Batches hold a few hundred positions.
"""

from __future__ import annotations

import functools
import random

import jax
import numpy as np
import pytest

from gozero.games.connect_four import connect_four_game
from gozero.games.rollouts import rollout_evaluator
from gozero.search.config import Amaf, Ensemble, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import MinimumMse, Rave
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.search import search
from tests.games import positions
from tests.games.hex_fills import fill_evaluator
from tests.hlo import AS_USERS_HAVE_IT
from tests.reference.connect_four import ConnectFour, values_of_moves
from tests.reference.hex import Hex, winning_moves
from tests.search import tictactoe


def actions_of(game, evaluator, config, roots, seed=0):
    """i32[B]: the moves that one batched search of all the roots plays."""

    def run(key, roots):
        result = search(game, evaluator, key, roots, config)
        return result.action, result.ok

    run = jax.jit(run, compiler_options=AS_USERS_HAVE_IT)  # it runs for long
    actions, ok = run(jax.random.key(seed), roots)
    assert np.asarray(ok).all()
    return np.asarray(actions)


def stacked(boards):
    return jax.tree.map(lambda *x: np.stack(x), *boards)


# --- tic-tac-toe ----------------------------------------------------------------------


@functools.cache
def tictactoe_value(own: frozenset, other: frozenset) -> int:
    """Minimax: +1, 0 or -1 for the player to move."""
    if any(set(line) <= other for line in tictactoe.LINES.tolist()):
        return -1
    return max((-v for v in tictactoe_children(own, other).values()), default=0)


def tictactoe_children(own, other) -> dict[int, int]:
    """The opponent's value after each move."""
    free = set(range(9)) - own - other
    return {point: tictactoe_value(other, own | {point}) for point in sorted(free)}


@functools.cache
def tictactoe_positions() -> list:
    """All 4520 reachable positions that are not over, as (own, other)."""
    found, waiting = set(), [(frozenset(), frozenset())]
    while waiting:
        own, other = waiting.pop()
        over = len(own) + len(other) == 9 or any(
            set(line) <= other for line in tictactoe.LINES.tolist()
        )
        if not over and (own, other) not in found:
            found.add((own, other))
            free = set(range(9)) - own - other
            waiting += [(other, own | {point}) for point in free]
    return sorted(found, key=lambda position: [sorted(stones) for stones in position])


def one_of_each_eight(positions, rng):
    """A random member of each class of positions under the symmetries of the square."""
    grid = np.arange(9).reshape(3, 3)
    maps = [np.rot90(x, k).ravel().tolist() for x in (grid, grid.T) for k in range(4)]
    classes = {}
    for own, other in positions:
        same = [tuple(tuple(sorted(m[p] for p in s)) for s in (own, other)) for m in maps]
        classes.setdefault(min(same), []).append((own, other))
    return [rng.choice(members) for members in classes.values()]


def lost_value_at_tictactoe(positions, config, seed=0):
    """(own, other, move) where the search's move loses value."""
    has = lambda stones: np.array([p in stones for p in range(9)])
    roots = stacked([tictactoe.Board(has(own), has(other)) for own, other in positions])
    moves = actions_of(tictactoe.GAME, Evaluator(tictactoe.even), config, roots, seed)
    return [
        (sorted(own), sorted(other), int(move))
        for (own, other), move in zip(positions, moves, strict=True)
        if -tictactoe_children(own, other)[int(move)] != tictactoe_value(own, other)
    ]


@pytest.mark.slow
def test_tictactoe_play_is_perfect():
    """From every position, up to symmetry, and thus against every reply."""
    every = tictactoe_positions()
    positions = one_of_each_eight(every, random.Random(0))
    assert (len(every), len(positions)) == (4520, 627)
    config = SearchConfig(num_simulations=3000, max_depth=9)
    assert lost_value_at_tictactoe(positions, config) == []


@pytest.mark.slow
def test_tictactoe_from_all_positions():
    positions = tictactoe_positions()
    config = SearchConfig(num_simulations=6000, max_depth=9)
    for start in range(0, len(positions), 904):
        assert lost_value_at_tictactoe(positions[start : start + 904], config) == []


# --- Connect Four ---------------------------------------------------------------------


def connect_four_positions(width, height, plies, count, seed):
    """Random positions where some move loses value, as (board, values of moves)."""
    rng, known, found = random.Random(seed), {}, {}
    while len(found) < count:
        game = ConnectFour(width, height)
        for _ in range(rng.choice(plies)):
            if not game.over:
                game.play(rng.choice([col for col, legal in enumerate(game.legal()) if legal]))
        if not game.over and game.code() not in found:
            worth = values_of_moves(game, known)
            if len(set(worth.values())) > 1:
                found[game.code()] = positions.connect_four_state(game), worth
    return list(found.values())


def check_connect_four(width, height, plies, count, config, seed=0):
    found = connect_four_positions(width, height, plies, count, seed)
    roots = stacked([board for board, _ in found])
    game = connect_four_game(width, height)
    moves = actions_of(game, rollout_evaluator(game), config, roots, seed)
    best = [max(worth.values()) for _, worth in found]
    assert len(set(best)) > 1
    chosen = [worth[int(move)] for (_, worth), move in zip(found, moves, strict=True)]
    wrong = [i for i in range(count) if chosen[i] != best[i]]
    assert wrong == [], f"{len(wrong)} of {count}"


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [1, 8, 16])
def test_connect_four_on_a_small_board(leaves):
    """With several leaves per step too: virtual loss changes the search, not the move."""
    rule = Puct(1.5, first_play="parent")
    config = SearchConfig(num_simulations=6000, max_depth=10, select=rule, leaves=leaves)
    check_connect_four(5, 4, range(11, 16), 128, config)


@pytest.mark.slow
def test_connect_four_on_a_larger_board():
    rule = Puct(1.5, first_play="parent")
    config = SearchConfig(num_simulations=20_000, max_depth=10, select=rule)
    check_connect_four(6, 5, range(21, 27), 128, config, seed=1)


# --- Hex ------------------------------------------------------------------------------

HEX_RULE = Puct(3.0, first_play="parent")
HEX_4X4_WINNING = {3, 6, 9, 12}  # the short diagonal; the other openings lose


def hex_positions(size, stones, count, seed):
    """Random positions where some moves win and others lose, as (game, winning moves)."""
    rng, known, found = random.Random(seed), {}, {}
    while len(found) < count:
        game = Hex(size)
        for point in rng.sample(range(size * size), rng.choice(stones)):
            game.play(point)
        if not game.over() and tuple(game.cells) not in found:
            winning = winning_moves(game, known)
            if 0 < len(winning) < sum(game.legal()):
                found[tuple(game.cells)] = game, winning
    return list(found.values())


def hex_actions(plains, config, seed=0, fills=False):
    game = positions.hex_game(plains[0].size)
    evaluator = fill_evaluator(plains[0].size) if fills else rollout_evaluator(game)
    return actions_of(game, evaluator, config, positions.hex_states(plains), seed)


def check_hex(found, config, seed=0):
    moves = hex_actions([game for game, _ in found], config, seed)
    wrong = [i for i, (_, winning) in enumerate(found) if int(moves[i]) not in winning]
    assert wrong == [], f"{len(wrong)} of {len(found)}"


def all_hex_positions(size):
    """Every position where some moves win and others lose, as (game, winning moves)."""
    found, known, seen, waiting = [], {}, set(), [()]
    while waiting:
        line = waiting.pop()
        game = Hex(size)
        for point in line:
            game.play(point)
        if tuple(game.cells) in seen or game.over():
            continue
        seen.add(tuple(game.cells))
        winning = winning_moves(game, known)
        if 0 < len(winning) < sum(game.legal()):
            found.append((game, winning))
        waiting += [(*line, point) for point, legal in enumerate(game.legal()) if legal]
    return found


@pytest.mark.slow
def test_hex_3x3():
    """A sample of all the positions where some move is wrong."""
    config = SearchConfig(num_simulations=1000, max_depth=9, select=HEX_RULE)
    found = all_hex_positions(3)
    assert len(found) == 2429
    check_hex(random.Random(0).sample(found, 128), config)


@pytest.mark.slow
def test_hex_3x3_from_every_position():
    config = SearchConfig(num_simulations=3000, max_depth=9, select=HEX_RULE)
    found = all_hex_positions(3)
    for start in range(0, len(found), 347):
        check_hex(found[start : start + 347], config)


def share_of_winning_moves(config):
    """The share of winning moves in 64 positions of 4x4 Hex, each searched four times."""
    found = hex_positions(4, range(6, 9), 64, seed=0) * 4
    moves = hex_actions([game for game, _ in found], config, fills=True)
    winning = [moves for _, moves in found]
    return np.mean([int(move) in right for move, right in zip(moves, winning, strict=True)])


@pytest.mark.slow
def test_rave_helps_in_hex():
    """A second game where a move's value depends little on when it is played."""
    settings = functools.partial(SearchConfig, num_simulations=50, max_depth=16)
    uct = share_of_winning_moves(settings(select=Ucb1(0.3)))
    rave = share_of_winning_moves(settings(select=Rave(MinimumMse(0.1)), amaf=Amaf()))
    assert rave > uct + 0.1


@pytest.mark.slow
def test_eight_trees_are_better_than_one_in_hex():
    """With 50 simulations per tree 87% of the moves are right against 73%; with 400, 89%."""
    settings = functools.partial(SearchConfig, 50, max_depth=16, select=Ucb1(0.3))
    one = share_of_winning_moves(settings())
    eight = share_of_winning_moves(settings(ensemble=Ensemble(8, every=10)))
    assert eight > one + 0.08


@pytest.mark.slow
def test_hex_4x4_opens_on_the_short_diagonal():
    config = SearchConfig(num_simulations=16_000, max_depth=16, select=HEX_RULE)
    check_hex([(Hex(4), HEX_4X4_WINNING)] * 8, config)


@pytest.mark.slow
def test_hex_4x4():
    """A plain Python solver confirms the winning openings; random positions too are searched."""
    assert winning_moves(Hex(4), {}) == HEX_4X4_WINNING
    config = SearchConfig(num_simulations=40_000, max_depth=16, select=HEX_RULE)
    check_hex([(Hex(4), HEX_4X4_WINNING)] * 32, config)
    check_hex(hex_positions(4, range(5, 10), 128, seed=0), config)
