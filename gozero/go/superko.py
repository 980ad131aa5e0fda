"""Past boards of a game and the points that they ban, exactly.

A play puts one stone of the mover on the board and removes whole chains of the opponent, or,
where suicide is allowed, leaves the opponent's stones and removes whole chains of the mover.
Either way an earlier board can be recreated by playing at **at most one point**. A play at p that
is not suicide recreates board j if and only if

  * the mover's stones on board j are its stones now and exactly one more, p;
  * the opponent's stones on board j are a subset of its stones now; call the rest D;
  * no opponent stone outside D touches D (D is made of whole chains), and no empty point
    except p touches D (p is their last liberty).

(Every chain of board j has a liberty, so a p that passes these tests is not suicide.) Suicide at p
recreates board j if and only if

  * the opponent's stones on board j are its stones now;
  * the mover's stones on board j are a proper subset of its stones now; call the rest R;
  * no stone of the mover outside R touches R or p (R is made of whole chains, all those that p
    joins), and no empty point except p touches R (p is their last liberty);
  * a play at p is suicide.

To find such boards among hundreds, each colour of each past board has a **fingerprint**: two
linear sums, one of its stones' bit indices and one of its words times odd constants. If a board has
one stone more than another, the difference of the first sums *names* that stone, and the difference
of the second must be its bit times its word's constant. The few boards that match are then compared
stone by stone: no hash is trusted.

Situational superko bans a board only with the same player to move. There the fingerprint includes
the player to move, so distinguishing such boards costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero import struct
from gozero.compile import batching, indexing, mode, stages
from gozero.compile.kernels import listed, paths
from gozero.go import bitboard as bb
from gozero.go import stacked

_TO_PLAY_BIT = np.uint32(31)  # of an index sum, which is below 2^19 even at 25x25


class Past(struct.PyTreeNode):
    """The past boards of a game. Its ply says how many are valid, so a reset costs nothing."""

    boards: jax.Array  # u32[T, 2, W]: black and white words after each ply; entry 0 is the start
    fingerprints: jax.Array  # u32[2, 2, T]: by colour, (index sum, word sum), ply
    situational: bool = struct.static()  # whether the player to move matters


def start(lay: bb.Layout, capacity: int, situational: bool = False) -> Past:
    """The past of a game from the empty board, Black to play, for up to `capacity` boards."""
    return Past(
        boards=jnp.zeros((capacity, 2, lay.num_words), jnp.uint32),
        fingerprints=jnp.zeros((2, 2, _fingerprint_capacity(capacity)), jnp.uint32),
        situational=situational,
    )


def record(
    lay: bb.Layout, past: Past, ply: jax.Array, black: bb.Board, white: bb.Board, to_play: jax.Array
) -> Past:
    """Store the board after `ply` moves and the player to move; 0 <= ply < capacity."""
    turn = to_play if past.situational else None
    both = jnp.stack([jnp.stack(black), jnp.stack(white)])
    sums = jnp.stack(
        [jnp.stack(_with_turn(_fingerprint(lay, stones), turn)) for stones in (black, white)]
    )
    args = past, jnp.asarray(ply, jnp.int32), both, sums
    if mode.plain() or mode.backend() != "gpu":
        return _record(*args)
    return mode.by_platform(*args, cuda=_record_in_kernel, default=_record)


def _record(past: Past, ply: jax.Array, both: jax.Array, sums: jax.Array) -> Past:
    return past.replace(
        boards=indexing.put(past.boards, ply, both),
        fingerprints=indexing.put(past.fingerprints, ply, sums, axis=2),
    )


@functools.partial(batching.over_games, axis=0)
def _record_in_kernel(past: Past, ply: jax.Array, both: jax.Array, sums: jax.Array) -> Past:
    """`_record` for a batch in one GPU kernel: each scatter would take two."""
    count, capacity = len(ply), past.fingerprints.shape[-1]
    flat = lambda x: x.reshape(count, -1)
    words = both[0].size
    new = jnp.concatenate([ply.astype(jnp.uint32)[:, None], flat(both), flat(sums)], axis=1)

    def kernel(new, boards, fingerprints):
        b, board, sums = paths.number(), paths.lanes(words), paths.lanes(4)
        ply = new[b, 0].astype(jnp.int32)

        def write(array, place, start, lane, size):
            is_one = lane < size
            value = paths.load(new, b, start + lane, mask=is_one)
            paths.store(array, b, place, mask=is_one, value=value)

        write(boards, ply * words + board, 1, board, words)
        write(fingerprints, sums * capacity + ply, 1 + words, sums, 4)

    arrays = past.boards, past.fingerprints
    outputs = paths.each_tree(kernel, count, [*map(flat, arrays)], [new])
    boards, fingerprints = (x.reshape(y.shape) for x, y in zip(outputs, arrays, strict=True))
    return past.replace(boards=boards, fingerprints=fingerprints)


def record_turn(past: Past, ply: jax.Array, to_play: jax.Array) -> Past:
    """Change the player to move after `ply` moves; the board stays the same.

    Under situational superko the board with the earlier player to move is forgotten: only the
    situation from which the game goes on counts.
    """
    if not past.situational:
        return past
    ply = jnp.asarray(ply, jnp.int32)
    sums = _turned(past.fingerprints[:, 0, ply], to_play)
    return past.replace(fingerprints=past.fingerprints.at[:, 0, ply].set(sums))


class PresentBoard(NamedTuple):
    """The present board, from the side of the player to move; see `present_board`."""

    own: bb.Board
    opponent: bb.Board
    to_play: jax.Array  # i32[]: 0 Black or 1 White
    suicides: bb.Board | None  # where a play is suicide; None if suicide is not allowed
    atari: bb.Board  # stones of either colour whose chain has exactly one liberty


def present_board(
    black: bb.Board,
    white: bb.Board,
    to_play: jax.Array,
    atari: bb.Board,
    suicides: bb.Board | None = None,
) -> PresentBoard:
    return PresentBoard(*bb.swapped(to_play != 0, black, white), to_play, suicides, atari)


def board_at(past: Past, ply: jax.Array) -> jax.Array:
    """u32[2, W]: Black's and White's words after `ply` moves."""
    return indexing.get(past.boards, ply)


def boards_at(past: Past, plies: jax.Array) -> jax.Array:
    """u32[K, 2, W]: `board_at` for each of the plies i32[K]."""

    def gather(boards: jax.Array, plies: jax.Array) -> jax.Array:
        return boards[plies]

    def select(boards: jax.Array, plies: jax.Array) -> jax.Array:
        return jnp.stack([indexing.get_by_select(boards, ply) for ply in plies])

    return mode.by_platform(past.boards, plies, tpu=select, default=gather)


class Branch(NamedTuple):
    """Boards that follow those of a game, such as those on a path in a tree."""

    black: bb.Board  # words [D]
    white: bb.Board
    to_play: jax.Array | None  # i8[D]; None under positional superko
    length: jax.Array  # i32[]: how many of the D are valid


def banned(
    lay: bb.Layout,
    past: Past,
    length: jax.Array,
    present: PresentBoard,
    branch: Branch | None = None,
) -> bb.Board:
    """The points where a play would recreate one of a game's first `length` boards or the branch's.

    On a GPU every board is compared: a loop over those whose fingerprints match would wait for the
    host in each iteration.

    Args:
      lay: the layout.
      past: the game's boards.
      length: i32[]; boards 0 .. length - 1 count.
      present: the present board.
      branch: the boards of a branch; None if there is none.
    """
    default, args = functools.partial(_banned_by_both, lay), (past, length, present, branch)
    if mode.plain() or mode.backend() != "gpu":
        return default(*args)
    return mode.by_platform(*args, cuda=_banned_in_kernel(lay), default=default)


def _banned_by_both(
    lay: bb.Layout, past: Past, length: jax.Array, present: PresentBoard, branch: Branch | None
) -> bb.Board:
    in_game = _banned_by_past(lay, past, length, present)
    return in_game if branch is None else bb.union(in_game, _banned_by_branch(lay, branch, present))


@functools.cache
def _banned_in_kernel(lay: bb.Layout) -> Callable:
    """`banned` for a batch in one kernel, which reads only as many boards as each game has."""

    def of_batch(
        past: Past, length: jax.Array, present: PresentBoard, branch: Branch | None
    ) -> bb.Board:
        suicides = present.suicides or ()
        game = [present.to_play.astype(jnp.uint32), *present.own, *present.opponent, *suicides]
        boards = past.boards.reshape(*past.boards.shape[:2], -1)
        turns = (past.fingerprints[:, 0, 0, : boards.shape[1], None] >> _TO_PLAY_BIT,)
        lists = [listed.Listed(length, (boards, *(turns if past.situational else ())))]
        if branch is not None:
            mover = () if branch.to_play is None else (branch.to_play.astype(jnp.uint32),)
            columns = (*branch.black, *branch.white, *mover)
            lists.append(listed.Listed(branch.length, columns=columns))
        points = functools.partial(_points_that_recreate, lay, bool(suicides))
        words = listed.union(points, lay.num_words, game, lists)
        return tuple(words[:, w] for w in range(lay.num_words))

    return batching.over_games(of_batch, axis=0)


def _points_that_recreate(
    lay: bb.Layout, suicide: bool, game: jax.Array, board: jax.Array
) -> jax.Array:
    """u32[W, n]: the point that recreates each of n boards; for `listed.union`."""
    num_words, mover = lay.num_words, game[:1]
    own, opponent, *suicides = (game[1 + k * num_words :][:num_words] for k in range(2 + suicide))
    black, white = board[:num_words], board[num_words : 2 * num_words]
    past = jnp.where(mover != 0, white, black), jnp.where(mover != 0, black, white)
    points = _recreating_points(lay, (own, opponent), past, suicides[0] if suicides else None)
    if board.shape[0] == 2 * num_words:
        return points
    return jnp.where(board[2 * num_words :] != mover, points, np.uint32(0))


def _banned_by_past(
    lay: bb.Layout, past: Past, length: jax.Array, present: PresentBoard
) -> bb.Board:
    matching = functools.partial(_banned_by_matching, lay, False)
    closely = functools.partial(_banned_by_matching, lay, True)
    args = past, length, present
    comparing_all = functools.partial(_banned_by_any, lay)
    return mode.by_platform(*args, cpu=matching, tpu=closely, default=comparing_all)


def _banned_by_matching(
    lay: bb.Layout, closely: bool, past: Past, length: jax.Array, present: PresentBoard
) -> bb.Board:
    """`_banned_by_past`, comparing only the boards whose fingerprints match.

    With `closely`, the extra stone must also be on a vacant point and, unless it captures there,
    the opponent's fingerprint unchanged. That leaves a fifth as many boards; it is used on a TPU,
    where fetching a board from each game is expensive.
    """
    white_moves = present.to_play != 0
    query = _query(lay, present, past.situational, closely)

    def fetch(j):
        board = board_at(past, j)
        return jnp.where(white_moves, board[::-1], board)

    hits = _search(lay, past.fingerprints, length, present.to_play, query)
    return _banned(lay, present, hits, fetch)


def _banned_by_any(
    lay: bb.Layout, past: Past, length: jax.Array, present: PresentBoard
) -> bb.Board:
    """`_banned_by_past`, comparing every board."""
    turns = None
    if past.situational:
        turns = past.fingerprints[0, 0, : len(past.boards)] >> _TO_PLAY_BIT
    black, white = (past.boards[:, colour].T for colour in range(2))
    own, opponent = (
        jnp.where(present.to_play != 0, *both) for both in ((white, black), (black, white))
    )
    return _recreating(lay, present, own, opponent, turns, length)


def _banned_by_branch(lay: bb.Layout, branch: Branch, present: PresentBoard) -> bb.Board:
    own, opponent = bb.swapped(present.to_play != 0, branch.black, branch.white)
    args = present, own, opponent, branch.to_play, branch.length
    matching = functools.partial(_banned_by_matching_boards, lay)
    comparing_all = functools.partial(_banned_by_any_board, lay)
    return mode.by_platform(*args, cpu=matching, tpu=matching, default=comparing_all)


def _banned_by_matching_boards(
    lay: bb.Layout, present: PresentBoard, own: bb.Board, opponent: bb.Board, turns, length
) -> bb.Board:
    def sums(stones):
        return _with_turn(_fingerprint(lay, stones), turns)

    def fetch(j):
        pick = lambda word: lax.dynamic_index_in_dim(word, j, keepdims=False)
        return jnp.stack([jnp.stack([*map(pick, past)]) for past in (own, opponent)])

    query = _query(lay, present, situational=turns is not None)
    opponent_sums = None if present.suicides is None else sums(opponent)
    counts = jnp.arange(own[0].shape[0]) < length
    is_match = counts & _matches(lay, query, sums(own), opponent_sums)
    return _banned(lay, present, _hits(is_match), fetch)


def _banned_by_any_board(
    lay: bb.Layout, present: PresentBoard, own: bb.Board, opponent: bb.Board, turns, length
) -> bb.Board:
    return _recreating(lay, present, stacked.stack(own), stacked.stack(opponent), turns, length)


def _recreating(
    lay: bb.Layout,
    present: PresentBoard,
    past_own: jax.Array,
    past_opponent: jax.Array,
    turns,
    length,
) -> bb.Board:
    """The points that recreate one of the first `length` boards u32[W, T]; turns [T] or None."""
    counts = lax.iota(jnp.int32, past_own.shape[-1]) < length
    if turns is not None:
        counts &= turns.astype(jnp.int32) != present.to_play
    boards = tuple(stacked.stack(board)[:, None] for board in (present.own, present.opponent))
    suicides = None if present.suicides is None else stacked.stack(present.suicides)[:, None]
    points = _recreating_points(lay, boards, (past_own, past_opponent), suicides)
    points = jnp.where(counts[None], points, np.uint32(0))
    return stacked.unstack(lax.reduce(points, np.uint32(0), lax.bitwise_or, (1,)))


def _recreating_points(lay: bb.Layout, present, past, suicides: jax.Array | None) -> jax.Array:
    """u32[W, B]: the point that recreates each past board, or none. Boards are (own, opponent)."""
    recreates = _does_recreate(lay, *present, *past)
    points = jnp.where(recreates[None], past[0] & ~present[0], np.uint32(0))
    if suicides is None:
        return points
    return points | _recreating_suicide(lay, present, past, suicides)


def _query(
    lay: bb.Layout, present: PresentBoard, situational: bool, closely: bool = False
) -> _Query:
    """What to compare the fingerprints of past boards with."""
    return _query_of(lay, situational, closely)(present)


@functools.cache
def _query_of(lay: bb.Layout, situational: bool, closely: bool) -> Callable:
    return batching.in_one_kernel(functools.partial(_make_query, lay, situational, closely))


def _make_query(lay: bb.Layout, situational: bool, closely: bool, present: PresentBoard) -> _Query:
    next_to_play = (1 - present.to_play,) if situational else ()
    own = _fingerprint_behind_barrier(lay)(present.own, *next_to_play)
    if present.suicides is None and not closely:
        return _Query(own)
    opponent = _fingerprint_behind_barrier(lay)(present.opponent, *next_to_play)
    can_suicide = None if present.suicides is None else bb.any_of(present.suicides)
    if not closely:
        return _Query(own, opponent, can_suicide)
    vacant = bb.complement(lay, bb.union(present.own, present.opponent))
    captures = bb.neighbours(lay, bb.intersection(present.opponent, present.atari))
    return _Query(own, opponent, can_suicide, vacant, bb.intersection(vacant, captures))


def _banned(lay: bb.Layout, present: PresentBoard, hits: _Hits, fetch: Callable) -> bb.Board:
    """The union of the points that recreate the boards `hits`; fetch(j) -> u32[2, W], own first.

    The loop runs once per board whose fingerprint matches, most often not at all. Trip bound: T.
    Under ``vmap`` it carries some bits and one small board per game; the past is only read.
    """
    recreated = _recreated(lay)
    boards = jnp.stack([stacked.stack(present.own), stacked.stack(present.opponent)])
    suicides = None if present.suicides is None else stacked.stack(present.suicides)

    def body(carry):
        hits, banned = carry
        j = hits.first()
        # Once a game has none left, any board will do: its result is dropped.
        past = fetch(jnp.where(hits.any(), j, 0))
        return hits.without(j), banned | recreated(boards, past, suicides)

    none = jnp.zeros(lay.num_words, jnp.uint32)
    return stacked.unstack(lax.while_loop(lambda carry: carry[0].any(), body, (hits, none))[1])


@functools.cache
def _recreated(lay: bb.Layout) -> Callable:
    """Returns a function: the point that recreates a past board from the present one, or none.

    (now u32[2, W], past u32[2, W], suicides u32[W] or None) -> u32[W]; boards are (own, opponent).
    """

    def recreated(present: jax.Array, past: jax.Array, suicides: jax.Array | None) -> jax.Array:
        recreates = stages.once(functools.partial(_does_recreate, lay), *present, *past)
        point = jnp.where(recreates[None], past[0] & ~present[0], np.uint32(0))
        if suicides is None:
            return point
        return point | _recreating_suicide(lay, present, past, suicides)

    return batching.over_games(recreated)


def _does_recreate(lay: bb.Layout, *boards: jax.Array) -> jax.Array:
    """bool[B]: whether playing the one stone that the past board has more recreates it.

    Boards u32[W, B]: own, opponent, past own and past opponent; handled word by word, which is
    faster where the result is one bool.
    """
    own, opponent, past_own, past_opponent = map(stacked.unstack, boards)
    point = bb.difference(past_own, own)
    removed = bb.difference(opponent, past_opponent)
    vacant = bb.complement(lay, bb.union(own, opponent))
    touched = bb.neighbours(lay, removed)
    mismatches = (
        bb.difference(own, past_own),
        bb.intersection(point, opponent),
        bb.difference(past_opponent, opponent),
        bb.difference(bb.intersection(touched, opponent), removed),
        bb.difference(bb.intersection(touched, vacant), point),
    )
    return ~bb.any_of(bb.union_all(mismatches)) & (bb.count(point) == 1)


def _recreating_suicide(lay: bb.Layout, present, past, suicides) -> jax.Array:
    """u32[W, B]: the point where suicide recreates the past board, or none."""
    (own, opponent), (past_own, past_opponent) = present, past
    removed = own & ~past_own
    vacant = stacked.full(lay) & ~(own | opponent)
    point = stacked.neighbours(lay, removed) & vacant
    touched = stacked.neighbours(lay, removed | point)
    mismatch = past_own & ~own
    mismatch |= past_opponent ^ opponent
    mismatch |= touched & own & ~removed
    mismatch |= point & ~suicides
    recreates = ~stacked.any_of(mismatch) & (stacked.count(point) == 1)
    return jnp.where(recreates[None], point, np.uint32(0))


# --- fingerprints ---------------------------------------------------------------------


class _Fingerprint(NamedTuple):
    """Two linear sums over the stones of one colour; the fields have any common shape."""

    index_sum: jax.Array  # u32: sum of 32 * word + bit over the stones; see `_with_turn`
    word_sum: jax.Array  # u32: sum of word * word_constant(w), modulo 2^32


class _Query(NamedTuple):
    """What past boards are compared with, from the mover's side."""

    own: _Fingerprint  # fields u32[]
    opponent: _Fingerprint | None = None
    can_suicide: jax.Array | None = None  # bool[]: whether the mover has a suicide
    # To compare `closely`; else None:
    vacant: bb.Board | None = None  # points without a stone
    captures: bb.Board | None = None  # of these, the points where a play captures


