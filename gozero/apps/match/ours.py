"""The sides of a match that are ours: one compiled player each, for a batch of games at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import jax

from gozero.apps.match.config import SIDES, MatchConfig
from gozero.apps.match.worker import GameWorker
from gozero.go.rules import Rules
from gozero.play import devices
from gozero.play.lockstep import PLIES, LockstepPlayer
from gozero.play.setups import make_player


class Ours:
    """Players in batches of lanes; what they know of a batch's games stays with it.

    Attributes:
      about: what the evaluators are, by the names of the sides.
      num_batches: two, if games are played at once: while one is searched, the programs of the
        other think. Without a program one has the even games and the other the odd ones, and so the
        same side is to move in all of a batch's games that keep step.

    Raises:
      ValueError: flags that do not go together, or bad weights.
    """

    def __init__(self, config: MatchConfig, rules: Rules):
        self.config, self.rules = config, rules
        self._made = [
            make_player(rules, side, config.seed, side.reuse) if side.command is None else None
            for side in config.sides
        ]
        self.about = {
            name: made.about
            for name, made in zip(SIDES, self._made, strict=True)
            if made is not None
        }
        self.all_ours = None not in self._made
        self._players: list[LockstepPlayer | None] = [None, None]
        self._memories: dict[tuple[int, int], Any] = {}
        self.lanes, self.num_batches = 1, 1
        self.seconds = 0.0  # of the last search

    def prepare(self, parallel: int, session: int) -> None:
        """Compile for so many games at once; another session has other random numbers."""
        some_ours = any(player is not None for player in self._made)
        self.num_batches = 2 if some_ours and parallel > 1 else 1
        lanes = -(-parallel // self.num_batches)
        mesh = devices.make_mesh(lanes, round_up=True)
        self.lanes = lanes + -lanes % mesh.size
        session_key = jax.random.fold_in(jax.random.key(self.config.seed), session)
        for i, made in enumerate(self._made):
            if made is None:
                continue
            key = jax.random.fold_in(session_key, i)
            player = LockstepPlayer(self.rules, made.player, self.lanes, key, mesh)
            room = made.room(self.lanes)
            on = f", {mesh.size} devices" if mesh.size > 1 else ""
            print(f"{SIDES[i]}: {room}{on}; compiling ...", end=" ", file=sys.stderr, flush=True)
            started = time.perf_counter()
            player.compile()
            print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
            self._players[i] = player
            for batch in range(self.num_batches):
                self._memories[i, batch] = player.new_memory()

    def choose(
        self, side: int, batch: int, games: Mapping[int, GameWorker]
    ) -> dict[int, int | None]:
        """An action for each of a batch's lanes that are given, in all of which a side moves; None
        where it resigns."""
        player = self._players[side]
        assert player is not None
        started = time.monotonic()
        memory = self._memories.pop((side, batch))
        since = {lane: game.since(PLIES) for lane, game in games.items()}
        moves, self._memories[side, batch] = player.choose(
            {lane: game.state for lane, game in games.items()},
            memory,
            {lane: actions for lane, actions in since.items() if actions is not None},
        )
        self.seconds = time.monotonic() - started
        if not all(moves.ok[lane] for lane in games):
            print(f"{SIDES[side]}: the evaluator gave a number that is not finite", file=sys.stderr)
        return {lane: None if moves.resigns[lane] else int(moves.action[lane]) for lane in games}
