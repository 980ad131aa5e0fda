"""The options of `MogoConfig`: nakade and diversity."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import bitboard as bb
from gozero.go import stacked
from gozero.playouts import playable
from gozero.playouts.policies.mogo import move_rules
from gozero.playouts.policies.mogo.move_rules import MogoConfig
from tests.playouts.policies.mogo.test_mogo import check_against_reference, games_to_watch
from tests.playouts.positions import boards, game_of, positions_of
from tests.reference import mogo as reference
from tests.reference.go import BLACK, EMPTY, WHITE, ReferenceGame


@functools.cache
def vital(size: int, as_array: bool):
    """A jitted (own, vacant, last i32[B]) -> boards."""
    lay = bb.layout(size)

    def games(own, vacant, last):
        if as_array:
            own, vacant = map(stacked.stack, (own, vacant))
        return move_rules.vital_near(lay, own, vacant, playable.packed_point(lay, last))

    return jax.jit(games)


def found(games: list[ReferenceGame], last, as_array: bool = False) -> np.ndarray:
    """For Black to move."""
    positions, lay = positions_of(games), bb.layout(games[0].size)
    vacant = bb.complement(lay, bb.union(positions.black, positions.white))
    points = vital(lay.size, as_array)(positions.black, vacant, jnp.array(last))
    return boards(lay, stacked.unstack(points) if as_array else points)


# O has played `@` last; X plays at `*`.
SPACES = {
    "three in a row": "OO@OO O.*.O OOOOO ..... .....",
    "three bent, in the corner": "*.O.. .@O.. OO... ..... .....",
    "pyramid": "OO@OO O.*.O OO.OO .OOO. .....",
    "cross": "OO.OO O.*.O O@.OO .OOO. .....",
    "bulky five": "..O.. .*.O. @OO.. ..... .....",
    "rabbity six": "..O.. .*.O. O.O.. .@... .....",
}
ALIVE_OR_DEAD_AS_THEY_STAND = {
    "two": "OO@OO O..OO OOOOO ..... .....",
    "four in a row": "OO@OO ....O OOOOO ..... .....",
    "square": "@..OO O..OO OOOOO ..... .....",
    "bent four": "OO@OO O...O OOO.O ..OOO .....",
    "a stone of X beside it": "OO@OO O...O OOXOO ..... .....",
}


def corrected(diagram):
    return game_of(diagram.replace("*", ".").replace("@", "O")), diagram.replace(" ", "").index("@")


def test_vital_points_by_hand():
    games, last = zip(*map(corrected, SPACES.values()), strict=True)
    for diagram, game, at, points in zip(
        SPACES.values(), games, last, found(games, last), strict=True
    ):
        expected = {diagram.replace(" ", "").index("*")}
        assert reference.vital_points(game, at) == expected, diagram
        assert set(np.flatnonzero(points)) == expected, diagram
    games, last = zip(*map(corrected, ALIVE_OR_DEAD_AS_THEY_STAND.values()), strict=True)
    assert not found(games, last).any()
    assert not any(map(reference.vital_points, games, last))


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(
    "size", [5, 13, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 7, 9, 10, 19))]
)
def test_vital_points_match_the_reference(size, as_array):
    rng, games, last, seen = np.random.default_rng(size), [], [], 0
    for _ in range(600 if size < 19 else 200):
        game = ReferenceGame(size)
        empty = rng.uniform(0.25, 0.5)
        p = [0.02, 0.98 - empty, empty]
        game.board = rng.choice([BLACK, WHITE, EMPTY], size * size, p=p).tolist()
        games.append(game)
        last.append(int(rng.integers(size * size)))
    for game, at, points in zip(games, last, found(games, last, as_array), strict=True):
        expected = reference.vital_points(game, at)
        assert set(np.flatnonzero(points)) == expected
        seen += len(expected)
    assert size == 2 or seen > 20


def test_open_points_and_their_frequency():
    games = [
        game_of(d)
        for d in (
            "..... ..... ..X.. ..... .....",
            "X.... ..... ..... ..... ....O",
            "..... ..... ..... ..... .....",
            "..... .X.O. ..... .O.X. .....",
        )
    ]
    lay, positions = bb.layout(5), positions_of(games)
    vacant = bb.complement(lay, bb.union(positions.black, positions.white))
    midst = boards(lay, move_rules.open_points(lay, vacant))
    expected = [reference.open_points(game) for game in games]
    assert [set(np.flatnonzero(points)) for points in midst] == expected
    counts = np.array([len(points) for points in expected])
    assert counts.tolist() == [16, 17, 25, 0]

    draws = jnp.arange(20_000, dtype=jnp.uint32) * np.uint32(2654435761)
    for tries in (1, 3):
        fill = functools.partial(move_rules._filling, lay, tries, vacant)
        hit = jax.vmap(lambda draw, fill=fill: bb.count(fill(jnp.full(4, draw))) > 0)(draws)
        share = 1 - (1 - counts / 25) ** tries
        assert np.all(np.abs(hit.mean(axis=0) - share) < 4 * np.sqrt(0.25 / len(draws)))


def test_tries_out_of_range_are_refused():
    with pytest.raises(ValueError, match="diversity: 9 is not a whole number from 0 to 8"):
        MogoConfig(diversity=9)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("size", "count", "steps"),
    [(5, 60, 110), pytest.param(9, 40, 200, marks=pytest.mark.slow)],
)
def test_every_move_with_the_options_matches_the_reference(size, count, steps):
    config = MogoConfig(nakade=True, diversity=3)
    watched = check_against_reference(games_to_watch(size, count, size), steps, 1, config)
    rules = sum((one.rules for one in watched), start=type(watched[0].rules)())
    assert set(rules) == {1, 2, 3, 4, 5, 6}
    print(dict(rules))