def _with_turn(sums: _Fingerprint, to_play: jax.Array | None) -> _Fingerprint:
    """Adds the player to move to a fingerprint; unchanged if None (positional superko).

    The player is the top bit of the index sum: where the players differ, so do the sums.
    """
    if to_play is None:
        return sums
    turn = jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT
    return sums._replace(index_sum=sums.index_sum | turn)


def _turned(index_sums: jax.Array, to_play: jax.Array) -> jax.Array:
    """Index sums with the player to move replaced."""
    without = index_sums & ~(np.uint32(1) << _TO_PLAY_BIT)
    return without | (jnp.asarray(to_play).astype(jnp.uint32) << _TO_PLAY_BIT)


def _fingerprint(lay: bb.Layout, stones: bb.Board) -> _Fingerprint:
    """The linear sums of the stones of one colour; words of any shape."""
    index_sum = jnp.zeros_like(stones[0])
    word_sum = jnp.zeros_like(stones[0])
    for w, word in enumerate(stones):
        index_sum += lax.population_count(word) * np.uint32(bb.WORD_BITS * w)
        for k in range(5):
            bits = sum(1 << b for b in range(bb.WORD_BITS) if b >> k & 1)
            index_sum += lax.population_count(word & np.uint32(bits)) << np.uint32(k)
        word_sum += word * np.uint32(_word_constant(w))
    return _Fingerprint(index_sum, word_sum)


