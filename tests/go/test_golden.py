"""Positions worked by hand: ko cycles, send two return one, suicide, and whole-board captures."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import coords, scoring, setup
from gozero.go import rules as go
from gozero.go.coords import KO_RULES
from tests.go.stepping import mask_of

BLACK, WHITE = go.BLACK, go.WHITE


@functools.cache
def stepper(rules):
    """(state, action), both [1] -> (the next state, its legal actions and stones)."""

    def step(state, action):
        state = go.play(rules, state, action)
        return state, {
            "legal": go.legal_actions(rules, state),
            "stones": go.stones(rules, state).reshape(-1),
        }

    return jax.jit(jax.vmap(step))


class Game:
    """A game from a diagram, as a batch of one, played by vertices."""

    def __init__(self, diagram, to_play=BLACK, ko="positional", suicide=False):
        rows = diagram.split()
        self.rules = go.Rules(size=len(rows), ko=ko, suicide=suicide, max_moves=60)
        board = np.array([[{".": 0, "X": 1, "O": -1}[x] for x in row] for row in rows], np.int8)
        state = setup.from_stones(self.rules, board, to_play, 0.0)
        self.state = jax.tree.map(lambda x: x[None], state)
        self.view = None  # of the board after the last move

    def play(self, *vertices):
        for vertex in vertices:
            assert self.view is None or self.legal(vertex), vertex
            action = coords.from_gtp(self.rules.size, vertex)
            self.state, self.view = stepper(self.rules)(self.state, jnp.array([action]))
        return self

    def legal(self, vertex):
        mask = mask_of(self.rules)(self.state) if self.view is None else self.view["legal"]
        return bool(mask[0, coords.from_gtp(self.rules.size, vertex)])

    def is_at(self, diagram):
        stones = "".join(".XO"[stone] for stone in np.asarray(self.view["stones"][0]))
        return stones == "".join(diagram.split())


# --- cycles ---------------------------------------------------------------------------

# White holds the ko at the top left (B8), Black the one at the top right, White the one below (B4).
TRIPLE_KO = """
    .XO...XO.
    XO.O.X.XO
    .XO...XO.
    .........
    .XO......
    XO.O.....
    .XO......
    .........
    .........
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_triple_ko(ko):
    """Both players keep taking kos; the sixth capture would repeat the first board."""
    game = Game(TRIPLE_KO, BLACK, ko).play("C8", "G8", "C4", "B8", "H8")
    assert game.legal("B4") == (ko == "simple")
    if ko == "simple":
        assert game.play("B4").is_at(TRIPLE_KO)


# White holds both kos.
DOUBLE_KO = """
    .XO...XO.
    XO.O.XO.O
    .XO...XO.
    .........
    .........
    .........
    .........
    .........
    .........
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_a_cycle_through_passes(ko):
    """Both take both kos, with passes in between: the same board with the same player to move."""
    game = Game(DOUBLE_KO, BLACK, ko).play("C8", "pass", "H8", "B8", "pass")
    assert game.legal("G8") == (ko == "simple")
    if ko == "simple":
        assert game.play("G8").is_at(DOUBLE_KO)


ETERNAL_LIFE = """
    X.O.
    XXO.
    X.XO
    XXXO
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_eternal_life(ko):
    """Each sacrifices two stones and takes two: after four plays the board repeats."""
    game = Game(ETERNAL_LIFE, BLACK, ko).play("D3")
    assert game.is_at("X.O. XXOX X.X. XXX.")
    game.play("D1", "D4")
    assert game.is_at("X.OX XXOX X.X. XXXO")
    assert game.legal("D2") == (ko == "simple")
    if ko == "simple":
        assert game.play("D2").is_at(ETERNAL_LIFE)


GIFT = """
    .....
    .....
    .....
    OOX..
    .X.X.
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_send_two_return_one(ko):
    """The board repeats with the other player to move, which is another situation."""
    game = Game(GIFT, BLACK, ko).play("A1", "C1")
    assert game.legal("B1") == (ko != "positional")
    if ko != "positional":
        assert game.play("B1").is_at(GIFT)


@pytest.mark.parametrize("ko", KO_RULES)
def test_send_two_return_one_after_a_pass_made_that_situation(ko):
    """White was to move on this board before and passed, so the same situation repeats."""
    game = Game(GIFT, WHITE, ko).play("pass", "A1", "C1")
    assert game.legal("B1") == (ko == "simple")


# --- captures -------------------------------------------------------------------------


def test_under_the_stones():
    """Black takes four stones, then White plays where one of them was and takes two."""
    game = Game("XOOO XXXO X.O. OOOX").play("D2")
    assert game.is_at("X... XXX. X.OX OOOX")
    assert game.play("D3").is_at("X... XXXO X.O. OOO.")


@pytest.mark.parametrize("suicide", [False, True])
def test_a_capture_of_every_stone(suicide):
    """White fills its own last liberty and captures all of Black's stones."""
    game = Game("XXX XXX XX.", WHITE, suicide=suicide).play("C1")
    assert game.is_at("... ... ..O")


