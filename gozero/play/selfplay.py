"""Self-play of any game: B lanes in lockstep; a lane whose game ends begins the next one at once.

    config = SelfPlayConfig(go_game(rules), 64, gumbel_search(32), komi=7.0)
    lanes = start(config, seed=0)
    play_moves = make_play_moves(config, evaluator, num_moves=4)
    lanes, moves = play_moves(evaluator.params, lanes)  # `Move`, [T, B]

`move` plays one move in every lane; the whole state is one pytree of arrays, `SelfPlayLanes`.
Self-play runs either for a number of games (`SelfPlayConfig.num_games`) or without end; in the
first case the moves of games beyond the last are marked `NO_GAME`. The host keeps the moves of a
game until it ends, or `train.games` does so on the device.

A game is a `search.game.Game`: `init, play, legal, outcome, observe` and `max_moves`. The players
alternate, so a lane counts plies and the first player moves at the even ones. A game decided by
points (Go) has a `Game.points`: its komi is drawn from `SelfPlayConfig.komi`, and its `Move` has
`komi, truncated, score, area`, which are None in other games. The positions in a `Move` are those
that the search keeps, `search.game.positions_of`: the states themselves in a game without a
`Game.history`.

If all first games began at once, all lanes would be in the opening first and in the endgame later,
and so would every training batch. So `SelfPlayConfig.stagger` begins each lane's first game after a
different number of random plies, and games do not end together.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from gozero import struct
from gozero.compile import indexing, stages
from gozero.play import devices, openings, resignation
from gozero.play.devices import DIVIDED, EVERYWHERE
from gozero.play.resignation import Resignation
from gozero.play.selfplay_config import SelfPlayConfig
from gozero.search import move_choice, reuse
from gozero.search.config import SearchConfig
from gozero.search.edges import Edges
from gozero.search.game import NO_ACTION, Evaluator, Game, positions_of
from gozero.search.memory import Memory, search_memory
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import value_of_policy
from gozero.search.search import SearchResult, search
from gozero.search.tree import Tree

NO_GAME = -1
"""The number given to games beyond `SelfPlayConfig.num_games`."""


class SelfPlayLanes(struct.PyTreeNode):
    """The games in play: the whole state of self-play, donated from call to call."""

    states: Any  # [B]
    opening: jax.Array  # i32[B]: plies of the game's opening, see `Openings`
    game: jax.Array  # i32[B]: the number of the game
    next_game: jax.Array  # i32[]: the number of the next game to begin
    moves: jax.Array  # i32[]: moves made by each lane
    resignation: Resignation | None
    key: jax.Array  # PRNG key
    batch_key: jax.Array  # PRNG key for draws common to all lanes, on every device
    ply: jax.Array | None = None  # i16[B]: of the game; None if positions hold it (`Points.ply`)
    tree: Tree | None = None  # re-rooted at the states; None if trees are not reused


class Move(NamedTuple):
    """One searched move in B lanes, and the game's result if it ended."""

    game: jax.Array  # i32[B]; NO_GAME: ignore the move
    position: Any  # [B], before the move
    ply: jax.Array  # i16[B]: moves before this one; the first player's at even numbers
    legal: jax.Array  # bool[B, A]
    policy_target: jax.Array  # f32[B, A]
    surprise: jax.Array  # f32[B]: KL(target || prior), in nats
    root_value: jax.Array  # f32[B], for the mover
    action: jax.Array  # i32[B]: NO_ACTION where the mover resigned
    full: jax.Array  # bool[B]: whether the search was a full one
    ok: jax.Array  # bool[B]: no evaluation of the search was NaN
    counts: jax.Array  # bool[B]: whether to train on it: ok, and not in the opening
    ended: jax.Array  # bool[B]: this was the last move of the game
    resigned: jax.Array  # bool[B]: ... because the mover resigned
    outcome: jax.Array  # f32[B]: if ended, +1 the first player (Black) won, -1 lost, 0 drawn
    # In a game decided by points; else None:
    komi: jax.Array | None = None  # f32[B]
    truncated: jax.Array | None = None  # bool[B]: the move limit ended the game
    score: jax.Array | None = None  # f32[B]: if ended and not resigned, for Black; else 0
    area: jax.Array | None = None  # u32[B, 2, W]: likewise Black's area and White's; else empty
    # The network's evaluation of the position; None in what `make_play_moves` returns:
    prior: jax.Array | None = None  # f32[B, A]: with the root's noise; -inf where illegal
    raw_value: jax.Array | None = None  # f32[B], for the mover


