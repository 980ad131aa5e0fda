"""The games that queries are about, each replayed from the longest cached prefix."""

from __future__ import annotations

import collections
from typing import Any

import jax
import numpy as np

from gozero.apps.analysis.query import Query, QueryError
from gozero.apps.host_game import HostGame, IllegalMove, ample_move_limit
from gozero.apps.restricted import RestrictedState, to_analyse
from gozero.go import coords
from gozero.go.coords import KoRule
from gozero.go.rules import GameState, Rules, with_to_play
from gozero.go.setup import from_points

KEPT_BYTES = 2**27
"""About the most bytes of cached games: some thousands of games on 9x9, hundreds on 19x19."""

RulesKey = tuple[int, KoRule, bool, bool]
"""Size, ko, suicide, and whether simple ko remembers earlier boards."""


def rules_of(key: RulesKey) -> Rules:
    """The rules of a query."""
    size, ko, suicide, remember = key
    return Rules(size, ko, suicide, ample_move_limit(size), remember)


class Positions:
    """A cache of games, by the rules, stones and moves that led to them."""

    def __init__(self):
        self._states: collections.OrderedDict[Any, GameState] = collections.OrderedDict()

    def check(self, query: Query, key: RulesKey) -> None:
        """Replay all moves of a query.

        Raises:
          QueryError: stones have no liberties, or a move, which the text names, is illegal.
        """
        self._state(query, len(query.moves), key)

    def to_search(self, query: Query, turn: int, key: RulesKey) -> RestrictedState:
        """The game after `turn` moves, `to_analyse`, with the query's player to move and White's
        bonus for handicap stones in the komi, and the moves to avoid."""
        state = to_analyse(with_to_play(self._state(query, turn, key), query.mover(turn)))
        state = state.replace(komi=np.float32(query.komi + query.handicap_bonus(turn)))
        avoid = np.zeros((2, query.size**2 + 1), np.int32)
        for player_and_action, depth in query.avoid.items():
            avoid[player_and_action] = depth
        return RestrictedState(jax.device_get(state), avoid)

    def _state(self, query: Query, turn: int, key: RulesKey) -> GameState:
        rules = rules_of(key)
        start_key = key, query.stones, query.first, query.komi
        num_known = next(
            (n for n in range(turn, 0, -1) if (start_key, query.moves[:n]) in self._states), 0
        )
        if num_known:
            self._states.move_to_end((start_key, query.moves[:num_known]))
            start_state = self._states[start_key, query.moves[:num_known]]
        else:
            start_state = self._start(rules, query)
        game = HostGame(rules, start=start_state)
        size = sum(x.nbytes for x in jax.tree.leaves(start_state))
        for number, (colour, action) in enumerate(query.moves[num_known:turn], start=num_known + 1):
            try:
                game.play(colour, action)
            except IllegalMove as error:
                vertex = coords.to_gtp(query.size, action)
                message = f"Illegal move {number - 1}: {vertex} ({error})"
                raise QueryError("moves", message) from error
            self._states[start_key, query.moves[:number]] = game.state
            while len(self._states) * size > KEPT_BYTES:
                self._states.popitem(last=False)
        return game.state

    def _start(self, rules: Rules, query: Query) -> GameState:
        black, white = (
            [p for stone_colour, p in query.stones if stone_colour == colour] for colour in (0, 1)
        )
        try:
            return from_points(rules, black, white, query.mover(0), query.komi)
        except ValueError as error:
            raise QueryError("initialStones", str(error)) from error
