"""The rules against two oracles, counted move sequences, and hand-built positions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.compile import stages
from gozero.go import coords
from gozero.go import rules as go
from gozero.go.coords import KO_RULES
from tests.go.stepping import NO_LIMIT, in_chunks, mask_of, new_games, stepper

# The number of move sequences of each length; passes count as moves, and two in a row end a game.
# On 2x2, superko bans nothing that simple ko allows in sequences shorter than 7.
PERFT = {
    (2, "simple", False): [5, 21, 68, 156, 316, 604, 1168, 2592, 5768],
    (2, "positional", False): [5, 21, 68, 156, 316, 604, 1088, 2184, 4184],
    (2, "situational", False): [5, 21, 68, 156, 316, 604, 1112, 2312, 4544],
    # With suicide, counted by tests/reference/go.py.
    (2, "simple", True): [5, 21, 68, 156, 316, 604, 1240, 3120, 8280],
    (2, "positional", True): [5, 21, 68, 156, 316, 604, 1088, 2184, 4184],
    (2, "situational", True): [5, 21, 68, 156, 316, 604, 1184, 2672, 6048],
    (3, "positional", False): [10, 91, 738, 5281, 33384],
    (4, "simple", False): [17, 273, 4112, 57984],
}


@pytest.mark.parametrize(("size", "ko", "suicide"), PERFT)
def test_number_of_move_sequences(size, ko, suicide):
    expected = PERFT[size, ko, suicide]
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=30)
    assert _perft(rules, len(expected)) == expected


def _perft(rules, depth, chunk=512):
    """Counts legal move sequences of length 1 .. depth, level by level in chunks of one shape."""
    legal = jax.jit(jax.vmap(lambda s: go.legal_actions(rules, s) & ~s.ended))
    play = jax.jit(jax.vmap(lambda s, a: go.play(rules, s, a)))
    level = jax.tree.map(np.asarray, new_games(rules, 1))
    counts = []
    for _ in range(depth):
        masks = in_chunks(legal, chunk, level)
        counts.append(int(masks.sum()))
        parent, action = np.nonzero(masks)
        if len(counts) < depth:
            parents = jax.tree.map(lambda x, parent=parent: x[parent], level)
            level = in_chunks(play, chunk, parents, action.astype(np.int32))
    return counts


GIVE_TURN = jax.jit(jax.vmap(go.with_to_play, (0, None)))


class Game:
    """One game played by vertices, checked against the mask at every move."""

    def __init__(self, size, ko="positional", **kwargs):
        self.rules = go.Rules(size=size, ko=ko, max_moves=NO_LIMIT, **kwargs)
        self.step = stepper(self.rules)
        self.state = new_games(self.rules, 1)
        self.legal_now = np.ones(self.rules.num_actions, bool)

    def play(self, *vertices):
        for vertex in vertices:
            assert self.legal(vertex), vertex
            action = coords.from_gtp(self.rules.size, vertex)
            self.state, view = self.step(self.state, jnp.array([action]))
            self.legal_now = np.asarray(view["legal"][0])
            self.stones = np.asarray(view["stones"][0]).reshape(self.rules.size, -1)
        return self

    def turn(self, colour):
        """Give the turn to a colour without a pass."""
        self.state = GIVE_TURN(self.state, colour)
        self.legal_now = np.asarray(mask_of(self.rules)(self.state)[0])
        return self

    def place(self, colour, *vertices):
        for vertex in vertices:
            self.turn(colour).play(vertex)

    def legal(self, vertex):
        return bool(self.legal_now[coords.from_gtp(self.rules.size, vertex)])

    def diagram(self):
        return ["".join(".XO"[stone] for stone in row) for row in self.stones]


def test_ko_is_banned_for_one_move():
    game = Game(5, "simple").play("B3", "C3", "A2", "D2", "B1", "C1", "C2", "B2")
    assert game.diagram() == [
        ".....",
        ".....",
        ".XO..",
        "XO.O.",
        ".XO..",
    ]
    assert not game.legal("C2")
    game.play("E5", "D5")
    assert game.legal("C2")


def test_snapback_is_legal():
    """White takes one stone; Black plays at the same point and takes White's whole chain."""
    game = Game(5)
    game.place(go.BLACK, "A1", "A2", "E1", "E2", "B3", "C3", "D3")
    game.place(go.WHITE, "B1", "B2", "C2", "D2")
    game.turn(go.BLACK).play("C1", "D1")
    assert game.diagram() == [
        ".....",
        ".....",
        ".XXX.",
        "XOOOX",
        "XO.OX",
    ]
    game.play("C1")
    assert game.diagram() == [
        ".....",
        ".....",
        ".XXX.",
        "X...X",
        "X.X.X",
    ]


def test_suicide_is_illegal_and_capture_in_its_place_is_not():
    game = Game(3).play("A2", "C3", "B1", "pass")
    assert game.legal("A1")
    game.play("C1")
    assert not game.legal("A1")  # White, surrounded by A2 and B1


@pytest.mark.parametrize(("ko", "returns"), [("simple", True), ("positional", False)])
def test_send_two_return_one(ko, returns):
    """Black sacrifices two stones, White takes both, and Black's recapture repeats the board."""
    game = Game(5, ko)
    game.place(go.BLACK, "B1", "C2", "D1")
    game.place(go.WHITE, "A2", "B2")
    assert game.diagram() == [
        ".....",
        ".....",
        ".....",
        "OOX..",
        ".X.X.",
    ]
    game.turn(go.BLACK).play("A1", "C1")
    assert game.diagram()[-1] == "..OX."
    assert game.legal("B1") == returns
    assert game.legal("A1")


