"""Loads rows of self-play, and computes the network's inputs and targets from one row."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gozero.go import bitboard as bb
from gozero.go import symmetry
from gozero.go.rules import BLACK, Rules, legal_points
from gozero.nets.features import Inputs, PositionData, feature_set
from gozero.play import shards
from gozero.play.player import as_game
from gozero.play.rows import Rows, policy_shares
from gozero.search.game import Game, symmetries_of
from train.losses import Targets

GONE = 2**31 - 2
"""The `game` of a row that `train.quarantine` has removed: the row is empty, and its weights are 0.
"""


class Data(NamedTuple):
    """The contents of a folder of shards."""

    rules: Rules | Game  # of Go, or another game
    rows: Rows  # [n]: to train on
    frequency: np.ndarray  # u16[n]: theirs, in units of 1 / `FREQUENCY_UNIT`
    holdout: Rows | None  # of the held-out games


def load(folder: pathlib.Path, holdout_fraction: float, seed: int) -> Data:
    """Read a folder of shards.

    Raises:
      ValueError: as `shards.read_folder`.
    """
    rules_record, rows, frequency = shards.read_folder(folder)
    is_held_out = _held_out(np.asarray(rows.game), holdout_fraction, seed)
    select = lambda keep: jax.tree.map(lambda x: jnp.asarray(x[keep]), rows)
    rules = shards.game_of(rules_record) if "game" in rules_record else Rules(**rules_record)
    holdout = select(is_held_out) if is_held_out.any() else None
    return Data(rules, select(~is_held_out), frequency[~is_held_out], holdout)


def _held_out(game: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """bool[n]: rows of the held-out games; whole games, because rows of one game are alike."""
    games = np.unique(game)
    chosen = np.random.default_rng(seed).permutation(games)[: int(fraction * len(games))]
    return np.isin(game, chosen)


def with_past(rows: Rows, past_boards: int) -> Rows:
    """The rows with up to `past_boards` boards, of the plies before each of them.

    Rows must be in the order of play, as in a shard, so that the earlier boards are those of the
    rows before. Rows that already have as many boards are returned unchanged: those of a run's
    workers, which do not have a row for every position.
    """
    if not past_boards or (rows.past is not None and rows.past.shape[1] >= past_boards):
        return rows
    boards = np.stack([np.stack(x) for x in (rows.position.black, rows.position.white)])
    boards = np.moveaxis(boards, -1, 0)  # [n, 2, W]
    past = np.zeros((len(boards), past_boards, *boards.shape[1:]), np.uint32)
    game, ply = np.asarray(rows.game), np.asarray(rows.position.ply).astype(int)
    known = np.zeros(len(boards), np.int32)
    for k in range(1, min(past_boards, len(boards) - 1) + 1):
        before = np.zeros(len(boards), bool)
        before[k:] = (game[k:] == game[:-k]) & (ply[k:] == ply[:-k] + k) & (known[k:] == k - 1)
        past[before, k - 1] = boards[np.flatnonzero(before) - k]
        known[before] = k
    return rows.replace(past=jnp.asarray(past), known=jnp.asarray(known))


def example(
    rules: Rules | Game,
    features: str,
    row: Rows,
    k: jax.Array,
    outcome_share: float | jax.Array = 1.0,
) -> tuple[jax.Array | Inputs, Targets]:
    """(inputs, targets) of one row, with planes, legal actions, policy and ownership transformed by
    symmetry k.

    Args:
      rules: of Go; or another game, which observes planes of its own.
      features: the name of the set of planes, for Go.
      row: one row.
      k: i32[], the symmetry; in a game with S of them, k modulo S.
      outcome_share: lambda; the value target is lambda z + (1 - lambda) v, with z the game's
        outcome and v the root value of the search. In a game that the move limit ended it is v,
        with weight 1 - lambda.

    Raises:
      ValueError: the features use more past boards than the row has; the game's symmetries are not
        `Symmetries`.
    """
    game = as_game(rules)
    legal = jnp.unpackbits(row.legal, count=game.num_actions).astype(bool)
    policy = policy_shares(jnp, row.policy_target)
    if isinstance(rules, Rules):
        inputs = _inputs(rules, features, row, legal)
    else:
        inputs = rules.observe(row.position).astype(jnp.float32)
    symmetries = symmetries_of(game)
    if symmetries is not None:
        k = k % symmetries.count
        inputs = symmetries.inputs(inputs, k)
        legal, policy = symmetries.actions(legal, k), symmetries.actions(policy, k)
    targets = Targets(
        legal=legal,
        policy_target=policy,
        policy_weight=row.policy_weight.astype(jnp.float32),
        **_value_target(row, outcome_share),
    )
    if isinstance(rules, Rules):
        targets = _with_scores(rules, targets, row, k)
    return inputs, targets


def _inputs(rules: Rules, features: str, row: Rows, legal: jax.Array) -> jax.Array | Inputs:
    """The inputs of a row of Go. The points that superko bans are those that would be legal without
    ko but are not `legal`, bool[A]."""
    komi, past, known = row.komi, row.past, row.known
    assert komi is not None  # rows of Go have all three
    assert past is not None
    assert known is not None
    feature_planes = feature_set(features)
    if feature_planes.past_boards > past.shape[0]:
        raise ValueError(
            f"features: {features!r} uses {feature_planes.past_boards} past boards, and the rows "
            f"have {past.shape[0]}; use 'compact', or add boards by `with_past`"
        )
    without_ko = legal_points(rules, row.position.replace(ko=jnp.int16(bb.NO_POINT)))
    banned = bb.difference(without_ko, bb.pack(rules.layout, legal[:-1]))
    return feature_planes.compute(rules, PositionData(row.position, komi, banned, past, known))


def _with_scores(rules: Rules, targets: Targets, row: Rows, k: jax.Array) -> Targets:
    """The targets of a row of Go, with the score's and the ownership's."""
    numbers = {name: getattr(row, name).astype(jnp.float32) for name in _NUMBERS}
    owners = symmetry.map_points(rules.size, _ownership(rules, row), k)
    return targets.replace(ownership=owners, **numbers)


def _value_target(row: Rows, outcome_share: float | jax.Array) -> dict[str, jax.Array]:
    """The value's target and weight. Where the outcome does not count, since the move limit ended
    the game, the root value is learnt alone, with the weight that is its share; of a row that was
    removed, nothing is."""
    weight = row.value_weight.astype(jnp.float32)
    rest = jnp.where(row.game == GONE, 0.0, 1 - outcome_share)
    counts = weight > 0
    share = jnp.where(counts, outcome_share, 0.0)
    return {
        "outcome": share * row.outcome + (1 - share) * row.root_value,
        "value_weight": jnp.where(counts, weight, rest),
    }


_NUMBERS = ("score", "score_weight", "ownership_weight")


def _ownership(rules: Rules, row: Rows) -> jax.Array:
    """f32[size^2]: the owner of each point at the end: +1 the mover, -1 the opponent, 0 nobody."""
    assert row.area is not None
    black, white = (bb.unpack(rules.layout, tuple(row.area[i])) for i in range(2))
    for_black = black.astype(jnp.float32) - white.astype(jnp.float32)
    return jnp.where(row.position.to_play == BLACK, for_black, -for_black)
