"""One game played from the host: illegal moves with a reason, undo, score; rules by `gozero.go`.

GTP and the referee of matches play through it. Each move is one compiled call on the device.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import executables, stages
from gozero.go import bitboard as bb
from gozero.go import coords, scoring, setup
from gozero.go import rules as go
from gozero.go.rules import GameState, Position, Rules

_LEGAL, _OCCUPIED, _SUICIDE, _KO, _SUPERKO, _AT_LIMIT = range(6)


class IllegalMove(ValueError):
    """A move that the rules forbid: ``D4 is occupied``."""


def ample_move_limit(size: int) -> int:
    """A move limit that no game of people or engines reaches: 6 * size^2, at least 400."""
    return max(400, 6 * size * size)


def move_limit_for(size: int, num_moves: int) -> int:
    """`ample_move_limit`, for a record of so many moves.

    Raises:
      ValueError: the record has more; most are passes then, which no rule limits.
    """
    limit = ample_move_limit(size)
    if num_moves > limit:
        raise ValueError(f"{num_moves:,} moves; expected at most {limit} on {size}x{size}")
    return limit


class HostGame:
    """A game in which either colour may move at any time, as GTP and SGF allow.

    Attributes:
      rules: the rules.
      handicap: the points of Black's handicap stones; if there are any, White begins.
      moves: (colour, action) of each move so far, not counting handicap stones.

    If `start` is given, the game begins there, and komi and handicap are not used.

    After two passes the game is over, but play may resume: a move is accepted, and the game is
    over again after two more passes. At the move limit only passes are accepted.
    """

    def __init__(
        self,
        rules: Rules,
        komi: float = 7.0,
        handicap: Sequence[int] = (),
        start: GameState | None = None,
    ):
        self.rules = rules
        self.handicap = tuple(handicap)
        self.moves: list[tuple[int, int]] = []
        self._before: list[Position] = []  # the position before each move
        if start is None:
            go.check_komi(komi)
        self._state: GameState = start or (
            setup.with_handicap(rules, handicap, komi)
            if handicap
            else _new(rules, np.float32(komi))
        )

    @property
    def state(self) -> GameState:
        """The game as the library's `GameState`."""
        return self._state

    @property
    def to_play(self) -> int:
        """Whose turn it is: 0 Black, 1 White."""
        return int(self._state.to_play)

    @property
    def terminated(self) -> bool:
        """Whether two passes in a row have ended the game."""
        return self.passes >= 2

    @property
    def truncated(self) -> bool:
        """Whether the move limit has ended the game."""
        return bool(self._state.truncated)

    @property
    def ended(self) -> bool:
        """Whether two passes in a row, or the move limit, have ended the game."""
        return self.terminated or self.truncated

    @property
    def passes(self) -> int:
        """The number of consecutive passes just played."""
        return int(self._state.position.passes)

    def wins_by_passing(self, colour: int) -> bool:
        """Whether the opponent has just passed, and `colour` wins on the board as it stands."""
        if self.passes != 1 or self.to_play != colour:
            return False
        score = self.score()
        return score > 0 if colour == 0 else score < 0

    def set_komi(self, komi: float) -> None:
        """Change the komi; the board stays."""
        self._state = self._state.replace(komi=jnp.float32(komi))

    def prepare(self) -> None:
        """Compile `play` ahead, if it is to be cached and is missing. May run on any thread."""
        _attempt.prepare(self.rules, self._state, jnp.int32(0), jnp.int32(0))

    def play(self, colour: int, action: int) -> None:
        """Play an action for a colour, whether or not it is its turn.

        Raises:
          IllegalMove: the action is illegal; the message says why.
        """
        next_state, result = _attempt(self.rules, self._state, jnp.int32(colour), jnp.int32(action))
        if int(result) != _LEGAL:
            raise IllegalMove(self._reason(action, int(result)))
        self._before.append(self._state.position)
        self._state = next_state
        self.moves.append((colour, action))

    def _reason(self, action: int, result: int) -> str:
        name = coords.to_gtp(self.rules.size, action)
        return {
            _OCCUPIED: f"{name} is occupied",
            _SUICIDE: f"{name} is suicide",
            _KO: f"{name} retakes a ko",
            _SUPERKO: f"{name} would recreate an earlier position (superko)",
            _AT_LIMIT: f"the game is at its limit of {self.rules.move_limit} moves",
        }[result]

    def undo(self) -> None:
        """Take the last move back.

        Raises:
          ValueError: there is none.
        """
        if not self.moves:
            raise ValueError("there is no move to take back")
        self.moves.pop()
        # The past is indexed by ply: entries beyond the position's ply are ignored.
        position = self._before.pop()
        truncated = int(position.ply) >= self.rules.move_limit and int(position.passes) < 2
        state = self._state.replace(position=position, truncated=jnp.bool_(truncated))
        # The past may still record that the turn changed hands before the move.
        self._state = go.with_to_play(state, position.to_play)

    def stones(self) -> np.ndarray:
        """i8[size, size]: +1 Black, -1 White, 0 empty; row 0 at the top."""
        return np.asarray(_stones(self.rules, self._state))

    def legal(self) -> np.ndarray:
        """bool[A]: the legal actions of the player to move; the pass is last."""
        return np.asarray(_legal(self.rules, self._state))

    def score(self) -> float:
        """Black's area - White's area - komi, on the board as it stands."""
        return float(_score(self.rules, self._state))


@functools.partial(
    executables.jit, static_argnums=(0,), compiler_options=stages.unoptimized_options
)
def _attempt(
    rules: Rules, state: GameState, colour: jax.Array, action: jax.Array
) -> tuple[GameState, jax.Array]:
    """(the game after the move, result i32[]); the game is meaningless unless result is _LEGAL."""
    is_pass = action == rules.pass_action
    is_over = state.terminated
    state = go.with_to_play(state, colour)
    position = state.position
    # After the end of a game a pass keeps it ended; any other move resumes it.
    passes = jnp.where(is_over, is_pass.astype(jnp.int8), position.passes)
    at_limit = position.ply >= rules.move_limit
    state = state.replace(position=position.replace(passes=passes), truncated=at_limit)
    return go.play(rules, state, action), _move_result(rules, state, action, is_pass)


def _move_result(
    rules: Rules, state: GameState, action: jax.Array, is_pass: jax.Array
) -> jax.Array:
    lay, position = rules.layout, state.position
    occupied = bb.unpack(lay, bb.union(position.black, position.white))
    not_suicide = go.legal_points(rules, position.replace(ko=jnp.int16(bb.NO_POINT)))
    point = jnp.minimum(action, rules.num_points - 1)
    tests = [
        (is_pass, _LEGAL),
        (state.truncated, _AT_LIMIT),
        (occupied[point], _OCCUPIED),
        (~bb.unpack(lay, not_suicide)[point], _SUICIDE),
        (point == position.ko, _KO),
        (~go.legal_actions(rules, state)[point], _SUPERKO),
    ]
    conditions, results = zip(*tests, strict=True)
    return jnp.select(list(conditions), [jnp.int32(x) for x in results], jnp.int32(_LEGAL))


_new = executables.jit(go.init, static_argnums=(0,))
_legal = executables.jit(go.legal_actions, static_argnums=(0,))
_stones = executables.jit(go.stones, static_argnums=(0,))
_score = executables.jit(scoring.area_score, static_argnums=(0,))
