"""Self-play on the device: B lanes play in lockstep, and a finished lane starts its next game.

`play_moves` is one jitted call: a scan over moves, each a search of all lanes. It returns
what every lane did at every move; the host keeps the rows of a game until the game ends. Several
devices search their shares of the lanes, and number the games together.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from gozero.games.go import go_game
from gozero.go import scoring
from gozero.go.rules import GameState, Position, Rules, empty_position, init, play
from gozero.play import devices
from gozero.play.devices import DIVIDED, EVERYWHERE
from gozero.play.evaluators import Evaluator
from gozero.search import move_choice, reuse, root
from gozero.search import tree as trees
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluate, Game
from gozero.search.memory import Memory, memory_of
from gozero.search.move_choice import Temperature
from gozero.search.search import search
from gozero.search.tree import Tree

NO_GAME = -1
"""The number of a lane's game once no games are left to start."""


@dataclasses.dataclass(frozen=True)
class SelfPlayConfig:
    """Static settings of self-play.

    Attributes:
      rules: the rules.
      komi: points for White.
      num_games: games to play in all.
      batch: lanes, games played at once.
      search: the search of every move; its temperature and final move are not used. A root rule
        that says what is played does so at every move, whatever the temperature.
      temperature_moves: moves of a game drawn in proportion to the visits; after them the
        most visited is played.
      temperature: another schedule than that, by moves into the game.
      prior_counts: the evaluator has a heuristic whose values count as visits; trees that are
        reused have room for them.
      reuse_subtree: a search goes on from what the last one found below the move played; give
        `search` room for it, see `SearchConfig.roomy`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    rules: Rules
    komi: float
    num_games: int
    batch: int
    search: SearchConfig
    temperature_moves: int = 16
    reuse_subtree: bool = False
    temperature: Temperature | None = None
    prior_counts: bool = False

    def __post_init__(self):
        for name, least in (("num_games", 1), ("batch", 1), ("temperature_moves", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least {least}")
        check_search(self.search, self.batch)
        self.search.check_with(tree=self.reuse_subtree)
        init(self.rules, self.komi)  # refuses a komi that is none

    @property
    def schedule(self) -> Temperature:
        """The temperature of each move."""
        return self.temperature or Temperature(moves=self.temperature_moves)


def check_search(search: SearchConfig, batch: int) -> None:
    """Refuse a search that self-play cannot have, in so many lanes.

    Raises:
      ValueError: trees of more rows than can be; a search of several trees, or one that is for
        playing, and spoils what is learnt from it.
    """
    if batch * search.num_nodes > trees.MAX_ROWS:
        raise ValueError(
            f"batch: {batch} trees of {search.num_nodes} nodes are more than {trees.MAX_ROWS} "
            "rows; lower the batch or the simulations"
        )
    if search.ensemble is not None:
        raise ValueError("search: an ensemble is several trees for a game; self-play has one")
    if search.early_stop:
        raise ValueError(
            "search: early_stop is for playing, and spoils the policy targets; leave it out"
        )
    if search.prove:
        raise ValueError(
            "search: prove is for playing; targets and moves are of visits, which a proof leaves "
            "behind; leave it out"
        )


def search_config(
    rules: Rules, evaluator: Evaluator, num_simulations: int, reuse_subtree: bool = False
) -> SearchConfig:
    """The search that self-play uses: the evaluator's rule, and noise scaled to the board."""
    config = SearchConfig(
        num_simulations=num_simulations,
        select=evaluator.select,
        dirichlet_fraction=0.25,
        dirichlet_alpha=root.board_alpha(rules.num_points),
    )
    return config.roomy if reuse_subtree else config


class Lanes(flax.struct.PyTreeNode):
    """The games in play; donated from call to call."""

    states: GameState  # [B]
    game: jax.Array  # i32[B]: the number of each lane's game, NO_GAME if it has none
    next_game: jax.Array  # i32[]: the number of the next game to start
    key: jax.Array  # PRNG key
    tree: Tree | None = None  # re-rooted at the states; None if trees are not reused


class Row(NamedTuple):
    """One searched move of one lane; self-play returns them as [T, B]."""

    game: jax.Array  # i32: NO_GAME: ignore the row
    position: Position  # before the move
    legal: jax.Array  # bool[A]
    policy_target: jax.Array  # f32[A]
    action: jax.Array  # i32
    root_value: jax.Array  # f32, for the mover
    ok: jax.Array  # bool: the search saw no nan
    ended: jax.Array  # bool: this move ended the game
    truncated: jax.Array  # bool: ... by the move limit
    score: jax.Array  # f32: area score for Black after the move, komi counted


def start(config: SelfPlayConfig, seed: int, mesh: Mesh | None = None) -> Lanes:
    """The first games, one a lane, on the devices of a mesh, `devices.make_mesh`; None: on one."""
    lanes = _first_lanes(config, seed)
    return lanes if mesh is None else jax.device_put(lanes, _lie(lanes, mesh))


def _lie(lanes: Lanes, mesh: Mesh) -> Lanes:
    """Where the arrays lie: those of all lanes are divided."""
    whole, divided = (NamedSharding(mesh, spec) for spec in (EVERYWHERE, DIVIDED))
    return jax.tree.map(lambda _: divided, lanes).replace(next_game=whole, key=whole)


def _first_lanes(config: SelfPlayConfig, seed: int) -> Lanes:
    number = jnp.arange(config.batch, dtype=jnp.int32)
    states = jax.vmap(lambda _: init(config.rules, config.komi))(number)
    tree = None
    if config.reuse_subtree:
        num_actions = config.rules.num_actions
        tree = reuse.empty(states.position, num_actions, config.search, config.prior_counts)
    return Lanes(
        states=states,
        game=jnp.where(number < config.num_games, number, NO_GAME),
        next_game=jnp.int32(min(config.batch, config.num_games)),
        key=jax.random.key(seed),
        tree=tree,
    )


