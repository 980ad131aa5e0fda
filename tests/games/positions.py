"""Positions of the plain games of `tests.reference` as the library's states."""

from __future__ import annotations

import functools

import jax
import numpy as np

from gozero.games import connect_four, hex
from gozero.search.game import Game
from tests.reference.connect_four import ConnectFour
from tests.reference.hex import Hex


def connect_four_state(plain: ConnectFour) -> connect_four.ConnectFourBoard:
    cells = np.array(plain.cells) * plain.to_play
    bit = (np.uint32(1) << np.arange(plain.height, dtype=np.uint32))[:, None]

    def stones(mine):
        columns = [int(x) for x in (mine * bit).sum(axis=0)]
        words = [columns[i : i + 4] for i in range(0, plain.width, 4)]
        return tuple(np.uint32(sum(x << 8 * i for i, x in enumerate(word))) for word in words)

    return connect_four.ConnectFourBoard(stones(cells == 1), stones(cells == -1))


def hex_states(plains: list[Hex]) -> hex.HexBoard:
    """States [B] of unfinished games, so that their stones may be played in any order."""
    sequences = []
    for plain in plains:
        first, second = ([p for p, c in enumerate(plain.cells) if c == who] for who in (1, -1))
        both = [point for pair in zip(first, [*second, None], strict=False) for point in pair]
        sequences.append([point for point in both if point is not None])
    return after(hex_game(plains[0].size), sequences)


@functools.cache
def hex_game(size: int) -> Game:
    """One game per size, so that everything is compiled once."""
    return hex.hex_game(size)


def after(game: Game, sequences: list[list[int]]):
    """States [B] after sequences of actions, of any lengths."""
    play = _player(game)
    longest = max(len(actions) for actions in sequences)
    padded = np.full((longest, len(sequences)), -1, np.int32)
    for i, actions in enumerate(sequences):
        padded[: len(actions), i] = actions
    return play(padded)


@functools.cache
def _player(game: Game):
    @jax.jit
    def play(actions):
        def one(states, action):
            played = jax.vmap(game.play)(states, action)
            keep = lambda new, old: jax.numpy.where(
                (action < 0).reshape(-1, *[1] * (new.ndim - 1)), old, new
            )
            return jax.tree.map(keep, played, states), None

        keys = jax.random.split(jax.random.key(0), actions.shape[1])
        return jax.lax.scan(one, jax.vmap(game.init)(keys), actions)[0]

    return play
