"""Resignation in self-play, and whether it is right.

A player resigns when their `move_choice.standing`, the better of the root's value and its best
child's, falls below a threshold, v_resign. A share of the games is never resigned; there the
moment is recorded when the threshold would have ended them, and who went on to win. The lowest
standings of winner and loser are kept too, so that any other threshold can be tried on the same
games: `calibrate` finds the highest one that is hardly ever wrong. Silver et al. (2017), Methods.

The threshold is data: to change it compiles nothing anew. All of it has a leading axis [B] of
lanes, or [R] of records.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import struct

NEVER = -1.0
"""The threshold at which no one resigns: values are not below it."""
NO_PLY = -1
"""Where the threshold would have ended no game."""


@dataclasses.dataclass(frozen=True)
class ResignConfig:
    """Static settings.

    Attributes:
      play_on_share: the probability that a game is never resigned, drawn at its start.
      num_records: R, the latest of those games that are kept on record.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    play_on_share: float = 0.1
    num_records: int = 1024

    def __post_init__(self):
        if not 0.1 <= self.play_on_share <= 1:
            raise ValueError(
                f"play_on_share: {self.play_on_share} is not from 0.1 to 1; with fewer games "
                "played on no one knows whether resigning is right"
            )
        if self.num_records < 1:
            raise ValueError(f"num_records: {self.num_records} is not at least 1")


class Records(struct.PyTreeNode):
    """The last games that were never resigned, in a ring: game i lies at i % R."""

    winner_lowest: jax.Array  # f32[R]: the winner's lowest standing; infinity in a drawn game
    loser_lowest: jax.Array  # f32[R]: the loser's; the lower of both in a drawn game
    ply: jax.Array  # i16[R]: when the threshold would have ended the game, or NO_PLY
    wrong: jax.Array  # bool[R]: who would have resigned then has won
    count: jax.Array  # i32[]: games recorded so far


class Resignation(struct.PyTreeNode):
    """What lanes know of resigning."""

    threshold: jax.Array  # f32[]: v_resign
    may: jax.Array  # bool[B]: the game may be resigned
    lowest: jax.Array  # f32[B, 2]: each colour's lowest standing in the game so far
    ply: jax.Array  # i16[B]: when someone would have resigned first, or NO_PLY
    colour: jax.Array  # i8[B]: who
    records: Records


class Rates(NamedTuple):
    """How right the threshold was in the games on record."""

    games: jax.Array  # i32[]: on record
    resigned: jax.Array  # i32[]: of them, those that it would have ended
    wrong: jax.Array  # i32[]: of those, the ones that the resigner won


def start(config: ResignConfig, key: jax.Array, num_lanes: int) -> Resignation:
    """Of new games, with nothing on record and a threshold at which no one resigns."""
    size = max(config.num_records, num_lanes)  # so that no two games of a move share a place
    return Resignation(
        threshold=jnp.float32(NEVER),
        may=_draw_may(config, key, num_lanes),
        lowest=jnp.full((num_lanes, 2), jnp.inf, jnp.float32),
        ply=jnp.full(num_lanes, NO_PLY, jnp.int16),
        colour=jnp.zeros(num_lanes, jnp.int8),
        records=Records(
            winner_lowest=jnp.full(size, jnp.inf, jnp.float32),
            loser_lowest=jnp.full(size, jnp.inf, jnp.float32),
            ply=jnp.full(size, NO_PLY, jnp.int16),
            wrong=jnp.zeros(size, bool),
            count=jnp.int32(0),
        ),
    )


def _draw_may(config: ResignConfig, key: jax.Array, num_lanes: int) -> jax.Array:
    return ~jax.random.bernoulli(key, config.play_on_share, (num_lanes,))


def consider(
    state: Resignation, standing: jax.Array, to_play: jax.Array, ply: jax.Array
) -> tuple[Resignation, jax.Array]:
    """Take in what a move's search has found.

    Args:
      state: of the lanes.
      standing: f32[B], the mover's; infinity where resigning is not considered.
      to_play: i8[B], the mover.
      ply: i16[B].

    Returns:
      (the state, who resigns now bool[B]).
    """
    is_movers = to_play[:, None] == jnp.arange(2)[None]
    below = standing < state.threshold
    first = below & (state.ply == NO_PLY)
    seen = state.replace(
        lowest=jnp.where(is_movers, jnp.minimum(state.lowest, standing[:, None]), state.lowest),
        ply=jnp.where(first, ply, state.ply),
        colour=jnp.where(first, to_play, state.colour),
    )
    return seen, below & state.may


