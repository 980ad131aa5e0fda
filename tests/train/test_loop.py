"""Which compiled program each iteration plays with; here nothing is compiled."""

from __future__ import annotations

import dataclasses
import json
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.play import devices
from tests.train import tiny
from train import games, matches, steps
from train.buffer import MAX_ADDED
from train.calibration import BINS, Bins, Calibration
from train.loop import Loop
from train.plan import make_plan
from train.steps import RunState, Tallies

NONE = np.zeros((), np.int32)
PLAYED = Tallies(*[NONE] * len(Tallies._fields))._replace(
    moves=np.int32(48),
    full=np.int32(48),
    lengths=np.zeros(19, np.int32),
    by_komi=np.zeros((2, 3), np.int32),
    calibration=Calibration(Bins(*np.zeros((3, BINS))), Bins(*np.zeros((3, BINS)))),
    rates=None,
)


@pytest.fixture
def made(monkeypatch):
    """The simulations of the programs that were made, and of those that played."""
    made, played = [], []

    def make_play(plan, mesh, num_simulations):
        made.append(num_simulations)

        def play(params, playing):
            played.append(num_simulations)
            return playing, PLAYED

        compiled = types.SimpleNamespace(compile=lambda **_: play)
        return types.SimpleNamespace(lower=lambda *_: compiled)

    monkeypatch.setattr(steps, "make_play", make_play)
    monkeypatch.setattr(Loop, "_play", Loop._play.__wrapped__)  # undo conftest's sharing
    return made, played


def loop_of(plan, host_state=None):
    """A loop that resumes from `host_state`, and does not learn."""
    learner = types.SimpleNamespace(ema=None)
    loop = Loop(plan, devices.mesh_of(1), RunState(learner, None), host_state)
    loop._compiled = {"learn": None}
    return loop


