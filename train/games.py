"""Games in play on the device: search results are stored until the outcome is known.

Each lane stores the moves of its game. When the game ends they become rows of the replay buffer,
with the outcome (in Go also with the score and the owner of each point), and the lane begins a new
game. The state carried from call to call is one pytree of arrays, `Playing`.

Plies of a random opening, moves of a cheap search and moves whose search saw a nan give no rows.
Cheap searches, as in Wu (2019), section 3.1, make games end sooner: the value head learns from more
games, and each row has targets for every head. See `gozero.play.rows` for the weights of a
row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gozero import struct
from gozero.compile import indexing
from gozero.play import resignation, selfplay
from gozero.play.rows import Rows, of_game, stored_policy
from gozero.play.selfplay import Move, SelfPlayLanes
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.search.game import Evaluator, Game, Points, history_of, no_ancestors
from train import buffer as buffers
from train import calibration
from train.buffer import Buffer, BufferConfig
from train.calibration import BINS, Calibration, binned

LANES_AT_ONCE = 64
"""Games that end are written to the buffer ceil(B / LANES_AT_ONCE) at a time: about as many as end
at one move."""


class GameRows(struct.PyTreeNode):
    """The rows of B games in play: row i of lane b is at b T + i, with T the move limit."""

    position: Any  # [B T]
    legal: jax.Array  # u8[B T, ceil(A / 8)], packed
    policy_target: jax.Array  # [B T, A], as rows store it
    root_value: jax.Array  # f32[B T]
    surprise: jax.Array  # f32[B T]: KL(target || prior)
    ply: jax.Array | None = None  # i16[B T]; None if positions have it (`Points.ply`)


class Games(struct.PyTreeNode):
    """The games in play."""

    moves: GameRows
    length: jax.Array  # i32[B]: the number of rows of each
    predicted: jax.Array  # f32[B, 2, BINS]: the network's values so far, see `calibration.of_games`


class Playing(struct.PyTreeNode):
    """The whole state of self-play for training; donated from call to call."""

    lanes: SelfPlayLanes
    games: Games
    buffer: Buffer


class Events(NamedTuple):
    """What happened at one move of B lanes, for the records of a run; [T, B] from a call."""

    ended: jax.Array  # bool: a game ended; the fields up to komi describe it
    resigned: jax.Array  # bool
    outcome: jax.Array  # f32: +1 Black won, -1 White won, 0 a draw
    truncated: jax.Array | None  # bool; None, like komi and score, in a game without points
    score: jax.Array | None  # f32: for Black, if not resigned
    komi: jax.Array | None  # f32
    plies: jax.Array  # i32: moves before this one
    full: jax.Array  # bool: the search was a full one
    surprise: jax.Array  # f32: KL(target || prior) in nats
    ok: jax.Array  # bool: the search saw no nan
    calibration: Calibration | None  # of a call; None for a single move


def new_games(game: Game, config: BufferConfig, num_lanes: int) -> Games:
    """Games without a move."""
    count = num_lanes * game.max_moves
    row = jax.eval_shape(lambda: buffers.start(game, config)).rows
    blank = lambda x, dtype=None: jnp.zeros((count, *x.shape[1:]), dtype or x.dtype)
    return Games(
        moves=GameRows(
            position=jax.tree.map(blank, row.position),
            legal=blank(row.legal),
            policy_target=blank(row.policy_target),
            root_value=blank(row.root_value),
            surprise=blank(row.root_value),
            ply=jnp.zeros(count, jnp.int16) if game.points is None else None,
        ),
        length=jnp.zeros(num_lanes, jnp.int32),
        predicted=jnp.zeros((num_lanes, 2, BINS), jnp.float32),
    )


def start(
    config: SelfPlayConfig, buffer_config: BufferConfig, seed: int, shard: int | jax.Array = 0
) -> Playing:
    """The first games and an empty buffer; see `selfplay.start`.

    Raises:
      ValueError: the buffer is too small.
    """
    least_capacity = least_rows(config)
    if buffer_config.capacity < least_capacity:
        raise ValueError(
            f"capacity: {buffer_config.capacity} rows do not hold the {least_capacity} of games "
            f"that may end at one move; use at least {least_capacity}"
        )
    return Playing(
        lanes=selfplay.start(config, seed, shard),
        games=new_games(config.game, buffer_config, config.batch),
        buffer=buffers.start(config.game, buffer_config),
    )


def least_rows(config: SelfPlayConfig) -> int:
    """The least capacity of a buffer: the rows of all games that are written to it at once."""
    return _lanes_at_once(config.batch) * config.game.max_moves


def make_play(
    config: SelfPlayConfig, buffer_config: BufferConfig, evaluator: Evaluator, num_moves: int
) -> Callable[..., tuple[Playing, Events]]:
    """`play_moves` jitted: ``play(params, playing, num_simulations=None)``.

    `playing` is donated, and returned in the same shapes. `num_simulations` is a keyword argument;
    each value is compiled once. Each call ends by calibrating the threshold of resignation.
    """

    @functools.partial(jax.jit, donate_argnums=1, static_argnames="num_simulations")
    def play(params: Any, playing: Playing, num_simulations: int | None = None):
        playing, events = play_moves(
            config, buffer_config, evaluator, num_moves, params, playing, num_simulations
        )
        return recalibrated(playing), events

    return play


def recalibrated(playing: Playing, axis: str | None = None) -> Playing:
    """With the threshold of resignation that the games so far allow, see `resignation`."""
    state = resignation.recalibrate(playing.lanes.resignation, axis)
    return playing.replace(lanes=playing.lanes.replace(resignation=state))


def play_moves(
    config: SelfPlayConfig,
    buffer_config: BufferConfig,
    evaluator: Evaluator,
    num_moves: int,
    params: Any,
    playing: Playing,
    num_simulations: int | None = None,
    teacher: Evaluator | None = None,
) -> tuple[Playing, Events]:
    """Play some moves in every lane.

    Args:
      config, buffer_config: the settings.
      evaluator: evaluates positions; its own parameters are not used.
      num_moves: T.
      params: the evaluator's.
      playing: the games and the buffer.
      num_simulations: of a full search, one of the config's numbers; None for the search's own.
      teacher: its policy and value are the targets, see `with_teacher_targets`; None: the targets
        are the search's.

    Returns:
      (the games and the buffer after these moves, the events [T, B]).
    """

    params = evaluator._replace(params=params).prepared().params  # not at each move
    teacher = teacher and teacher.prepared()

    def one_move(carry: tuple[Playing, Any], _) -> tuple[Any, Any]:
        playing, _last = carry
        lanes, move = selfplay.move(config, evaluator, params, playing.lanes, num_simulations)
        if teacher is not None:
            move = with_teacher_targets(config.game, teacher, playing.lanes.states, move)
        state = playing.games, playing.buffer
        games, buffer = record_move(config.game, buffer_config, *state, move, lanes.states)
        last = move.prior, move.policy_target
        return (Playing(lanes, games, buffer), last), (events(move), predictions(move))

    blank = jnp.zeros((config.batch, config.game.num_actions), jnp.float32)
    carry = playing, (blank, blank)
    carry, (per_move, predicted) = indexing.scan(one_move, carry, num_moves, [(), (config.batch,)])
    playing, (prior, target) = carry
    value, in_play = calibration.of_games(playing.games.predicted, predicted)
    playing = playing.replace(games=playing.games.replace(predicted=in_play))
    policy = binned(prior, target, predicted.counts[-1][:, None] & (prior >= 0))
    return playing, per_move._replace(calibration=Calibration(policy, value))


def with_teacher_targets(game: Game, teacher: Evaluator, states: Any, move: Move) -> Move:
    """A move with the policy and the value of another network in place of the search's.

    The network is not evaluated after a cheap search, whose moves are not learnt from. The search
    of a batch is either full or cheap in all lanes.

    Args:
      game: the game.
      teacher: the network, with its parameters.
      states: [B], before the move.
      move: the move.
    """
    assert move.prior is not None
    history = history_of(game, teacher.observe)

    def observe(state: Any) -> Any:
        context, position = history.root(state)
        return history.observe(context, position, no_ancestors(position))

    def evaluate() -> tuple[jax.Array, jax.Array]:
        evaluation = teacher.evaluate(teacher.params, jax.random.key(0), jax.vmap(observe)(states))
        logits = jnp.where(move.legal, evaluation.prior_logits.astype(jnp.float32), -jnp.inf)
        return jax.nn.softmax(logits), evaluation.value.astype(jnp.float32)

    policy, value = lax.cond(move.full[0], evaluate, lambda: (move.policy_target, move.root_value))
    return move._replace(
        policy_target=policy,
        root_value=value,
        surprise=selfplay.divergence(policy, move.prior),
        counts=move.counts & jnp.isfinite(value) & jnp.isfinite(policy).all(axis=1),
    )


def events(move: Move) -> Events:
    extra = {"plies": move.ply.astype(jnp.int32), "calibration": None}
    return Events(**extra, **{n: getattr(move, n) for n in Events._fields if n not in extra})


def predictions(move: Move) -> calibration.Predictions:
    """The network's predictions at a move, and the results of the games that the move ended."""
    assert move.raw_value is not None
    for_black = jnp.where(move.ply % 2 == 0, 1, -1) * move.raw_value
    return calibration.Predictions(
        chance=(1 + for_black) / 2,
        counts=move.counts & move.full,
        ended=move.ended,
        known=move.ended if move.truncated is None else move.ended & ~move.truncated,
        point=(1 + move.outcome) / 2,
    )


