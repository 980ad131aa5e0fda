"""Where a stone may be placed, and its effect: captures, suicide, the chains in atari afterwards.

Boards are handled as arrays (see `stacked`): a kernel for each word of the many boards would take
seconds to compile on 19x19.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.compile import batching, mode, stages
from gozero.compile.kernels import lane_loop
from gozero.go import bitboard as bb
from gozero.go import floods, stacked


def placeable(
    lay: bb.Layout, own: bb.Board, opponent: bb.Board, atari: bb.Board, suicide: bool = False
) -> bb.Board:
    """The points where a stone may be placed, regardless of ko.

    These are the empty points that have an empty neighbour, join an own chain not in atari, or
    capture: empty & dilate(empty | own not in atari | opponent in atari). If suicide is allowed,
    any own neighbour will do. Arguments as for `place`.
    """
    vacant = bb.complement(lay, bb.union(own, opponent))
    joins = own if suicide else bb.difference(own, atari)
    support = bb.union_all([vacant, joins, bb.intersection(opponent, atari)])
    return bb.intersection(vacant, bb.beside(lay, support))


class Placed(NamedTuple):
    """The board after a stone, from the side of the player who placed it."""

    own: bb.Board
    opponent: bb.Board
    atari: bb.Board  # stones of either colour whose chain has exactly one liberty
    captured: bb.Board  # the opponent's stones that were captured
    lone: jax.Array  # bool[]: the stone is alone with one liberty: capturing one stone is then a ko


def place(
    lay: bb.Layout,
    point: jax.Array,
    own: bb.Board,
    opponent: bb.Board,
    atari: bb.Board,
    suicide: bool = False,
) -> Placed:
    """The board after a stone.

    Args:
      lay: the layout.
      point: i32[]; a pass, or anything else that is no point, places no stone and changes nothing.
      own, opponent: the stones of the player who places the stone, and those of the other player.
      atari: the stones of either colour whose chain has exactly one liberty.
      suicide: whether a stone may leave its own chain without liberties.
    """
    return _place(lay, suicide)(point, own, opponent, atari)


@functools.cache
def _place(lay: bb.Layout, suicide: bool) -> Callable:
    flags_of = functools.partial(_chain_flags, lay, suicide)

    def place(point: jax.Array, *boards: bb.Board) -> Placed:
        own, opponent, atari = (stacked.stack(board) for board in boards)
        stone = stages.once(functools.partial(stacked.at, lay), point)
        own = own | stone
        own_east, own_south = stacked.joints(lay, own)
        their_east, their_south = stacked.joints(lay, opponent)
        their_joints = (their_east[None], their_south[None])
        all_joints = ((own_east | their_east)[None], (own_south | their_south)[None])

        # One plane per side grows the enemy chain there. The own chain and the own chains that a
        # capture frees share the first two planes: the colours tell them apart.
        on_board = stacked.full(lay)
        touched = [on_board & side & opponent for side in stacked.on_sides(lay, stone)]
        dying = _union(touched) & atari
        # What a capture frees depends on the captured chains, so these grow first. If nothing is
        # captured, that flood is empty and costs one check.
        captured = floods.grow_stacked(lay, dying[None], *their_joints)[0]
        freed = stacked.neighbours(lay, captured) & own & atari
        seeds = jnp.stack([touched[0] | stone, touched[1] | freed, *touched[2:]])
        chains = floods.grow_stacked(lay, seeds, *all_joints)

        opponent = opponent & ~captured
        # Every word of the new board depends on these flags, so they are computed once.
        flags = stages.once(flags_of, own, opponent, stone, chains)
        has = lambda flag: (flags & np.uint32(1 << flag)) != 0
        own_chain = chains[0] & own
        after = [atari & ~(captured | own_chain | (chains[1] & own))]
        after.append(_keep(has(_OWN_IN_ATARI), own_chain))
        for side, chain in enumerate(chains):
            after.append(_keep(has(side), chain & opponent))
        atari = _union(after)
        if suicide:
            removed = _keep(has(_OWN_DEAD), own_chain)
            own = own & ~removed
            # Nothing was captured, so each enemy chain beside it had a liberty and gains another.
            beside = stacked.neighbours(lay, removed) & opponent
            atari = atari & ~floods.grow_stacked(lay, beside[None], *their_joints)[0]
        return Placed(
            own=stacked.unstack(own),
            opponent=stacked.unstack(opponent),
            atari=stacked.unstack(atari),
            captured=stacked.unstack(captured),
            lone=has(_OWN_IN_ATARI) & has(_ALONE),
        )

    def stage(point: jax.Array, *boards: bb.Board) -> Placed:
        if mode.plain() or mode.backend() != "gpu":
            return place(point, *boards)
        in_kernel = functools.partial(_place_in_kernel, lay, place)
        return mode.by_platform(point, *boards, cuda=in_kernel, default=place)

    return batching.over_games(stage)


def _place_in_kernel(lay: bb.Layout, place: Callable, point: jax.Array, *boards: bb.Board):
    """`place` for a batch in one GPU kernel, floods included, a block of games at a time.

    Expressed as a lane loop with a single iteration.
    """

    def advance(state):
        point, boards, _ = state
        words = (stacked.unstack(boards[k]) for k in range(3))
        placed = place(point[0].astype(jnp.int32), *words)
        outputs = map(stacked.stack, (placed.own, placed.opponent, placed.atari, placed.captured))
        return point, jnp.stack(list(outputs)), placed.lone.astype(jnp.uint32)[None]

    none = jnp.zeros((1, *point.shape), jnp.uint32)
    no_board = jnp.broadcast_to(none, (lay.num_words, *point.shape))
    inputs = jnp.stack([*map(stacked.stack, boards), no_board])
    state = point[None].astype(jnp.uint32), inputs, none
    ends = lambda state: state[0][0] != state[0][0]
    _, outputs, lone = lane_loop.run(ends, advance, state, "cuda")
    return Placed(*(stacked.unstack(outputs[k]) for k in range(4)), lone=lone[0] != 0)


# Bits of `_chain_flags`. Bits 0 to 3: the enemy chain on that side is in atari. 6: suicide.
_OWN_IN_ATARI, _ALONE, _OWN_DEAD = 4, 5, 6


def _chain_flags(lay: bb.Layout, suicide: bool, own, opponent, stone, chains) -> jax.Array:
    """u32[B]: flags of the chains that a stone touches, one bit each.

    Boards are u32[W, B], chains u32[4, W, B]; for many games they are handled word by word, which
    is faster where the result is one word.
    """
    chains = [chains[side] for side in range(chains.shape[0])]
    boards = own, opponent, stone, chains
    own, opponent, stone, chains = stacked.words_or_array(lay, boards)
    own_chain = bb.intersection(chains[0], own)
    vacant = bb.complement(lay, bb.union(own, opponent))

    def num_liberties(chain):
        return bb.count(bb.intersection(bb.neighbours(lay, chain), vacant))

    bits = [num_liberties(bb.intersection(chain, opponent)) == 1 for chain in chains]
    bits.append(num_liberties(own_chain) == 1)
    bits.append(~bb.any_of(bb.difference(own_chain, stone)))
    if suicide:
        bits.append(num_liberties(own_chain) == 0)
    return _union([bit.astype(jnp.uint32) << np.uint32(i) for i, bit in enumerate(bits)])


def _union(arrays) -> jax.Array:
    return functools.reduce(lambda x, y: x | y, arrays)


def _keep(condition: jax.Array, a: jax.Array) -> jax.Array:
    """u32[W, B]: the boards of games where the condition bool[B] holds, empty ones elsewhere."""
    return jnp.where(condition[None], a, np.uint32(0))