def _word_constant(w):
    """An odd constant for each word, from the golden ratio; w is an int or a u32 array."""
    if isinstance(w, int):
        return (w * 0x9E3779B9 + 0x7F4A7C15) & 0xFFFFFFFF | 1
    return (w * np.uint32(0x9E3779B9) + np.uint32(0x7F4A7C15)) | np.uint32(1)


@functools.cache
def _fingerprint_behind_barrier(lay: bb.Layout) -> Callable:
    """The fingerprint of the present board, computed once and not once per past board."""

    def sums(stones: bb.Board, to_play: jax.Array | None = None) -> _Fingerprint:
        return _with_turn(_fingerprint(lay, stones), to_play)

    return batching.behind_barrier(sums)


# --- the boards that match ---------------------------------------------------------------------


class _Hits(NamedTuple):
    """A subset of T boards, as bits: bit b of word w is board 32 * w + b."""

    words: jax.Array  # u32[ceil(T / 32)]

    def first(self) -> jax.Array:
        """i32[]: the lowest-numbered board; 2^31 - 1 if there is none."""
        below = (self.words & (~self.words + np.uint32(1))) - np.uint32(1)
        board = bb.WORD_BITS * lax.iota(jnp.int32, self.words.shape[0])
        board = board + lax.population_count(below).astype(jnp.int32)
        return jnp.min(jnp.where(self.words != 0, board, np.int32(2**31 - 1)))

    def without(self, board: jax.Array) -> _Hits:
        """The subset without one board."""
        word, bit = board // bb.WORD_BITS, (board % bb.WORD_BITS).astype(jnp.uint32)
        is_word = lax.iota(jnp.int32, self.words.shape[0]) == word
        return _Hits(jnp.where(is_word, self.words & ~(np.uint32(1) << bit), self.words))

    def any(self) -> jax.Array:
        """bool[]: whether any board is left."""
        return jnp.any(self.words != 0)


