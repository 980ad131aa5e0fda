"""Go as the search sees it: superko over the game and the ancestors, results, keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search.game import Ancestors
from tests.go.stepping import new_games, stepper
from tests.reference.go import BLACK, ReferenceGame

DEPTH = 12


@pytest.mark.parametrize(
    ("size", "split", "ko", "suicide"),
    [
        pytest.param(2, 3, "positional", False, marks=pytest.mark.thorough),
        pytest.param(3, 8, "positional", False, marks=pytest.mark.thorough),
        pytest.param(3, 0, "positional", False, marks=pytest.mark.thorough),
        pytest.param(2, 5, "situational", False, marks=pytest.mark.thorough),
        pytest.param(3, 9, "situational", False, marks=pytest.mark.thorough),
        pytest.param(2, 4, "situational", True, marks=pytest.mark.thorough),
        (3, 9, "positional", True),
    ],
)
def test_legality_over_game_and_ancestors_equals_the_whole_game(size, split, ko, suicide):
    """From ply `split` on the past is among the ancestors, which must not change the mask.

    The turn is passed to the other colour just before, as GTP does.
    """
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=200)
    game = go_game(rules, lambda *_: 0)
    legal = jax.jit(jax.vmap(game.history.legal))
    step, num_games = stepper(rules), 60
    turn = jax.jit(jax.vmap(go.with_to_play))
    rng = np.random.RandomState(size + split)
    states = new_games(rules, num_games)
    references = [ReferenceGame(size, ko, suicide) for _ in range(num_games)]
    ancestors, root, banned = [], None, 0
    for ply in range(split + DEPTH):
        if ply == split:
            for g in references[::2]:
                if g.passes < 2:
                    g.give_turn(-g.to_play)
            states = turn(states, jnp.array([0 if g.to_play == BLACK else 1 for g in references]))
            root = states
        if ply >= split:
            masks = legal(root, states.position, stacked(ancestors, states.position))
            expected = np.array([g.legal() for g in references])
            np.testing.assert_array_equal(masks, expected)
        actions = [random_move(rng, g) for g in references]
        for g, action in zip(references, actions, strict=True):
            banned += num_repeats(g) if ply >= split else 0
            g.play(action)
        if ply >= split:
            ancestors.append(states.position)
        states, _ = step(states, jnp.array(actions))
    assert banned > 0


def num_repeats(game):
    """The number of points that only superko bans."""
    if game.passes >= 2:
        return 0
    ko_rule, game.ko_rule = game.ko_rule, "simple"
    simple = sum(game.legal())
    game.ko_rule = ko_rule
    return simple - sum(game.legal())


def random_move(rng, game):
    points = [p for p in range(game.size**2) if game.is_legal(p)]
    return int(rng.choice(points)) if points and rng.rand() > 0.05 else game.size**2


def stacked(ancestors, like):
    """Positions [B] of each ply -> ancestors [B] of positions [DEPTH]."""
    filler = [like] * (DEPTH - len(ancestors))
    positions = jax.tree.map(lambda *x: jnp.stack(x, axis=1), *ancestors, *filler)
    return Ancestors(positions, jnp.full(like.ply.shape, len(ancestors), jnp.int32))


def play_all(rules, actions, komi):
    state = go.init(rules, komi)
    for action in actions:
        state = PLAY(rules, state, action)
    return state


PLAY = jax.jit(go.play, static_argnums=0)


@pytest.mark.parametrize(
    ("actions", "komi", "expected"),
    [
        ([4, 9, 9], 7.0, (True, -1.0)),  # Black owns 9, leads by 2: White, to move, has lost
        ([4, 9, 9], 9.0, (True, 0.0)),
        ([4, 9, 9], 9.5, (True, 1.0)),
        ([9, 9], 0.5, (True, -1.0)),  # an empty board: Black, to move, loses by komi
        ([4, 9], 7.0, (False, None)),
    ],
)
def test_results_are_for_the_player_to_move(actions, komi, expected):
    rules = go.Rules(size=3)
    game = go_game(rules, lambda *_: 0)
    state = play_all(rules, actions, komi)
    over, value = game.outcome(state)
    assert bool(over) == expected[0]
    if expected[0]:
        assert float(value) == expected[1]


def test_the_move_limit_is_scored():
    rules = go.Rules(size=3, max_moves=2)
    game = go_game(rules, lambda *_: 0)
    state = play_all(rules, [4, 9], 0.5)
    over, value = game.outcome(state)
    assert bool(over)
    assert float(value) == 1.0  # Black to move owns the board
