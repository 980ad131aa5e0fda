"""Choices in the games of a folder: the moves that a player could have played, and the one played.

A choice is a competition in the sense of Coulom (2007): the moves that a playout could play there
compete, and the move played has won.
"""

from __future__ import annotations

import functools
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero import struct
from gozero.apps import sgf
from gozero.apps.sgf import GameRecord
from gozero.go import bitboard as bb
from gozero.go import floods, setup
from gozero.go import rules as go
from gozero.go.placement import place
from gozero.playouts import playable
from gozero.playouts.policies.softmax import neighbourhoods, softmax, strengths
from gozero.playouts.policies.softmax.strengths import Strengths

Arrays = TypeVar("Arrays")

_GAMES_AT_ONCE = 256
_MOVES_AT_ONCE = 32  # lengths are rounded up to multiples of it, so that few programs are compiled


class Choices(struct.PyTreeNode):
    """N choices; the boards are words u32[N]."""

    own: bb.Board  # stones of the player to move
    opponent: bb.Board
    in_atari: bb.Board  # stones of either colour whose chain is in atari
    endangered: bb.Board  # own stones that the move before put in atari
    may: bb.Board  # the points that they may play: legal, and no own eye
    self_atari: bb.Board  # those of `may` where the stone's chain would be in atari
    previous: jax.Array  # i32[N]: the point of the move before; bb.NO_POINT for a pass or none
    played: jax.Array  # i32[N]: the point that they played, one of `may`


class Features(NamedTuple):
    """The features of all points of a board in N choices: those of `Strengths`, and `may`.

    Each but `shape` is 0 for points that have none of its kind, else 1 + its number.
    """

    shape: jax.Array  # i32[points, N]: the class
    contiguity: jax.Array  # i32[points, N]
    capture: jax.Array  # i32[points, N]
    extension: jax.Array  # i32[points, N]
    self_atari: jax.Array  # i32[points, N]
    line: jax.Array  # i32[points, N]
    distance: jax.Array  # i32[points, N]
    may: jax.Array  # bool[points, N]


def features(lay: bb.Layout, choices: Choices) -> Features:
    """The features of the choices that `softmax` uses, point by point."""
    framed = [
        neighbourhoods.framed(lay, neighbourhoods.rows(lay, x))
        for x in (choices.own, choices.opponent)
    ]
    capturable = bb.intersection(choices.opponent, choices.in_atari)
    in_atari = bb.intersection(choices.own, choices.in_atari)
    previous = playable.packed_point(lay, choices.previous)
    boards = (
        choices.may,
        *softmax.contiguous(lay, previous),
        bb.beside(lay, capturable),
        bb.beside(lay, in_atari),
        bb.beside(lay, choices.endangered),
        choices.self_atari,
    )
    may, beside, diagonal, captures, extends, saves, self_atari = (
        neighbourhoods.bits(lay, neighbourhoods.rows(lay, x)).astype(jnp.int32) for x in boards
    )
    classes = jnp.asarray(neighbourhoods.classes())[
        neighbourhoods.codes(lay, *framed).astype(jnp.int32)
    ]
    capture = captures * jnp.where(bb.any_of(choices.endangered), 1, 2)[None, None]
    line = jnp.broadcast_to(1 + softmax.lines(lay.size)[:, :, None], classes.shape)
    parts = (
        *(classes, beside + 2 * diagonal, capture, extends * (2 - saves), self_atari),
        *(line, softmax.distances(lay, previous), may > 0),
    )
    return Features(*(x.reshape(lay.num_points, -1) for x in parts))


def log_strengths(logs: Strengths, features: Features) -> jax.Array:
    """f32[points, N]: the logarithm of each point's strength; -inf where it may not be played."""
    total = logs.shape[features.shape]
    for of_kind, found in zip(logs[1:], features[1:-1], strict=True):
        total = total + jnp.concatenate([jnp.zeros(1), of_kind])[found]
    return jnp.where(features.may, total, -jnp.inf)


def by_feature(features: Features, amounts: jax.Array) -> Strengths:
    """The sum for each feature of the amounts f32[points, N] of the moves that have it."""
    shape, *others = (len(x) for x in strengths.uniform())
    sums = [jnp.zeros(shape).at[features.shape].add(amounts)]
    for size, found in zip(others, features[1:-1], strict=True):
        sums.append(jnp.zeros(1 + size).at[found].add(amounts)[1:])
    return Strengths(*sums)


# --- from games -----------------------------------------------------------------------


class GameChoices(NamedTuple):
    """The choices of some games, and where each comes from."""

    choices: Choices  # [N]
    game: np.ndarray  # i32[N]: the index of the game
    number: np.ndarray  # i32[N]: the number of the move in it, from 1
    illegal: dict[int, int]  # {game: the number of its first illegal move}; such games are skipped


def of_folder(path: pathlib.Path, size: int) -> tuple[list[GameRecord], GameChoices]:
    """The games of a board size, and their choices; a file may have several games. What is skipped
    is printed to stderr.

    Args:
      path: a folder with *.sgf in it or below it, or one such file.
      size: points on a side.

    Raises:
      ValueError: no files, or no game of that size.
    """
    paths = [path] if path.is_file() else sorted(path.rglob("*.sgf"))
    if not paths:
        raise ValueError(f"--sgf {path}: there is no *.sgf file; give a folder of games")
    names, games = [], []
    for file in paths:
        try:
            records = sgf.read_all(file)
        except ValueError as error:
            print(f"skipped: {error}", file=sys.stderr, flush=True)
            continue
        for name, record in zip(sgf.names_of_games(str(file), len(records)), records, strict=True):
            if record.size == size:
                names.append(name)
                games.append(record)
    if not games:
        raise ValueError(
            f"--sgf {path}: {len(paths)} files, but none with a game on {size}x{size}; give the "
            "size of the games with --size"
        )
    choices = of_games(go.Rules(size, ko="simple"), games)
    for game, move in choices.illegal.items():
        print(f"skipped: {names[game]}: move {move} is illegal", file=sys.stderr, flush=True)
    return games, choices


