"""Gobble: the values that annealing learns, against the plain reference, and its moves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go.rules import Rules, init, legal_actions, play
from gozero.go.setup import from_points
from gozero.play import annealing
from gozero.play.annealing import Annealing
from gozero.play.arena import play_match
from gozero.play.player import Turn, random_player
from gozero.playouts import engine
from tests.reference import ordered as reference
from tests.reference.go import ReferenceGame

RULES = Rules(3)
KOMI = 0.5


def after(*actions):
    """The same game as our state and as the reference's."""
    state, game = init(RULES, KOMI), ReferenceGame(3, ko="simple")
    for action in actions:
        state = play(RULES, state, action)
        game.play(action)
    return state, game


def stacked(*states):
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def test_values_match_the_reference():
    config = Annealing(RULES, simulations=20, lanes=8, temperature=3.0)
    (state, game), (other, _) = after(4), after(0, 8)
    key, states = jax.random.key(1), stacked(other, state)
    result = jax.jit(lambda key: annealing.learn(config, key, states))(key)
    visits, sums = (np.zeros((2, 9), np.int64) for _ in range(2))
    positions = jax.tree.map(lambda x: jnp.repeat(x, 8, axis=0), states.position)
    assert config.rounds == 3
    for i in range(3):
        order_key, play_key = jax.random.split(jax.random.fold_in(key, i))
        q = (sums / np.maximum(visits, 1)).astype(np.float32)
        rank = np.asarray(annealing._ranks(order_key, np.stack([q * 0, q])))[1]
        clock = engine.init_clock(positions, play_key, engine.lane_ids(16))
        for lane in range(8, 16):
            place = reference.places(rank, 3.0 * (1 - i / 3), int(clock.stride[lane]))
            end, actions = reference.play_out(game, place)
            reference.add(visits, sums, game, end, actions, KOMI)
    np.testing.assert_array_equal(result.visits[1], visits)
    np.testing.assert_array_equal(result.sums[1], sums)
    assert visits.sum() > 100


def test_ranks_are_by_value_and_random_among_equals():
    q = jnp.tile(jnp.array([0.5, -1.0, 0.5, 1.0]), (200, 2, 1))
    ranks = np.asarray(annealing._ranks(jax.random.key(0), q))
    assert (ranks[..., 3] == 0).all()
    assert (ranks[..., 1] == 3).all()
    assert 0.35 < np.mean(ranks[..., 0] == 1) < 0.65


def turn_of(*states):
    together = stacked(*states)
    legal = jax.vmap(lambda state: legal_actions(RULES, state))(together)
    return Turn(together, legal, jnp.full((2, len(states)), -1))


@pytest.mark.thorough
def test_it_plays_its_best_move_or_resigns():
    """White to move against a stone in the centre, and on a board that is full except for eyes."""
    config = Annealing(RULES, simulations=64, lanes=32)
    player = annealing.player(config, resign=-0.05)
    full = after(3, 9, 4, 9, 5, 9, 0, 9, 2, 9, 6, 9, 7)[0]  # Black's eyes: 1 and 8
    turn, key = turn_of(after(4)[0], full), jax.random.key(0)
    chosen = jax.jit(player.choose)(None, key, turn, None)
    values = jax.jit(annealing.learn, static_argnums=0)(config, key, turn.states)
    worth = np.asarray(values.q[0, 1])
    assert 4 != chosen.action[0] == np.argmax(np.where(np.arange(9) == 4, -2, worth))
    assert worth[chosen.action[0]] < -0.05
    assert chosen.action[1] == 9  # White has no legal play
    assert chosen.resigns.tolist() == [True, False]


def test_it_never_plays_suicide():
    """White is lost. At B4 it may play by suicide, which playouts do not play; else only in the
    first game, at B1 and C1.

    4 O . X X     4 O . X X
    3 X X X .     3 X X X .
    2 X X X X     2 X X X X
    1 X . . X     1 X X . X
      A B C D       A B C D
    """
    rules, pass_ = Rules(4, suicide=True), 16
    black = (2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 15)
    boards = (black, (*black, 13))
    states = stacked(*(from_points(rules, points, (0,), 1, KOMI) for points in boards))
    visits = jnp.zeros((2, 2, 16), jnp.int32).at[0, 1, 13:15].set(10)

    @jax.jit
    def best(states):
        legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
        learnt = annealing.Values(visits, -visits)
        return legal, *annealing.best(Annealing(rules), jax.random.key(0), states, legal, learnt)

    legal, action, value = best(states)
    assert [np.flatnonzero(row).tolist() for row in legal] == [[1, 13, 14, pass_], [1, pass_]]
    assert action[0] in (13, 14)
    assert action[1] == pass_
    assert value.tolist() == [-1.0, 0.0]


@pytest.mark.slow
def test_it_beats_random_moves():
    rules = Rules(5, max_moves=80)
    player = annealing.player(Annealing(rules, 256))
    match = play_match(rules, player, random_player(rules), jax.random.key(0), 16)
    assert match.ok.all()
    assert match.points.sum() >= 14


@pytest.mark.parametrize(
    ("field", "value"), [("simulations", 0), ("lanes", 0), ("temperature", -1.0)]
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field}: "):
        Annealing(RULES, **{field: value})
