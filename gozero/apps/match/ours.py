"""Our own players in a match: one side, in batches, against programs; or both, on the device."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.apps import rule_sets
from gozero.apps.match.config import SIDES, MatchConfig
from gozero.apps.match.openings import PairOpenings
from gozero.apps.match.referee import COLOURS, LETTERS, Outcome
from gozero.apps.match.score import GameLine
from gozero.apps.match.worker import GameWorker, game_comment, line_of
from gozero.apps.runtime import StopRequest
from gozero.apps.sgf import GameRecord
from gozero.games import registry
from gozero.games.go import go_game
from gozero.games.registry import NamedGame
from gozero.go.coords import result_text
from gozero.go.rules import BLACK, Rules
from gozero.play import arena, devices
from gozero.play.arena import FinishedGame
from gozero.play.lockstep import PLIES, LockstepPlayer
from gozero.play.player import Choice, Player
from gozero.play.setups import ConfiguredPlayer, make_player
from gozero.search.game import Game


def make_sides(config: MatchConfig, rules: Rules | Game) -> list[ConfiguredPlayer | None]:
    """The players of the sides; None for a program.

    Raises:
      ValueError: flags conflict, or weights are bad.
    """
    return [
        make_player(rules, side, config.seed, side.reuse) if side.command is None else None
        for side in config.sides
    ]


def evaluators(sides: Sequence[ConfiguredPlayer | None]) -> dict[str, dict]:
    """Descriptions of the evaluators of our sides, by side name."""
    pairs = zip(SIDES, sides, strict=True)
    return {name: side.about for name, side in pairs if side is not None}


def _session_key(config: MatchConfig, session: int) -> jax.Array:
    """The random key of a session, so that each session draws other random numbers."""
    return jax.random.fold_in(jax.random.key(config.seed), session)


class BatchedSide:
    """A side of ours that plays a program, compiled for batches of lanes.

    Attributes:
      lanes: lanes per batch.
      num_batches: two, if several games are played at once: while one batch is searched, the
        programs of the other think.
      seconds: the time that the last search took.
    """

    def __init__(
        self, config: MatchConfig, rules: Rules, side: int, player: ConfiguredPlayer, session: int
    ):
        parallel, self.name, self.seconds = config.parallel, SIDES[side], 0.0
        self.num_batches = 2 if parallel > 1 else 1
        lanes = -(-parallel // self.num_batches)
        mesh = devices.make_mesh(lanes, round_up=True)
        self.lanes = lanes + -lanes % mesh.size
        key = jax.random.fold_in(_session_key(config, session), side)
        self._player = LockstepPlayer(rules, player.player, self.lanes, key, mesh)
        on_devices = f", {mesh.size} devices" if mesh.size > 1 else ""
        memory = f"{player.describe_memory(self.lanes)}{on_devices}"
        print(f"{self.name}: {memory}", file=sys.stderr, flush=True)
        started = time.perf_counter()
        self._player.compile()
        print(f"compiled in {time.perf_counter() - started:.1f} s", file=sys.stderr)
        self._memories: list[Any] = [self._player.new_memory() for _ in range(self.num_batches)]

    def choose(self, batch: int, games: Mapping[int, GameWorker]) -> dict[int, int | None]:
        """An action for each of these lanes of a batch; None where it resigns."""
        started = time.monotonic()
        memory, self._memories[batch] = self._memories[batch], None  # donated to the search
        since = {lane: game.since(PLIES) for lane, game in games.items()}
        moves, self._memories[batch] = self._player.choose(
            {lane: game.state for lane, game in games.items()},
            memory,
            {lane: actions for lane, actions in since.items() if actions is not None},
        )
        self.seconds = time.monotonic() - started
        if not all(moves.ok[lane] for lane in games):
            print(f"{self.name}: an evaluation was not finite", file=sys.stderr)
        return {lane: None if moves.resigns[lane] else int(moves.action[lane]) for lane in games}


def play_on_device(
    config: MatchConfig,
    rules: Rules | NamedGame,
    names: tuple[str, str],
    openings: PairOpenings,
    sides: Sequence[ConfiguredPlayer],
    todo: Sequence[int],
    finished: Callable[[GameLine, GameRecord | str], None],
    playing: Callable[[int, int], None],
    stop: StopRequest,
    session: int,
) -> None:
    """Play games of two sides of ours until they are done or a stop is requested; see `arena`.

    Args:
      config, names, openings: the match.
      rules: the rules of Go, or another game.
      sides: the two players.
      todo: the numbers of the games.
      finished: called with each game that is over.
      playing: called at each ply with the number of games in play and of plies so far.
      stop: checked at each ply; games in play are then abandoned.
      session: the number of the session; each draws other random numbers.

    Raises:
      Whatever `finished` raises.
    """
    lanes = -(-config.parallel // 2)
    mesh = devices.make_mesh(lanes, round_up=True)
    lanes += -lanes % mesh.size
    for name, side in zip(SIDES, sides, strict=True):
        print(f"{name}: {side.describe_memory(lanes)}", file=sys.stderr)
    of_go = isinstance(rules, Rules)
    game = go_game(rules) if of_go else rules.game
    players = (_passing_to_win(game, side.player) if of_go else side.player for side in sides)
    first, second = (devices.over_mesh(player, mesh) for player in players)
    step = jax.jit(game.play)
    new_state = game.points and functools.partial(game.points.new, config.komi)

    @functools.lru_cache(maxsize=2 * lanes)
    def after_opening(pair: int) -> Any:
        state = new_state() if new_state else game.init(jax.random.key(0))
        for action in openings.of(pair):
            state = step(state, np.int32(action))
        return jax.device_get(state)

    def first_side(number: int) -> int:
        return (config.black(number) + len(openings.of(number // 2))) % 2

    def start(numbers: np.ndarray) -> Any:
        return jax.tree.map(lambda *x: np.stack(x), *(after_opening(int(n) // 2) for n in numbers))

    def progress(ply: int, num_open: int) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        playing(min(num_open, 2 * lanes), ply)

    key = _session_key(config, session)
    for finished_game in arena.play_games(
        game, (first, second), key, todo, first_side, lanes, start, progress
    ):
        finished(
            *_result(config, rules, names, openings.of(finished_game.number // 2), finished_game)
        )


def _passing_to_win(game: Game, player: Player) -> Player:
    """A Go player that passes if the opponent has just passed and the board is won, as our side
    does against programs."""

    points = game.points
    assert points is not None  # of Go

    def wins(state: Any) -> jax.Array:
        passed = (state.position.passes == 1) & ~state.ended
        score, _ = points.score(state, passed)
        return passed & (jnp.where(state.to_play == BLACK, score, -score) > 0)

    def choose(params, key, turn, memory) -> Choice:
        choice = player.choose(params, key, turn, memory)
        won = jax.vmap(wins)(turn.states)
        action = jnp.where(won, game.num_actions - 1, choice.action)
        resigns = None if choice.resigns is None else choice.resigns & ~won
        return choice._replace(action=action, resigns=resigns)

    return player._replace(choose=choose)


def _result(
    config: MatchConfig,
    rules: Rules | NamedGame,
    names: tuple[str, str],
    opening: Sequence[int],
    game: FinishedGame,
) -> tuple[GameLine, GameRecord | str]:
    """The finished game's line and record."""
    black = config.black(game.number)
    first_side = (black + len(opening)) % 2
    actions = [*opening, *game.actions]
    colour = len(actions) % 2  # to move in the end
    for_black = game.outcome * (1 if len(opening) % 2 == 0 else -1)
    of_go = isinstance(rules, Rules)
    outcome = Outcome(result_text(game.score if of_go else for_black), "score")
    if game.resigned:
        resigner = COLOURS[colour] if of_go else registry.PLAYERS[colour]
        outcome = Outcome(f"{LETTERS[1 - colour]}+R", "resign", f"{resigner} resigned")
        for_black = 1.0 if colour else -1.0
    elif game.truncated:
        outcome = outcome._replace(end="limit", comment="move limit")
    if not game.ok:
        remark = "an evaluation was not finite"
        outcome = outcome._replace(comment="; ".join(filter(None, [outcome.comment, remark])))
        print(f"game {game.number}: {remark}", file=sys.stderr)
    chosen = len(game.actions) + game.resigned
    turns = (chosen - chosen // 2, chosen // 2)
    turns = turns if first_side == 0 else turns[::-1]
    line = line_of(game.number, black, outcome, actions, game.seconds, turns)
    if isinstance(rules, NamedGame):
        heading = f"{rules.name}, game {game.number}: {names[black]} - {names[1 - black]}"
        ends = "; ".join(filter(None, [registry.result_text(for_black), outcome.comment]))
        return line, f"{heading}\n{rules.record(actions)}\n{ends}\n"
    record = GameRecord(
        size=rules.size,
        komi=config.komi,
        moves=tuple((ply % 2, action) for ply, action in enumerate(actions)),
        result=outcome.result,
        rules=rule_sets.sgf_name(rules.ko, rules.suicide),
        black=names[black],
        white=names[1 - black],
        comment="; ".join(
            filter(None, [game_comment(rules, game.number, opening), outcome.comment])
        ),
    )
    return line, record
