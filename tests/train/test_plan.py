"""Each flag reaches the part of the plan that it sets, and no flag is forgotten."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from gozero.games.go import go_game
from gozero.games.registry import make_game
from gozero.go.rules import Rules
from gozero.play.openings import Openings
from gozero.play.resignation import ResignConfig
from gozero.search.rules.forced import ForcedPlayouts
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.puct import Puct
from tests.train import tiny
from train import learner, worker
from train.config import TrainConfig
from train.plan import Plan, make_plan

PUCT = {"root": "puct", "max_considered": TrainConfig().max_considered}
CAP = {"cheap_simulations": 2}
NONE: Mapping[str, Any] = types.MappingProxyType({})


class Flag(NamedTuple):
    """A value of a flag, and what the plan then has."""

    value: Any
    where: str  # a part of the plan
    expected: Any = None  # None: the flag's value
    given: Mapping[str, Any] = NONE  # other flags, of this plan and of the one compared with it


FLAGS = {
    # tiny.config takes 12 steps: of 16 rows, for 4 iterations of 6 moves in 8 games.
    "iterations": Flag(8, "learner.optimizer.total_steps", 24),
    "moves": Flag(12, "learner.optimizer.total_steps", 24),
    "size": Flag(4, "play.game", go_game(Rules(size=4, ko="simple"))),
    "komi": Flag((3.5,), "play.komi"),
    "ko": Flag("situational", "play.game", go_game(Rules(size=3, ko="situational"))),
    "blocks": Flag(2, "learner.network.blocks"),
    "channels": Flag(5, "learner.network.channels"),
    "features": Flag("zero", "learner.network.features"),
    "pool_every": Flag(0, "learner.network.pool_every"),
    "auxiliary": Flag(False, "learner.network.auxiliary"),
    "dtype": Flag("bfloat16", "learner.network.dtype"),
    "batch": Flag(24, "play.batch"),
    "root": Flag("puct", "play.search.select", Puct(1.25, 19_652), {"max_considered": 16}),
    "c_puct": Flag(2.5, "play.search.select", Puct(2.5, 19_652), PUCT),
    "c_base": Flag(500.0, "play.search.select", Puct(1.25, 500.0), PUCT),
    "dirichlet_fraction": Flag(0.5, "play.search.dirichlet_fraction", given=PUCT),
    "dirichlet_alpha": Flag(0.7, "play.search.dirichlet_alpha", given=PUCT),
    "forced_playouts": Flag(
        3.0, "play.search.root_select", ForcedPlayouts(Puct(1.25, 19_652), 3.0), PUCT
    ),
    "root_temperature": Flag(1.1, "play.search.root_temperature", given=PUCT),
    "leaves": Flag(2, "play.search.leaves"),
    "virtual_loss": Flag(5, "play.search.virtual_loss", given=PUCT | {"leaves": 2}),
    "reuse_subtree": Flag(True, "play.reuse_subtree", given=PUCT),
    "transpositions": Flag(True, "play.search.transpositions"),
    "simulations": Flag(5, "play.search.num_simulations"),
    "first_simulations": Flag(1, "play.more_simulations", (1, 2)),
    "max_considered": Flag(
        2, "play.search.root_select", GumbelRoot(2, value_scale=1.0, rescale=False)
    ),
    "value_scale": Flag(
        0.5, "play.search.root_select", GumbelRoot(4, value_scale=0.5, rescale=False)
    ),
    "cheap_simulations": Flag(3, "play.cap.cheap.num_simulations", given=CAP),
    "full_share": Flag(0.75, "play.cap.full_share", given=CAP),
    "temperature_moves": Flag(6, "play.temperature.moves"),
    "temperature": Flag(0.5, "play.temperature.early"),
    "opening_plies": Flag(3, "play.openings", Openings(0, 3)),
    "opening_searched": Flag(True, "play.openings", Openings(0, 2, True)),
    "resign": Flag(True, "play.resign", ResignConfig(), {"resign": False}),
    "outcome_share": Flag(0.6, "learner.outcome_share"),
    "root_value": Flag("policy", "play.root_value"),
    "capacity": Flag(600, "buffer.capacity"),
    "window": Flag(120, "buffer.window.least"),
    "window_exponent": Flag(0.5, "buffer.window.exponent"),
    "window_scale": Flag(0.3, "buffer.window.scale"),
    "reuse": Flag(3.0, "buffer.reuse"),
    "min_rows": Flag(20, "buffer.min_rows"),
    "surprise": Flag(0.25, "buffer.surprise"),
    "policy_dtype": Flag("float16", "buffer.policy_dtype"),
    "batch_size": Flag(8, "learner.optimizer.total_steps", 24),
    # Batches twice as large take half as many steps, at a rate of sqrt(2).
    "rows_per_device": Flag(32, "learner.optimizer.learning_rate", 2e-3 * 2**0.5),
    "learning_rate": Flag(0.01, "learner.optimizer.learning_rate"),
    "final_fraction": Flag(0.5, "learner.optimizer.final_fraction"),
    "warmup_steps": Flag(3, "learner.optimizer.warmup_steps"),
    "weight_decay": Flag(0.1, "learner.optimizer.weight_decay"),
    "ema_decay": Flag(0.5, "learner.optimizer.ema_decay"),
    "value_weight": Flag(0.7, "learner.losses.value"),
    "ownership_weight": Flag(0.8, "learner.losses.ownership"),
    "score_weight": Flag(0.9, "learner.losses.score"),
}

ELSEWHERE = {
    **dict.fromkeys(("play_dtype", "symmetries"), "`Plan.evaluator` reads them"),
    **dict.fromkeys(("teacher", "teacher_symmetries"), "they need a file: see test_start.py"),
    "game": "see the last test",
    "preset": "names the other flags",
    "out": "the folder",
    "minutes": "the loop stops by it",
    "seed": "`steps.begin` draws by it",
    "weights": "`steps.begin` reads them",
    **dict.fromkeys(
        ("devices", "coordinator", "processes", "process"), "`run` makes the mesh of them"
    ),
    "workers": "the loop reads their shards",
    **dict.fromkeys(("gate", "gate_every", "gate_games"), "the loop plays these matches"),
    **dict.fromkeys(
        ("evaluate_every", "evaluate_games", "evaluate_simulations"), "the loop plays these matches"
    ),
    **dict.fromkeys(("tensorboard", "checkpoint_every"), "the loop writes these files"),
}
"""Why a flag leaves the plan's parts as they are."""


