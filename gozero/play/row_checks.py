"""Whether rows that others wrote may be learnt from: each number against the rules of its game.

A row that no game could have given is refused, for one is enough to spoil a network. On the host,
in NumPy; for games other than Go, legal actions are asked of the game itself.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go.coords import KOMI_EXPECTED, MAX_KOMI
from gozero.go.rules import BLACK, Rules
from gozero.play.rows import Rows
from gozero.search.game import Game

AT_ONCE = 1024
"""Rows of a game other than Go whose legal actions are asked for in one call."""

_ROOM = 1e-3  # of a value's f32, and of a sum of policies in f16
_IN_PLANE = np.array([[[0] * 3] * 3, [[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[0] * 3] * 3])


def check(rules: Rules | Game, rows: Rows) -> None:
    """Refuse rows [n], of the shapes and types of `row_shapes`, that no game gives.

    What superko bans needs the whole game: of those points it is not checked that they are banned.

    Raises:
      ValueError: names the field, the first such row, and what is expected.
    """
    if not rows.num_rows:
        return
    legal = np.unpackbits(np.asarray(rows.legal), axis=1).astype(bool)
    beyond, legal = legal[:, rules.num_actions :], legal[:, : rules.num_actions]
    target = np.asarray(rows.policy_target, np.float32)
    total = target.sum(axis=1)
    _require("legal", ~beyond.any(axis=1), "of the game's actions only")
    _require(
        "policy_target",
        (target >= 0).all(axis=1) & (np.abs(total - 1) <= 10 * _ROOM),
        "a probability distribution",
    )
    _require("policy_target", ~((target > 0) & ~legal).any(axis=1), "0 where a move is not legal")
    _require("root_value", np.abs(rows.root_value) <= 1 + _ROOM, "in [-1, 1]")
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
        _require("outcome", np.abs(rows.outcome) <= 1 + _ROOM, "in [-1, 1]")
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
    _require("position.ply", (ply >= 0) & (ply < rules.move_limit), "of a game that goes on")
    _require("position.passes", np.isin(passes, (0, 1)) & (passes <= ply), "of a game that goes on")
    _require("position.to_play", position.to_play == ply % 2, "whose turn it is at that ply")
    _require("position.ko", (position.ko >= bb.NO_POINT) & (position.ko < points), "a point")


def _on_board(rules: Rules, words: Any) -> np.ndarray:
    """bool[n]: no bit of [n] boards, W x u32[n], is off the board."""
    off = [word & ~full for word, full in zip(words, rules.layout.full, strict=True)]
    return ~np.any(off, axis=0)


def _unpacked(rules: Rules, words: Any) -> np.ndarray:
    """bool[n, size, size] of W x u32[n]."""
    lay, rows = rules.layout, np.arange(rules.size)
    words = np.stack(words, axis=1)[:, rows // lay.rows_per_word]
    shift = (rows % lay.rows_per_word * lay.stride)[:, None] + np.arange(rules.size)
    return (words[:, :, None] >> shift.astype(np.uint32) & 1).astype(bool)


def _around(boards: np.ndarray, off_board: int) -> np.ndarray:
    """[4, n, size, size]: what is at each point's neighbours, of [n, size, size]."""
    wide = np.pad(boards, ((0, 0), (1, 1), (1, 1)), constant_values=off_board)
    up, down = wide[:, :-2, 1:-1], wide[:, 2:, 1:-1]
    return np.stack([up, down, wide[:, 1:-1, :-2], wide[:, 1:-1, 2:]])


def _liberties(black: np.ndarray, white: np.ndarray) -> np.ndarray:
    """i64[n, size, size]: how many liberties the chain of each stone has; of no stone 0."""
    from scipy import ndimage  # which takes a while, and only readers of shards need

    label: Any = ndimage.label
    (of_black, count), (of_white, more) = (label(stones, _IN_PLANE) for stones in (black, white))
    chain = np.where(white, of_white + count, of_black)  # numbered from 1
    beside = np.sort(_around(chain, 0)[:, chain == 0], axis=0)  # of each empty point
    first = np.diff(beside, axis=0, prepend=0) > 0  # once for a chain that is there twice
    liberties = np.bincount(beside[first], minlength=count + more + 1)
    return liberties[chain]


