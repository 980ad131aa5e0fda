"""The search's interface: arguments, results and errors."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.compile import mode
from gozero.limits import MAX_VISITS
from gozero.search import reuse, root
from gozero.search import tree as trees
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import (
    Evaluation,
    Evaluator,
    Game,
    Heuristic,
    history_of,
    positions_of,
)
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from tests.search import tictactoe

POSITIONS = tictactoe.boards(
    "XX. OO. ...",  # X wins at 2
    "OO. X.. .X.",  # X must stop 2
    "... ... ...",
    "XOX XOO OXX",  # over: drawn
    "OOO XX. X..",  # over: lost
)
CONFIG = SearchConfig(num_simulations=300)


@functools.cache
def searcher(config, evaluate=tictactoe.even):
    """jitted (roots [B], key) -> SearchResult."""

    def run(roots, key):
        return search(tictactoe.GAME, Evaluator(evaluate), key, roots, config)

    return jax.jit(run)


@functools.cache
def searched(config=CONFIG, seed=0):
    return searcher(config)(POSITIONS, jax.random.key(seed))


def test_it_wins_and_defends_in_tictactoe():
    result = searched()
    assert result.action[:2].tolist() == [2, 2]
    assert float(result.value[0]) > 0.8
    assert float(result.q[0, 2]) == 1.0
    assert abs(float(result.value[2])) < 0.15


@pytest.mark.thorough
@pytest.mark.parametrize("leaves", [1, 4])
def test_a_game_does_not_depend_on_the_others_of_its_batch(leaves):
    def by_lot(params, key, observations):
        """Values drawn per leaf number, as playouts draw them."""
        legal = tictactoe.even(params, key, observations).prior_logits
        draw = lambda i: jax.random.uniform(jax.random.fold_in(key, i), minval=-1, maxval=1)
        return Evaluation(legal, jax.vmap(draw)(jnp.arange(legal.shape[0])))

    run = searcher(SearchConfig(num_simulations=32, leaves=leaves), by_lot)
    some = run(jax.tree.map(lambda x: x[:2], POSITIONS), jax.random.key(3))
    all_ = run(POSITIONS, jax.random.key(3))
    np.testing.assert_array_equal(some.visits, all_.visits[:2])
    np.testing.assert_array_equal(some.value, all_.value[:2])


def test_visits_and_targets():
    result = searched()
    assert result.visits.sum(axis=1).tolist() == [300, 300, 300, 0, 0]
    np.testing.assert_allclose(result.policy_target.sum(axis=1)[:3], 1.0, rtol=1e-6)
    occupied = np.asarray(POSITIONS.own | POSITIONS.other)
    assert (np.asarray(result.visits)[occupied] == 0).all()
    assert bool(result.ok.all())


def test_a_finished_root_is_not_searched():
    result = searched()
    assert result.visits[3:].sum() == 0
    assert result.value[3:].tolist() == [0.0, -1.0]
    assert result.tree.size.tolist()[3:] == [1, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("final_move", ["visits", "value", "bound"])
def test_a_finished_root_plays_a_legal_action(final_move):
    """In Go after two passes, the pass: with another action a record of the game is illegal."""
    rules = gozero.Rules(size=2)
    state = gozero.init(rules)
    for _ in range(2):
        state = gozero.play(rules, state, jnp.int32(rules.pass_action))
    states = jax.tree.map(lambda x: jnp.repeat(x[None], 8, axis=0), state)
    game, evaluator = gozero.go_game(rules), gozero.playout_evaluator(rules)
    config = SearchConfig(2, final_move=final_move)
    result = jax.jit(lambda key: search(game, evaluator, key, states, config))(jax.random.key(0))
    assert result.action.tolist() == [rules.pass_action] * 8


def test_same_key_same_search_and_ties_differ_by_key():
    again = searcher(CONFIG)(POSITIONS, jax.random.key(0))
    np.testing.assert_array_equal(again.visits, searched().visits)
    # Nine equal first moves: the first visit, which adds node 1, is random among them.
    node = 2 * CONFIG.num_nodes + 1
    assert len({int(np.asarray(searched(seed=seed).tree.action)[node]) for seed in range(12)}) > 3


NOISY = SearchConfig(
    num_simulations=30, dirichlet_fraction=0.5, dirichlet_alpha=1.0, temperature=1.0
)


def test_root_noise_changes_root_priors_only():
    noisy, edges = searched(NOISY), jax.jit(trees.all_edges)
    roots, below = edges(noisy.tree, 0), edges(noisy.tree, 1)
    np.testing.assert_array_equal(roots.visits, noisy.visits)
    prior = np.asarray(roots.prior)
    assert prior[2].sum() == pytest.approx(1.0, abs=1e-5)
    assert len(set(prior[2].tolist())) == 9
    assert (prior[2] >= 0.5 / 9 - 1e-6).all()
    below = np.asarray(below.prior[2])
    below = below[below >= 0]
    np.testing.assert_allclose(below, 1 / len(below), rtol=1e-6)
    illegal = np.asarray(POSITIONS.own | POSITIONS.other)[0]
    assert np.isneginf(prior[0][illegal]).all()
    plain = edges(searched().tree, 0)
    assert set(np.asarray(plain.prior)[2].tolist()) == {np.float32(1 / 9)}


def lean(params, rng, observations):
    """Logits of i / 3 for action i."""
    evaluation = tictactoe.even(params, rng, observations)
    return evaluation._replace(prior_logits=evaluation.prior_logits + jnp.arange(9)[None] / 3)


ALIKE = tictactoe.boards(*["... ... ..."] * 8)


@functools.cache
def searched_alike():
    """Games that begin alike and whose priors leave no ties: only the drawn actions differ."""
    config = SearchConfig(num_simulations=8, root_temperature=3.0, temperature=1.0)
    return searcher(config, lean)(ALIKE, jax.random.key(0))


def test_the_roots_priors_are_softened_and_no_others():
    result = searched_alike()
    softened = jax.nn.softmax(jnp.arange(9) / 9)
    np.testing.assert_allclose(result.prior, np.tile(softened, (8, 1)), rtol=1e-5)
    below = np.asarray(jax.jit(trees.all_edges)(result.tree, 1).prior)
    expected = np.where(below >= 0, np.exp(np.arange(9) / 3), 0)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.maximum(below, 0), expected, rtol=1e-5)


def test_each_game_of_a_batch_draws_its_own_action():
    result = searched_alike()
    assert (result.visits == result.visits[:1]).all()
    assert len(set(result.action.tolist())) > 2


def test_each_game_of_a_batch_has_its_own_noise():
    history = history_of(tictactoe.GAME, None)
    config = SearchConfig(num_simulations=1, dirichlet_fraction=0.5)
    evaluate = jax.jit(
        lambda key: root.evaluate_roots(
            history, Evaluator(tictactoe.even), key, key, ALIKE, ALIKE, config
        )
    )
    priors = [evaluate(jax.random.key(seed)).prior for seed in range(2)]
    assert len(np.unique(np.concatenate(priors).round(6), axis=0)) == 16


def test_temperature_draws_in_proportion_to_visits():
    result = [searched(NOISY, seed) for seed in range(10)]
    assert len({int(one.action[2]) for one in result}) > 2
    assert any(int(one.action[2]) != int(one.visits[2].argmax()) for one in result)


class Kind(NamedTuple):
    """The context of a game: bool[] each."""

    is_nan: jax.Array  # its values are nan
    drawn: jax.Array  # its values are drawn from the calls' keys


@functools.cache
def searcher_of_kinds():
    """jitted (kinds [3]) -> SearchResult."""
    history = history_of(tictactoe.GAME)._replace(
        root=lambda state: state, observe=lambda kind, board, ancestors: (kind, board)
    )
    game = tictactoe.GAME._replace(history=history)

    def evaluate(params, key, observations):
        kinds, boards = observations
        draw = jax.random.uniform(key, (), minval=-1.0)
        value = jnp.where(kinds.drawn, draw, jnp.where(kinds.is_nan, jnp.nan, 0.0))
        return tictactoe.even(params, key, boards)._replace(value=value)

    roots = tictactoe.boards("X.. .O. ...", "OO. X.. .X.", "... ... ...")
    config = SearchConfig(num_simulations=40)
    return jax.jit(
        lambda kinds: search(game, Evaluator(evaluate), jax.random.key(1), (kinds, roots), config)
    )


def test_a_nan_evaluation_marks_only_its_game():
    """The context says which game has nan values: first none, then the first game."""
    kinds = Kind(*jnp.zeros((2, 3), bool))
    sound = searcher_of_kinds()(kinds)
    one_nan = searcher_of_kinds()(kinds._replace(is_nan=jnp.array([True, False, False])))
    assert one_nan.ok.tolist() == [False, True, True]
    assert sound.ok.tolist() == [True, True, True]
    assert np.isfinite(np.asarray(one_nan.value)).all()
    np.testing.assert_array_equal(one_nan.visits[1:], sound.visits[1:])
    np.testing.assert_array_equal(one_nan.q[1:], sound.q[1:])


def test_every_evaluation_has_its_own_key():
    kinds = Kind(jnp.zeros(3, bool), jnp.array([False, False, True]))
    tree = jax.tree.map(np.asarray, searcher_of_kinds()(kinds).tree)
    rows = slice(2 * tree.capacity, 2 * tree.capacity + int(tree.size[2]))
    values = tree.value[rows][~tree.over[rows]].tolist()
    assert len(set(values)) == len(values) > 20


def test_only_the_evaluation_of_the_roots_prefers_fast_compile(monkeypatch):
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    flags = []

    def evaluate(params, key, observations):
        flags.append(mode.prefers_fast_compile())
        return tictactoe.even(params, key, observations)

    jax.eval_shape(searcher(CONFIG, evaluate), POSITIONS, jax.random.key(0))
    assert flags[0]
    assert flags[1:]
    assert not any(flags[1:])


def test_the_package_runs_a_search():
    def run(roots, key):  # compiled already, under this name
        return gozero.search(tictactoe.GAME, Evaluator(tictactoe.even), key, roots, CONFIG)

    result = jax.jit(run)(POSITIONS, jax.random.key(0))
    np.testing.assert_array_equal(result.visits, searched().visits)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_simulations", 0),
        ("capacity", 1),
        ("max_depth", 0),
        ("root_temperature", 0.0),
        ("dirichlet_fraction", 1.5),
        ("dirichlet_alpha", 0.0),
        ("temperature", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        SearchConfig(**{field: value})


def test_bad_arguments():
    arguments = (tictactoe.GAME, Evaluator(tictactoe.even), jax.random.key(0))
    with pytest.raises(ValueError, match="leading axes"):
        search(*arguments, POSITIONS._replace(own=POSITIONS.own[:3]), CONFIG)
    with pytest.raises(ValueError, match="tree: its capacity is 301"):
        search(*arguments, POSITIONS, SearchConfig(64), tree=searched().tree)


ONE = tictactoe.boards("XX. OO. ...")


def ucb1(edges):
    """Not a number before a node's first simulation, nor after one: log 0 / 0, and log 1 / 0."""
    return edges.q + jnp.sqrt(jnp.log(edges.total) / edges.visits)


