"""The iterations of a run: play some moves, take the learner steps due, return the metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from train import calibration, collectives, hosts, learner, matches, optimizer, quarantine, steps
from train.learner import Metrics
from train.plan import Plan, teacher_of
from train.shard_reader import ShardReader
from train.steps import RunState, Tallies

MOST_QUARANTINED = 8
"""A run stops once the rows of this many shards, or of its own games, have given updates that were
not finite since it was started or resumed."""


class NotFinite(ValueError):
    """A loss or a gradient was nan or infinite, and no particular rows are the cause."""


class Loop:
    """The state of a run in memory, and its compiled programs.

    Attributes:
      state: the state that the next iteration starts from.
      iteration: iterations done.
      games: games that have ended.
      steps: learner steps taken.
      seconds: time spent playing and learning, over all sessions.
      dropped: updates that were not made, over all sessions: those that were not finite, and those
        that were due after one in the same iteration.
      quarantined: names of the shards and games whose rows were taken out of the replay for that
        since the run was started or resumed; at MOST_QUARANTINED of them the run stops.
      shard_reader: reads the shards of workers.
      phase: called with what is being done now, in words.
    """

    def __init__(self, plan: Plan, mesh: Mesh, state: RunState, progress: dict | None = None):
        self.plan, self.mesh, self.state = plan, mesh, state
        progress = progress or {}
        self.iteration: int = progress.get("iteration", 0)
        self.games: int = progress.get("games", 0)
        self.steps: int = progress.get("steps", 0)
        self.seconds: float = progress.get("seconds", 0.0)
        self.dropped: int = progress.get("dropped", 0)
        self.quarantined: list[str] = []
        self.phase: Callable[[str], None] = lambda text: None
        self._begun: tuple[float, Any] | None = None
        self.shard_reader = ShardReader(plan, mesh, progress.get("workers"))
        self.steps_per_call = learner.steps_per_call()
        self._compiled: dict[Any, Any] = {}
        self._teacher = None if plan.teacher is None else teacher_of(plan.config).params

    @property
    def _plays(self) -> Any:
        """The parameters for self-play, see `steps.make_play`."""
        return self.state.plays if self._teacher is None else (self.state.plays, self._teacher)

    @property
    def progress(self) -> dict:
        """What a checkpoint stores besides the state."""
        names = ("iteration", "games", "steps", "seconds")
        names += ("dropped",) if self.dropped else ()  # which earlier versions did not count
        mine = {name: getattr(self, name) for name in names}
        return mine | {"workers": self.shard_reader.progress}

    @property
    def is_ahead(self) -> bool:
        """Whether games of the next iteration are already being played. The state is then between
        two iterations, and `iterate` has to be called before it is saved."""
        return self._begun is not None

    def iterate(self, goes_on: Callable[[], bool] = lambda: False) -> dict:
        """Run one iteration; returns its metrics, as in metrics.jsonl.

        Args:
          goes_on: called at the end; whether another iteration follows in any case. If so, the
            device starts on its games at once, and plays them while the host writes the metrics
            of this one.

        Raises:
          NotFinite: the state is left as it was after the last good step.
        """
        simulations = self.plan.simulations(self.iteration)
        from_workers = {} if self.is_ahead else self._take_in()
        started, tallies = self._begun or self._begin()
        self._begun = None
        self.phase("playing")
        told: Tallies = jax.device_get(tallies)
        played = time.perf_counter()
        self.phase("learning")
        taken, metrics = self._learn(self._step(), int(told.steps_due))
        learnt = time.perf_counter()
        self.iteration += 1
        self.games += int(told.games)
        self.steps += taken
        self.seconds += learnt - started
        spent = played - started, learnt - played
        numbers = (
            self._counts(simulations)
            | self._rates(told, simulations, taken, *spent)
            | self._learnt(metrics)
            | _told(told, steps.komi_values(self.plan))
            | from_workers
            | self._gate()
        )
        stops = len(self.quarantined) >= MOST_QUARANTINED
        if not stops and not self.plan.config.workers and goes_on():  # workers' rows come first
            self._begun = self._begin()
        return numbers

    def _begin(self) -> tuple[float, Any]:
        """Start an iteration's games on the device: (the time, the tallies to come of them)."""
        simulations = self.plan.simulations(self.iteration)
        if not self._compiled.keys() >= {"learn", ("play", simulations)}:
            self.phase("compiling, about 60 s the first time")
        play = self._play(simulations)
        self._step()  # compiled before anything is timed
        started = time.perf_counter()
        playing, tallies = play(self._plays, self.state.playing)
        self.state = self.state.replace(playing=playing)
        return started, tallies

    def _gate(self) -> dict:
        """If a gate's match is due, play the newest network against the one that plays; if it
        passes, it plays from now on."""
        config, state = self.plan.config, self.state
        if config.gate is None or self.iteration % config.gate_every:
            return {}
        self.phase("playing the gate's match")
        found: dict = {}
        params = state.learner.ema, state.player
        hosts.at_first(lambda: found.update(matches.gate(self.plan, self.iteration, *params)))
        if hosts.said_by_first(found.get("gate_passed", False)):
            self.state = state.replace(player=jax.tree.map(jnp.copy, state.learner.ema))
        return found

    def _counts(self, simulations: int) -> dict:
        return {
            "iteration": self.iteration,
            "seconds": round(self.seconds, 3),
            "games": self.games,
            "steps": self.steps,
            "updates_dropped": self.dropped,
            "simulations": simulations,
        }

    def _rates(
        self, told: Tallies, simulations: int, taken: int, playing_s: float, learning_s: float
    ) -> dict:
        searched = self._simulations(told, simulations)
        positions = taken * self.plan.config.batch_size
        return {
            "playing_s": round(playing_s, 3),
            "learning_s": round(learning_s, 3),
            "games_per_s": round(int(told.games) / (playing_s + learning_s), 3),
            "simulations_per_s": round(searched / playing_s, 1),
            "positions_per_s": round(positions / max(learning_s, 1e-9), 1),
        }

    def _learnt(self, metrics: Metrics | None) -> dict:
        """The metrics of the last step; None before the first."""
        rate = optimizer.learning_rate(self.plan.learner.optimizer, self.steps)
        return {
            "losses": metrics and self._losses(metrics.losses._asdict()),
            "target_entropy": metrics and round(float(metrics.target_entropy), 5),
            "gradient_norm": metrics and round(float(metrics.gradient_norm), 5),
            "learning_rate": float(rate),
        }

    def _losses(self, losses: dict) -> dict:
        """The losses of the parts that the game has; only Go has ownership and score."""
        of_go = self.plan.learner.network.observation is None
        named = losses if of_go else {name: losses[name] for name in ("policy", "value")}
        return {name: round(float(value), 5) for name, value in named.items()}

    def _take_in(self) -> dict:
        """Move the rows of workers into the ring; returns their counts for the metrics."""
        if not self.plan.config.workers:
            return {}
        playing, reader = self.state.playing, self.shard_reader
        playing = playing.replace(buffer=reader.take(playing.buffer))
        self.state = self.state.replace(playing=playing)
        return {
            "shards_read": reader.read,
            "shards_skipped": reader.skipped,
            "shards_late": reader.late,
            "shards_rows": reader.rows,
        }

    def _simulations(self, told: Tallies, full: int) -> int:
        cheap = self.plan.config.cheap_simulations
        return int(told.full) * full + int(told.moves - told.full) * cheap

    def _learn(self, step: Callable, due: int) -> tuple[int, Metrics | None]:
        """(steps taken, metrics of the last call); None if no step was due or one was dropped."""
        calls = due // self.steps_per_call
        if not calls:
            return 0, None
        before, metrics = int(self.state.learner.step), None
        for _ in range(calls):
            learner, playing = self.state.learner, self.state.playing
            learner, owed, metrics = step(learner, playing.buffer)
            collectives.one_in_flight(learner, self.mesh)
            playing = playing.replace(buffer=playing.buffer.replace(owed=owed))
            self.state = self.state.replace(learner=learner, playing=playing)
        if bool(self.state.learner.ok):
            return calls * self.steps_per_call, jax.device_get(metrics)
        taken = int(self.state.learner.step) - before
        self._quarantine(calls * self.steps_per_call - taken)
        return taken, None

    def _quarantine(self, dropped: int) -> None:
        """Continue without the rows whose update was not finite, nor any others of their shard or
        game.

        Raises:
          NotFinite: the rows are not the cause.
        """
        learner, playing = self.state.learner, self.state.playing
        room = MOST_QUARANTINED - len(self.quarantined)
        buffer, sources = quarantine.expel(self.plan, self.mesh, learner.ema, playing.buffer, room)
        if not sources:
            raise NotFinite(
                f"a nan or infinite loss in iteration {self.iteration + 1}, after step "
                f"{int(learner.step)}; try a lower --learning-rate"
            )
        self.dropped += dropped
        self.quarantined += map(self.shard_reader.name_of, sources)
        for name in self.quarantined[-len(sources) :] if jax.process_index() == 0 else ():
            print(f"quarantined: {name}: updates by its rows are not finite", file=sys.stderr)
        ok = jnp.logical_not(learner.ok)
        playing = playing.replace(buffer=buffer)
        self.state = self.state.replace(learner=learner.replace(ok=ok), playing=playing)

    def _play(self, simulations: int) -> Callable:
        if ("play", simulations) not in self._compiled:
            play = steps.make_play(self.plan, self.mesh, simulations)
            lowered = play.lower(self._plays, self.state.playing)
            self._compiled["play", simulations] = collectives.compiled(lowered, self.mesh)
        return self._compiled["play", simulations]

    def _step(self) -> Callable:
        if "learn" not in self._compiled:
            learn = steps.make_learn(self.plan, self.mesh, self.steps_per_call)
            lowered = learn.lower(self.state.learner, self.state.playing.buffer)
            self._compiled["learn"] = collectives.compiled(lowered, self.mesh)
        return self._compiled["learn"]