def _check_legal(rules: Rules, position: Any, legal: np.ndarray) -> None:
    """Chains, what is in atari, and legal actions, as the stones have them."""
    names = ("black", "white", "atari")
    black, white, atari = (_unpacked(rules, getattr(position, name)) for name in names)
    stones, liberties = black | white, _liberties(black, white)
    whole = lambda ok: ok.all(axis=(1, 2))
    _require("position.black", whole(~stones | (liberties > 0)), "with a liberty for each chain")
    _require("position.atari", whole(atari == (liberties == 1)), "the stones with one liberty")
    blacks_turn = (np.asarray(position.to_play) == BLACK)[:, None, None]
    own = np.where(blacks_turn, black, white)
    joins = own if rules.suicide else own & ~atari
    support = ~stones | joins | (stones & ~own & atari)
    plays = (~stones & _around(support, 0).any(axis=0)).reshape(len(legal), -1)
    ko = np.asarray(position.ko, np.int64)
    of_ko = np.arange(plays.shape[1]) == ko[:, None]
    _require("position.ko", ~(of_ko & ~plays).any(axis=1), "where a play could be")
    plays &= ~of_ko
    points = legal[:, :-1]
    allowed = ~points | plays if rules.has_superko else points == plays
    _require("legal", allowed.all(axis=1) & legal[:, -1], "the legal moves of its position")


def _apart(rules: Rules, boards: np.ndarray) -> np.ndarray:
    """bool[...]: of boards u32[..., 2, W] each point is one player's at most, and on the board."""
    off = boards & ~np.array(rules.layout.full, np.uint32)
    both = boards[..., 0, :] & boards[..., 1, :]
    return np.asarray(~(off.any(axis=(-1, -2)) | both.any(axis=-1)))


def _check_past(rules: Rules, rows: Rows) -> None:
    """The boards before each row: as many as there were, and the others empty."""
    past = np.asarray(rows.past)
    there = np.minimum(rows.position.ply, past.shape[1])
    _require("known", rows.known == there, "how many boards there were before it, of those kept")
    beyond = np.arange(past.shape[1]) >= there[:, None]
    empty = ~past.any(axis=(2, 3)) | ~beyond
    sound = (_apart(rules, past) & empty).all(axis=1)
    _require("past", sound, "boards of both players' stones, empty before the game")


def _check_result(rules: Rules, rows: Rows) -> None:
    """Komi, area and score; of what was not played out these need not be known."""
    komi, score, sign = rows.komi, rows.score, np.where(rows.position.to_play == BLACK, 1, -1)
    assert komi is not None  # of Go
    assert score is not None
    assert rows.area is not None
    halves = np.asarray(komi, np.float64) * 2
    _require("komi", (np.abs(komi) <= MAX_KOMI) & (halves % 1 == 0), KOMI_EXPECTED)
    area = np.asarray(rows.area)
    _require("area", _apart(rules, area), "of points of the board, each of one player at most")
    counts = [_unpacked(rules, np.moveaxis(area[:, i], 1, 0)).sum(axis=(1, 2)) for i in range(2)]
    margin = sign * (counts[0] - counts[1] - komi)
    _require("score", np.abs(score) <= rules.num_points + np.abs(komi), "a score of that board")
    unknown = np.asarray(counts).sum(axis=0) == 0
    weighs = np.asarray(rows.ownership_weight) > 0
    _require("score", np.where(unknown & ~weighs, True, score == margin), "that of the area")
    counted = (np.asarray(rows.score_weight) > 0) | ~unknown
    _require("outcome", ~counted | (rows.outcome == np.sign(score)), "the sign of the score")


# --- other games ----------------------------------------------------------------------


def _check_with_game(game: Game, positions: Any, legal: np.ndarray) -> None:
    count = len(legal)
    for begin in range(0, count, AT_ONCE):
        taken = np.minimum(np.arange(begin, begin + AT_ONCE), count - 1)  # of one length
        some = jax.tree.map(lambda x, taken=taken: jnp.asarray(x[taken]), positions)
        over, right = map(np.asarray, _asked(game, some))
        _require("position", ~over, "of a game that goes on")
        _require("legal", (right == legal[taken]).all(axis=1), "the legal moves of its position")


@functools.partial(jax.jit, static_argnums=0)
def _asked(game: Game, positions: Any) -> tuple[jax.Array, jax.Array]:
    """(whether each game is over, its legal actions bool[n, A])."""
    return jax.vmap(game.outcome)(positions)[0], jax.vmap(game.legal)(positions)