@pytest.mark.parametrize(
    ("rules", "ok"),
    [
        ({"select": lambda edges: 1 / (1 + edges.visits)}, True),  # of illegal actions too
        pytest.param(
            {"root_select": lambda edges: -edges.visits}, True, marks=pytest.mark.thorough
        ),
        pytest.param(
            {"root_select": lambda edges: jnp.sqrt(edges.prior) / (1 + edges.visits)},
            True,
            marks=pytest.mark.thorough,
        ),
        pytest.param({"select": ucb1}, True, marks=pytest.mark.thorough),
        ({"select": lambda edges: jnp.where(edges.visits == 3, jnp.nan, edges.q)}, False),
        pytest.param(
            {"root_select": lambda edges: jnp.where(edges.visits == 3, jnp.nan, edges.q)},
            False,
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_any_function_of_edges_is_a_rule(rules, ok):
    result = searcher(SearchConfig(60, **rules))(ONE, jax.random.key(0))
    assert int(result.visits.sum()) == 60
    assert not np.asarray(result.visits)[0, [0, 1, 3, 4]].any()
    assert (np.asarray(result.visits)[0, [2, 5, 6, 7, 8]] > 0).all()
    assert result.ok.tolist() == [ok]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"select": lambda edges: edges.value}, r"<lambda> returned f32\[\]; expected f32\[\d"),
        ({"select": lambda edges: None}, r"rule: .*<lambda> returned None; expected f32\[\d\]"),
        ({"root_select": lambda edges: edges.q[:2]}, r"returned f32\[2\]; expected f32\[9\], a "),
    ],
)
def test_a_rule_returns_a_score_for_each_action(rules, message):
    with pytest.raises(ValueError, match=message):
        searcher(SearchConfig(4, **rules))(ONE, jax.random.key(0))