def _told(told: Tallies, komi: list[float]) -> dict:
    """The metrics of self-play; `by_komi` is [games, won by Black, drawn] for each komi."""
    games = max(int(told.games), 1)
    numbers = {
        "black_won": round(int(told.black_won) / games, 4),
        "drawn": round(int(told.drawn) / games, 4),
        "resigned": round(int(told.resigned) / games, 4),
        "truncated": round(int(told.truncated) / games, 4),
        "lengths": _quantiles(told.lengths),
        "by_komi": {
            f"{value:g}": row.tolist() for value, row in zip(komi, told.by_komi, strict=True)
        },
        "surprise": round(float(told.surprise) / max(int(told.full), 1), 5),
        "calibration": {
            name: calibration.plain(bins) for name, bins in told.calibration._asdict().items()
        },
        "full": round(int(told.full) / max(int(told.moves), 1), 4),
        "unsound": int(told.bad),
        "rows": int(told.rows),
        "window": int(told.window),
        "added": int(told.added),
    }
    if told.rates is not None:
        rates = told.rates
        numbers |= {
            "resign_threshold": round(float(told.threshold), 4),
            "played_on": int(rates.games),
            "would_resign": int(rates.resigned),
            "wrong_resigns": round(int(rates.wrong) / max(int(rates.resigned), 1), 4),
        }
    return numbers


def _quantiles(lengths: Any) -> list[int] | None:
    """The 10%, 50% and 90% quantiles of a histogram."""
    total = int(lengths.sum())
    if not total:
        return None
    upto = np.cumsum(lengths) / total
    return [int(np.searchsorted(upto, share)) for share in (0.1, 0.5, 0.9)]
