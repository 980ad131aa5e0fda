"""KataGo's planes and global inputs against sets of points, and those that show the past."""

from __future__ import annotations

import dataclasses
import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import ladders
from gozero.go import rules as go
from gozero.nets.katago import inputs
from gozero.search.game import Ancestors
from tests.go.ladder_readers import read_board
from tests.nets import katago_files
from tests.reference import katago as reference
from tests.reference.go import ReferenceGame

CONFIG = katago_files.config(katago_files.model(8))


def played(rules, seed, length):
    """(a game of random moves, its moves); it has passes, but not two in a row."""
    rng = random.Random(seed)
    game, moves = ReferenceGame(rules.size, rules.ko, rules.suicide), []
    while len(moves) < length:
        legal = [a for a, ok in enumerate(game.legal()) if ok]
        if game.passes and len(legal) == 1:
            break
        plays = game.passes or (rng.random() < 0.9 and len(legal) > 1)
        move = rng.choice(legal[:-1] if plays else legal)
        game.play(move)
        moves.append(move)
    return game, moves


def boards_of(found, size):
    dense = np.zeros((size * size, len(found)), np.float32)
    for plane, points in enumerate(found):
        dense[list(points), plane] = 1
    return dense.reshape(size, size, -1)


@functools.cache
def make_observe(config, rules):
    play = jax.jit(functools.partial(go.play, rules))
    see = jax.jit(jax.vmap(lambda s: inputs.observe(config, rules, s, s.position)))
    return play, see


KOMIS = (-3.0, 0.5, 6.5, 7.0, 400.0)


def observed(rules, games, config):
    """The inputs of the games' last positions, game by game with one of `KOMIS` in turn."""
    play, see = make_observe(config, rules)
    states = []
    for number, (_, moves) in enumerate(games):
        state = go.init(rules, KOMIS[number % 5])
        for move in moves:
            state = play(state, jnp.int32(move))
        states.append(state)
    return jax.device_get(see(jax.tree.map(lambda *x: jnp.stack(x), *states)))