def test_a_search_is_not_mapped():
    keys, states = jax.random.split(jax.random.key(0)), POSITIONS
    with pytest.raises(ValueError, match="search: it has a batch axis of its own and cannot be"):
        jax.vmap(lambda key: searcher(SearchConfig(4))(states, key))(keys)
    two = jax.tree.map(lambda x: jnp.stack([x, x]), states)
    with pytest.raises(ValueError, match="reshape states"):
        jax.vmap(lambda states: searcher(SearchConfig(4))(states, jax.random.key(0)))(two)


@pytest.mark.parametrize("evaluator", [tictactoe.even, None])
def test_anything_but_an_evaluator_is_refused(evaluator):
    with pytest.raises(TypeError, match=r"evaluator: expected an Evaluator, not a .*; pass gozero"):
        search(tictactoe.GAME, evaluator, jax.random.key(0), POSITIONS, CONFIG)


@pytest.mark.parametrize(
    ("match", "change"),
    [
        (
            r"play: state.own is float32\[9\]; it must stay bool\[9\]",
            {"play": lambda s, a: s._replace(own=s.own + 0.5)},
        ),
        (r"play: it returns PyTreeDef.*; it must be the state's", {"play": lambda s, a: (s, a)}),
        (r"legal: it returns bool\[8\], not bool\[9\]", {"legal": lambda s: s.own[1:]}),
        (r"legal: it returns float32\[9\]", {"legal": lambda s: s.own * 1.0}),
        (
            r"outcome: it returns \['float32\[\]', 'bool\[\]'\]; it must return \(over bool",
            {"outcome": lambda s: tictactoe.GAME.outcome(s)[::-1]},
        ),
        (
            r"outcome: it returns \['bool\[\]', 'float32\[1\]'\]",
            {"outcome": lambda s: (tictactoe.GAME.outcome(s)[0], jnp.zeros(1))},
        ),
        (r"outcome: it returns bool\[\]", {"outcome": lambda s: tictactoe.GAME.outcome(s)[0]}),
    ],
)
def test_a_game_that_does_not_fit_is_refused(match, change):
    game, key = tictactoe.GAME._replace(**change), jax.random.key(0)
    with pytest.raises(ValueError, match=match):
        search(game, Evaluator(tictactoe.even), key, POSITIONS, CONFIG)


