"""MoGo's playout rules, slow and plain: which rule applies, and the moves it chooses from."""

from __future__ import annotations

import copy
import functools

from tests.reference.go import EMPTY, ReferenceGame

SAVE, PATTERN, CAPTURE, ANY, NAKADE, FILL = 1, 2, 3, 4, 5, 6

# The 3x3 window of the empty point c. M and E are the two colours, `m` is not M, `e` not E, `#` off
# the board, `_` anything. The last column says who may play it: "both", or only the player of M.
SHAPES = {
    "hane, enclosing": ("MEM", ".c.", "___", "both"),
    "hane, not cutting": ("ME.", ".c.", "_._", "both"),
    "hane, magari": ("ME_", "Mc.", "m._", "both"),
    "hane, thin": ("MEE", ".c.", "_._", "M"),
    "cut, unprotected": ("ME_", "Ece", "_e_", "both"),
    "cut, peeped": ("ME_", "EcM", "___", "both"),
    "cut through": ("_M_", "EcE", "eee", "both"),
    "edge, chase": ("M._", "Ec_", "##_", "both"),
    "edge, block a cut": ("EM_", "McE", "###", "both"),
    "edge, block a connection": ("_M_", "mcE", "###", "both"),
    "edge, sagari": ("_ME", "mcm", "###", "M"),
    "edge, cut": ("_EM", "McE", "###", "M"),
}

TURNS = [
    lambda i, j: (i, j),
    lambda i, j: (j, -i),
    lambda i, j: (-i, -j),
    lambda i, j: (-j, i),
    lambda i, j: (i, -j),
    lambda i, j: (j, i),
    lambda i, j: (-i, j),
    lambda i, j: (-j, -i),
]


def kinds(game: ReferenceGame, point: int) -> list[str]:
    """The names of the patterns that match at an empty point, for the player to move."""
    return [kind for kind, shape in SHAPES.items() if _stands(game, point, shape)]


def _stands(game, point, shape) -> bool:
    *rows, for_whom = shape
    colours = [game.to_play, -game.to_play] if for_whom == "both" else [game.to_play]
    return any(
        all(
            _is(game, point, *turn(i - 1, j - 1), rows[i][j], m)
            for i in range(3)
            for j in range(3)
            if (i, j) != (1, 1)
        )
        for m in colours
        for turn in TURNS
    )


def _is(game, point, down, right, what, m) -> bool:
    """Whether the point `down` rows below and `right` columns beside `point` matches `what`."""
    row, col = point // game.size + down, point % game.size + right
    inside = 0 <= row < game.size and 0 <= col < game.size
    stone = game.board[row * game.size + col] if inside else None
    return {
        "_": True,
        "M": stone == m,
        "E": stone == -m,
        "m": stone != m,
        "e": stone != -m,
        ".": stone == EMPTY,
        "#": not inside,
    }[what]


def choices(game: ReferenceGame, last: int | None, nakade: bool = False) -> tuple[int, set[int]]:
    """(rule, moves): the first rule that has a move, and all its moves.

    `last` is the opponent's last move; None if it is unknown or a pass. A pass is a move of ANY.
    FILL, which may come instead of ANY, has the moves of `open_points`.
    """
    points = range(game.size**2)
    legal = {p for p in points if game.board[p] == EMPTY and game.is_legal(p)}
    sensible = {p for p in legal if not game.is_eye(p, game.to_play)}
    if last is not None:
        found = saves(game, last, legal)
        if found:
            return SAVE, found
        found = vital_points(game, last) & legal if nakade else set()
        if found:
            return NAKADE, found
        found = {p for p in eight_around(game, last) if p in sensible and kinds(game, p)}
        if found:
            return PATTERN, found
    found = {p for p in legal if captured_by(game, p)}
    if found:
        return CAPTURE, found
    return ANY, sensible or {game.size**2}


def saves(game: ReferenceGame, last: int, legal: set[int]) -> set[int]:
    """The moves that save a chain that the last move put in atari."""
    endangered = endangered_by(game, last)
    found = set()
    for p in legal:
        captured = captured_by(game, p)
        beside_captured = {r for q in captured for r in game.neighbours[q]}
        if beside_captured & endangered:
            found.add(p)
        if any(q in endangered for q in game.neighbours[p]):
            after = copy.copy(game)
            after.board = game.board_after(p)
            if len(after.chain(after.board, p)[1]) >= 2:
                found.add(p)
    return found


def endangered_by(game: ReferenceGame, last: int) -> set[int]:
    """The stones of the player to move in chains that the last move put in atari."""
    found = set()
    for q in game.neighbours[last]:
        if game.board[q] == game.to_play:
            stones, liberties = game.chain(game.board, q)
            if len(liberties) == 1:
                found |= stones
    return found


def captured_by(game: ReferenceGame, point: int) -> set[int]:
    """The stones that a legal play captures."""
    after = game.board_after(point)
    return {q for q, stone in enumerate(game.board) if stone != EMPTY and after[q] == EMPTY}


def eight_around(game: ReferenceGame, point: int) -> list[int]:
    row, col = divmod(point, game.size)
    around = [(row + i, col + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    return [r * game.size + c for r, c in around if 0 <= r < game.size and 0 <= c < game.size]


def open_points(game: ReferenceGame) -> set[int]:
    """The empty points with no stone among the eight around them."""
    return {
        p
        for p, stone in enumerate(game.board)
        if stone == EMPTY and all(game.board[q] == EMPTY for q in eight_around(game, p))
    }


# Eye spaces with one vital point, `v`; they match in all 8 orientations.
DEAD_SHAPES = ["ovo", "vo o.", "ovo .o.", ".o. ovo .o.", "oo ov .o", "oo. ovo .o."]


def vital_points(game: ReferenceGame, last: int) -> set[int]:
    """Vital points of the eye spaces beside the last move that only opposing stones surround."""
    found = set()
    for p in game.neighbours[last]:
        if game.board[p] == EMPTY:
            space = region(game, p)
            borders = {game.board[r] for q in space for r in game.neighbours[q]} - {EMPTY}
            if borders == {-game.to_play}:
                found |= {v for v in space if shape_of(game, space, v) in _dead_shapes()}
    return found


def region(game: ReferenceGame, p: int) -> set[int]:
    """The connected empty region of p."""
    found, todo = {p}, [p]
    while todo:
        for q in game.neighbours[todo.pop()]:
            if game.board[q] == EMPTY and q not in found:
                found.add(q)
                todo.append(q)
    return found


def shape_of(game: ReferenceGame, space: set[int], v: int) -> frozenset:
    """The points of a space relative to v, as (row, column) offsets."""
    at = lambda p: divmod(p, game.size)
    return frozenset((at(p)[0] - at(v)[0], at(p)[1] - at(v)[1]) for p in space)


@functools.cache
def _dead_shapes() -> set[frozenset]:
    found = set()
    for shape in DEAD_SHAPES:
        cells = {(i, j): c for i, row in enumerate(shape.split()) for j, c in enumerate(row)}
        (v,) = [cell for cell, c in cells.items() if c == "v"]
        around = [(i - v[0], j - v[1]) for (i, j), c in cells.items() if c != "."]
        found |= {frozenset(turn(*cell) for cell in around) for turn in TURNS}
    return found
