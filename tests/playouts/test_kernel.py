"""Whole playouts in one kernel: the same games, bit for bit, and where kernels are used."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.experimental.pallas import triton

import gozero
from gozero.compile import ahead, estimate, mode
from gozero.compile.kernels import lane_loop
from gozero.go import bitboard as bb
from gozero.go import rules as go
from gozero.play.evaluators import playout_evaluator
from gozero.playouts import engine
from gozero.playouts.policies import uniform, window
from gozero.playouts.policies.mogo import playouts as mogo
from gozero.playouts.policies.softmax import softmax, strengths
from tests.go.boards import unpack
from tests.hlo import AS_USERS_FUSE
from tests.playouts.positions import (
    empty_boards,
    game_of,
    last_move,
    positions_in_atari,
    random_games,
)


@pytest.fixture
def in_kernels(monkeypatch):
    """Run what is traced for a TPU or a GPU here, in interpret mode."""
    plan, by_platform = lane_loop.plan, mode.by_platform
    interpreted = {"tpu": "interpret", "cuda": "interpret-cuda"}

    def as_there(*args, default, **others):
        platform = mode.IN_LOWERING.get(mode.backend(), mode.backend())
        function = others.get(platform)
        return by_platform(*args, default=default) if function is None else function(*args)

    as_it_is = pallas.pallas_call
    here = lambda *args, **options: as_it_is(*args, **{**options, "interpret": True})
    monkeypatch.setattr(pallas, "pallas_call", here)
    monkeypatch.setattr(lane_loop, "plan", lambda name, *sizes: plan(interpreted[name], *sizes))
    monkeypatch.setattr(mode, "by_platform", as_there)


def uniform_run(rules: go.Rules, **options):
    return functools.partial(uniform.uniform_playouts, rules, **options)


def mogo_run(rules: go.Rules, **options):
    def run(positions, key, last):
        return mogo.mogo_playouts(rules, positions, key, last=last, **options)

    return run


def check_same_games(run, *args, target="tpu"):
    """Check that a kernel gives the same results as arrays."""
    expected = jax.jit(run, compiler_options=AS_USERS_FUSE)(*args)
    with mode.target(target):
        got = jax.jit(run)(*args)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    return got


def unfinished(size: int, count: int, seed: int) -> tuple[go.Position, jax.Array]:
    """(positions, last moves) of games stopped anywhere, some of them ended."""
    games = random_games(size, count, seed)
    last = jnp.array([last_move(game) for game in games], jnp.int32)
    return positions_in_atari(games), last


SLOW = pytest.mark.slow
SIZES = [pytest.param(5, 40, marks=pytest.mark.thorough), pytest.param(9, 40, marks=SLOW)]


@pytest.mark.parametrize(
    "first_plays",
    ["either", *(pytest.param(one, marks=pytest.mark.thorough) for one in (False, "same"))],
)
def test_uniform_playouts_in_a_kernel_are_the_same_games(in_kernels, first_plays):
    positions, _ = unfinished(5, 40, seed=1)
    run = uniform_run(go.Rules(5), ends=True, first_plays=first_plays)
    check_same_games(run, positions, jax.random.key(2))


@pytest.mark.thorough
def test_uniform_playouts_of_9x9_in_a_kernel_are_the_same_games(in_kernels):
    rules = go.Rules(9)
    got = check_same_games(uniform_run(rules), empty_boards(rules, 50), jax.random.key(3))
    assert np.all(got.finished)
    assert 80 < np.mean(got.moves) < 140


@pytest.mark.thorough
def test_a_kernel_truncates_playouts_alike(in_kernels):
    positions, _ = unfinished(5, 8, seed=4)
    got = check_same_games(uniform_run(go.Rules(5), max_moves=7), positions, jax.random.key(5))
    assert not np.all(got.finished)
    assert np.max(got.moves) == 7


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_mogo_playouts_in_a_kernel_are_the_same_games(in_kernels, size, count):
    positions, last = unfinished(size, count, seed=6)
    run = mogo_run(go.Rules(size), ends=True, first_plays=True)
    check_same_games(run, positions, jax.random.key(7), last)


@pytest.mark.parametrize(
    ("size", "count"),
    [(5, 40), pytest.param(9, 18000, marks=SLOW), pytest.param(19, 40, marks=SLOW)],
)
def test_playouts_in_a_kernel_of_a_gpu_are_the_same_games(in_kernels, size, count):
    """With 18000 there are two games per lane."""
    rules = go.Rules(size)
    run = uniform_run(rules, first_plays=True, ends=True)
    positions = unfinished(5, count, seed=11)[0] if size == 5 else empty_boards(rules, count)
    check_same_games(run, positions, jax.random.key(12), target="gpu")


@pytest.mark.slow
def test_mogo_playouts_in_a_kernel_of_a_gpu_are_the_same_games(in_kernels):
    positions, last = unfinished(9, 40, seed=13)
    run = mogo_run(go.Rules(9), ends=True, first_plays=True)
    check_same_games(run, positions, jax.random.key(14), last, target="gpu")


class Ref(NamedTuple):
    """A block's words u32[words, games, *lanes], as a kernel reads and writes them."""

    words: np.ndarray

    @property
    def shape(self):
        return self.words.shape

    @property
    def at(self):  # as `triton.load` and `triton.store` take it
        return _Places(self.words)

    def __getitem__(self, at):
        return jnp.array(self.words[at])

    def __setitem__(self, at, word):
        self.words[at] = word