def memory(config: SelfPlayConfig) -> Memory:
    """What the search trees take, known before they are allocated."""
    roots = jax.eval_shape(lambda: start(config, 0)).states.position
    num_actions, reused = config.rules.num_actions, config.reuse_subtree
    return memory_of(roots, num_actions, config.search, reused, config.prior_counts)


def make_play_moves(
    config: SelfPlayConfig, evaluator: Evaluator, num_moves: int, mesh: Mesh | None = None
) -> Callable[[Any, Lanes], tuple[Lanes, Row]]:
    """``play_moves(params, lanes) -> (lanes, rows[num_moves, B])``, jitted; lanes are donated.

    Args:
      config, evaluator: what is played.
      num_moves: of a call.
      mesh: of the devices on which the lanes lie, see `start`; what is drawn depends on how many
        they are.
    """
    game = go_game(config.rules, evaluator.observe)
    played = in_share = functools.partial(_played, config, game, evaluator.evaluate)
    if mesh is not None:
        own = lambda params, keys, *more: in_share(params, jax.vmap(devices.own_key)(keys), *more)
        specs = EVERYWHERE, EVERYWHERE, DIVIDED, DIVIDED, DIVIDED
        played = devices.over_devices(own, mesh, specs)

    def play_moves(params, lanes):
        def move(lanes, _):
            key, *keys = jax.random.split(lanes.key, 3)
            args = lanes.states, lanes.game, lanes.tree
            states, tree, row = played(params, jnp.stack(keys), *args)
            return _restart_ended(config, lanes.replace(states=states, key=key, tree=tree)), row

        lanes, rows = lax.scan(move, lanes, length=num_moves)
        if mesh is not None:
            lanes = lax.with_sharding_constraint(lanes, _lie(lanes, mesh))
        return lanes, rows

    return jax.jit(play_moves, donate_argnums=1)


class Searched(NamedTuple):
    """What a search says of [B] games, without its trees."""

    action: jax.Array  # i32[B]: what its root rule would play
    visits: jax.Array  # i32[B, A]
    q: jax.Array  # f32[B, A]
    policy_target: jax.Array  # f32[B, A]
    value: jax.Array  # f32[B], for the mover
    ok: jax.Array  # bool[B]: it saw no nan
    prior: jax.Array  # f32[B, A]: the root's, noise and all; -inf where illegal


def search_states(
    game: Game,
    evaluate: Evaluate,
    params: Any,
    key: jax.Array,
    states: GameState,
    config: SearchConfig,
    tree: Tree | None = None,
) -> tuple[Searched, Tree]:
    """Search [B] games from where they are; (what was found, the trees)."""
    found = search(game, Evaluator(evaluate, params), key, states, config, tree)
    prior = trees.all_edges(found.tree, trees.ROOT).prior
    kept = {name: getattr(found, name) for name in Searched._fields if name != "prior"}
    return Searched(**kept, prior=prior), found.tree


def by_visits(key: jax.Array, found: Searched, temperature: jax.Array) -> jax.Array:
    """i32[B]: actions drawn in proportion to the visits, at temperatures f32[B]."""
    keys = jax.random.split(key, temperature.shape[0])
    return jax.vmap(move_choice.by_visits)(keys, found.visits, found.prior, temperature)


def says_what_is_played(config: SearchConfig) -> bool:
    """Whether the root has a rule that chooses the action itself."""
    return config.plays_by_rule


def _played(
    config, game, evaluate, params, keys, states: GameState, number, tree: Tree | None
) -> tuple[GameState, Tree | None, Row]:
    """A move in [B] games of these numbers: (the states after it, the trees re-rooted, rows)."""
    search_key, choice_key = keys
    found, tree_after = search_states(
        game, evaluate, params, search_key, states, config.search, tree
    )
    action = found.action
    if not says_what_is_played(config.search):
        action = by_visits(choice_key, found, config.schedule(states.position.ply))

    after = jax.vmap(lambda state, a: play(config.rules, state, a))(states, action)
    row = Row(
        game=number,
        position=states.position,
        legal=found.prior >= 0,
        policy_target=found.policy_target,
        action=action,
        root_value=found.value,
        ok=found.ok,
        ended=after.ended,
        truncated=after.truncated,
        score=jax.vmap(lambda state: scoring.area_score(config.rules, state))(after),
    )
    if tree is not None:
        tree = reuse.reroot(tree_after, jnp.where(after.ended, -1, action))
    return after, tree, row


def _restart_ended(config: SelfPlayConfig, lanes: Lanes) -> Lanes:
    """Put the next game into every lane whose game has ended."""
    ended = lanes.states.ended
    number = lanes.next_game + jnp.cumsum(ended, dtype=jnp.int32) - 1
    number = jnp.where(number < config.num_games, number, NO_GAME)
    started = jnp.minimum(jnp.sum(ended, dtype=jnp.int32), config.num_games - lanes.next_game)
    return lanes.replace(
        states=begin_anew(config.rules, lanes.states, ended),
        game=jnp.where(ended, number, lanes.game),
        next_game=lanes.next_game + started,
    )


def begin_anew(rules: Rules, states: GameState, where: jax.Array) -> GameState:
    """[B] games, of which those of the mask bool[B] stand at their beginning; komi stays.

    A reset empties the position, and with its ply the history's length; the past boards stay
    where they are, for no one looks beyond the length.
    """
    fresh = empty_position(rules)
    position = jax.tree.map(lambda old, new: jnp.where(where, new, old), states.position, fresh)
    return states.replace(position=position, truncated=states.truncated & ~where)