def test_keys_in_states_are_refused():
    states = POSITIONS, jax.random.split(jax.random.key(0), len(POSITIONS.own))
    with pytest.raises(ValueError, match=r"states: state\[1\] is a PRNG key, which .*key_data"):
        search(tictactoe.GAME, Evaluator(tictactoe.even), jax.random.key(0), states, CONFIG)


def evaluate_as(change):
    """() -> SearchResult of a search whose evaluations are altered by `change`."""
    evaluate = lambda params, key, boards: change(tictactoe.even(params, key, boards))
    config = SearchConfig(4, amaf=Amaf(), select=Rave())
    run = lambda: search(
        tictactoe.GAME, Evaluator(evaluate), jax.random.key(0), tictactoe.boards("..." * 3), config
    )
    return run


@pytest.mark.parametrize(
    ("error", "match", "change"),
    [
        (TypeError, r"^evaluate: it returned a tuple; return gozero.Evaluation", tuple),
        (
            ValueError,
            r"^evaluate: prior_logits has shape \(1, 8\); .* must be \(1, 9\)",
            lambda original: original._replace(prior_logits=original.prior_logits[:, 1:]),
        ),
        (
            ValueError,
            r"^evaluate: value has shape \(1, 1\); .* must be \(1,\)",
            lambda original: original._replace(value=original.value[:, None]),
        ),
    ],
)
def test_invalid_evaluations_are_refused(error, match, change):
    with pytest.raises(error, match=match):
        jax.eval_shape(evaluate_as(change))