def of_games(rules: go.Rules, games: Sequence[GameRecord]) -> GameChoices:
    """All choices of some games in which the move played is one that a playout may play.

    Passes, and moves that fill an own eye, are not choices, but they count as the previous move.

    Args:
      rules: the rules; only their size and suicide count, and ko is taken as simple.
      games: of that size.
    """
    longest = max((len(game.moves) for game in games), default=0)
    length = _MOVES_AT_ONCE * max(1, math.ceil(longest / _MOVES_AT_ONCE))
    parts, origins, illegal = [], [], {}
    for first in range(0, len(games), _GAMES_AT_ONCE):
        batch = games[first : first + _GAMES_AT_ONCE]
        stones, moves, colours = _arrays(rules, batch, length)
        batch_choices, is_choice, is_legal = _replay(rules)(stones, moves, colours)
        is_choice, is_legal = np.asarray(is_choice), np.asarray(is_legal)
        bad = ~is_legal.all(axis=0)
        illegal |= {first + g: 1 + int(np.argmin(is_legal[:, g])) for g in np.flatnonzero(bad)}
        mask = is_choice & ~bad
        parts.append(jax.tree.map(lambda x, mask=mask: np.asarray(x)[mask], batch_choices))
        origins.append(np.nonzero(mask) + np.array([[1], [first]]))
    choices = jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *parts)
    number, game = np.concatenate(origins, axis=1).astype(np.int32)
    return GameChoices(choices, game, number, illegal)


def _arrays(rules, games, length):
    """Stones i8[G, n, n], actions i32[length, G] (-1 after the last), colours i8[length, G]."""
    stones = np.zeros((_GAMES_AT_ONCE, rules.num_points), np.int8)
    moves = np.full((length, _GAMES_AT_ONCE), -1, np.int32)
    colours = np.zeros((length, _GAMES_AT_ONCE), np.int8)
    for g, game in enumerate(games):
        stones[g, list(game.black_stones)] = 1
        stones[g, list(game.white_stones)] = -1
        for t, (colour, action) in enumerate(game.moves):
            moves[t, g], colours[t, g] = action, colour
    return stones.reshape(-1, rules.size, rules.size), moves, colours


@functools.cache
def _replay(rules: go.Rules) -> Callable:
    """Jitted: (stones, moves, colours) -> (Choices, is it a choice, is it legal), [T, G] each."""
    lay = rules.layout

    def one_move(carry, move):
        position, previous = carry
        action, colour = move
        position = go.turn_to(position, colour)  # an opponent's pass may not be recorded
        choices = _choices_in(rules, position, previous).replace(played=action)
        legal = go.legal_points(rules, position)
        point = bb.at(lay, action)
        is_point = bb.any_of(point)
        is_choice = bb.any_of(bb.intersection(point, choices.may))
        is_legal = ~is_point | bb.any_of(bb.intersection(point, legal))
        after = go.play_position(rules, position, action)
        is_move = action >= 0
        position = jax.tree.map(lambda x, y: jnp.where(is_move, x, y), after, position)
        previous = jnp.where(is_point, action, bb.NO_POINT)
        return (position, previous), (choices, is_choice, is_legal)

    def replay(stones, moves, colours):
        start = jax.vmap(lambda x: setup.from_stones(rules, x).position)(stones)
        carry = (start, jnp.full(moves.shape[1], bb.NO_POINT, jnp.int32))
        step = jax.vmap(one_move)
        return lax.scan(lambda carry, move: step(carry, move), carry, (moves, colours))[1]

    return jax.jit(replay)


def _choices_in(rules: go.Rules, position: go.Position, previous: jax.Array) -> Choices:
    """The choices in a position, of which `played` is not set.

    Args:
      rules: the rules, with simple ko.
      position: of one game.
      previous: i32[], the point of the move before, or bb.NO_POINT. It counts if the stone there
        is the opponent's, which it is not after a pass that was not recorded.
    """
    lay = rules.layout
    own, opponent = go.own_and_opponent(position)
    may = bb.difference(go.legal_points(rules, position), playable.eyes(lay, own, opponent))
    in_atari = lambda point: bb.any_of(
        bb.intersection(bb.at(lay, point), place(lay, point, own, opponent, position.atari).atari)
    )
    self_atari = bb.pack(lay, jax.vmap(in_atari)(jnp.arange(lay.num_points)))
    ours = bb.intersection(own, position.atari)
    stone = bb.intersection(bb.at(lay, previous), opponent)
    seeds = bb.intersection(bb.beside(lay, stone), ours)
    (endangered,) = floods.flood(lay, [seeds], bb.joints(lay, ours))
    return Choices(
        own=own,
        opponent=opponent,
        in_atari=position.atari,
        endangered=endangered,
        may=may,
        self_atari=bb.intersection(self_atari, may),
        previous=jnp.where(bb.any_of(stone), previous, bb.NO_POINT),
        played=jnp.full_like(previous, bb.NO_POINT),
    )


def take(rows: Arrays, which: np.ndarray) -> Arrays:
    """Some rows of a pytree of arrays [N, ...], by their numbers or a mask."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[which]), rows)