def start(config: SelfPlayConfig, seed: int, shard: int | jax.Array = 0) -> SelfPlayLanes:
    """The lanes at the beginning of the first games.

    Args:
      config: the settings.
      seed: the seed of all randomness.
      shard: the index of this self-play among several, each with its own B lanes. Their random
        draws differ, except the one per batch: whether a search is full is the same for all.
    """
    return _start(config, jax.random.key(seed), jnp.int32(shard))


@functools.partial(jax.jit, static_argnums=0)
def _start(config: SelfPlayConfig, seed_key: jax.Array, shard: jax.Array) -> SelfPlayLanes:
    own_key, batch_key = jax.random.split(seed_key)
    keys = jax.random.split(jax.random.fold_in(own_key, shard), 5)
    key, new_key, opening_key, resign_key, phase_key = keys
    game, new_games = config.game, _new_games(config, new_key)
    states, plies = openings.scatter_phases(game, phase_key, new_games, config.first_plies)
    ended = openings.is_over(game, states)
    states = openings.rewind(game, ended, new_games, states)
    resign_config, tree = config.resign, None
    if config.reuse_subtree:
        roots = positions_of(game, states)
        tree = reuse.empty(roots, game.num_actions, config.search, config.prior_counts)
    return SelfPlayLanes(
        states=states,
        opening=config.openings.draw(opening_key, config.batch),
        game=jnp.arange(config.batch, dtype=jnp.int32),
        next_game=jnp.int32(config.batch),
        moves=jnp.int32(0),
        resignation=resign_config and resignation.start(resign_config, resign_key, config.batch),
        key=key,
        batch_key=batch_key,
        ply=jnp.where(ended, 0, plies).astype(jnp.int16) if game.points is None else None,
        tree=tree,
    )


def _new_games(config: SelfPlayConfig, key: jax.Array) -> Any:
    """[B] new games, each with its own random draws."""
    points = config.game.points
    if points is None:
        return jax.vmap(config.game.init)(jax.random.split(key, config.batch))
    komi = jax.random.choice(key, jnp.asarray(config.komi, jnp.float32), (config.batch,))
    return jax.vmap(points.new)(komi)


def memory(config: SelfPlayConfig) -> Memory:
    """The memory of the trees of the largest search, computed without allocating them."""
    states = jax.eval_shape(lambda: start(config, 0)).states
    sizes = [
        search_memory(config.game, states, settings, config.reuse_subtree, config.prior_counts)
        for settings in config.searches
    ]
    return max(sizes, key=lambda size: size.total)


def start_on(config: SelfPlayConfig, seed: int, mesh: Mesh) -> SelfPlayLanes:
    """The first games on each device of a mesh (`devices.make_mesh`), each with its share of the
    batch: arrays [D, ...]."""
    device_config = _share(config, mesh)
    start_share = lambda: devices.stack(start(device_config, seed, lax.axis_index(devices.AXIS)))
    return devices.on_each(mesh, start_share, (), DIVIDED)()