def close(
    config: ResignConfig,
    state: Resignation,
    key: jax.Array,
    ended: jax.Array,
    truncated: jax.Array,
    outcome: jax.Array,
) -> Resignation:
    """Record the games that have ended and were never to be resigned, and begin the next ones.

    A truncated game says nothing of who would have won, and is not recorded.

    Args:
      config: the settings.
      state: of the lanes.
      key: PRNG key, for which of the new games are never resigned.
      ended, truncated: bool[B].
      outcome: f32[B], for Black: +1, 0 or -1; of meaning where ended.
    """
    size = state.records.ply.shape[0]
    counts = ended & ~state.may & ~truncated
    rank = jnp.cumsum(counts, dtype=jnp.int32) - 1
    place = jnp.where(counts, (state.records.count + rank) % size, size)  # `size`: is dropped

    black, white = state.lowest[:, 0], state.lowest[:, 1]
    black_won, drawn = outcome > 0, outcome == 0
    resigner_won = jnp.where(state.colour == 0, outcome > 0, outcome < 0)
    values = {
        "winner_lowest": jnp.where(drawn, jnp.inf, jnp.where(black_won, black, white)),
        "loser_lowest": jnp.where(
            drawn, jnp.minimum(black, white), jnp.where(black_won, white, black)
        ),
        "ply": state.ply,
        "wrong": (state.ply != NO_PLY) & resigner_won,
    }
    written = {
        name: getattr(state.records, name).at[place].set(value, mode="drop")
        for name, value in values.items()
    }
    count = state.records.count + jnp.sum(counts, dtype=jnp.int32)
    return state.replace(
        may=jnp.where(ended, _draw_may(config, key, ended.shape[0]), state.may),
        lowest=jnp.where(ended[:, None], jnp.inf, state.lowest),
        ply=jnp.where(ended, jnp.int16(NO_PLY), state.ply),
        records=state.records.replace(**written, count=count),
    )


def rates(records: Records) -> Rates:
    """How right the thresholds were at which the games on record were played."""
    resigned = records.ply != NO_PLY
    return Rates(
        games=jnp.minimum(records.count, records.ply.shape[0]),
        resigned=jnp.sum(resigned, dtype=jnp.int32),
        wrong=jnp.sum(resigned & records.wrong, dtype=jnp.int32),
    )


def calibrate_together(records: Records, axis: str) -> jax.Array:
    """f32[]: `calibrate` by the games of all devices of an axis; one alone has too few for long."""
    gather = lambda x: lax.all_gather(x, axis, tiled=True)
    lowest = gather(records.winner_lowest), gather(records.loser_lowest)
    return calibrate(records.replace(winner_lowest=lowest[0], loser_lowest=lowest[1]))


def calibrate(records: Records, most_wrong: float = 0.05, ceiling: float = -0.5) -> jax.Array:
    """The highest threshold at which fewer than a share of the resignations would be wrong.

    A game counts as wrongly resigned if its winner ever stood below the threshold, even where the
    loser would have resigned earlier: that errs on the safe side. So does one wrong resignation
    that is added to what was seen: (wrong + 1) / (resigned + 1) < most_wrong, by which it takes
    20 games that would have been resigned before any is, at a share of 0.05.

    Args:
      records: games that were never resigned, those not yet written with infinite standings.
      most_wrong: the share.
      ceiling: no threshold is above it.

    Returns:
      f32[]: the threshold; `NEVER` if none will do.
    """
    lowest = jnp.minimum(records.winner_lowest, records.loser_lowest)
    winner, either = jnp.sort(records.winner_lowest), jnp.sort(lowest)
    # Between two standings that occur nothing changes: a standing is below only what is above it.
    tried = jnp.append(jnp.concatenate([winner, either]), jnp.float32(ceiling))
    wrong, resigned = jnp.searchsorted(winner, tried), jnp.searchsorted(either, tried)
    good = (wrong + 1 < most_wrong * (resigned + 1)) & (tried <= ceiling)
    return jnp.max(jnp.where(good, tried, NEVER)).astype(jnp.float32)