@jax.jit
def search_of(value, logits, belief, count):
    """The search's result with these added to the evaluation, `belief` as an AMAF heuristic."""

    def change(evaluation):
        heuristic = Heuristic(None, None, jnp.full((1, 9), belief), jnp.full((1, 9), count))
        value_of, logits_of = evaluation.value + value, evaluation.prior_logits + logits
        return evaluation._replace(value=value_of, prior_logits=logits_of, heuristic=heuristic)

    return evaluate_as(change)()


@pytest.mark.parametrize(
    ("wrong", "ok"),
    [
        ({"value": 1.0}, True),
        ({"value": -1.1}, False),
        ({"logits": np.inf}, False),
        ({"belief": 1.0, "count": 3}, True),
        ({"belief": -1.5, "count": 3}, False),
        ({"belief": np.nan, "count": 3}, False),
        ({"belief": np.nan, "count": 0}, True),
        ({"belief": 1.0, "count": MAX_VISITS - 4}, True),
        (
            {"belief": 1.0, "count": MAX_VISITS - 3},
            False,
        ),  # with 4 simulations a sum would overflow
        ({"belief": 1.0, "count": -1}, False),
    ],
)
def test_a_number_out_of_range_is_not_ok(wrong, ok):
    result = search_of(**{"value": 0.0, "logits": 0.0, "belief": 0.0, "count": 0} | wrong)
    assert result.ok.tolist() == [ok]
    assert np.isfinite(np.asarray(result.value)).all()


class Tagged(NamedTuple):
    ply: jax.Array
    tag: jax.Array  # 1 once it has been evaluated
    parent_tag: jax.Array  # of the position that it was played from


def tagged_game(outcome=0.0):
    """Two actions, over after three plies; the game's results are `outcome`."""
    return Game(
        num_actions=2,
        init=lambda key: Tagged(jnp.int32(0), jnp.int32(0), jnp.int32(1)),
        play=lambda state, action: Tagged(state.ply + 1, jnp.int32(0), state.tag),
        legal=lambda state: jnp.ones(2, bool),
        outcome=lambda state: (state.ply >= 3, jnp.float32(outcome)),
        observe=lambda state: state,
        max_moves=3,
    )


def tag(params, key, observed):
    count = observed.ply.size
    seen = observed._replace(tag=jnp.ones(count, jnp.int32))
    return Evaluation(jnp.zeros((count, 2)), jnp.zeros(count), positions=seen)


@pytest.mark.thorough
def test_nodes_store_the_positions_that_the_evaluator_returns():
    """The roots too, in a new tree and in one that is searched again."""
    game, config = tagged_game(), SearchConfig(9).for_reuse
    states = jax.vmap(game.init)(jnp.arange(2))
    empty = reuse.empty(positions_of(game, states), 2, config)

    @jax.jit
    def run(tree, key):
        return search(game, Evaluator(tag), key, states, config, tree)

    first = run(empty, jax.random.key(0))
    for result in (first, run(first.tree, jax.random.key(1))):
        assert result.ok.all()
        nodes = result.tree.row(0)[:, None] + np.arange(result.tree.size.min())[None]
        stored = trees.read_positions(result.tree, nodes)
        assert stored.tag.all()
        assert stored.parent_tag.all()
    assert first.tree.visits[first.tree.row(0)].tolist() == [10, 10]
    assert result.tree.visits[result.tree.row(0)].tolist() == [19, 19]