def _share(config: SelfPlayConfig, mesh: Mesh) -> SelfPlayConfig:
    if config.batch % mesh.size:
        raise ValueError(f"batch: {config.batch} is not a multiple of the {mesh.size} devices")
    return dataclasses.replace(config, batch=config.batch // mesh.size)


def make_play_moves(
    config: SelfPlayConfig, evaluator: Evaluator, num_moves: int, mesh: Mesh | None = None
) -> Callable[[Any, SelfPlayLanes], tuple[SelfPlayLanes, Move]]:
    """``play_moves(params, lanes) -> (lanes, moves[num_moves, B])``, jitted; lanes are donated.

    Args:
      config, evaluator: the settings and the evaluator of the games.
      num_moves: T, the moves of each lane in a call.
      mesh: the mesh of devices that hold the lanes, as `start_on` made them. They search their
        shares without waiting for each other; device d plays games d, d + D, d + 2 D and so on.

    With `SelfPlayConfig.resign`, each call ends by calibrating the threshold on the games so far,
    those of all devices.
    """
    if mesh is None:
        play = functools.partial(_play_moves, config, evaluator, num_moves)
        return jax.jit(play, donate_argnums=1)
    device_config = _share(config, mesh)

    def of_one_device(params: Any, lanes: SelfPlayLanes) -> tuple[SelfPlayLanes, Move]:
        shard = mesh.size, lax.axis_index(devices.AXIS), devices.AXIS
        lanes, moves = _play_moves(
            device_config, evaluator, num_moves, params, devices.unstack(lanes), *shard
        )
        return devices.stack(lanes), moves

    return devices.on_each(
        mesh, of_one_device, (EVERYWHERE, DIVIDED), (DIVIDED, devices.BY_LANE), donated=1
    )


def _play_moves(
    config: SelfPlayConfig,
    evaluator: Evaluator,
    num_moves: int,
    params: Any,
    lanes: SelfPlayLanes,
    num_shards: int = 1,
    shard: int | jax.Array = 0,
    axis: str | None = None,
) -> tuple[SelfPlayLanes, Move]:
    params = evaluator._replace(params=params).prepared().params  # once, not at every move

    def one(lanes: SelfPlayLanes, _: None) -> tuple[SelfPlayLanes, Move]:
        lanes, new_move = move(config, evaluator, params, lanes)
        return lanes, new_move._replace(prior=None, raw_value=None)

    lanes, moves = lax.scan(one, lanes, length=num_moves)
    lanes = lanes.replace(resignation=resignation.recalibrate(lanes.resignation, axis))
    number = moves.game * num_shards + shard
    if config.num_games is not None:
        number = jnp.where(number < config.num_games, number, NO_GAME)
    return lanes, moves._replace(game=number)


def move(
    config: SelfPlayConfig,
    evaluator: Evaluator,
    params: Any,
    lanes: SelfPlayLanes,
    num_simulations: int | None = None,
) -> tuple[SelfPlayLanes, Move]:
    """Play one move in every lane; a lane whose game ends then starts the next game.

    Args:
      config: the settings.
      evaluator: evaluates positions; its own `params` are ignored.
      params: the evaluator's parameters.
      lanes: the games.
      num_simulations: simulations of a full search, one of the numbers that the config allows;
        static. None: the config's own.
    """
    game, before = config.game, lanes.states
    position = positions_of(game, before)
    ply: Any = lanes.ply if game.points is None else jax.vmap(game.points.ply)(position)
    keys = stages.split_key(lanes.key, 5)
    key, search_key, choice_key, opening_key, reset_key = keys
    full = jnp.bool_(True)
    if config.cap is not None:
        full = config.cap.is_full(jax.random.fold_in(lanes.batch_key, lanes.moves))
    settings = config.full_search(num_simulations)
    evaluator = evaluator._replace(params=params)
    result = _search(config, settings, evaluator, search_key, before, lanes.tree, full)

    in_opening = ply < lanes.opening
    assert result.prior is not None  # every search returns it
    legal = result.prior >= 0
    action = _choose(config, settings, choice_key, result, ply)
    is_random = ply == lanes.opening - 1 if config.openings.last_only else in_opening
    action = jnp.where(is_random, openings.any_play(game, opening_key, legal), action)
    resign_state, resigned = _consider(lanes.resignation, result, ply, in_opening)
    after = jax.vmap(game.play)(before, action)
    new_move = Move(
        game=lanes.game,
        position=position,
        ply=ply,
        legal=legal,
        policy_target=result.policy_target,
        surprise=divergence(result.policy_target, result.prior),
        root_value=result.value if config.root_value == "mean" else policy_value(result),
        action=jnp.where(resigned, NO_ACTION, action),
        full=jnp.broadcast_to(full, resigned.shape),
        ok=result.ok,
        counts=result.ok & ~in_opening,
        resigned=resigned,
        prior=result.prior,
        raw_value=result.raw_value,
        **_end(game, after, ply, resigned),
    )
    tree = result.tree
    if tree is not None:
        tree = reuse.reroot(tree, jnp.where(new_move.ended, NO_ACTION, action))
    lanes = lanes.replace(
        states=after, moves=lanes.moves + 1, key=key, resignation=resign_state, tree=tree
    )
    return _begin_next(config, reset_key, lanes, new_move), new_move


def _search(config, settings, evaluator, key, states, tree, full) -> SearchResult:
    """The full search with these settings, or the cheap one, with its trees if they are reused.

    Without the fields that not every search has: both branches return the same ones.
    """

    def run(settings: SearchConfig) -> SearchResult:
        keeps = tree is not None
        result = search(config.game, evaluator, key, states, settings, tree, keep_tree=keeps)
        return result._replace(evaluations=None, proven=None)

    if config.cap is None:
        return run(settings)
    cheap = config.cap.cheap
    return lax.cond(full, lambda: run(settings), lambda: run(cheap))


def policy_value(result: SearchResult) -> jax.Array:
    """f32[B], for the mover: `gumbel.value_of_policy` of the policy targets at the roots."""

    def of_game(policy, prior, visits, q, value, raw_value):
        return value_of_policy(policy, Edges(prior, visits, q, value, visits.sum(), raw_value))

    fields = result.prior, result.visits, result.q, result.value, result.raw_value
    return jax.vmap(of_game)(result.policy_target, *fields)


def _choose(config, settings, key, result: SearchResult, ply: jax.Array) -> jax.Array:
    """i32[B]: the action to play outside the random opening.

    Visits that were only forced count neither for the policy target nor here, as in KataGo.
    """
    assert result.prior is not None
    temperature = config.schedule(ply)
    keys = jax.random.split(key, temperature.shape[0])
    forces = isinstance(settings.root_select, ForcedPlayouts)
    visits = result.policy_target if forces else result.visits
    sampled = jax.vmap(move_choice.by_visits)(keys, visits, result.prior, temperature)
    if not settings.plays_by_rule:
        return sampled
    return jnp.where(temperature > 0, sampled, result.action)


def divergence(target: jax.Array, prior: jax.Array) -> jax.Array:
    """f32[B]: KL(target || prior) of policies [B, A]; 0 log 0 is 0."""
    tiny = np.finfo(np.float32).tiny
    ratio = jnp.log(jnp.maximum(target, tiny)) - jnp.log(jnp.maximum(prior, tiny))
    return jnp.sum(jnp.where(target > 0, target * ratio, 0.0), axis=1)


def _consider(state, result: SearchResult, ply, in_opening) -> tuple[Resignation | None, jax.Array]:
    """(the updated resignation state, bool[B] whether the mover resigns)."""
    if state is None:
        return None, jnp.zeros(in_opening.shape, bool)
    standing = jax.vmap(move_choice.standing)(result.value, result.visits, result.q)
    may_resign = result.ok & ~in_opening
    standing = jnp.where(may_resign, standing, jnp.inf)
    return resignation.consider(state, standing, (ply % 2).astype(jnp.int8), ply)


def _end(game: Game, after: Any, ply: jax.Array, resigned: jax.Array) -> dict[str, Any]:
    """The fields of `Move` about how games end.

    Only finished games are scored, so scoring costs nothing in the others.
    """
    sign = jnp.where(ply % 2 == 0, 1.0, -1.0)  # +1 where the first player is the mover
    over, points = openings.is_over(game, after) & ~resigned, game.points
    if points is None:
        value = -sign * jax.vmap(game.outcome)(after)[1]  # the opponent is to move
        by_points = {}
    else:
        score, area = jax.vmap(points.score)(after, over)
        truncated = jax.vmap(points.truncated)(after) & ~resigned
        value = jnp.sign(score)
        komi = jax.vmap(points.komi)(after)
        by_points = {"komi": komi, "truncated": truncated, "score": score, "area": area}
    outcome = jnp.where(resigned, -sign, jnp.where(over, value, 0.0))
    return {"ended": over | resigned, "outcome": outcome, **by_points}


def _begin_next(
    config: SelfPlayConfig, key: jax.Array, lanes: SelfPlayLanes, last_move: Move
) -> SelfPlayLanes:
    """Begin the next game, with its own random draws, in every lane whose game has ended."""
    new_key, opening_key, resign_key = stages.split_key(key, 3)
    ended = last_move.ended
    resign_state, settings = lanes.resignation, config.resign
    if resign_state is not None and settings is not None:
        truncated = jnp.zeros_like(ended) if last_move.truncated is None else last_move.truncated
        resign_state = resignation.close(
            settings, resign_state, resign_key, ended, truncated, last_move.outcome
        )
    number = lanes.next_game + indexing.ranks(ended)
    plies = config.openings.draw(opening_key, config.batch)
    new_games = _new_games(config, new_key)
    return lanes.replace(
        states=openings.rewind(config.game, ended, new_games, lanes.states),
        opening=jnp.where(ended, plies, lanes.opening),
        game=jnp.where(ended, number, lanes.game),
        next_game=lanes.next_game + indexing.count_true(ended),
        resignation=resign_state,
        ply=None if lanes.ply is None else jnp.where(ended, 0, lanes.ply + 1).astype(jnp.int16),
    )
