"""Our search of an mctx model: the same visits as mctx, and our other features work too."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.games.mctx import from_mctx, gumbel_muzero_policy
from gozero.games.pgx import make, pgx_game
from gozero.hashing import mix
from gozero.search import reuse
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.search import search
from tests.compile.forms import form_of
from tests.hlo import AS_USERS_FUSE, moves_in_loops

mctx = pytest.importorskip("mctx")
pytestmark = pytest.mark.usefixtures("ranks")

BATCH, NUM_ACTIONS = 16, 12
LOWEST = float(np.finfo(np.float32).min)


@pytest.fixture
def ranks():
    """Allow rank promotion, which mctx and pgx rely on."""
    with jax.numpy_rank_promotion("allow"):
        yield


def hashed(codes, num_actions=NUM_ACTIONS):
    """(logits, values) by codes u32[M]. Logits are almost never equal; values are multiples of
    2^-14, whose sums are exact in both searches."""
    actions = jnp.arange(num_actions, dtype=jnp.uint32)[None] * np.uint32(0x27D4EB2D)
    bits = mix(codes[:, None] ^ (actions + np.uint32(12345)))
    logits = (bits >> np.uint32(8)).astype(jnp.float32) * np.float32(4 / 2**24)
    value = mix(codes ^ np.uint32(0xABCDEF)) >> np.uint32(17)
    return logits, value.astype(jnp.float32) / 2**14 - 1


def model(ends: int, masked: int, reward_on_the_way=0.0, discount=-1.0):
    """A recurrent_fn: one position in `ends` is terminal, one logit in `masked` is `LOWEST`."""

    def step(params, key, action, codes):
        del params, key
        codes = mix(codes * np.uint32(31) + action.astype(jnp.uint32))
        logits, value = hashed(codes)
        banned = mix(codes[:, None] + jnp.arange(NUM_ACTIONS, dtype=jnp.uint32)) % masked == 0
        over = (codes >> np.uint32(5)) % ends == 0
        result = jnp.where((codes & 1) == 0, 1.0, -1.0)
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(over, result, reward_on_the_way),
            discount=jnp.where(over, 0.0, discount),
            prior_logits=jnp.where(banned.at[:, 0].set(False), LOWEST, logits),
            value=jnp.where(over, 0.0, value),
        )
        return output, codes

    return step


def roots(seed=3):
    codes = jnp.asarray(np.random.RandomState(seed).randint(1, 2**31, BATCH).astype(np.uint32))
    logits, value = hashed(codes)
    return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=codes)


def some_invalid(share=0.4):
    return (
        jnp.asarray(np.random.RandomState(1).rand(BATCH, NUM_ACTIONS) < share).at[:, 0].set(False)
    )


def both(root, recurrent_fn, num_simulations, invalid=None, seed=0, **options):
    """(ours, theirs) from one key."""
    run = lambda policy: jax.jit(
        lambda key: policy(None, key, root, recurrent_fn, num_simulations, invalid, **options)
    )(jax.random.key(seed))
    return run(gumbel_muzero_policy), run(mctx.gumbel_muzero_policy)


def check_equal(ours, theirs):
    summary = theirs.search_tree.summary()
    np.testing.assert_array_equal(ours.search_tree.visits, summary.visit_counts)
    np.testing.assert_array_equal(ours.action, theirs.action)
    np.testing.assert_allclose(ours.action_weights, theirs.action_weights, atol=1e-5)
    np.testing.assert_allclose(ours.search_tree.value, summary.value, atol=1e-6)
    assert ours.search_tree.ok.all()


@pytest.mark.parametrize(
    ("ends", "masked", "num_simulations", "considered", "invalid", "scale"),
    [
        pytest.param(8, 3, 50, 16, True, 1.0, marks=pytest.mark.thorough),
        pytest.param(2**20, 2**20, 50, 10, False, 1.0, marks=pytest.mark.slow),
        pytest.param(8, 2**20, 50, 16, True, 1.0, marks=pytest.mark.slow),
        (5, 2, 7, 4, True, 0.0),
        pytest.param(6, 3, 200, 16, True, 0.5, marks=pytest.mark.slow),
        pytest.param(3, 4, 1, 16, False, 1.0, marks=pytest.mark.slow),
    ],
)
def test_visits_equal_those_of_mctx(ends, masked, num_simulations, considered, invalid, scale):
    """Actions, weights and values too, from the same key."""
    options = {"max_num_considered_actions": considered, "gumbel_scale": jnp.float32(scale)}
    transform = mctx.qtransform_completed_by_mix_value
    options["qtransform"] = (
        functools.partial(transform, value_scale=0.2) if masked == 2 else transform
    )
    options["loop_fn"] = jax.lax.fori_loop
    mask = some_invalid() if invalid else None
    ours, theirs = both(roots(), model(ends, masked), num_simulations, mask, **options)
    check_equal(ours, theirs)
    if num_simulations > 1:
        assert len({tuple(row) for row in np.asarray(ours.search_tree.visits)}) > BATCH / 2


@pytest.mark.thorough
def test_visits_equal_those_of_mctx_in_a_kernel(monkeypatch):
    """In the form for a GPU the actions are padded with illegal ones, which are not unvisited
    actions of the model: here the mixed value is below that of each action."""
    root, whole = roots().replace(value=jnp.full(BATCH, -1.0)), model(2**20, 2**20)

    def close(*arguments):
        output, codes = whole(*arguments)
        return output.replace(value=jnp.round(output.value * 2**7) / 2**14), codes

    run = lambda policy: jax.jit(
        lambda key: policy(None, key, root, close, 30, max_num_considered_actions=16)
    )(jax.random.key(0))
    with form_of("cuda", monkeypatch):
        ours = run(gumbel_muzero_policy)
    check_equal(ours, run(mctx.gumbel_muzero_policy))
    assert (ours.search_tree.visits > 0).all()


def test_other_transformations_and_loops_are_refused():
    policy = lambda **more: gumbel_muzero_policy(
        None, jax.random.key(0), roots(), model(8, 9), 4, **more
    )
    with pytest.raises(ValueError, match=r"^qtransform: .*by_parent_and_siblings"):
        policy(qtransform=mctx.qtransform_by_parent_and_siblings)
    unmixed = functools.partial(mctx.qtransform_completed_by_mix_value, use_mixed_value=False)
    with pytest.raises(ValueError, match=r"^qtransform: it sets use_mixed_value; expected"):
        policy(qtransform=unmixed)
    with pytest.raises(ValueError, match=r"^loop_fn: "):
        policy(loop_fn=map)


@pytest.mark.slow
def test_a_depth_limit_equals_that_of_mctx():
    ours, theirs = both(roots(), model(8, 2**20), 60, max_depth=2)
    check_equal(ours, theirs)


@pytest.mark.slow
def test_a_root_of_few_valid_actions():
    ours, theirs = both(roots(5), model(8, 3), 30, some_invalid(0.9))
    check_equal(ours, theirs)


@pytest.mark.thorough
def test_actions_that_a_model_does_not_have_are_never_visited():
    """Their logits are -1e9, and no value makes up for that: below the root there is a single
    action, with a Q below the network's value."""

    def step(params, key, action, depth):
        depth = depth + 1
        return mctx.RecurrentFnOutput(
            reward=jnp.zeros(BATCH),
            discount=-jnp.ones(BATCH),
            prior_logits=jnp.tile(jnp.array([[0.0, -1e9, -1e9]]), (BATCH, 1)),
            value=jnp.where(depth % 2 == 1, 0.5, 0.25),
        ), depth

    zeros = jnp.zeros(BATCH)
    root = mctx.RootFnOutput(
        prior_logits=jnp.zeros((BATCH, 3)), value=zeros, embedding=zeros.astype(jnp.int32)
    )
    scale = functools.partial(mctx.qtransform_completed_by_mix_value, value_scale=1.0)
    run = lambda key: gumbel_muzero_policy(
        None, key, root, step, 64, jnp.arange(3)[None] > jnp.zeros((BATCH, 1)), qtransform=scale
    )
    tree = jax.jit(run)(jax.random.key(0)).search_tree.tree
    actions = np.asarray(tree.action)[np.asarray(tree.parent) >= 0]
    assert len(actions) == 64 * BATCH
    assert (actions == 0).all()


