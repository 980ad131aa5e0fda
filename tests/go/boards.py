"""Boards for tests: text diagrams, random positions, and conversion to and from words."""

from __future__ import annotations

import random

import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import rules as go
from tests.reference.go import BLACK, WHITE, ReferenceGame

_COLOUR = {"X": BLACK, "O": WHITE}


def parse(text: str) -> list[int]:
    """A diagram of X, O and . as a board, row-major; any other character is an empty point."""
    rows = text.split()
    assert all(len(row) == len(rows) for row in rows), rows
    return [_COLOUR.get(c, 0) for row in rows for c in row]


def marks(text: str, wanted: str) -> set[int]:
    """The points of a diagram that show one of the wanted characters."""
    return {p for p, c in enumerate("".join(text.split())) if c in wanted}


def pack(lay: bb.Layout, mask: np.ndarray) -> bb.Board:
    """bool[..., points] -> words u32[...]: `bitboard.pack` in NumPy, which compiles nothing."""
    words = np.zeros((lay.num_words, *mask.shape[:-1]), np.uint32)
    for point, (word, bit) in enumerate(zip(*_places(lay), strict=True)):
        words[word] |= mask[..., point].astype(np.uint32) << bit
    return tuple(words)


def unpack(lay: bb.Layout, board: bb.Board) -> np.ndarray:
    """Words [...] -> bool[..., points]."""
    word, bit = _places(lay)
    return (np.stack(board, axis=-1)[..., word] >> bit) & 1 == 1


def _places(lay: bb.Layout):
    """(word, bit) of every point."""
    row, col = np.divmod(np.arange(lay.size**2, dtype=np.uint32), np.uint32(lay.size))
    word, row = np.divmod(row, np.uint32(lay.rows_per_word))
    return word, row * np.uint32(lay.stride) + col


def packed(size: int, boards: list[list[int]]) -> tuple[bb.Board, bb.Board]:
    """(black, white) words, each [B], of B boards."""
    lay, stones = bb.layout(size), np.asarray(boards)
    return pack(lay, stones == BLACK), pack(lay, stones == WHITE)


def unpacked(size: int, board: bb.Board) -> np.ndarray:
    """Words [B] -> bool[B, size * size]."""
    return unpack(bb.layout(size), board)


def positions_of(size: int, boards: list[list[int]], colours: list[int]) -> go.Position:
    """Positions [B], with `atari` set."""
    black, white = packed(size, boards)
    atari = []
    for board in boards:
        game = ReferenceGame(size)
        game.board = board
        atari.append([BLACK if in_atari else 0 for in_atari in game.in_atari()])
    count = len(boards)
    return go.Position(
        black=black,
        white=white,
        atari=packed(size, atari)[0],
        ko=jnp.full(count, -1, jnp.int16),
        ply=jnp.zeros(count, jnp.int16),
        passes=jnp.zeros(count, jnp.int8),
        to_play=jnp.asarray([colour == WHITE for colour in colours], jnp.int8),
    )


def random_boards(size: int, count: int, seed: int) -> list[list[int]]:
    """Positions of random games at random times, and boards with stones placed at random.

    Every chain has a liberty.
    """
    rng = random.Random(seed)
    played = (2 * count) // 3
    return [_played(size, rng) for _ in range(played)] + [
        _scattered(size, rng) for _ in range(count - played)
    ]


def _played(size, rng):
    game = ReferenceGame(size, "simple")
    for _ in range(rng.randrange(1, 2 * size * size)):
        points = [p for p in range(size * size) if game.board[p] == 0]
        rng.shuffle(points)
        own = game.to_play
        move = next(
            (p for p in points if not game.is_eye(p, own) and game.is_legal(p)), size * size
        )
        game.passes = 0
        game.play(move)
    return game.board


def _scattered(size, rng):
    game = ReferenceGame(size)
    density = rng.choice([0.3, 0.5, 0.7, 0.85])
    black = rng.choice([0.2, 0.5, 0.9])
    for p in range(size * size):
        if rng.random() < density:
            game.board[p] = BLACK if rng.random() < black else WHITE
    for p in range(size * size):
        if game.board[p]:
            stones, liberties = game.chain(game.board, p)
            if not liberties:
                for s in stones:
                    game.board[s] = 0
    return game.board