def parts(plan: Plan) -> dict[str, Any]:
    """What a plan has besides the flags themselves."""
    return {name: value for name, value in vars(plan).items() if name != "config"}


def test_every_flag_is_in_the_plan_or_acts_elsewhere():
    assert not FLAGS.keys() & ELSEWHERE.keys()
    assert {field.name for field in dataclasses.fields(TrainConfig)} == {*FLAGS, *ELSEWHERE}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_alone_changes_its_part_of_the_plan(name):
    value, where, expected, given = FLAGS[name]
    before = tiny.config(**given)
    assert getattr(before, name) != value
    plan, plan_before = make_plan(dataclasses.replace(before, **{name: value})), make_plan(before)
    assert parts(plan_before) == parts(make_plan(tiny.config(**given)))
    assert parts(plan) != parts(plan_before)
    found = plan
    for step in where.split("."):
        found = getattr(found, step)
    assert found == (value if expected is None else expected)


def test_a_replay_too_small_for_a_call_of_the_learner_is_refused(monkeypatch):
    """On an accelerator a call takes 16 steps."""
    monkeypatch.setattr(learner, "steps_per_call", lambda: 16)
    options = {"capacity": 500, "reuse": 2.5}
    assert make_plan(tiny.config(batch_size=72, **options)).buffer.capacity == 500  # 461 are enough
    assert make_plan(tiny.config(batch_size=144, **options), 2).buffer.capacity == 500
    with pytest.raises(ValueError, match=r"16 steps of --batch-size 80 .* at least 512, or"):
        make_plan(tiny.config(batch_size=80, **options))
    with pytest.raises(ValueError, match=r"--capacity 500: .* 512 positions .* at least 1024, or"):
        make_plan(tiny.config(batch_size=160, **options), 2, initial_devices=1)
    with pytest.raises(ValueError, match=r"--capacity 34: too few positions .* at least 36"):
        make_plan(tiny.config(batch_size=8, capacity=34, reuse=32), 2, initial_devices=1)
    played = worker.plan_of(tiny.config(batch_size=80, reuse=0.1))  # which does not learn
    assert played.buffer.capacity < 500


def test_another_game_is_planned():
    hex_flags = {"size": 3, "komi": (), "ko": TrainConfig().ko, "auxiliary": False}
    plan = make_plan(tiny.config(game="hex", **hex_flags))
    assert plan.play.game == make_game("hex", 3)
    assert plan.learner.network.observation == (3, 3, 3)