# --- a game of pgx --------------------------------------------------------------------


@functools.cache
def tictactoe():
    return make("tic_tac_toe")


def evaluate_squares(state):
    """(logits, values) of states [B]."""
    planes = state.observation.reshape(-1, 18).astype(jnp.uint32)
    places = mix(jnp.arange(18, dtype=jnp.uint32) + np.uint32(1))
    return hashed(mix(jnp.sum(planes * places[None], axis=1, dtype=jnp.uint32)), 9)


def step_of_pgx(params, key, action, state):
    """As in the examples of pgx and mctx."""
    del params, key
    player = state.current_player
    state = jax.vmap(tictactoe().step)(state, action)
    logits, value = evaluate_squares(state)
    over = state.terminated
    output = mctx.RecurrentFnOutput(
        reward=jnp.take_along_axis(state.rewards, player[:, None], axis=1)[:, 0],
        discount=jnp.where(over, 0.0, -1.0),
        prior_logits=jnp.where(state.legal_action_mask, logits, LOWEST),
        value=jnp.where(over, 0.0, value),
    )
    return output, state


@functools.cache
def tictactoe_roots(plies=3):
    env, rng = tictactoe(), np.random.RandomState(0)
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), BATCH))
    step = jax.jit(jax.vmap(env.step))
    for _ in range(plies):
        legal = np.asarray(state.legal_action_mask)
        state = step(state, np.where(legal, rng.rand(*legal.shape), -1).argmax(1).astype(np.int32))
    logits, value = evaluate_squares(state)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
    return root, ~state.legal_action_mask


