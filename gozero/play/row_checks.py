"""Validation of training rows from untrusted writers: every number against the rules of its game.

A row that no game could have produced is refused, because one is enough to spoil a network. The
checks are in NumPy, except legality, which is computed by the rules or by the game itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go.coords import KOMI_EXPECTED, MAX_KOMI
from gozero.go.rules import BLACK, Position, Rules, legal_points
from gozero.go.setup import liberties
from gozero.play.rows import Rows, policy_shares
from gozero.search.game import Game

AT_ONCE = 128, 4096
"""Rows checked for legality in one call: the first if there are no more rows, else the second."""

_TOLERANCE = 1e-3  # for values in f32; times 10 for sums of policies in f16


def check(rules: Rules | Game, rows: Rows) -> None:
    """Refuse rows [n], of the shapes and dtypes of `row_shapes`, that no game could produce.

    Superko depends on the whole game, so points that a row reports as illegal under superko are not
    verified.

    Raises:
      ValueError: names the field, the first such row, and what is expected.
    """
    if not rows.num_rows:
        return
    legal = np.unpackbits(np.asarray(rows.legal), axis=1).astype(bool)
    padding, legal = legal[:, rules.num_actions :], legal[:, : rules.num_actions]
    stored = np.asarray(rows.policy_target)
    target = policy_shares(np, stored)
    total = stored.max(axis=1) / 255 if stored.dtype == np.uint8 else target.sum(axis=1)
    _require("legal", ~padding.any(axis=1), "of the game's actions only")
    _require(
        "policy_target",
        (target >= 0).all(axis=1) & (np.abs(total - 1) <= 10 * _TOLERANCE),
        "a probability distribution",
    )
    _require("policy_target", ~((target > 0) & ~legal).any(axis=1), "0 where a move is not legal")
    _require("root_value", np.abs(rows.root_value) <= 1 + _TOLERANCE, "in [-1, 1]")
    _require("game", rows.game >= 0, "at least 0")
    for name in ("policy_weight", "value_weight", "score_weight", "ownership_weight"):
        if getattr(rows, name) is not None:
            _require(name, np.isin(getattr(rows, name), (0, 1)), "0 or 1")
    if isinstance(rules, Rules):
        _check_position(rules, rows.position)
        _require("outcome", np.isin(rows.outcome, (-1, 0, 1)), "-1, 0 or 1")
        _check_legal(rules, rows.position, legal)
        _check_past(rules, rows)
        _check_result(rules, rows)
    else:
        _require("outcome", np.abs(rows.outcome) <= 1 + _TOLERANCE, "in [-1, 1]")
        _check_with_game(rules, rows.position, legal)


def _require(name: str, ok: Any, expected: str) -> None:
    ok = np.asarray(ok)
    if not ok.all():
        raise ValueError(f"{name} of row {int(np.argmin(ok))} is not {expected}")


# --- Go -------------------------------------------------------------------------------


def _check_position(rules: Rules, position: Any) -> None:
    points = rules.num_points
    for name in ("black", "white", "atari"):
        _require(f"position.{name}", _on_board(rules, getattr(position, name)), "on the board")
    overlap = [black & white for black, white in zip(position.black, position.white, strict=True)]
    _require("position.white", ~np.any(overlap, axis=0), "apart from Black's stones")
    ply, passes = position.ply, position.passes
    _require("position.ply", (ply >= 0) & (ply < rules.move_limit), "that of an unfinished game")
    _require(
        "position.passes", np.isin(passes, (0, 1)) & (passes <= ply), "that of an unfinished game"
    )
    _require("position.to_play", position.to_play == ply % 2, "the player to move at that ply")
    _require("position.ko", (position.ko >= bb.NO_POINT) & (position.ko < points), "a point")


def _on_board(rules: Rules, words: Any) -> np.ndarray:
    """bool[n]: whether boards [n], W x u32[n], have no bit off the board."""
    off_board = [word & ~full for word, full in zip(words, rules.layout.full, strict=True)]
    return ~np.any(off_board, axis=0)


def _check_legal(rules: Rules, position: Any, legal: np.ndarray) -> None:
    """Check liberties, atari and legal actions against the stones."""
    simple = Rules(rules.size, "simple", rules.suicide)  # compiled once for all ko rules
    has_dead, wrong_atari, plays = _in_chunks(functools.partial(_chains, simple), position)
    _require("position.black", ~has_dead, "a board where every chain has a liberty")
    _require("position.atari", ~wrong_atari, "the stones with one liberty")
    ko = np.asarray(position.ko, np.int64)
    is_ko = np.arange(plays.shape[1]) == ko[:, None]
    _require(
        "position.ko",
        ~(is_ko & ~plays).any(axis=1),
        "a point where a play could otherwise be legal",
    )
    plays &= ~is_ko
    reported = legal[:, :-1]
    allowed = ~reported | plays if rules.has_superko else reported == plays
    _require("legal", allowed.all(axis=1) & legal[:, -1], "the legal moves of its position")


@functools.partial(jax.jit, static_argnums=0)
def _chains(rules: Rules, positions: Position) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(bool[n]: a chain has no liberty; bool[n]: the atari board is wrong; bool[n, size^2]: where
    plays are legal apart from ko)."""

    def one(position: Position) -> tuple[jax.Array, jax.Array, jax.Array]:
        lay, stones = rules.layout, bb.union(position.black, position.white)
        alive, atari = liberties(lay, position.black, position.white)
        plays = legal_points(rules, position.replace(ko=jnp.full_like(position.ko, bb.NO_POINT)))
        wrong = bb.union(bb.difference(atari, position.atari), bb.difference(position.atari, atari))
        return (
            bb.any_of(bb.difference(stones, alive)),
            bb.any_of(wrong),
            bb.unpack(lay, plays),
        )

    return jax.vmap(one)(positions)