def record_move(
    game: Game, config: BufferConfig, games: Games, buffer: Buffer, move: Move, states: Any
) -> tuple[Games, Buffer]:
    """Record a move, and write the games that it ended to the buffer.

    Args:
      game, config: the settings.
      games, buffer: before the move.
      move: the move.
      states: [B], after the move. Where it ended a game, the state is a new game's, which still has
        the boards of the one that ended, see `search.game.Points.earlier`.

    Returns:
      (the games, the buffer).
    """
    games = _write_row(game, games, move)
    buffer = _write_ended_games(game, config, games, buffer, move, states)
    return games.replace(length=jnp.where(move.ended, 0, games.length)), buffer


def _write_row(game: Game, games: Games, move: Move) -> Games:
    """Write a row for each lane whose move is to be learnt from."""
    lane = jnp.arange(games.length.shape[0], dtype=jnp.int32)
    count = lane.shape[0] * game.max_moves
    is_row = move.counts & move.full
    index = jnp.where(is_row, lane * game.max_moves + games.length, count + lane)
    policy, dtype = move.policy_target, games.moves.policy_target.dtype
    if dtype == jnp.uint8:  # floats are narrowed as they are written, in the same kernel
        policy = stored_policy(jnp, policy, dtype)
    new = GameRows(
        position=move.position,
        legal=jnp.packbits(move.legal, axis=1),
        policy_target=policy,
        root_value=move.root_value,
        surprise=move.surprise,
        ply=move.ply if game.points is None else None,
    )
    return Games(
        moves=indexing.write_rows(games.moves, index, new),
        length=games.length + is_row.astype(jnp.int32),
        predicted=games.predicted,
    )