@pytest.mark.parametrize("ko", KO_RULES)
def test_two_passes_end_and_later_actions_change_nothing(ko):
    game = Game(5, ko).play("C3", "pass", "pass")
    assert bool(game.state.terminated[0])
    assert game.legal_now.tolist() == [False] * 25 + [True]
    again, view = game.step(game.state, jnp.array([3]))
    jax.tree.map(np.testing.assert_array_equal, again, game.state)
    assert bool(view["ended"][0])


def test_one_pass_between_moves_does_not_end():
    game = Game(5).play("C3", "pass", "D3", "pass")
    assert not bool(game.state.ended[0])


@pytest.mark.parametrize(("ko", "suicide"), [(ko, ko != "simple") for ko in KO_RULES])
def test_move_limit_truncates(ko, suicide):
    rules = go.Rules(size=3, ko=ko, suicide=suicide, max_moves=4)
    step = stepper(rules)
    states = new_games(rules, 1)
    for action in (0, 1, 4, 5):
        assert not bool(states.ended[0])
        states, view = step(states, jnp.array([action]))
    assert bool(states.truncated[0])
    assert not bool(states.terminated[0])
    assert view["legal"][0].tolist() == [False] * 9 + [True]
    for action in (8, 9):
        after, _ = step(states, jnp.array([action]))
        jax.tree.map(np.testing.assert_array_equal, after, states)


def test_two_passes_at_the_limit_terminate():
    rules = go.Rules(size=3, max_moves=2)
    step = stepper(rules)
    states = new_games(rules, 1)
    for _ in range(2):
        states, _ = step(states, jnp.array([9]))
    assert bool(states.terminated[0])
    assert not bool(states.truncated[0])


def test_komi_is_an_array_that_may_differ_from_game_to_game():
    rules = go.Rules(size=3)
    make = lambda komi: gozero.area_score(rules, go.init(rules, komi))
    scores = jax.jit(jax.vmap(make))(jnp.array([0.5, 7.0]))
    assert scores.tolist() == [-0.5, -7.0]


@pytest.mark.parametrize("ko", ["simple", "positional"])
def test_a_ko_ban_survives_changes_of_turn(ko):
    game = Game(5, ko).play("B3", "C3", "A2", "D2", "B1", "C1", "C2", "B2")
    assert not game.legal("C2")  # Black may not retake
    game.turn(go.WHITE)
    assert game.legal("C2")  # White may fill it
    game.turn(go.BLACK)
    assert not game.legal("C2")


def test_a_new_game_can_be_donated():
    rules = go.Rules(size=3)
    play = jax.jit(lambda s, a: go.play(rules, s, a), donate_argnums=0)
    assert int(play(go.init(rules), 4).position.ply) == 1


def test_ownership():
    rules = go.Rules(size=3)
    state = go.init(rules)
    for action in (1, 2, 4, 9, 7):  # Black encloses the left; White's one stone is at C3
        state = go.play(rules, state, action)
    owner = [[1, 1, -1], [1, 1, 0], [1, 1, 0]]
    assert gozero.ownership(rules, state).tolist() == owner
    assert float(gozero.area_score(rules, state)) == 6 - 1 - 7


def test_with_to_play_gives_the_turn_without_a_pass():
    rules = go.Rules(size=5)
    state = go.play(rules, go.init(rules), 12)
    turned = go.with_to_play(state, go.BLACK)
    assert int(turned.to_play) == go.BLACK
    assert int(turned.position.passes) == 0
    same = go.with_to_play(state, go.WHITE)
    jax.tree.map(np.testing.assert_array_equal, same, state)


@pytest.mark.parametrize(
    ("ko", "suicide"),
    [pytest.param("positional", False, marks=pytest.mark.thorough), ("situational", True)],
)
def test_jit_and_vmap_give_equal_results(ko, suicide):
    rules = go.Rules(size=4, ko=ko, suicide=suicide)
    alone = [go.init(rules, 0.5)]
    actions = [5, 6, 1, 9, 4, 10]
    for action in actions:
        alone.append(go.play(rules, alone[-1], action))
    step = stepper(rules)
    batch = new_games(rules, 3, 0.5)
    for action in actions:
        batch, view = step(batch, jnp.array([action, action, 15]))
    for lane in range(2):
        one = jax.tree.map(lambda x, lane=lane: x[lane], batch)
        jax.tree.map(np.testing.assert_array_equal, one, alone[-1])
        np.testing.assert_array_equal(view["legal"][lane], go.legal_actions(rules, alone[-1]))


def test_a_step_as_one_kernel_equals_the_step():
    rules, rng = go.Rules(5), np.random.default_rng(0)

    def step(state, action):
        state = go.play(rules, state, action)
        return state, go.legal_actions(rules, state)

    plain, whole = jax.jit(step), jax.jit(functools.partial(stages.one_kernel, step))
    state, action = go.init(rules), 12
    for _ in range(60):
        expected = plain(state, action)
        jax.tree.map(np.testing.assert_array_equal, whole(state, action), expected)
        state, legal = expected
        action = int(rng.choice(np.flatnonzero(legal)))
