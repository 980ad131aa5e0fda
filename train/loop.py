"""The iterations of a run: play some moves, take the learner steps due, return the metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from gozero.compile import collectives
from gozero.play.devices import EVERYWHERE
from train import calibration, hosts, learner, matches, optimizer, quarantine, steps
from train.learner import Metrics
from train.plan import Plan, teacher_of
from train.shard_reader import ShardReader
from train.steps import RunState, Tallies

MOST_QUARANTINED = 8
"""A run stops once the rows of this many shards or games have led to updates that are not finite
since it was started or resumed."""


class NotFinite(ValueError):
    """A loss or a gradient was nan or infinite, and not because of particular rows."""


class Loop:
    """The state of a run in memory, and its compiled programs.

    Attributes:
      state: the state that the next iteration starts from.
      iteration: iterations done.
      games: games that have ended.
      steps: learner steps taken.
      seconds: time spent playing and learning, over all sessions.
      dropped: the number of updates that were not made, over all sessions: those that were not
        finite, and those that were due after one of them in the same iteration.
      quarantined: names of the shards and games whose rows were removed from the replay for this
        reason since the run was started or resumed; at MOST_QUARANTINED of them the run stops.
      shard_reader: reads the shards of workers.
      phase: called with a description of the current phase.
      stop: called during a match of the gate; whether to stop it, to play it when the run resumes.
      gate_due: whether the gate's match after the last iteration was stopped.
    """

    def __init__(self, plan: Plan, mesh: Mesh, state: RunState, host_state: dict | None = None):
        self.plan, self.mesh, self.state = plan, mesh, state
        host_state = host_state or {}
        self.iteration: int = host_state.get("iteration", 0)
        self.games: int = host_state.get("games", 0)
        self.steps: int = host_state.get("steps", 0)
        self.seconds: float = host_state.get("seconds", 0.0)
        self.dropped: int = host_state.get("dropped", 0)
        self.quarantined: list[str] = []
        self.phase: Callable[[str], None] = lambda text: None
        self.stop: Callable[[], bool] = lambda: False
        self.gate_due: bool = host_state.get("gate_due", False)
        self._in_progress: tuple[float, Any] | None = None
        self.shard_reader = ShardReader(plan, mesh, host_state.get("workers"))
        self.steps_per_call = learner.steps_per_call()
        self._compiled: dict[Any, Any] = {}
        self._teacher = None
        if plan.teacher is not None:  # placed once, not at each call
            params = teacher_of(plan.config).params
            self._teacher = jax.device_put(params, NamedSharding(mesh, EVERYWHERE))

    @property
    def _play_params(self) -> Any:
        """The parameters for self-play, see `steps.make_play`."""
        params = self.state.play_params
        return params if self._teacher is None else (params, self._teacher)

    @property
    def host_state(self) -> dict:
        """The values that a checkpoint stores besides the state."""
        names = ("iteration", "games", "steps", "seconds")
        names += ("dropped",) if self.dropped else ()  # earlier versions did not store these
        names += ("gate_due",) if self.gate_due else ()
        values = {name: getattr(self, name) for name in names}
        return values | {"workers": self.shard_reader.host_state}

    @property
    def is_ahead(self) -> bool:
        """Whether games of the next iteration are already being played. The state is then between
        two iterations, and must not be saved before the next call of `iterate`."""
        return self._in_progress is not None

    def iterate(self, continues: Callable[[], bool] = lambda: False) -> dict:
        """Run one iteration; returns its metrics, as in metrics.jsonl.

        Args:
          continues: called at the end; whether another iteration is certain to follow. If so,
            the device starts its games at once, and plays them while the host writes the metrics
            of this iteration.

        Raises:
          NotFinite: the state is that after the last good step.
        """
        simulations = self.plan.simulations(self.iteration)
        from_workers = {} if self.is_ahead else self._read_shards()
        started, pending = self._in_progress or self._begin()
        self._in_progress = None
        self.phase("playing")
        tallies: Tallies = jax.device_get(pending)
        played = time.perf_counter()
        self.phase("learning")
        taken, metrics = self._learn(self._step(), int(tallies.steps_due))
        learnt = time.perf_counter()
        rate = optimizer.learning_rate(self.plan.learner.optimizer, self.steps, self._fraction)
        self.iteration += 1
        self.games += int(tallies.games)
        self.steps += taken
        self.seconds += learnt - started
        durations = played - started, learnt - played
        numbers = (
            self._counts(simulations)
            | self._rates(tallies, simulations, taken, *durations)
            | self._learning_metrics(metrics, float(rate) if taken else None)
            | _selfplay_metrics(tallies, steps.komi_values(self.plan))
            | from_workers
            | self._gate()
        )
        will_stop = len(self.quarantined) >= MOST_QUARANTINED
        if (
            not will_stop and not self.plan.config.workers and continues()
        ):  # workers' rows come first
            self._in_progress = self._begin()
        return numbers

    def _begin(self) -> tuple[float, Any]:
        """Start an iteration's games on the device; returns (the time, their pending tallies)."""
        simulations = self.plan.simulations(self.iteration)
        if not self._compiled.keys() >= {"learn", ("play", simulations)}:
            self.phase("compiling")
        play = self._play(simulations)
        self._step()  # compiled before anything is timed
        started = time.perf_counter()
        playing, tallies = play(self._play_params, self.state.playing)
        self.state = self.state.replace(playing=playing)
        return started, tallies

    @property
    def _fraction(self) -> np.float32:
        """The fraction of the iterations that are done, see `steps.make_learn`."""
        return np.float32(self.iteration / self.plan.config.iterations)

    def play_missed_gate(self) -> dict:
        """Play the gate's match that a stop prevented; returns its metrics, those of the last
        iteration."""
        return self._gate() if self.gate_due else {}

    def _gate(self) -> dict:
        """If a match of the gate is due, or one was prevented, play the newest network against that
        of self-play; if it passes, self-play uses it from now on."""
        state = self.state
        if not (self.gate_due or matches.gate_due(self.plan.config, self.iteration)):
            return {}
        self.phase("playing the gate's match")
        result: dict = {}
        params = state.learner.ema, state.player
        play = lambda: matches.gate(self.plan, self.iteration, *params, self.stop)
        hosts.run_on_first(lambda: result.update(play()))
        passed = hosts.broadcast_from_first(result.get("gate_passed"))
        self.gate_due = passed is None
        if passed:
            self.state = state.replace(player=jax.tree.map(jnp.copy, state.learner.ema))
        return result

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
        self, tallies: Tallies, simulations: int, taken: int, playing_s: float, learning_s: float
    ) -> dict:
        simulated = self._num_simulations(tallies, simulations)
        positions = taken * self.plan.config.batch_size
        return {
            "playing_s": round(playing_s, 3),
            "learning_s": round(learning_s, 3),
            "games_per_s": round(int(tallies.games) / (playing_s + learning_s), 3),
            "simulations_per_s": round(simulated / playing_s, 1),
            "positions_per_s": round(positions / max(learning_s, 1e-9), 1),
        }

    def _learning_metrics(self, metrics: Metrics | None, rate: float | None) -> dict:
        """The metrics of the last step, and the rate of the first one; None if there was none."""
        return {
            "losses": metrics and self._game_losses(metrics.losses._asdict()),
            "target_entropy": metrics and round(float(metrics.target_entropy), 5),
            "gradient_norm": metrics and round(float(metrics.gradient_norm), 5),
            "learning_rate": rate,
        }

    def _game_losses(self, losses: dict) -> dict:
        """The losses of the heads that the network has; some in Go have ownership and score."""
        has_all = self.plan.learner.network.auxiliary
        shown = losses if has_all else {name: losses[name] for name in ("policy", "value")}
        return {name: round(float(value), 5) for name, value in shown.items()}

    def _read_shards(self) -> dict:
        """Add the rows of workers to the ring; returns their counts for the metrics."""
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

    def _num_simulations(self, tallies: Tallies, full: int) -> int:
        cheap = self.plan.config.cheap_simulations
        return int(tallies.full) * full + int(tallies.moves - tallies.full) * cheap

    def _learn(self, step: Callable, due: int) -> tuple[int, Metrics | None]:
        """(steps taken, metrics of the last call or, if none was due or one was dropped, None)."""
        calls = due // self.steps_per_call
        if not calls:
            return 0, None
        before, metrics = int(self.state.learner.step), None
        for _ in range(calls):
            learner, playing = self.state.learner, self.state.playing
            learner, owed, metrics = step(learner, playing.buffer, self._fraction)
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
          NotFinite: no particular rows are the cause.
        """
        learner, playing = self.state.learner, self.state.playing
        limit = MOST_QUARANTINED - len(self.quarantined)
        buffer, sources = quarantine.remove_bad_sources(
            self.plan, self.mesh, learner.ema, playing.buffer, limit
        )
        if not sources:
            raise NotFinite(
                f"nan or infinite loss in iteration {self.iteration + 1}, after step "
                f"{int(learner.step)}; try a lower --learning-rate"
            )
        self.dropped += dropped
        self.quarantined += map(self.shard_reader.name_of, sources)
        for name in self.quarantined[-len(sources) :] if jax.process_index() == 0 else ():
            print(f"quarantined: {name}: updates from its rows are not finite", file=sys.stderr)
        ok = jnp.logical_not(learner.ok)
        playing = playing.replace(buffer=buffer)
        self.state = self.state.replace(learner=learner.replace(ok=ok), playing=playing)

    def _play(self, simulations: int) -> Callable:
        if ("play", simulations) not in self._compiled:
            play = steps.make_play(self.plan, self.mesh, simulations)
            lowered = play.lower(self._play_params, self.state.playing)
            self._compiled["play", simulations] = collectives.compiled(lowered, self.mesh)
        return self._compiled["play", simulations]

    def _step(self) -> Callable:
        if "learn" not in self._compiled:
            learn = steps.make_learn(self.plan, self.mesh, self.steps_per_call)
            lowered = learn.lower(self.state.learner, self.state.playing.buffer, self._fraction)
            self._compiled["learn"] = collectives.compiled(lowered, self.mesh)
        return self._compiled["learn"]


def _selfplay_metrics(tallies: Tallies, komi: list[float]) -> dict:
    """The metrics of self-play; `by_komi` is [games, won by Black, drawn] for each komi."""
    games = max(int(tallies.games), 1)
    numbers = {
        "black_won": round(int(tallies.black_won) / games, 4),
        "drawn": round(int(tallies.drawn) / games, 4),
        "resigned": round(int(tallies.resigned) / games, 4),
        "truncated": round(int(tallies.truncated) / games, 4),
        "lengths": _quantiles(tallies.lengths),
        "by_komi": {
            f"{value:g}": row.tolist() for value, row in zip(komi, tallies.by_komi, strict=True)
        },
        "surprise": round(float(tallies.surprise) / max(int(tallies.full), 1), 5),
        "calibration": {
            name: calibration.plain(bins) for name, bins in tallies.calibration._asdict().items()
        },
        "full": round(int(tallies.full) / max(int(tallies.moves), 1), 4),
        "unsound": int(tallies.bad),
        "rows": int(tallies.rows),
        "window": int(tallies.window),
        "added": int(tallies.added),
    }
    if tallies.rates is not None:
        rates = tallies.rates
        numbers |= {
            "resign_threshold": round(float(tallies.threshold), 4),
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
    cumulative = np.cumsum(lengths) / total
    return [int(np.searchsorted(cumulative, share)) for share in (0.1, 0.5, 0.9)]
