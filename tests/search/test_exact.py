"""The batched search against the plain one: every node, every visit, every sum."""

from __future__ import annotations

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.search.config import SearchConfig
from gozero.search.evaluate import checked
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.puct import Puct
from gozero.search.search import search
from tests.go.stepping import new_games, stepper
from tests.reference import mcts
from tests.reference.go import BLACK, ReferenceGame
from tests.search.comparing import compare_trees
from tests.search.evaluators import hash_evaluate, observe_position

C_PUCT = 1.5


class PlainGo:
    """Go for the plain search: states are (reference game, depth below the root)."""

    def __init__(self, rules, komi, evaluate):
        self.rules, self.komi = rules, komi
        self.evaluate_once = jax.jit(lambda seen: evaluate(None, None, seen))
        self.prior = jax.jit(jax.vmap(lambda legal, e: checked(legal, e)[0]))

    def play(self, state, action):
        game, depth = state
        game = copy.copy(game)
        game.board = list(game.board)
        game.history, game.movers = list(game.history), list(game.movers)
        game.play(action)
        return game, depth + 1

    def evaluate(self, state):
        game, _ = state
        over = game.passes >= 2 or game.moves >= self.rules.move_limit
        legal = np.array(game.legal())
        legal[:-1] &= not over
        evaluation = self.evaluate_once(np.array([self._observe(state)], np.uint32))
        prior = np.asarray(self.prior(legal[None], evaluation))[0]
        exact = float(np.sign(game.area() - self.komi)) * game.to_play
        return prior, exact if over else float(evaluation.value[0]), over

    def _observe(self, state):
        """`observe_position`, by hand."""
        game, depth = state
        lay, seen = self.rules.layout, 7
        words = [[0] * lay.num_words, [0] * lay.num_words]
        for p, colour in enumerate(game.board):
            row, col = divmod(p, lay.size)
            bit = (row % lay.rows_per_word) * lay.stride + col
            if colour:
                words[colour != BLACK][row // lay.rows_per_word] |= 1 << bit
        for word in (*words[0], *words[1], int(game.to_play != BLACK), game.passes, depth):
            seen = mcts.mix((seen * 31 + word) & 0xFFFFFFFF)
        return seen


def random_start(rules, komi, num_games, num_moves, seed):
    rng = np.random.RandomState(seed)
    states = new_games(rules, num_games, komi)
    games = [ReferenceGame(rules.size, rules.ko) for _ in range(num_games)]
    for _ in range(num_moves):
        actions = []
        for game in games:
            points = [p for p in range(rules.num_points) if game.is_legal(p)]
            actions.append(int(rng.choice(points or [rules.pass_action])))
            game.play(actions[-1])
        states, _ = stepper(rules)(states, jnp.array(actions))
    return states, games


CASES = {
    # size, ko, games, simulations, max depth, move limit, first moves, prior spread, value scale
    "terminals and superko on 2x2": (2, "positional", 6, 150, 30, None, 1, 1.0, 0.1),
    "superko on 3x3": (3, "positional", 6, 150, 64, None, 3, 1.0, 0.3),
    "simple ko on 3x3": (3, "simple", 5, 100, 64, None, 3, 1.0, 1.0),
    "a move limit that binds": (5, "positional", 6, 120, 10, 16, 12, 2.0, 0.1),
    "deep and narrow on 9x9": (9, "positional", 2, 80, 64, None, 20, 6.0, 0.1),
}


SLOW = {"simple ko on 3x3", "superko on 3x3", "a move limit that binds", "deep and narrow on 9x9"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in CASES]
)
def test_equal_to_the_plain_search_at_every_node(case):
    size, ko, num_games, sims, max_depth, limit, first_moves, spread, scale = CASES[case]
    rules = go.Rules(size=size, ko=ko, max_moves=limit)
    komi, seed = 0.5 if size < 5 else 7.0, len(case)
    evaluate = hash_evaluate(rules.num_actions, spread, scale)
    states, games = random_start(rules, komi, num_games, first_moves, seed)
    rule = Puct(C_PUCT)
    config = SearchConfig(num_simulations=sims, max_depth=max_depth, select=rule)
    game = go_game(rules, observe_position)
    key = jax.random.key(seed)
    result = jax.jit(lambda s, k: search(game, Evaluator(evaluate), k, s, config))(states, key)
    tie_seeds = np.asarray(jax.random.bits(jax.random.split(key, 4)[2], (num_games,), jnp.uint32))

    plain = PlainGo(rules, komi, evaluate)
    for b in range(num_games):
        nodes = mcts.search(
            (games[b], 0),
            plain.play,
            plain.evaluate,
            sims,
            max_depth,
            mcts.Puct(C_PUCT),
            int(tie_seeds[b]),
        )
        compare_trees(result.tree, b, nodes)
        np.testing.assert_array_equal(result.visits[b], nodes[0].visits)
        mean = (nodes[0].value + nodes[0].value_sum.sum()) / mcts.ONE / (1 + sims)
        assert float(result.value[b]) == pytest.approx(mean, abs=1e-5)
    assert bool(result.ok.all())


def test_priors_are_the_softmax_over_the_legal_actions():
    """The oracle above uses the library's own priors bit for bit; they are checked here."""
    rng = np.random.RandomState(0)
    logits = rng.normal(size=(20, 10)).astype(np.float32) * 5
    legal = rng.rand(20, 10) < 0.6
    legal[:, -1] = True
    evaluation = Evaluation(jnp.array(logits), jnp.zeros(20))
    prior, _, ok = jax.vmap(checked)(jnp.array(legal), evaluation)
    weights = np.where(legal, np.exp(logits.astype(np.float64)), 0)
    expected = np.where(legal, weights / weights.sum(axis=1, keepdims=True), -np.inf)
    np.testing.assert_allclose(prior, expected, rtol=1e-5)
    assert bool(ok.all())