def _is_disjoint(rules: Rules, boards: np.ndarray) -> np.ndarray:
    """bool[...]: whether in boards u32[..., 2, W] every bit is on the board and no point has two
    owners."""
    off_board = boards & ~np.array(rules.layout.full, np.uint32)
    shared = boards[..., 0, :] & boards[..., 1, :]
    return np.asarray(~(off_board.any(axis=(-1, -2)) | shared.any(axis=-1)))


def _check_past(rules: Rules, rows: Rows) -> None:
    """Check the past boards of each row: as many as there were, the others empty."""
    past = np.asarray(rows.past)
    num_past = np.minimum(rows.position.ply, past.shape[1])
    _require(
        "known",
        rows.known == num_past,
        "the number of earlier boards, at most those that rows keep",
    )
    missing = np.arange(past.shape[1]) >= num_past[:, None]
    empty = ~past.any(axis=(2, 3)) | ~missing
    valid = (_is_disjoint(rules, past) & empty).all(axis=1)
    _require("past", valid, "boards of both players' stones, empty before the game")


def _check_result(rules: Rules, rows: Rows) -> None:
    """Check komi, area and score; in games not played out, area and score may be unknown."""
    komi, score, sign = rows.komi, rows.score, np.where(rows.position.to_play == BLACK, 1, -1)
    assert komi is not None  # of Go
    assert score is not None
    assert rows.area is not None
    halves = np.asarray(komi, np.float64) * 2
    _require("komi", (np.abs(komi) <= MAX_KOMI) & (halves % 1 == 0), KOMI_EXPECTED)
    area = np.asarray(rows.area)
    _require(
        "area", _is_disjoint(rules, area), "of points of the board, each of one player at most"
    )
    counts = np.bitwise_count(area).sum(axis=2, dtype=np.int64)
    margin = sign * (counts[:, 0] - counts[:, 1] - komi)
    _require("score", np.abs(score) <= rules.num_points + np.abs(komi), "a score of that board")
    unknown = ~counts.any(axis=1)
    has_weight = np.asarray(rows.ownership_weight) > 0
    _require("score", np.where(unknown & ~has_weight, True, score == margin), "that of the area")
    counted = (np.asarray(rows.score_weight) > 0) | ~unknown
    _require("outcome", ~counted | (rows.outcome == np.sign(score)), "the sign of the score")


# --- other games ----------------------------------------------------------------------


def _check_with_game(game: Game, positions: Any, legal: np.ndarray) -> None:
    over, expected = _in_chunks(functools.partial(_over_and_legal, game), positions)
    _require("position", ~over, "that of an unfinished game")
    _require("legal", (expected == legal).all(axis=1), "the legal moves of its position")


@functools.partial(jax.jit, static_argnums=0)
def _over_and_legal(game: Game, positions: Any) -> tuple[jax.Array, jax.Array]:
    """(bool[n]: the game is over; bool[n, A]: its legal actions)."""
    return jax.vmap(game.outcome)(positions)[0], jax.vmap(game.legal)(positions)


# --- both -----------------------------------------------------------------------------


def _in_chunks(function: Callable[[Any], Any], positions: Any) -> Any:
    """``function(positions)``, in chunks of equal length."""
    count, parts = len(jax.tree.leaves(positions)[0]), []
    length = AT_ONCE[count > AT_ONCE[0]]
    for begin in range(0, count, length):
        indices: Any = slice(begin, begin + length)
        if indices.stop > count:
            indices = np.minimum(np.arange(begin, indices.stop), count - 1)
        chunk = jax.tree.map(lambda x, indices=indices: x[indices], positions)
        parts.append(jax.device_get(function(chunk)))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)
