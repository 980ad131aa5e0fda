"""A slow, plain softmax playout policy: the weight of every move, computed from the board."""

from __future__ import annotations

from collections.abc import Callable

from tests.reference.go import EMPTY, ReferenceGame

Shape = tuple[str, str, str]

_PLACES = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2))


def code_of(text: str) -> int:
    """The code of three rows of ``.XO#``, X the mover's stones; the middle is ignored.

    The mover's stones set bits 0 to 7 in reading order, the opponent's 8 to 15, the edge both.
    """
    lines = text.split()
    points = [lines[row][column] for row, column in _PLACES]
    own = sum((point in "X#") << k for k, point in enumerate(points))
    return own | sum((point in "O#") << k for k, point in enumerate(points)) << 8


def shape_of(code: int) -> Shape:
    """The shape of a code, ``*`` in the middle."""
    lines = [["*"] * 3 for _ in range(3)]
    for k, (row, column) in enumerate(_PLACES):
        lines[row][column] = ".XO#"[(code >> k & 1) | (code >> k + 8 & 1) << 1]
    return tuple("".join(line) for line in lines)


def shape_at(game: ReferenceGame, p: int) -> Shape:
    """The canonical shape around p: X the mover's stones, O the opponent's, # off the board."""

    def point(row, column):
        if not (0 <= row < game.size and 0 <= column < game.size):
            return "#"
        colour = game.board[row * game.size + column]
        return "." if colour == EMPTY else "X" if colour == game.to_play else "O"

    row, column = divmod(p, game.size)
    lines = ["".join(point(row + i, column + j) for j in (-1, 0, 1)) for i in (-1, 0, 1)]
    return canonical((lines[0], lines[1][0] + "*" + lines[1][2], lines[2]))


def canonical(shape: Shape) -> Shape:
    """The least of the 8 rotations and reflections of a shape."""
    forms = []
    for _ in range(4):
        shape = tuple("".join(line) for line in zip(*shape[::-1], strict=True))
        forms += [shape, tuple(line[::-1] for line in shape)]
    return min(forms)


def weights(
    game: ReferenceGame,
    previous: int | None,
    shape_weight: Callable[[Shape], int],
    contiguity_weight: dict[int, int],
) -> dict[int, int]:
    """The weight of each move that may be played, or of the pass alone if none may.

    Args:
      game: the position.
      previous: the point of the previous move, or None.
      shape_weight: the weight of a canonical shape.
      contiguity_weight: by squared distance to the previous move: 1, 2, or 0 for any other.
    """
    found = {}
    for p in range(game.size**2):
        if not game.is_legal(p) or game.is_eye(p, game.to_play):
            continue
        distance = 0
        if previous is not None:
            (row, column), (r, c) = divmod(p, game.size), divmod(previous, game.size)
            distance = (row - r) ** 2 + (column - c) ** 2
        factor = contiguity_weight[distance if distance in (1, 2) else 0]
        found[p] = shape_weight(shape_at(game, p)) * factor
    return found or {game.size**2: 1}


def swapped(game: ReferenceGame) -> ReferenceGame:
    """The same position with the colours swapped."""
    other = ReferenceGame(game.size, ko=game.ko_rule)
    other.board = [-colour for colour in game.board]
    other.to_play, other.passes = -game.to_play, game.passes
    other.history = [tuple(-colour for colour in board) for board in game.history]
    return other