def test_the_rows_added_on_many_devices_do_not_overflow():
    """Each device counts up to 2^30 of them."""
    plan = make_plan(tiny.config(), 4)
    no_move = jnp.zeros((1, 8), bool)
    blank = Bins(*jnp.zeros((3, BINS)))
    events = games.Events(*[no_move] * 10, Calibration(blank, blank))
    buffer = jax.eval_shape(lambda: steps.begin(plan, devices.mesh_of(1))).playing.buffer
    ring = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), buffer)

    def added(counts):
        tally = lambda count: steps._tally(plan, ring.replace(added=count), events).added
        return int(jax.vmap(tally, axis_name=steps.AXIS)(jnp.array(counts, jnp.int32))[0])

    assert added([2**28, 2**28, 3, 4]) == 2**29 + 7
    assert added([MAX_ADDED] * 4) == 4 * (2**31 // 4 - 1)


def test_an_iteration_has_the_simulations_of_its_stage(made):
    """Through a change of stage, a stop after it, and a later increase of --iterations."""
    config = tiny.config(iterations=6, first_simulations=3, simulations=8)
    plan = make_plan(config)
    loop = loop_of(plan)
    numbers = [loop.iterate() for _ in range(3)]
    loop = loop_of(plan, json.loads(json.dumps(loop.host_state)))
    numbers += [loop.iterate() for _ in range(3)]
    expected = [3, 3, 6, 6, 8, 8]
    assert [line["iteration"] for line in numbers] == [1, 2, 3, 4, 5, 6]
    assert [line["simulations"] for line in numbers] == expected
    assert made == ([3, 6, 6, 8], expected)

    longer = make_plan(dataclasses.replace(config, iterations=12))
    loop = loop_of(longer, json.loads(json.dumps(loop.host_state)))
    assert [loop.iterate()["simulations"] for _ in range(3)] == [6, 6, 8]
    assert made[1][6:] == [6, 6, 8]


def test_a_gate_accepts_networks_that_score_more(made, monkeypatch):
    """At every second iteration and after the last; who passed plays until another passes."""
    scores = iter([0.55, 0.56, 0.5, 0.7])

    def play(terms, first, second, numbers, progress):
        met.append((int(first.params), int(second.params), terms.games, tuple(numbers)))
        return terms

    def line_of(match, terms):
        return {"won": 1, "drawn": 0, "lost": 1, "score": next(scores)}

    met: list = []
    monkeypatch.setattr(matches, "play", play)
    monkeypatch.setattr(matches, "line_of", line_of)
    plan = make_plan(tiny.config(iterations=7, gate=0.55, gate_every=2, gate_games=20))
    loop = loop_of(plan)
    loop.state = RunState(types.SimpleNamespace(ema=None), None, jnp.int32(0))
    players, passed = [], []
    for i in range(1, 8):
        loop.state.learner.ema = jnp.int32(i)
        passed.append(loop.iterate().get("gate_passed"))
        players.append(int(loop.state.play_params))
    assert [one[:3] for one in met] == [(2, 0, 20), (4, 0, 20), (6, 4, 20), (7, 4, 20)]
    assert len({one[3] for one in met}) == 4
    assert passed == [None, False, None, True, None, False, True]
    assert players == [0, 0, 0, 4, 4, 4, 7]


@pytest.mark.parametrize("auxiliary", [True, False])
def test_only_heads_that_the_network_has_have_losses(made, auxiliary):
    losses = {"policy": 2.0, "value": 1.0, "ownership": 0.0, "score": 0.0}
    loop = loop_of(make_plan(tiny.config(auxiliary=auxiliary)))
    shown = losses if auxiliary else {"policy": 2.0, "value": 1.0}
    assert loop._game_losses(losses) == shown


def test_the_learning_rate_falls_with_the_iterations(made, monkeypatch):
    """Whatever steps have been taken: a run that had workers has taken many more."""
    config = tiny.config(iterations=6, final_fraction=0.2)
    loop = loop_of(make_plan(config), tiny.host_state(2) | {"steps": 10_000})
    given: list = []
    playing: Any = types.SimpleNamespace(
        buffer=types.SimpleNamespace(replace=lambda **_: None), replace=lambda **_: playing
    )

    def step(learner, buffer, fraction_done):
        given.append(float(fraction_done))
        return learner, None, None

    loop.state = RunState(types.SimpleNamespace(step=10_000, ok=True), playing)
    loop._learn(step, loop.steps_per_call)
    assert given == [pytest.approx(2 / 6)]
    loop = loop_of(make_plan(config), tiny.host_state(2) | {"steps": 10_000})
    assert loop.iterate()["learning_rate"] is None  # no step was due
    loop = loop_of(make_plan(config), tiny.host_state(2) | {"steps": 10_000})
    monkeypatch.setattr(loop, "_learn", lambda step, due: (4, None))
    rate = loop.iterate()["learning_rate"]
    assert rate == pytest.approx(config.learning_rate * (0.2 + 0.8 * 3 / 4))


def test_a_stopped_match_of_the_gate_is_played_when_the_run_resumes(made, monkeypatch):
    def play(terms, first, second, numbers, progress):
        progress(1, terms.games)
        met.append((int(first.params), int(second.params), tuple(numbers)))
        return terms

    met: list = []
    won = {"won": 1, "drawn": 0, "lost": 0, "score": 1.0}
    monkeypatch.setattr(matches, "play", play)
    monkeypatch.setattr(matches, "line_of", lambda *_: won)
    plan = make_plan(tiny.config(iterations=6, gate=0.55, gate_every=2))

    def resumed(host_state=None):
        loop = loop_of(plan, host_state and json.loads(json.dumps(host_state)))
        return loop, RunState(types.SimpleNamespace(ema=jnp.int32(7)), None, jnp.int32(3))

    whole, whole.state = resumed()
    numbers = [whole.iterate() for _ in range(2)][-1]
    assert "gate_due" not in whole.host_state
    loop, loop.state = resumed()
    loop.iterate()
    loop.stop = lambda: True
    assert not numbers.items() <= (stopped := loop.iterate()).items()
    assert (int(loop.state.player), loop.gate_due, len(met)) == (3, True, 1)
    loop, loop.state = resumed(loop.host_state)
    assert loop.gate_due
    assert tiny.untimed(stopped | loop.play_missed_gate()) == tiny.untimed(numbers)
    assert (int(loop.state.player), loop.play_missed_gate()) == (7, {})
    assert met[0] == met[1]
    assert loop.host_state.keys() == whole.host_state.keys()
    # The match after the last iteration of a run that is then given more iterations.
    longer = make_plan(tiny.config(iterations=8, gate=0.55, gate_every=5))
    assert not matches.gate_due(longer.config, 2)
    loop = loop_of(longer, loop.host_state | {"gate_due": True})
    loop.state = RunState(types.SimpleNamespace(ema=jnp.int32(7)), None, jnp.int32(3))
    assert loop.play_missed_gate()["gate_passed"]
    assert (int(loop.state.player), loop.gate_due) == (7, False)