def _hits(is_match: jax.Array) -> _Hits:
    """bool[T] -> the boards where it is True."""
    num_padding = -is_match.shape[0] % bb.WORD_BITS
    bits = jnp.pad(is_match, (0, num_padding)).astype(jnp.uint32).reshape(-1, bb.WORD_BITS)
    return _Hits(
        jnp.sum(bits << lax.iota(jnp.uint32, bb.WORD_BITS)[None], axis=1, dtype=jnp.uint32)
    )


def _matches(
    lay: bb.Layout, query: _Query, own: _Fingerprint, opponent: _Fingerprint | None
) -> jax.Array:
    """bool[...]: the boards that a play might recreate, according to their fingerprints.

    Args:
      lay: the layout.
      query: the present board.
      own, opponent: fingerprints of past boards; fields that broadcast with those of `query`.
    """
    p = own.index_sum - query.own.index_sum
    difference = own.word_sum - query.own.word_sum
    bit = _word_constant(p >> np.uint32(5)) << (p & np.uint32(31))
    one_more = (p < np.uint32(bb.WORD_BITS * lay.num_words)) & (difference == bit)
    if query.opponent is None or opponent is None:
        return one_more
    same_opponent = (opponent.index_sum == query.opponent.index_sum) & (
        opponent.word_sum == query.opponent.word_sum
    )
    if query.vacant is not None and query.captures is not None:
        # The extra stone is played at a vacant point; if the opponent's stones differ, it captures.
        one_more &= _has(query.captures, p) | (_has(query.vacant, p) & same_opponent)
    if query.can_suicide is None:
        return one_more
    # If the mover has lost stones since a board and gained none, at least one sum differs: a set
    # of stones whose indices sum to 0 is empty or is the one stone of index 0.
    fewer = (p != 0) | (difference != 0)
    return one_more | (query.can_suicide & same_opponent & fewer)


