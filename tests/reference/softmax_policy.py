"""A slow, plain softmax playout policy: the weight of every move, computed from the board."""

from __future__ import annotations

from collections.abc import Callable

from tests.reference.go import EMPTY, ReferenceGame
from tests.reference.mogo import captured_by, endangered_by

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


def features_at(game: ReferenceGame, previous: int | None, p: int) -> dict[str, int]:
    """What a legal move at p is besides its shape: by the kind of feature, its number.

    ``contiguity`` 0 beside, 1 diagonal; ``capture`` 0 while the previous move has put own chains in
    atari, 1 otherwise; ``extension`` 0 of such a chain, 1 of another in atari; ``self_atari`` 0;
    ``line`` 0 on the edge, 4 from the fifth line on; ``distance`` 0 at Coulom's distance 4 from the
    previous move, 13 from 17 on.
    """
    row, column = divmod(p, game.size)
    from_edge = min(row, column, game.size - 1 - row, game.size - 1 - column)
    found, endangered = {"line": min(from_edge, 4)}, set()
    if previous is not None and game.board[previous] == -game.to_play:
        dx, dy = (
            abs(x - y) for x, y in zip((row, column), divmod(previous, game.size), strict=True)
        )
        distance = dx + dy + max(dx, dy)
        if distance in (2, 3):
            found["contiguity"] = distance - 2
        elif distance >= 4:
            found["distance"] = min(distance, 17) - 4
        endangered = endangered_by(game, previous)
    if captured_by(game, p):
        found["capture"] = 0 if endangered else 1
    extended = set()
    for q in game.neighbours[p]:
        if game.board[q] == game.to_play:
            stones, liberties = game.chain(game.board, q)
            extended |= stones if len(liberties) == 1 else set()
    if extended:
        found["extension"] = 0 if extended & endangered else 1
    if len(game.chain(game.board_after(p), p)[1]) == 1:
        found["self_atari"] = 0
    return found


def weights(
    game: ReferenceGame,
    previous: int | None,
    shape_weight: Callable[[Shape], float],
    feature_weights: dict[str, list[float]],
) -> dict[int, float]:
    """The weight of each move that may be played, or of the pass alone if none may.

    Args:
      game: the position.
      previous: the point of the previous move, or None.
      shape_weight: the weight of a canonical shape.
      feature_weights: those of the other features, by kind and number; a kind left out does not
        count.
    """
    found = {}
    for p in range(game.size**2):
        if not game.is_legal(p) or game.is_eye(p, game.to_play):
            continue
        found[p] = shape_weight(shape_at(game, p))
        for kind, number in features_at(game, previous, p).items():
            found[p] *= feature_weights[kind][number] if kind in feature_weights else 1
    return found or {game.size**2: 1}


def swapped(game: ReferenceGame) -> ReferenceGame:
    """The same position with the colours swapped."""
    other = ReferenceGame(game.size, ko=game.ko_rule)
    other.board = [-colour for colour in game.board]
    other.to_play, other.passes = -game.to_play, game.passes
    other.history = [tuple(-colour for colour in board) for board in game.history]
    return other
