"""Self-play without end, for training: as soon as a game ends its lane starts the next one.

`move` plays one move of B lanes; what is carried is one pytree of arrays, `Lanes`, that goes on
from call to call. What a move returns is what is learnt from it; the rows of a game lie in
`train.games` until the game has ended.

Lanes never reach their ends together. They would if all first games began at once, for then they
would all be in the opening first and all in the endgame later, and so would every batch that is
learnt from; so each lane's first game begins after another number of random plies. (Games of a
new network are not much else, and random plies are no searches; games cut short would be.)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.go import bitboard as bb
from gozero.go import scoring
from gozero.go.rules import WHITE, GameState, Position, Rules, init, play
from gozero.play import openings, resignation, selfplay
from gozero.play.openings import Openings
from gozero.play.player import any_of
from gozero.play.playout_cap import PlayoutCap
from gozero.play.resignation import Resignation, ResignConfig
from gozero.play.selfplay import Searched, check_search
from gozero.search import move_choice
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluate, Game
from gozero.search.memory import Memory, memory_of
from gozero.search.move_choice import Temperature

NO_ACTION = -1
"""What is played where a player resigns."""


@dataclasses.dataclass(frozen=True)
class EndlessConfig:
    """Static settings.

    Attributes:
      rules: the rules.
      komi: points for White, one number or several: each game draws one of them, all alike.
      batch: B, lanes.
      search: the search of every move, or of those that are searched in full.
      temperature: by moves into a game: where it is above 0, the move is drawn by the visits, also
        under a root rule that says what is played; where it is 0, that rule or the visits decide.
        None: 0 under such a rule, for sequential halving spreads its visits and they say little of
        what is good; else 1 for the first moves, 30 of them on 19x19 and as many fewer as the
        board has fewer lines, then 0.
      openings: plies of each game that are drawn at random. Nothing is learnt from them.
      cap: cheap searches between the full ones; None: all are full.
      resign: how resigning is watched; None: no one resigns.
      stagger: the first game of each lane begins after 0 to so many random plies; None for
        size^2, about the length of a game.
      more_simulations: other numbers of simulations that a full search may be asked to have, from
        call to call; each is compiled once.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    rules: Rules
    komi: float | Sequence[float]
    batch: int
    search: SearchConfig
    temperature: Temperature | None = None
    openings: Openings = Openings()  # noqa: RUF009 (frozen)
    cap: PlayoutCap | None = None
    resign: ResignConfig | None = None
    stagger: int | None = None
    more_simulations: tuple[int, ...] = ()

    def __post_init__(self):
        values = tuple(float(komi) for komi in np.atleast_1d(np.asarray(self.komi, np.float64)))
        object.__setattr__(self, "komi", values)  # hashable, whatever it was given as
        if not values:
            raise ValueError("komi: no value to draw from; give one or more")
        for komi in values:
            init(self.rules, komi)  # refuses a komi that is none
        if self.batch < 1:
            raise ValueError(f"batch: {self.batch} is not at least 1")
        if not 0 <= self.first_plies < self.rules.move_limit:
            raise ValueError(
                f"stagger: {self.stagger} plies are not from 0 to {self.rules.move_limit - 1}"
            )
        if self.openings.most >= self.rules.move_limit:
            raise ValueError(
                f"openings: {self.openings.most} plies are a whole game; the move limit is "
                f"{self.rules.move_limit}"
            )
        for search in self.searches:
            check_search(search, self.batch)

    @property
    def first_plies(self) -> int:
        """The most random plies before the first game of a lane."""
        if self.stagger is not None:
            return self.stagger
        return min(self.rules.num_points, self.rules.move_limit - 1)

    @property
    def schedule(self) -> Temperature:
        """The temperature of each move."""
        if self.temperature is not None:
            return self.temperature
        drawn = not selfplay.says_what_is_played(self.search)
        return Temperature(moves=30 * self.rules.size // 19 if drawn else 0)

    @property
    def searches(self) -> tuple[SearchConfig, ...]:
        """All that may be made."""
        full = [self.full_search(n) for n in (self.search.num_simulations, *self.more_simulations)]
        return (*full, self.cap.cheap) if self.cap is not None else tuple(full)

    def full_search(self, num_simulations: int | None = None) -> SearchConfig:
        """The full search with another number of simulations; None for its own.

        Raises:
          ValueError: a number that the settings do not name.
        """
        allowed = (self.search.num_simulations, *self.more_simulations)
        if num_simulations is None or num_simulations == self.search.num_simulations:
            return self.search
        if num_simulations not in allowed:
            raise ValueError(
                f"num_simulations: {num_simulations} is not one of "
                f"{', '.join(map(str, sorted(allowed)))}; name it in more_simulations"
            )
        return dataclasses.replace(self.search, num_simulations=num_simulations)


class Lanes(flax.struct.PyTreeNode):
    """The games in play: all that self-play goes on from."""

    states: GameState  # [B]
    opening: jax.Array  # i32[B]: plies of the game that are drawn at random
    game: jax.Array  # i32[B]: the number of the game
    next_game: jax.Array  # i32[]
    moves: jax.Array  # i32[]: moves made by each lane
    resignation: Resignation | None
    key: jax.Array  # PRNG key
    batch_key: jax.Array  # PRNG key of what is drawn for all lanes at once, wherever they are


class Move(NamedTuple):
    """One searched move of B lanes, and how the game ended if it did."""

    game: jax.Array  # i32[B]
    position: Position  # [B], before the move
    komi: jax.Array  # f32[B]
    legal: jax.Array  # bool[B, A]
    policy_target: jax.Array  # f32[B, A]
    surprise: jax.Array  # f32[B]: KL(target || prior), in nats
    root_value: jax.Array  # f32[B], for the mover
    action: jax.Array  # i32[B]: NO_ACTION where he resigned
    full: jax.Array  # bool[B]: by a full search
    ok: jax.Array  # bool[B]: the search saw no nan
    counts: jax.Array  # bool[B]: something may be learnt: not random, and ok
    ended: jax.Array  # bool[B]: this was the last of the game
    resigned: jax.Array  # bool[B]: ... for the mover resigned
    truncated: jax.Array  # bool[B]: ... by the move limit
    outcome: jax.Array  # f32[B]: if ended, +1 Black has won, -1 White, 0 no one
    score: jax.Array  # f32[B]: if ended and not resigned, Black's area - White's - komi; else 0
    area: tuple[bb.Board, bb.Board]  # [B] each: then, Black's area and White's; else empty


def start(config: EndlessConfig, seed: int, shard: int = 0) -> Lanes:
    """The first games.

    Args:
      config: the settings.
      seed: of all chance.
      shard: which of several self-plays this is, each with B lanes of its own; they draw apart,
        except for what is drawn for a batch: whether a search is full is the same for all.
    """
    return _start(config, jax.random.key(seed), jnp.int32(shard))


@functools.partial(jax.jit, static_argnums=0)
def _start(config: EndlessConfig, seed_key: jax.Array, shard: jax.Array) -> Lanes:
    own_key, batch_key = jax.random.split(seed_key)
    keys = jax.random.split(jax.random.fold_in(own_key, shard), 5)
    key, komi_key, opening_key, may_key, phase_key = keys
    states = jax.vmap(functools.partial(init, config.rules))(_draw_komi(config, komi_key))
    states = openings.scatter_phases(config.rules, phase_key, states, config.first_plies)
    ended = jax.vmap(lambda state: state.ended)(states)
    watched = config.resign
    return Lanes(
        states=selfplay.begin_anew(config.rules, states, ended),
        opening=config.openings.draw(opening_key, config.batch),
        game=jnp.arange(config.batch, dtype=jnp.int32),
        next_game=jnp.int32(config.batch),
        moves=jnp.int32(0),
        resignation=watched and resignation.start(watched, may_key, config.batch),
        key=key,
        batch_key=batch_key,
    )


def _draw_komi(config: EndlessConfig, key: jax.Array) -> jax.Array:
    return jax.random.choice(key, jnp.asarray(config.komi, jnp.float32), (config.batch,))


def memory(config: EndlessConfig, prior_counts: bool = False) -> Memory:
    """What the trees of the largest search take, known before they are allocated.

    `prior_counts`: the evaluator has a heuristic whose values count as visits.
    """
    roots = jax.eval_shape(lambda: start(config, 0)).states.position
    of = functools.partial(memory_of, roots, config.rules.num_actions, prior_counts=prior_counts)
    sizes = map(of, config.searches)
    return max(sizes, key=lambda size: size.total)


def move(
    config: EndlessConfig,
    game: Game,
    evaluate: Evaluate,
    params: Any,
    lanes: Lanes,
    num_simulations: int | None = None,
) -> tuple[Lanes, Move]:
    """One move of every lane; a lane whose game it ends stands at the beginning of the next.

    Args:
      config: the settings.
      game: `go_game` of the rules; static.
      evaluate, params: as for `search`.
      lanes: the games.
      num_simulations: of a full search, one of those that the settings name; static. None for the
        config's own.
    """
    rules, before = config.rules, lanes.states
    position = before.position
    keys = jax.random.split(lanes.key, 5)
    key, search_key, choice_key, opening_key, reset_key = keys
    full = jnp.bool_(True)
    if config.cap is not None:
        full = config.cap.is_full(jax.random.fold_in(lanes.batch_key, lanes.moves))
    search = config.full_search(num_simulations)
    found = _search(config, search, game, evaluate, params, search_key, before, full)

    in_opening = position.ply < lanes.opening
    legal = found.prior >= 0
    action = _choose(config, search, choice_key, found, position.ply)
    action = jnp.where(in_opening, any_of(opening_key, legal[:, :-1]), action)
    watched, resigned = _consider(lanes.resignation, found, position, in_opening)
    after = jax.vmap(lambda state, a: play(rules, state, a))(before, action)
    end = _end(rules, after, position, resigned)
    made = Move(
        game=lanes.game,
        position=position,
        komi=before.komi,
        legal=legal,
        policy_target=found.policy_target,
        surprise=_divergence(found.policy_target, found.prior),
        root_value=found.value,
        action=jnp.where(resigned, NO_ACTION, action),
        full=jnp.broadcast_to(full, resigned.shape),
        ok=found.ok,
        counts=found.ok & ~in_opening,
        **end,
    )
    lanes = lanes.replace(states=after, moves=lanes.moves + 1, key=key, resignation=watched)
    return _begin_next(config, reset_key, lanes, made), made


def _search(config, search, game, evaluate, params, key, states, full) -> Searched:
    def searched(settings: SearchConfig) -> Searched:
        return selfplay.search_states(game, evaluate, params, key, states, settings)[0]

    if config.cap is None:
        return searched(search)
    cheap = config.cap.cheap
    return lax.cond(full, lambda: searched(search), lambda: searched(cheap))


def _choose(config, search, key, found: Searched, ply: jax.Array) -> jax.Array:
    """i32[B]: what is played where nothing is random."""
    temperature = config.schedule(ply)
    drawn = selfplay.by_visits(key, found, temperature)
    if not selfplay.says_what_is_played(search):
        return drawn
    return jnp.where(temperature > 0, drawn, found.action)


def _divergence(target: jax.Array, prior: jax.Array) -> jax.Array:
    """f32[B]: KL(target || prior) of policies [B, A]; 0 log 0 is 0."""
    tiny = np.finfo(np.float32).tiny
    ratio = jnp.log(jnp.maximum(target, tiny)) - jnp.log(jnp.maximum(prior, tiny))
    return jnp.sum(jnp.where(target > 0, target * ratio, 0.0), axis=1)


def _consider(state, found: Searched, position, in_opening) -> tuple[Resignation | None, jax.Array]:
    """(what is known of resigning, who resigns bool[B])."""
    if state is None:
        return None, jnp.zeros(in_opening.shape, bool)
    standing = jax.vmap(move_choice.standing)(found.value, found.visits, found.q)
    asked = found.ok & ~in_opening
    standing = jnp.where(asked, standing, jnp.inf)
    return resignation.consider(state, standing, position.to_play, position.ply)


def _end(rules: Rules, after: GameState, position: Position, resigned: jax.Array) -> dict[str, Any]:
    """How games end that do: those fields of `Move`.

    Only boards of finished games are scored; the others flood nothing.
    """
    over = jax.vmap(lambda state: state.ended)(after) & ~resigned
    stones = [bb.keep(over, board) for board in (after.position.black, after.position.white)]
    area = jax.vmap(functools.partial(scoring.territory, rules))(*stones)
    difference = (bb.count(area[0]) - bb.count(area[1])).astype(jnp.float32)
    score = jnp.where(over, difference - after.komi, 0.0)
    for_black = jnp.where(position.to_play == WHITE, 1.0, -1.0)  # where the mover resigns
    return {
        "ended": over | resigned,
        "resigned": resigned,
        "truncated": after.truncated & ~resigned,
        "outcome": jnp.where(resigned, for_black, jnp.sign(score)),
        "score": score,
        "area": area,
    }


def _begin_next(config: EndlessConfig, key: jax.Array, lanes: Lanes, made: Move) -> Lanes:
    """The next game in every lane whose game has ended, with draws of its own."""
    komi_key, opening_key, may_key = jax.random.split(key, 3)
    ended = made.ended
    states = selfplay.begin_anew(config.rules, lanes.states, ended)
    plies = config.openings.draw(opening_key, config.batch)
    watched, settings = lanes.resignation, config.resign
    if watched is not None and settings is not None:
        watched = resignation.close(settings, watched, may_key, ended, made.truncated, made.outcome)
    number = lanes.next_game + jnp.cumsum(ended, dtype=jnp.int32) - 1
    return lanes.replace(
        states=states.replace(komi=jnp.where(ended, _draw_komi(config, komi_key), states.komi)),
        opening=jnp.where(ended, plies, lanes.opening),
        game=jnp.where(ended, number, lanes.game),
        next_game=lanes.next_game + jnp.sum(ended, dtype=jnp.int32),
        resignation=watched,
    )
