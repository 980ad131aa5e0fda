"""Self-play folders without self-play: random games, with targets that can be learnt."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from gozero.games.go import go_game
from gozero.go import scoring
from gozero.go.rules import Rules, init, legal_actions, play
from gozero.play import shards
from gozero.play.rows import FREQUENCY_UNIT, Rows, row_shapes, stored_policy
from gozero.play.shards import About, Place

KOMI = 0.5


def random_games(
    rules: Rules, num_games: int, num_moves: int, seed: int = 0
) -> tuple[Rows, np.ndarray]:
    """Uniformly random games: (rows in order of game, then of ply; the actions played).

    To give the network something to learn, one colour (White in even games) passes about half
    of its turns and so mostly loses, and the policy target prefers points near the centre. The
    games are scored after `num_moves` moves.
    """
    keys = jax.random.split(jax.random.key(seed), num_games)
    weak = 1 - jnp.arange(num_games) % 2
    moves, score = jax.vmap(lambda key, colour: _game(rules, num_moves, key, colour))(keys, weak)
    position, legal, target, action = jax.tree.map(
        lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), moves
    )
    count = num_games * num_moves
    for_mover = np.repeat(np.asarray(score), num_moves) * np.where(position.to_play == 0, 1, -1)
    blank = jax.tree.map(lambda x: np.zeros((count, *x.shape), x.dtype), row_shapes(go_game(rules)))
    ones = np.ones(count, np.float16)
    rows = blank.replace(
        position=position,
        legal=np.packbits(legal, axis=1),
        policy_target=stored_policy(np, target, np.uint8),
        outcome=np.sign(for_mover).astype(np.float32),
        game=np.repeat(np.arange(num_games, dtype=np.int32), num_moves),
        policy_weight=ones,
        value_weight=ones,
        komi=np.full(count, KOMI, np.float32),
        score=for_mover.astype(np.float32),
        score_weight=ones,
    )
    return rows, action


@functools.partial(jax.jit, static_argnums=(0, 1))
def _game(rules: Rules, num_moves: int, key: jax.Array, weak: jax.Array):
    """One game: ((position, legal, target, action), each [num_moves, ...]; score)."""
    away = jnp.abs(jnp.arange(rules.size) - rules.size // 2)
    near = jnp.append(-(away[:, None] + away[None, :]).reshape(-1), -jnp.inf).astype(jnp.float32)

    def move(state, key):
        legal = legal_actions(rules, state)
        candidates = legal.at[rules.pass_action].set(legal[:-1].sum() == 0)
        action = jax.random.categorical(key, jnp.where(candidates, 0.0, -jnp.inf))
        lazy = (state.to_play == weak) & jax.random.bernoulli(jax.random.fold_in(key, 1))
        action = jnp.where(lazy, rules.pass_action, action)
        target = jax.nn.softmax(jnp.where(candidates, jnp.maximum(near, -1e9), -jnp.inf))
        return play(rules, state, action), (state.position, legal, target, action)

    state, moves = lax.scan(move, init(rules, KOMI), jax.random.split(key, num_moves))
    return moves, scoring.area_score(rules, state)


def write_folder(folder: pathlib.Path, size: int = 5, num_games: int = 24) -> pathlib.Path:
    """Write a folder of two shards, as self-play does."""
    rules = Rules(size=size, ko="simple")
    for i in range(2):
        rows, _ = random_games(rules, num_games // 2, 16, seed=i)
        write_shard(folder, rules, rows.replace(game=rows.game + i * (num_games // 2)), i)
    return folder


def write_shard(
    folder: pathlib.Path, rules: Rules, rows: Rows, number: int = 0, frequency: ArrayLike = 1.0
) -> None:
    path = shards.path_of(folder, Place(number, "selfplay"))
    path.parent.mkdir(parents=True, exist_ok=True)
    about = About("selfplay", number, 1, -1, len(np.unique(rows.game)), len(rows.game))
    units = np.broadcast_to(np.asarray(frequency) * FREQUENCY_UNIT, len(rows.game))
    shards.write(path, shards.rules_of(rules), about, rows, units)