class _Places(NamedTuple):
    words: np.ndarray

    def __getitem__(self, at):
        return self.words, tuple(map(np.asarray, at))


@pytest.fixture
def op_by_op(monkeypatch):
    """Run a kernel's own code operation by operation, in one block with two games per lane.

    Nothing is compiled: in interpret mode XLA took 18 GB for MoGo's playouts of 19x19.
    """

    def load(place):
        words, at = place
        return jnp.array(words[at])

    def store(place, word, mask=None):
        words, at = place
        words[at] = np.where(True if mask is None else mask, word, words[at])

    def call(how, kernel, state: list[jax.Array]) -> list[jax.Array]:
        given = [Ref(np.array(x)) for x in state]
        out: Any = [Ref(np.zeros_like(ref.words)) for ref in given]
        with jax.disable_jit():
            kernel(*given, *out)
        return [jnp.asarray(ref.words) for ref in out]

    def plan(platform, count, words):
        return lane_loop.BlockPlan(platform, (math.ceil(count / 2),), blocks=1, games=2)

    monkeypatch.setattr(triton, "load", load)
    monkeypatch.setattr(triton, "store", store)
    monkeypatch.setattr(lane_loop, "_call", call)
    monkeypatch.setattr(lane_loop, "plan", plan)


def after(moves: int, size: int, count: int, seed: int) -> tuple[go.Position, jax.Array]:
    """(positions, no last moves) of MoGo's playouts after `moves` moves, Black to play."""
    rules, last = go.Rules(size), jnp.full(count, bb.NO_POINT)
    run = jax.jit(mogo_run(rules, ends=True, max_moves=moves), compiler_options=AS_USERS_FUSE)
    ends = run(empty_boards(rules, count), jax.random.key(seed), last).ends
    black, white = (unpack(rules.layout, words) for words in ends)
    symbols = np.where(black, "X", np.where(white, "O", "."))
    games = [game_of(" ".join(map("".join, board.reshape(size, size)))) for board in symbols]
    return positions_in_atari(games), last


@pytest.mark.parametrize("platform", ["interpret", "interpret-cuda"])
@pytest.mark.parametrize(
    ("size", "before", "moves"),
    [
        pytest.param(3, None, 9, marks=pytest.mark.thorough),
        pytest.param(19, None, 16, marks=SLOW),
        pytest.param(19, 430, 30, marks=SLOW),
    ],
    ids=["3x3", "19x19", "19x19 to the end"],
)
def test_mogo_playouts_in_a_kernel_op_by_op_are_the_same_games(
    op_by_op, size, before, moves, platform
):
    """The next moves of games stopped anywhere, or the moves up to their ends."""
    rules, key = go.Rules(size), jax.random.key(16)
    positions, last = unfinished(size, 12, seed=15) if before is None else after(before, 19, 12, 17)
    run = mogo_run(rules, ends=True, first_plays=True, max_moves=moves)
    expected = jax.jit(run, compiler_options=AS_USERS_FUSE)(positions, key, last)
    assert np.max(expected.moves) == moves
    assert np.any(expected.finished) == (size == 3 or before is not None)

    policy = mogo.policy(rules.layout)

    @jax.jit
    def init(positions, last):
        clock = engine.init_clock(positions, key, engine.lane_ids(12))
        return policy.init(rules, positions, clock, True, last)

    state = lane_loop.run(
        lambda state: engine.playing(state.clock, moves),
        lambda state: policy.advance(rules, moves, (), state)[0],
        init(positions, last),
        platform,
    )
    results = functools.partial(engine._results, rules, which=jnp.ones(12, bool), ends=True)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(results)(state), expected)


