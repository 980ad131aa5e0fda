"""Past boards as stored on a TPU and a GPU, against the plain reference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.accelerators import programs
from gozero.compile import ahead, estimate
from gozero.go import rules as go
from gozero.go import superko
from tests.compile.forms import form_of, take_forms_of
from tests.games import test_go_game
from tests.go import stepping


@pytest.fixture(params=["tpu", "plain"])
def form(request, monkeypatch):
    take_forms_of(request.param, monkeypatch)
    stepping.stepper.cache_clear()
    yield request.param
    stepping.stepper.cache_clear()


BY_FORM = pytest.mark.parametrize(
    "form", [pytest.param("tpu", marks=pytest.mark.thorough), "plain"], indirect=True
)
"""By default the TPU's form is in games only."""


@pytest.fixture
def in_kernel(monkeypatch):
    """The GPU's form, with its kernels interpreted."""
    stepping.stepper.cache_clear()
    with form_of("cuda", monkeypatch):
        yield
    stepping.stepper.cache_clear()


@pytest.mark.parametrize(
    ("size", "ko", "suicide", "games", "moves"),
    [
        (3, "situational", True, 30, 120),
        pytest.param(4, "positional", False, 30, 120, marks=pytest.mark.thorough),
        pytest.param(9, "positional", False, 4, 220, marks=pytest.mark.slow),
    ],
)
def test_games_agree_with_the_reference(form, size, ko, suicide, games, moves):
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=400)
    counts = stepping.compare_random_games(rules, games, moves, seed=size)
    assert counts["bans"] > 0 or size > 4
    assert counts["suicide_bans"] > 0 or not suicide


@BY_FORM
@pytest.mark.parametrize(
    ("split", "ko"), [(9, "situational"), pytest.param(0, "positional", marks=pytest.mark.thorough)]
)
def test_branches_agree_with_the_reference(form, split, ko):
    legality = test_go_game.test_legality_over_game_and_ancestors_equals_the_whole_game
    legality(3, split, ko, suicide=True)


@pytest.mark.parametrize(
    ("size", "ko", "suicide"),
    [
        (4, "positional", False),
        pytest.param(3, "situational", True, marks=pytest.mark.slow),
        pytest.param(9, "positional", False, marks=pytest.mark.slow),
    ],
)
def test_games_in_a_kernel_agree_with_the_reference(in_kernel, size, ko, suicide):
    rules = go.Rules(size=size, ko=ko, suicide=suicide, max_moves=400)
    counts = stepping.compare_random_games(rules, 10, 120, seed=size)
    assert counts["bans"] > 0 or size > 4


@pytest.mark.thorough
def test_branches_in_a_kernel_agree_with_the_reference(in_kernel):
    legality = test_go_game.test_legality_over_game_and_ancestors_equals_the_whole_game
    legality(3, 9, "situational", suicide=True)


def test_past_boards_equal_the_recorded_ones(form):
    """Boards are read in any order; each of two games asks for its own plies."""
    lay = go.Rules(size=9).layout
    boards = np.random.default_rng(0).integers(0, 2**27, (2, 5, 2, lay.num_words), np.uint32)

    def played(boards):
        past = superko.start(lay, 40)
        for ply in range(5):
            black, white = (tuple(words) for words in boards[ply])
            past = superko.record(lay, past, jnp.int32(8 * ply), black, white, jnp.int8(0))
        return past

    pasts = jax.jit(jax.vmap(played))(jnp.asarray(boards))
    plies = jnp.array([[32, 0, 8], [16, 24, 9]])
    result = jax.jit(jax.vmap(superko.boards_at))(pasts, plies)
    np.testing.assert_array_equal(result[0], boards[0][[4, 0, 1]])
    np.testing.assert_array_equal(result[1][:2], boards[1][[2, 3]])
    assert not result[1][2].any()


def test_a_game_of_one_form_continues_in_the_other(monkeypatch):
    """A game's arrays are the same on all platforms."""
    rules = go.Rules(size=3, ko="situational", max_moves=100)

    def played(platform):
        with monkeypatch.context() as patch:
            take_forms_of(platform, patch)
            play = jax.jit(lambda state, action: go.play(rules, state, action))
            state = go.init(rules)
            for action in (4, 1, 3, 9, 5):
                state = play(state, jnp.int32(action))
        return state

    for x, y in zip(*(jax.tree.leaves(played(name)) for name in ("cpu", "tpu")), strict=True):
        np.testing.assert_array_equal(x, y)


MOVES = [(9, 4096, "v5e"), (19, 1024, "v5e")] + [
    (size, batch, "h100") for size, batch in ((9, 4096), (13, 2048), (15, 2048), (19, 1024))
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "batch", "chip"), MOVES)
def test_moves_on_an_accelerator_copy_no_past(size, batch, chip):
    """A loop of moves updates the past in place, and on a GPU the host waits for no comparison."""
    rules = go.Rules(size=size)

    def play_moves(states, actions):
        def move(states, actions):
            states = jax.vmap(lambda state, action: go.play(rules, state, action))(states, actions)
            return states, jax.vmap(lambda state: go.legal_actions(rules, state))(states)

        return jax.lax.scan(move, states, actions)

    states = jax.eval_shape(lambda: stepping.new_games(rules, batch))
    actions = jax.ShapeDtypeStruct((8, batch), jnp.int32)
    try:
        play_moves = jax.jit(play_moves, donate_argnums=0)
        compiled = ahead.compile(ahead.target(chip), play_moves, states, actions)
    except ahead.MissingCompiler as missing:
        pytest.skip(str(missing))
    rounds = {**programs._superko(size), "": 1}
    move = estimate.read(compiled.text, chip, rounds).find(8)
    if chip == "h100":
        assert move.host_loops == 0
        return
    print(f"\n{size}x{size}: {1e3 * move.seconds:.2f} ms a move, {compiled.temp_bytes} bytes")
    assert move.seconds < (0.4e-3 if size == 9 else 0.8e-3)
    assert compiled.temp_bytes < 4 * states.past.boards.size / 3  # a third of the past's bytes