def _lanes_at_once(num_lanes: int) -> int:
    return -(-num_lanes // LANES_AT_ONCE)


def _write_ended_games(
    game, config, games: Games, buffer: Buffer, move: Move, states: Any
) -> Buffer:
    """Write the games that ended to the buffer, in order of lanes, a few at a time.

    Most moves end few games: a loop over those costs less than writing the rows of all lanes and
    dropping most. It carries the buffer under one predicate for the batch. Trip bound: B / (lanes
    at once).
    """
    ended = indexing.count_true(move.ended)
    num_lanes = move.ended.shape[0]
    width = _lanes_at_once(num_lanes)
    order = indexing.true_first(move.ended)

    def body(carry):
        done, buffer = carry
        turn = done + jnp.arange(width, dtype=jnp.int32)
        lanes = order[jnp.minimum(turn, num_lanes - 1)]
        rows_of = functools.partial(_rows, game, config, games, move, states)
        rows, frequency, keep = jax.vmap(rows_of)(lanes, turn < ended)
        flat = jax.tree.map(
            lambda x: x.reshape(width * game.max_moves, *x.shape[2:]), (rows, frequency, keep)
        )
        return done + width, buffers.add(config, buffer, *flat)

    start = jnp.int32(0), buffer
    return indexing.while_loop(lambda carry: carry[0] < ended, body, start, shapes=[()])[1]


def _rows(
    game: Game,
    config: BufferConfig,
    games: Games,
    move: Move,
    states: Any,
    lane: jax.Array,
    is_over: jax.Array,
) -> tuple[Rows, jax.Array, jax.Array]:
    """One lane's game: rows [T], their relative sampling frequencies f32[T], and a mask of rows to
    write, bool[T]."""
    limit, points = game.max_moves, game.points
    moves = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, lane * limit, limit), games.moves)
    keep = (jnp.arange(limit) < games.length[lane]) & is_over
    ply, past = moves.ply, None
    if points is not None:
        ply = jax.vmap(points.ply)(moves.position)
        past = _boards_before(
            points, jax.tree.map(lambda x: x[lane], states), ply, config.past_boards
        )
    rows = of_game(
        jnp,
        moves.position,
        ply,
        moves.legal,
        moves.policy_target,
        moves.root_value,
        jax.tree.map(lambda x: x[lane], move),
        past,
    )
    frequency = jnp.ones(limit)
    if config.surprise:
        frequency = buffers.spread(config, moves.surprise, keep)
    return rows, frequency, keep


def _boards_before(points: Points, state: Any, ply: jax.Array, number: int) -> jax.Array | None:
    """u32[T, H, 2, W]: the H boards before each of the plies i16[T] of a game; None if H is 0."""
    if not number:
        return None
    return jax.vmap(lambda ply: points.earlier(state, ply.astype(jnp.int32), number))(ply)