@pytest.mark.parametrize(
    "num_simulations",
    [
        pytest.param(4, marks=pytest.mark.slow),
        pytest.param(20, marks=pytest.mark.thorough),
        pytest.param(80, marks=pytest.mark.slow),
    ],
)
def test_tictactoe_of_pgx(num_simulations):
    root, invalid = tictactoe_roots()
    check_equal(*both(root, step_of_pgx, num_simulations, invalid))


# --- features that mctx does not have -------------------------------------------------


def model_search(root, invalid, config, key, tree=None):
    game, evaluator, states = from_mctx(root, step_of_pgx, None, invalid, tree)
    return search(game, evaluator, key, states, config, tree)


@pytest.mark.thorough
@pytest.mark.parametrize("leaves", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_model_search_equals_a_game_search(leaves):
    """PUCT with one leaf and several: the same results as `pgx_game` on equal evaluations."""
    root, invalid = tictactoe_roots()
    game = pgx_game(tictactoe(), 9, trial_seed=None)

    def evaluate(params, key, planes):
        logits, value = evaluate_squares(type("Seen", (), {"observation": planes}))
        return Evaluation(logits, value)

    config, key = SearchConfig(96, leaves=leaves), jax.random.key(2)
    expected = jax.jit(lambda x: search(game, Evaluator(evaluate), key, x, config))(root.embedding)
    actual = jax.jit(lambda x, invalid: model_search(x, invalid, config, key))(root, invalid)
    np.testing.assert_array_equal(actual.visits, expected.visits)
    np.testing.assert_array_equal(actual.q, expected.q)
    assert actual.ok.all()


@pytest.mark.thorough
def test_a_search_continues_from_the_last_tree():
    root, invalid = tictactoe_roots()
    config = SearchConfig(40).for_reuse

    @jax.jit
    def move(root, invalid, key, tree):
        result = model_search(root, invalid, config, key, tree)
        step, state = step_of_pgx(None, None, result.action, root.embedding)
        after = mctx.RootFnOutput(prior_logits=step.prior_logits, value=step.value, embedding=state)
        tree = reuse.reroot(result.tree, jnp.where(state.terminated, -1, result.action))
        return result, after, tree, state

    states = from_mctx(root, step_of_pgx, None, invalid).states
    empty = jax.jit(lambda: reuse.empty(states.node, 9, config))()
    first, after, tree, state = move(root, invalid, jax.random.key(0), empty)
    second, *_ = move(after, ~state.legal_action_mask, jax.random.key(1), tree)
    continued = ~np.asarray(state.terminated)
    assert continued.sum() > 3
    assert np.asarray(second.ok)[continued].all()
    played = np.take_along_axis(np.asarray(first.visits), np.asarray(first.action)[:, None], 1)[
        :, 0
    ]
    total = np.asarray(second.visits).sum(axis=1)
    # The first visit of a node is its own evaluation.
    np.testing.assert_array_equal(total[continued], (40 + played - 1)[continued])


@pytest.mark.slow
def test_several_leaves_under_gumbels_root():
    """As many visits in total, and the same actions visited, as with one leaf."""
    run = lambda **leaves: jax.jit(
        lambda root: gumbel_muzero_policy(
            None, jax.random.key(0), root, model(8, 3), 48, some_invalid(), **leaves
        )
    )(roots())
    one, four = run(), run(leaves=4)
    visits = np.asarray(four.search_tree.visits)
    assert four.search_tree.ok.all()
    assert visits.sum(axis=1).tolist() == [48] * BATCH
    np.testing.assert_array_equal(visits > 0, np.asarray(one.search_tree.visits) > 0)
    assert (np.asarray(one.action) == np.asarray(four.action)).mean() > 0.6


@pytest.mark.thorough
def test_no_loop_copies_a_tree():
    config = SearchConfig(24, capacity=31)
    run = lambda root: search(*_with_key(from_mctx(root, model(8, 3))), config)
    _with_key = lambda made: (made.game, made.evaluator, jax.random.key(0), made.states)
    compiled = jax.jit(run, compiler_options=AS_USERS_FUSE).lower(roots()).compile()
    assert moves_in_loops(compiled.as_text(), BATCH * 31) == []


@pytest.mark.thorough
def test_other_models_are_not_ok():
    @jax.jit
    def run(root, *unfit):
        recurrent_fn = model(8, 9, *unfit)
        return gumbel_muzero_policy(None, jax.random.key(0), root, recurrent_fn, 20)

    for unfit in ((0.5, -1.0), (0.0, -0.9)):  # a reward on the way, a discount
        assert not run(roots(), *unfit).search_tree.ok.any()
    assert run(roots(), 0.0, -1.0).search_tree.ok.all()


def test_mismatched_shapes_are_refused():
    root = roots()
    with pytest.raises(ValueError, match=r"^root.value: its shape is \(3,\), .* \(16,\)"):
        from_mctx(root.replace(value=root.value[:3]), model(8, 9))
    with pytest.raises(ValueError, match=r"^invalid_actions: its shape is \(16, 3\)"):
        from_mctx(root, model(8, 9), invalid_actions=some_invalid()[:, :3])
    with pytest.raises(ValueError, match=r"^root.prior_logits: its shape is \(\d+,\); .* \[B, A\]"):
        from_mctx(jax.tree.map(lambda x: x[0], root), model(8, 9))
    short = root.replace(embedding=jax.tree.map(lambda x: x[:3], root.embedding))
    with pytest.raises(ValueError, match=r"^root.embedding.*: its shape is \(3.*begin with 16"):
        from_mctx(short, model(8, 9))
    whole = model(8, 9)
    with pytest.raises(
        ValueError, match=r"^recurrent_fn: it returns a .*; it must return \(an out"
    ):
        from_mctx(root, lambda *args: whole(*args)[0])
    longer = lambda *args: (whole(*args)[0], jax.tree.map(lambda x: x[:, None], args[-1]))
    with pytest.raises(
        ValueError, match=r"^recurrent_fn: it returns an embedding of shapes .* stay"
    ):
        from_mctx(root, longer)
    with pytest.raises(ValueError, match=r"^max_num_considered_actions: 0; expected at least 1"):
        gumbel_muzero_policy(None, None, root, whole, 8, max_num_considered_actions=0)
    game = from_mctx(root, model(8, 9)).game
    with pytest.raises(ValueError, match="defines no games to play"):
        game.init(jax.random.key(0))


def test_names_are_exported_by_the_package():
    assert gozero.from_mctx is from_mctx
    assert gozero.gumbel_muzero_policy is gumbel_muzero_policy