def _has(board: bb.Board, index: jax.Array) -> jax.Array:
    """bool[...]: whether the point of index 32 * word + bit is in the board."""
    word = index >> np.uint32(5)
    words = (jnp.where(word == w, x, np.uint32(0)) for w, x in enumerate(board))
    bits = functools.reduce(lambda x, y: x | y, words)
    return bits >> (index & np.uint32(31)) & np.uint32(1) != 0


def _fingerprint_capacity(boards: int) -> int:
    """The number of fingerprints to allocate for so many boards: a multiple of 32."""
    return -(-boards // bb.WORD_BITS) * bb.WORD_BITS


def _search(
    lay: bb.Layout, past: jax.Array, length: jax.Array, mover: jax.Array, query: _Query
) -> _Hits:
    """The boards among a game's first `length` whose fingerprints match.

    All T are compared, however short the game: elementwise with static shapes, this is less work
    than a loop over some of them.

    Args:
      lay: the layout.
      past: u32[2, 2, T]; fingerprints by colour, (index sum, word sum), board.
      length: i32[]; boards 0 .. length - 1 count.
      mover: i32[]; 0 Black or 1 White.
      query: what to look for.
    """
    capacity = past.shape[-1]
    own = _Fingerprint(*jnp.where(mover != 0, past[1], past[0]))
    opponent = None
    if query.opponent is not None:
        opponent = _Fingerprint(*jnp.where(mover != 0, past[0], past[1]))
    counts = lax.iota(jnp.int32, capacity) < length
    return _hits(counts & _matches(lay, query, own, opponent))