@pytest.mark.slow
def test_all_rules_of_mogo_in_a_kernel_are_the_same_games(in_kernels):
    positions, last = unfinished(7, 40, seed=9)
    config = mogo.MogoConfig(nakade=True, diversity=2)
    run = mogo_run(go.Rules(7), config=config, first_plays="same")
    check_same_games(run, positions, jax.random.key(10), last)


@pytest.mark.slow
@pytest.mark.parametrize("size", [9, 16])
def test_many_playouts_in_a_kernel_are_the_same_games(in_kernels, size):
    """3000 and 1100 give two games per lane; 16x16 tries moves in a window."""
    rules = go.Rules(size)
    assert window.fits(rules.layout) == (size == 16)
    count = 3000 if size == 9 else 1100
    run = uniform_run(rules, first_plays=True)
    check_same_games(run, empty_boards(rules, count), jax.random.key(8))


# --- where kernels are used -----------------------------------------------------------


@pytest.fixture
def kernels_for(monkeypatch):
    """(target, function, arguments) -> the platforms for which it plays in a kernel: the target's
    or none."""
    play_in_kernel = engine._play_in_kernel

    def traced(target, run, *args):
        found = set()

        def spy(policy, rules, cap, init, ends, platform, *games):
            found.add(platform)
            return play_in_kernel(policy, rules, cap, init, ends, platform, *games)

        monkeypatch.setattr(engine, "_play_in_kernel", spy)
        with mode.target(target):
            jaxpr = jax.make_jaxpr(lambda *args: run(*args))(*args)
        assert not found or "pallas_call" in str(jaxpr)
        return found

    return traced


@pytest.mark.parametrize("target", mode.PLATFORMS)
def test_kernels_are_used_on_tpus_and_gpus(target, kernels_for, monkeypatch):
    args = empty_boards(go.Rules(5), 4), jax.random.key(0)
    run = uniform_run(go.Rules(5))
    expected = {"cpu": set(), "gpu": {"cuda"}, "tpu": {"tpu"}}
    assert kernels_for(target, run, *args) == expected[target]
    monkeypatch.setenv(mode.VARIABLE, "plain")
    assert kernels_for(target, run, *args) == set()


@pytest.mark.parametrize("policy", ["uniform", "mogo"])
def test_an_evaluator_plays_in_a_kernel(policy, kernels_for):
    rules = gozero.Rules(size=5)
    evaluator = playout_evaluator(rules, policy, first_plays=True)
    states = jax.vmap(lambda _: gozero.init(rules))(jnp.arange(4))
    last = (jnp.full(4, bb.NO_POINT),) if policy == "mogo" else ()
    seen = (states.position, states.komi, *last)
    run = lambda key, seen: evaluator.evaluate(evaluator.params, key, seen)
    assert kernels_for("tpu", run, jax.random.key(0), seen) == {"tpu"}


def test_policies_with_table_look_ups_have_no_kernel():
    policy = softmax.as_policy(softmax.softmax_policy(strengths.uniform(), 5))
    assert policy.takes_last
    assert not policy.in_kernel


# --- compiled for other machines ------------------------------------------------------


def shapes(rules: go.Rules, count: int) -> tuple:
    positions = jax.eval_shape(lambda: empty_boards(rules, count))
    return positions, jax.eval_shape(lambda: jax.random.key(0))


def compiled_for(name: str, run, *args) -> ahead.Compiled:
    target = ahead.target(name)
    try:
        return ahead.compile(target, run, *args)
    except ahead.MissingCompiler as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["v5e", "h100"])
@pytest.mark.parametrize("size", [9, 19])
def test_uniform_playouts_compile_as_a_kernel(chip, size):
    rules = go.Rules(size)
    compiled = compiled_for(chip, uniform_run(rules, first_plays=True), *shapes(rules, 4096))
    program = estimate.read(compiled.text, chip)
    assert program.custom_kernels >= 1
    assert program.host_loops == 0
    assert chip != "h100" or program.host_conditionals == 0
    print(f"\n{chip} {size}x{size}: {compiled.compile_seconds:.1f} s, {program.kernels} kernels")


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["v5e", "h100"])
def test_mogo_playouts_compile_as_a_kernel(chip):
    rules = go.Rules(9)
    last = jax.ShapeDtypeStruct((4096,), jnp.int32)
    compiled = compiled_for(chip, mogo_run(rules), *shapes(rules, 4096), last)
    program = estimate.read(compiled.text, chip)
    assert program.custom_kernels >= 1
    assert program.host_loops == 0
    assert chip != "h100" or program.host_conditionals == 0
