"""Random openings: the first plies of a game that are drawn, so that no two games are alike."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from gozero.go.rules import GameState, Rules, legal_actions, play
from gozero.play.player import Turn, random_player


@dataclasses.dataclass(frozen=True)
class Openings:
    """How many plies of each game are drawn at random: uniformly from `least` to `most`.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    least: int = 0
    most: int = 0

    def __post_init__(self):
        if self.least < 0:
            raise ValueError(f"least: {self.least} plies are not at least 0")
        if self.most < self.least:
            raise ValueError(f"most: {self.most} plies are not at least {self.least}, the least")

    def draw(self, key: jax.Array, num_games: int) -> jax.Array:
        """i32[B]: the plies of so many games."""
        return jax.random.randint(key, (num_games,), self.least, self.most + 1)


def scatter_phases(rules: Rules, key: jax.Array, states: GameState, most: int) -> GameState:
    """[B] games, each after another number of random plies, uniformly from 0 to `most`.

    Plies are legal, and fill no eye of their own. A game that they end stands at its end.
    """
    number_key, ply_key = jax.random.split(key)
    num_games = states.komi.shape[0]
    plies = jax.random.randint(number_key, (num_games,), 0, most + 1)
    player = random_player(rules)

    def one_ply(i, states):
        legal = jax.vmap(lambda state: legal_actions(rules, state))(states)
        turn = Turn(states, legal, jnp.zeros((2, num_games), jnp.int32))
        action = player.choose(None, jax.random.fold_in(ply_key, i), turn, None).action
        after = jax.vmap(lambda state, a: play(rules, state, a))(states, action)
        goes_on = i < plies
        position, truncated = jax.tree.map(
            lambda new, old: jnp.where(goes_on, new, old),
            (after.position, after.truncated),
            (states.position, states.truncated),
        )
        # What is written to the past of a game that stands still lies beyond its length.
        return after.replace(position=position, truncated=truncated)

    return lax.fori_loop(0, most, one_ply, states)