@pytest.mark.parametrize(
    ("outcome", "ok"),
    [(-1.0, True), (np.nan, False), pytest.param(-5.0, False, marks=pytest.mark.thorough)],
)
def test_a_result_out_of_range_is_not_ok(outcome, ok):
    game = tagged_game(outcome)
    states = jax.vmap(game.init)(jnp.arange(1))
    run = lambda: search(game, Evaluator(tag), jax.random.key(0), states, SearchConfig(20))
    result = jax.jit(run)()
    assert result.ok.tolist() == [ok]
    assert np.isfinite(np.asarray(result.value)).all()


def test_objects_of_the_wrong_kind_are_named():
    """What a newcomer passes by mistake."""
    evaluator, key = Evaluator(tictactoe.even), jax.random.key(0)
    with pytest.raises(TypeError, match=r"game: expected a Game, not a Rules; .*go_game\(rules\)"):
        search(gozero.Rules(3), evaluator, key, POSITIONS, CONFIG)
    with pytest.raises(TypeError, match=r"rules: expected Rules, not 9; .* gozero.Rules\(size\)"):
        gozero.go_game(9)
    with pytest.raises(TypeError, match=r"rules: expected Rules, not Game; .*rollout_evaluator"):
        gozero.playout_evaluator(tictactoe.GAME)
    with pytest.raises(TypeError, match="config: expected a SearchConfig, not a int"):
        search(tictactoe.GAME, evaluator, key, POSITIONS, 8)
    with pytest.raises(ValueError, match="states: an empty batch; give at least one game"):
        search(tictactoe.GAME, evaluator, key, jax.tree.map(lambda x: x[:0], POSITIONS), CONFIG)
    with pytest.raises(ValueError, match=r"root_select: Rave is a class; give Rave\(...\)"):
        SearchConfig(num_simulations=1, root_select=Rave)


def test_a_heuristic_that_would_not_count_is_refused():
    def evaluate(params, key, boards):
        counts = jnp.full((len(boards.own), 9), params)
        heuristic = Heuristic(None, None, jnp.zeros(counts.shape), counts)
        return tictactoe.even(None, key, boards)._replace(heuristic=heuristic)

    def run(count, **settings):
        evaluator = Evaluator(evaluate, count)
        config = SearchConfig(num_simulations=1, **settings)
        return search(tictactoe.GAME, evaluator, jax.random.key(0), POSITIONS, config)

    with pytest.raises(ValueError, match=r"amaf: None, but the evaluator's heuristic .*Amaf\(\)"):
        jax.eval_shape(run, 3)
    with pytest.raises(ValueError, match=r"heuristic.amaf_visits is float32\[5, 9\].* integers"):
        jax.eval_shape(functools.partial(run, 0.5, amaf=Amaf(), select=Rave()))
    jax.eval_shape(functools.partial(run, 3, amaf=Amaf(), select=Rave()))


WITH_64_BITS = """
import jax
jax.config.update("jax_enable_x64", True)
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.rave import Rave
from gozero.search.search import search
from tests.search import tictactoe

roots = tictactoe.boards("XX. OO. ...")
for settings in {}, {"leaves": 2}, {"prove": True}, {"amaf": Amaf(), "select": Rave()}:
    config, evaluator = SearchConfig(num_simulations=4, **settings), Evaluator(tictactoe.even)
    run = lambda: search(tictactoe.GAME, evaluator, jax.random.key(0), roots, config)
    print(jax.eval_shape(run).visits)
"""


@pytest.mark.thorough
def test_a_search_traces_with_64_bits():
    """In a process of its own, because JAX keeps what it traced before with 32."""
    found = subprocess.run(
        [sys.executable, "-c", WITH_64_BITS], capture_output=True, text=True, check=False
    )
    assert found.stdout.splitlines() == ["ShapeDtypeStruct(shape=(1, 9), dtype=int32)"] * 4, found
