"""The gain of each trick of `gozero.compile` on this machine; one without gain should be removed.

Slow. Runs with and without the trick alternate; the ratio of the medians is printed (-s).
"""

import statistics
import time
import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

import gozero
from gozero.compile import batching, indexing, mode, stages, winograd
from gozero.go import liberties
from gozero.go import rules as go
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.playouts.policies.uniform import uniform_playouts
from gozero.search.config import Amaf
from gozero.search.rules.gumbel import GumbelInterior, GumbelRoot
from gozero.search.rules.rave import MinimumMse, Rave

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(jax.default_backend() != "cpu", reason="tricks for XLA:CPU"),
]
TURNS = 11


def compiled(function: Callable, *args) -> Callable:
    """() -> the function of the arguments, compiled as users have it."""
    options = {"xla_backend_optimization_level": 3, **stages.cpu_compiler_options()}
    program = jax.jit(function).lower(*args).compile(options)
    return lambda: jax.block_until_ready(program(*args))


def empty_boards(rules: go.Rules, count: int) -> go.Position:
    return jax.vmap(lambda _: go.empty_position(rules))(jnp.arange(count))


def playouts(size: int, count: int) -> Callable:
    rules = go.Rules(size=size, ko="simple")
    run = lambda positions, key: uniform_playouts(rules, positions, key)
    return compiled(run, empty_boards(rules, count), jax.random.key(0))


def moves(size: int, count: int) -> Callable:
    """60 moves of `count` random games."""
    rules = go.Rules(size=size, ko="simple")
    states = jax.vmap(lambda _: gozero.init(rules))(jnp.arange(count))

    def one_move(i, states):
        legal = jax.vmap(lambda state: gozero.legal_actions(rules, state))(states)
        order = jax.random.uniform(jax.random.key(i), legal.shape)
        actions = jnp.argmax(jnp.where(legal, order, -1), axis=1)
        return jax.vmap(lambda state, a: gozero.play(rules, state, a))(states, actions)

    return compiled(lambda states: jax.lax.fori_loop(0, 60, one_move, states), states)


def liberty_counts(size: int, count: int) -> Callable:
    rules, key = go.Rules(size=size, ko="simple"), jax.random.key(0)
    cut = size * size // 2
    positions = empty_boards(rules, count)
    ends = uniform_playouts(rules, positions, key, max_moves=cut, ends=True).ends
    one_board = lambda black, white: liberties.liberty_counts(rules.layout, black, white)
    return compiled(jax.vmap(one_board), *ends)


def search(count: int, simulations: int = 100, **settings) -> Callable:
    """`simulations` simulations on 9x9 in each of `count` trees, without a network."""
    rules = go.Rules(size=9)
    states = jax.vmap(lambda _: gozero.init(rules))(jnp.arange(count))
    no_network = lambda params, key, seen: gozero.Evaluation(
        jax.random.normal(key, (count, rules.num_actions)), jnp.zeros(count)
    )
    evaluator = gozero.Evaluator(
        no_network, observe=lambda context, position, ancestors: ancestors.length
    )
    config = gozero.SearchConfig(simulations, **settings)
    run = lambda key: gozero.search(gozero.go_game(rules), evaluator, key, states, config).visits
    return compiled(run, jax.random.key(0))


def evaluations(size: int, count: int) -> Callable:
    """A network of 6 blocks of 64 channels on `count` positions, four times."""
    config = NetworkConfig(blocks=6, channels=64)
    params = network.init(config, jax.random.key(0))

    def run(params, planes):
        def again(_, planes):
            value = network.apply_on_cpu(config, params, planes).value
            return planes + 0 * value[:, None, None, None]

        return jax.lax.fori_loop(0, 4, again, planes)

    return compiled(run, params, jnp.zeros((count, size, size, config.num_planes)))


def without_read_rows(patch):
    plainly = lambda array, rows: array.at[rows].get(mode="promise_in_bounds")
    patch.setattr(indexing, "read_rows", plainly)


def without_once(patch):
    patch.setattr(stages, "once", lambda stage, *args: stage(*args))


def without_one_kernel(patch):
    patch.setattr(stages, "one_kernel", lambda function, *args, reduced=0: function(*args))


def without_step_kernel(patch):
    patch.setattr(stages, "step_kernel", lambda stage, *args, word=None, reduced=0: stage(*args))


def without_over_games(patch):
    patch.setattr(batching, "mode", types.SimpleNamespace(plain=lambda: True))


def without_in_cache(patch):
    patch.setattr(batching, "_in_cache", lambda stage, *args: stage(*args))


def without_by_platform(patch):
    patch.setattr(mode, "by_platform", lambda *args, default, **others: default(*args))


def without_wide_vectors(patch):
    patch.setattr(stages, "cpu_compiler_options", dict)


def without_winograd(patch):
    patch.setattr(winograd, "is_faster", lambda *_: False)


def without_highest(patch):
    patch.setattr(indexing, "highest", lambda numbers: jnp.max(numbers, axis=-1))


GUMBEL = {"select": GumbelInterior(), "root_select": GumbelRoot()}  # its steps are not one kernel
RAVE = Rave(MinimumMse(0.1))
TRICKS = {
    "once: playouts 9x9": (without_once, lambda: playouts(9, 2048)),
    "once: moves 19x19": (without_once, lambda: moves(19, 64)),
    "one_kernel: playouts 9x9": (without_one_kernel, lambda: playouts(9, 256)),
    "one_kernel: search of 64 trees": (without_one_kernel, lambda: search(64, **GUMBEL)),
    "step_kernel: search of one tree": (without_step_kernel, lambda: search(1, 1600)),
    "step_kernel: search of 64 trees": (without_step_kernel, lambda: search(64)),
    "highest: MC-RAVE of 64 trees": (without_highest, lambda: search(64, amaf=Amaf(), select=RAVE)),
    "read_rows: search of one tree": (without_read_rows, lambda: search(1, 1600, **GUMBEL)),
    "over_games: moves 9x9": (without_over_games, lambda: moves(9, 256)),
    "in_cache: liberty counts 19x19": (without_in_cache, lambda: liberty_counts(19, 1024)),
    "cpu sweeps: liberty counts 19x19": (without_by_platform, lambda: liberty_counts(19, 1024)),
    "wide vectors: playouts 19x19": (without_wide_vectors, lambda: playouts(19, 512)),
    "winograd: network 9x9": (without_winograd, lambda: evaluations(9, 64)),
    "winograd: network 19x19": (without_winograd, lambda: evaluations(19, 32)),
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_pays(name, monkeypatch):
    without, make = TRICKS[name]
    jax.clear_caches()
    run = make()
    jax.clear_caches()
    with monkeypatch.context() as patch:
        without(patch)
        plain = make()
    jax.clear_caches()
    seconds: dict[Callable, list[float]] = {run: [], plain: []}
    for _ in range(TURNS):
        for each, taken in seconds.items():
            started = time.perf_counter()
            each()
            taken.append(time.perf_counter() - started)
    ratio = statistics.median(seconds[plain]) / statistics.median(seconds[run])
    print(f"\n{name}: {ratio:.2f} times as fast as plain")
    assert ratio > 1.02, f"{name}: {ratio:.2f} times as fast as plain, so it no longer pays"
