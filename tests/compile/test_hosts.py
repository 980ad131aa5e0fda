"""Programs as a machine with a GPU or a TPU traces them are lowered for it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.compile import mode
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play import devices
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.playouts.policies.uniform import uniform_playouts
from gozero.search.search import search
from tests.compile.forms import host_with
from tests.train import tiny
from train import steps
from train.plan import make_plan

RULES = go.Rules(4)
LOWERED = {"gpu": "cuda", "tpu": "tpu"}


def states(count):
    return jax.vmap(lambda _: go.init(RULES))(jnp.arange(count))


def lowered(platform, function, *args):
    """The text of the program for the platform."""
    traced = jax.jit(function).trace(*args)
    return traced.lower(lowering_platforms=(LOWERED[platform],)).as_text()


def rules_of_go(platform):
    play = jax.vmap(lambda state, action: go.play(RULES, state, action))
    return lowered(platform, play, states(8), jnp.zeros(8, jnp.int32))


def playouts(platform):
    play_out = lambda positions, key: uniform_playouts(RULES, positions, key)
    return lowered(platform, play_out, states(8).position, jax.random.key(0))


def of_player(count, **flags):
    def program(platform):
        config = PlayerConfig(simulations=8, **flags)
        setup = make_setup(RULES, config)
        run = lambda key, states: (
            search(go_game(RULES), setup.evaluator, key, states, setup.search).action
        )
        return lowered(platform, run, jax.random.key(0), states(count))

    return program


PROGRAMS = {
    "rules": rules_of_go,
    "playouts": playouts,
    "puct with a network, one game": of_player(1, evaluator="network"),
    "gumbel": of_player(8, evaluator="network", search="gumbel"),
    "katago": of_player(8, evaluator="network", search="katago"),
    "rave": of_player(8, search="rave", playouts="mogo"),
    "uct, several leaves": of_player(2, search="uct", playouts="uniform", leaves=4),
}
DEFAULT = {("gpu", "gumbel"), ("tpu", "playouts")}


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        pytest.param(
            platform,
            name,
            marks=() if (platform, name) in DEFAULT else pytest.mark.thorough,
            id=f"{name} on {platform}",
        )
        for platform in LOWERED
        for name in PROGRAMS
    ],
)
def test_a_program_is_lowered_on_a_machine_with_such_a_device(platform, name, monkeypatch):
    with host_with(platform, monkeypatch):
        text = PROGRAMS[name](platform)
    kernels = text.count("triton") + text.count("tpu_custom_call")
    assert kernels > 0, "it has the kernels for this platform"


@pytest.mark.thorough
def test_the_rules_are_lowered_for_the_cpu_beside_a_tpu(monkeypatch):
    """Such as `gozero match` plays single games there."""
    play = jax.vmap(lambda state, action: go.play(RULES, state, action))
    with host_with("tpu", monkeypatch):
        traced = jax.jit(play).trace(states(8), jnp.zeros(8, jnp.int32))
        assert "tpu_custom_call" not in traced.lower(lowering_platforms=("cpu",)).as_text()


def test_in_a_gpu_kernel_the_platform_is_known(monkeypatch):
    with host_with("gpu", monkeypatch), mode.in_triton():
        chosen = mode.by_platform(
            jnp.zeros(2), cuda=lambda x: x + 1, cpu=lambda x: x + 2, default=lambda x: x
        )
    assert chosen.tolist() == [1, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("platform", LOWERED)
@pytest.mark.parametrize(
    "root", [{}, {"root": "puct", "leaves": 4, "virtual_loss": 3, "reuse_subtree": True}], ids=str
)
def test_training_is_lowered_on_a_machine_with_such_a_device(platform, root, tmp_path, monkeypatch):
    flags = root | {"resign": True, "surprise": 0.5}
    with host_with(platform, monkeypatch):
        plan = make_plan(tiny.config(tmp_path, **flags))
        mesh = devices.mesh_of(1)
        state = jax.eval_shape(lambda: steps.begin(plan, mesh))
        programs = (
            (steps.make_play(plan, mesh, plan.simulations(0)), state.play_params, state.playing),
            (steps.make_learn(plan, mesh, 1), state.learner, state.playing.buffer, np.float32(0)),
        )
        for program, *args in programs:
            text = lowered(platform, program, *args)
            assert "stablehlo.dot_general" in text or "stablehlo.convolution" in text
            kernels = text.count("triton") + text.count("tpu_custom_call")
            assert kernels > 0 or program is programs[1][0]