def check(rules, games, config=CONFIG, num_past_moves=5, tax="none"):
    actual = observed(rules, games, config)
    for number, (game, moves) in enumerate(games):
        most = num_past_moves if game.passes else 5
        expected = boards_of(reference.planes(game, moves, tax, most), rules.size)
        for plane in range(22):
            wrong = np.argwhere(actual.planes[number, ..., plane] != expected[..., plane])
            assert not len(wrong), (number, moves, plane, wrong.tolist())
        expected = reference.numbers(game, moves, KOMIS[number % 5], tax, most)
        np.testing.assert_allclose(actual.global_inputs[number], expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("tax", ["none", "all"])
@pytest.mark.parametrize(("size", "ko", "suicide"), [(4, "positional", True), (5, "simple", False)])
def test_planes_of_random_games_are_those_of_the_reference(size, ko, suicide, tax):
    rules = go.Rules(size, ko, suicide, max_moves=400, remember=True)
    games = [played(rules, seed, length) for seed in range(60) for length in (0, 3, 17, 40 + seed)]
    check(rules, games, dataclasses.replace(CONFIG, tax=tax, friendly_pass=tax == "all"),
          0 if tax == "all" else 5, tax)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("ko", ["positional", "situational"])
def test_planes_of_random_games_on_the_smallest_board(ko):
    rules = go.Rules(2, ko, True, max_moves=400)
    check(rules, [played(rules, seed, length) for seed in range(8) for length in (0, 2, 5, 9, 20)])


OLD = {
    # model version: (planes of version 7's, global inputs of version 7's, points of one of komi)
    3: (range(22), [*range(10), 12, 13, 14, 18], 15),
    5: (range(22), [*range(10), 12, 13, 14, 18], 15),
    6: ([0, 1, 2, 6, 7, 8, *range(9, 14), 20, 21], [*range(10), 12, 13], 15),
    7: (range(22), [*range(15), 18], 20),
}


@pytest.mark.thorough
@pytest.mark.parametrize("version", OLD)
def test_older_inputs_are_a_part_of_those_of_version_7(version):
    """Except that version 5 of the networks, 4 of the inputs, has only the settled areas."""
    planes, numbers, points = OLD[version]
    rules = go.Rules(3, "positional", True, max_moves=400)
    games = [played(rules, seed, length) for seed in range(8) for length in (2, 7, 15, 30)]
    actual = observed(rules, games, katago_files.config(katago_files.model(version)))
    for number, (game, moves) in enumerate(games):
        found = reference.planes(game, moves)
        if version == 5:
            colours = game.to_play, -game.to_play
            found[18:20] = [reference.settled(game, game.board, c, True) for c in colours]
        expected = boards_of([found[k] for k in planes], 3)
        np.testing.assert_array_equal(actual.planes[number], expected, err_msg=str(moves))
        komi = KOMIS[number % 5]
        if abs(komi) < 10:  # beyond the board's points they clip it differently
            expected = np.array(reference.numbers(game, moves, komi))[numbers]
            expected[5] *= 20 / points
            np.testing.assert_allclose(actual.global_inputs[number], expected, atol=1e-6)


@pytest.mark.slow
def test_ladders_with_kos_are_read_as_by_katago():
    rules, reader = go.Rules(5, "simple"), reference.Ladders(5)
    read = jax.jit(
        jax.vmap(lambda b, w, ko: read_board(5, b, w, jnp.bool_(False), ko, ladders.KATAGO))
    )
    rng, boards, kos = random.Random(3), [], []
    while len(boards) < 4000:
        game = ReferenceGame(5, "simple")
        for ply in range(40):
            before = list(game.board)
            moves = [p for p in range(25) if game.is_legal(p)]
            game.play(rng.choice(moves or [25]))
            ko = reference.ko_of(game, before, game.board)
            if ko is not None or (ply > 8 and rng.random() < 0.1):
                boards.append(list(game.board))
                kos.append(ko)
    dense = np.array(boards)
    words = [jax.vmap(functools.partial(_pack, rules.layout))(dense == c) for c in (1, -1)]
    ko = jnp.array([-1 if k is None else k for k in kos], jnp.int16)
    actual = read(*words, ko)
    laddered = np.asarray(jax.vmap(functools.partial(_unpack, rules.layout))(actual.laddered))
    captures = np.asarray(jax.vmap(functools.partial(_unpack, rules.layout))(actual.captures))
    for i, (board, k) in enumerate(zip(boards, kos, strict=True)):
        expected = reader.read(board, k, 1)
        assert set(np.flatnonzero(laddered[i])) == expected[0], (board, k)
        assert set(np.flatnonzero(captures[i])) == expected[1], (board, k)
    assert sum(k is not None for k in kos) > 100


def _pack(lay, mask):
    from gozero.go import bitboard as bb

    return bb.pack(lay, mask)


def _unpack(lay, board):
    from gozero.go import bitboard as bb

    return bb.unpack(lay, board)


def test_unsupported_rules_are_refused():
    with pytest.raises(ValueError, match=r"remember=True"):
        inputs.check_fits(go.Rules(5, "simple"), CONFIG)
    with pytest.raises(ValueError, match=r"size: 20; .* up to 19x19"):
        inputs.check_fits(go.Rules(20), CONFIG)
    old = katago_files.config(katago_files.model(6))
    with pytest.raises(ValueError, match="version 6 supports only superko"):
        inputs.check_fits(go.Rules(5, "simple", remember=True), old)
    for change in ({"tax": "some"}, {"scoring": "stones"}, {"optimism": 2}, {"dtype": "int8"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            dataclasses.replace(CONFIG, **change)
    with pytest.raises(ValueError, match="button: it requires scoring='area'"):
        dataclasses.replace(CONFIG, button=True, scoring="territory")
    with pytest.raises(ValueError, match="does not support"):
        dataclasses.replace(old, tax="seki")


@pytest.mark.parametrize(
    ("moves", "bonus", "half"),
    [
        ((0, 9, 4, 2, 9), (0, 1, 1, 2, 1, 1), (0, 0, 0.5, 0.5, 0.5, 0.5)),  # White passes first
        ((0, 4, 9, 2, 9), (0, 1, 0, 0, -1, -1), (0, 0, 0, -0.5, -0.5, -0.5)),  # Black does
    ],
)
def test_played_stones_count_in_territory_scoring_and_the_button_once(moves, bonus, half):
    """Points for White before the first move and after each; also below the root of a tree."""
    rules = go.Rules(3, max_moves=50)
    territory, button = (
        dataclasses.replace(CONFIG, **change)
        for change in ({"scoring": "territory"}, {"button": True})
    )
    states = [go.init(rules, 6.0)]
    for move in moves:
        states.append(go.play(rules, states[-1], jnp.int32(move)))
    taken = 1 + moves.index(9)
    for split in (0, 2):
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *[s.position for s in states[split:]])
        for at in range(split, 6):
            ancestors = Ancestors(stacked, jnp.int32(at - split))
            arguments = rules, states[split], states[at].position, ancestors
            assert inputs._bonus(territory, *arguments)[0] == bonus[at]
            points, kept = inputs._bonus(button, *arguments)
            assert (float(points), bool(kept.available)) == (half[at], at < taken)
            assert int(kept.in_row) == (at == taken)


def test_the_pass_that_takes_the_button_hides_nothing():
    """Only a pass after it does, where passes are hidden."""
    rules = go.Rules(3)
    config = dataclasses.replace(CONFIG, button=True, friendly_pass=True)
    see = jax.jit(lambda state: inputs.observe(config, rules, state, state.position).global_inputs)
    state, passed = go.init(rules), []
    for _ in range(2):
        state = go.play(rules, state, jnp.int32(9))
        passed.append(np.asarray(see(state)))
    assert [x[:2].tolist() for x in passed] == [[1, 0], [0, 0]]
    assert [x[14] for x in passed] == [0, 0]


@pytest.mark.parametrize(
    ("version", "friendly", "shown"),
    [(4, False, 0), (7, False, 1), (8, True, 1)],
)
def test_a_finished_game_shows_what_katago_shows(version, friendly, shown):
    """From version 6 of the inputs (8 of the model) the last move and that it ended the game, also
    where passes are hidden before; until then neither."""
    rules = go.Rules(3, "positional")
    config = dataclasses.replace(CONFIG, version=version, friendly_pass=friendly)
    state = go.init(rules)
    for move in (4, 9, 9):
        state = go.play(rules, state, jnp.int32(move))
    numbers = np.asarray(inputs.observe(config, rules, state, state.position).global_inputs)
    assert numbers[:5].tolist() == [shown, 0, 0, 0, 0]
    assert numbers[13 if config.inputs_version < 6 else 14] == shown


def test_remember_bans_no_further_moves():
    """With `remember`, repeated boards stay legal: the legal actions are those of simple ko."""
    plain, kept = go.Rules(2, "simple"), go.Rules(2, "simple", remember=True)
    states = [go.init(plain), go.init(kept)]
    for move in (0, 1, 2, 4, 3, 4, 0):
        states = [
            go.play(r, s, jnp.int32(move)) for r, s in zip((plain, kept), states, strict=True)
        ]
        legal = [go.legal_actions(r, s) for r, s in zip((plain, kept), states, strict=True)]
        np.testing.assert_array_equal(*legal)
    assert states[0].past is None
    assert states[1].past is not None
    with pytest.raises(
        ValueError, match=r"with no past boards, .* ko='simple', remember=True keep"
    ):
        go.legal_actions(kept, states[0])