def test_a_capture_comes_before_suicide():
    """The stone captures one and so has a liberty, whether or not suicide is allowed."""
    for suicide in (False, True):
        game = Game(".OX OX. X..", BLACK, suicide=suicide).play("A3")
        assert game.is_at("X.X .X. X..")


# --- suicide --------------------------------------------------------------------------

FOUR_STONES = """
    .XO.
    XXO.
    OO..
    ....
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_suicide_of_many_stones(ko):
    assert not Game(FOUR_STONES, BLACK, ko).legal("A4")
    game = Game(FOUR_STONES, BLACK, ko, suicide=True).play("A4")
    assert game.is_at("..O. ..O. OO.. ....")
    assert int(game.state.to_play[0]) == WHITE
    assert int(game.state.position.ko[0]) < 0


@pytest.mark.parametrize("ko", KO_RULES)
@pytest.mark.parametrize("suicide", [False, True])
def test_suicide_of_one_stone_is_illegal(ko, suicide):
    assert not Game(".O.. O... .... ....", BLACK, ko, suicide).legal("A4")


def test_suicide_joins_all_the_chains_that_it_removes():
    """Three chains meet at their last liberty; White's chain is then no longer in atari."""
    diagram = """
        OX.XO
        OOXOO
        .OOO.
        .....
        .....
    """
    assert not Game(diagram).legal("C5")
    game = Game(diagram, suicide=True).play("C5")
    assert game.is_at("O...O OO.OO .OOO. ..... .....")
    assert not any(int(words[0]) for words in game.state.position.atari)


@pytest.mark.parametrize("ko", KO_RULES)
def test_superko_bans_suicide(ko):
    """Black plays into a space of two points and then fills it, which repeats the board."""
    space = "..O. OO.. .... ...."
    game = Game(space, BLACK, ko, suicide=True).play("A4", "pass")
    assert game.legal("B4") == (ko != "positional")
    if ko != "positional":
        assert game.play("B4").is_at(space)
    # White was to move on this board before, so the situation repeats too.
    game = Game(space, WHITE, ko, suicide=True).play("pass", "A4", "pass")
    assert game.legal("B4") == (ko == "simple")


# --- Gelly & Silver (2011), Fig. 2 ----------------------------------------------------
# As its caption says; for its eyes and false eyes (b) see test_pass_alive.

# B9 is in atari, J9 would be suicide, and D4 can be taken at E4.
FIGURE_2A = """
    .OX....O.
    .X......O
    .........
    .........
    ...XO....
    ..XO.O...
    ...XO....
    .........
    .........
"""


@pytest.mark.parametrize("ko", KO_RULES)
def test_figure_2a_atari_suicide_and_ko(ko):
    game = Game(FIGURE_2A, BLACK, ko)
    assert not game.legal("J9")
    assert game.play("E4").view["stones"][0, coords.from_gtp(9, "D4")] == 0
    assert not game.legal("D4")
    assert game.play("pass").legal("D4")
    assert game.play("A9").view["stones"][0, coords.from_gtp(9, "B9")] == 0


# A final position; x and o are dead stones, and the rest of the board is surrounded.
FIGURE_2D = """
    o.oXXXOx.
    ooooXOOO.
    XooXXOO..
    XXX.XO...
    ..X.XXO..
    .....XO..
    ....XOO..
    ....XO...
    ....XO...
"""


def test_figure_2d_the_score_without_the_dead_stones():
    """48 points to 33: at a komi of 6.5 Black wins by 8.5."""
    rows = FIGURE_2D.replace("x", ".").replace("o", ".").split()
    board = np.array([[{".": 0, "X": 1, "O": -1}[x] for x in row] for row in rows], np.int8)
    rules = go.Rules(size=9)
    state = setup.from_stones(rules, board, BLACK, 6.5)
    assert float(scoring.area_score(rules, state)) == 8.5
    assert np.bincount(np.asarray(scoring.ownership(rules, state)).ravel() + 1).tolist() == [
        33,
        0,
        48,
    ]
