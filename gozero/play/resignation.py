"""Resignation in self-play, with a threshold calibrated against false resignations.

A player resigns when its `move_choice.standing`, the better of the root's value and its best
child's, falls below a threshold, v_resign. A share of the games is never resigned; in those the
module records when the threshold would have ended the game, and who won in the end. It also keeps
the lowest standings of winner and loser, so that any other threshold can be tried on the same
games: `recalibrate` finds the highest one that is hardly ever wrong. Silver et al. (2017), Methods.
To resign a game that would have been drawn is wrong too.

The threshold is data, so changing it needs no recompilation. Arrays have a leading axis [B] of
lanes or [R] of records.
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
"""The ply in a game that the threshold would not have ended."""
MOST_WRONG = 0.05
"""The share of wrong resignations that the threshold stays below."""
CEILING = -0.5
"""The highest threshold."""


@dataclasses.dataclass(frozen=True)
class ResignConfig:
    """Static settings.

    Attributes:
      play_on_share: the probability that a game is never resigned, drawn at its start.
      num_records: R, how many of the latest such games are kept on record.

    Raises:
      ValueError: naming the field, its value and what is allowed.
    """

    play_on_share: float = 0.1
    num_records: int = 1024

    def __post_init__(self):
        if not 0.1 <= self.play_on_share <= 1:
            raise ValueError(
                f"play_on_share: {self.play_on_share} is not from 0.1 to 1; with fewer games "
                "played to the end, false resignations cannot be measured"
            )
        if self.num_records < 1:
            raise ValueError(f"num_records: {self.num_records} is not at least 1")


class Records(struct.PyTreeNode):
    """The last games that were never resigned, in a ring buffer: game i is at index i % R."""

    winner_lowest: jax.Array  # f32[R]: the winner's lowest standing; of a drawn game the lower one
    loser_lowest: jax.Array  # f32[R]: the loser's; of a drawn game the lower one
    ply: jax.Array  # i16[R]: when the threshold would have ended the game, or NO_PLY
    wrong: jax.Array  # bool[R]: the player who would have resigned then won, or drew
    count: jax.Array  # i32[]: games recorded so far


class Resignation(struct.PyTreeNode):
    """The resignation state of B lanes."""

    threshold: jax.Array  # f32[]: v_resign
    may: jax.Array  # bool[B]: whether the game may be resigned
    lowest: jax.Array  # f32[B, 2]: each colour's lowest standing in the game so far
    ply: jax.Array  # i16[B]: when the threshold was first crossed, or NO_PLY
    colour: jax.Array  # i8[B]: the colour that crossed it first
    records: Records


class Rates(NamedTuple):
    """Counts of right and wrong resignations in the games on record."""

    games: jax.Array  # i32[]: games on record
    resigned: jax.Array  # i32[]: of these, games that the threshold would have ended
    wrong: jax.Array  # i32[]: of those, games that the resigning player did not lose


def start(config: ResignConfig, key: jax.Array, num_lanes: int) -> Resignation:
    """The state of new games, with no records and a threshold at which no one resigns."""
    size = max(config.num_records, num_lanes)  # so that games ending at one move never collide
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
    """Update the state with the standings that a move's search found.

    Args:
      state: the state of the lanes.
      standing: f32[B], the mover's; infinity where resigning is not considered.
      to_play: i8[B], the mover.
      ply: i16[B].

    Returns:
      (the new state, bool[B]: whether the mover resigns now).
    """
    is_movers = to_play[:, None] == jnp.arange(2)[None]
    below = standing < state.threshold
    is_first = below & (state.ply == NO_PLY)
    new_state = state.replace(
        lowest=jnp.where(is_movers, jnp.minimum(state.lowest, standing[:, None]), state.lowest),
        ply=jnp.where(is_first, ply, state.ply),
        colour=jnp.where(is_first, to_play, state.colour),
    )
    return new_state, below & state.may


def close(
    config: ResignConfig,
    state: Resignation,
    key: jax.Array,
    ended: jax.Array,
    truncated: jax.Array,
    outcome: jax.Array,
) -> Resignation:
    """Record the ended games that could not be resigned, and reset ended lanes for the next games.

    Truncated games do not show who would have won and are not recorded.

    Args:
      config: the settings.
      state: the state of the lanes.
      key: PRNG key that draws which new games are never resigned.
      ended, truncated: bool[B].
      outcome: f32[B], for Black: +1, 0 or -1; meaningful where ended.
    """
    size = state.records.ply.shape[0]
    counts = ended & ~state.may & ~truncated
    rank = jnp.cumsum(counts, dtype=jnp.int32) - 1
    index = jnp.where(counts, (state.records.count + rank) % size, size)  # writes at `size` drop

    black, white = state.lowest[:, 0], state.lowest[:, 1]
    black_won, drawn, either = outcome > 0, outcome == 0, jnp.minimum(black, white)
    resigner_won = jnp.where(state.colour == 0, outcome > 0, outcome < 0)
    values = {
        "winner_lowest": jnp.where(drawn, either, jnp.where(black_won, black, white)),
        "loser_lowest": jnp.where(drawn, either, jnp.where(black_won, white, black)),
        "ply": state.ply,
        "wrong": (state.ply != NO_PLY) & (resigner_won | drawn),
    }
    updated = {
        name: getattr(state.records, name).at[index].set(value, mode="drop")
        for name, value in values.items()
    }
    count = state.records.count + jnp.sum(counts, dtype=jnp.int32)
    return state.replace(
        may=jnp.where(ended, _draw_may(config, key, ended.shape[0]), state.may),
        lowest=jnp.where(ended[:, None], jnp.inf, state.lowest),
        ply=jnp.where(ended, jnp.int16(NO_PLY), state.ply),
        records=state.records.replace(**updated, count=count),
    )


def rates(records: Records) -> Rates:
    """Counts of right and wrong resignations, by the thresholds used when the games were played."""
    resigned = records.ply != NO_PLY
    return Rates(
        games=jnp.minimum(records.count, records.ply.shape[0]),
        resigned=jnp.sum(resigned, dtype=jnp.int32),
        wrong=jnp.sum(resigned & records.wrong, dtype=jnp.int32),
    )


def recalibrate(state: Resignation | None, axis: str | None = None) -> Resignation | None:
    """The state with the threshold that its records allow, see `calibrate`; None stays None.

    With an axis, from the records of all devices along it; one device has too few.
    """
    if state is None:
        return None
    records = state.records
    if axis is not None:
        gather = lambda x: lax.all_gather(x, axis, tiled=True)
        lowest = gather(records.winner_lowest), gather(records.loser_lowest)
        records = records.replace(winner_lowest=lowest[0], loser_lowest=lowest[1])
    return state.replace(threshold=calibrate(records))


def calibrate(records: Records) -> jax.Array:
    """The highest threshold, up to `CEILING`, at which less than a share of `MOST_WRONG` of the
    resignations would be wrong.

    A game counts as wrongly resigned if its winner's standing was ever below the threshold, even if
    the loser would have resigned earlier: this errs on the safe side. So does adding one wrong
    resignation to those observed: (wrong + 1) / (resigned + 1) < `MOST_WRONG`, so that no game is
    resigned before 20 recorded games would have been.

    Args:
      records: games that were never resigned; empty slots have infinite standings.

    Returns:
      f32[]: the threshold; `NEVER` if none qualifies.
    """
    lowest = jnp.minimum(records.winner_lowest, records.loser_lowest)
    winner, either = jnp.sort(records.winner_lowest), jnp.sort(lowest)
    # Counts change only at standings that occur, so those are the only candidates.
    candidates = jnp.append(jnp.concatenate([winner, either]), jnp.float32(CEILING))
    wrong, resigned = jnp.searchsorted(winner, candidates), jnp.searchsorted(either, candidates)
    allowed = (wrong + 1 < MOST_WRONG * (resigned + 1)) & (candidates <= CEILING)
    return jnp.max(jnp.where(allowed, candidates, NEVER)).astype(jnp.float32)
