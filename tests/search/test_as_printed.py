"""The search against Algorithms 1 and 2 of Gelly & Silver (2011) as printed."""

from __future__ import annotations

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.go.rules import Rules
from gozero.hashing import mix
from gozero.play.evaluators import playout_evaluator
from gozero.playouts.policies import ordered
from gozero.search.config import Amaf, SearchConfig
from gozero.search.game import Evaluation
from gozero.search.prior_counts import one_visit, with_heuristic
from gozero.search.rules.rave import HandSelected, MinimumMse, Rave
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.search import search
from tests.reference import gelly_silver, mcts
from tests.reference import ordered as ordered_reference
from tests.reference.go import ReferenceGame
from tests.search import random_tree
from tests.search.comparing import tie_seeds
from tests.search.random_tree import NUM_ACTIONS, Position

SIMULATIONS, LENGTH, GAMES = 160, 7, 2
CODES = np.array([106, 107, *range(128, 138)], np.uint32)  # of games whose trees grow
ACTIONS = np.arange(NUM_ACTIONS, dtype=np.uint32)[None]


def playout(codes):
    """(actions i32[M, LENGTH], values f32[M]) of playouts; the first action is legal."""
    legal = jax.vmap(lambda code: random_tree.legal(Position(code)))(codes)
    order = (mix(codes[:, None] * np.uint32(29) ^ ACTIONS) >> np.uint32(2)).astype(jnp.int32)
    first = jnp.argmax(jnp.where(legal, order, -1), axis=1)
    ply = np.arange(1, LENGTH, dtype=np.uint32)
    others = mix(codes[:, None] * np.uint32(101) + ply[None]) % NUM_ACTIONS
    value = (mix(codes ^ np.uint32(0x5151)) % 16385).astype(jnp.float32) / 8192 - 1
    return jnp.concatenate([first[:, None], others.astype(jnp.int32)], axis=1), value


def evaluator(first_action, heuristic, either=False):
    def evaluate(params, key, codes):
        del params, key
        actions, value = playout(codes)
        by = jax.nn.one_hot(actions, NUM_ACTIONS, dtype=bool)  # [M, LENGTH, A]
        if either:
            by &= jnp.cumsum(by, axis=1) == 1
        played = jnp.stack([by[:, p::2].any(axis=1) for p in range(2)], axis=1)
        own = one_visit(actions[:, 0], value, NUM_ACTIONS) if first_action else None
        return Evaluation(jnp.zeros((len(codes), NUM_ACTIONS)), value, played, own)

    return (
        with_heuristic(evaluate, evaluate_with_heuristic, amaf_visits=counted)
        if heuristic
        else evaluate
    )


def evaluate_with_heuristic(params, key, codes):
    del params, key
    return (mix(codes[:, None] * np.uint32(13) ^ ACTIONS) % 2049).astype(jnp.float32) / 1024 - 1


def counted(params, key, codes):
    del params, key
    legal = jax.vmap(lambda code: random_tree.legal(Position(code)))(codes)
    return jnp.where(legal, mix(codes[:, None] * np.uint32(7) ^ ACTIONS) % 4, 0).astype(jnp.int32)


class Printed:
    """The hashed game as the algorithms see it; a state is (position, whether Black is to move)."""

    def __init__(self):
        self.known = {}
        self.see = jax.jit(
            lambda code: (
                random_tree.legal(Position(code)),
                *random_tree.outcome(Position(code)),
                *(x[0] for x in playout(code[None])),
                *(f(None, None, code[None])[0] for f in (evaluate_with_heuristic, counted)),
            )
        )

    def _seen(self, s):
        if s not in self.known:
            self.known[s] = [np.asarray(x) for x in self.see(np.uint32(s[0]))]
        return self.known[s]

    def legal(self, s):
        return np.flatnonzero(self._seen(s)[0]).tolist()

    def play(self, s, a):
        return mcts.mix((s[0] * 31 + a) & 0xFFFFFFFF), not s[1]

    def black(self, s):
        return s[1]

    def over(self, s):
        return bool(self._seen(s)[1])

    def _for_black(self, s, value):
        return (1 + (float(value) if s[1] else -float(value))) / 2

    def black_wins(self, s):
        return self._for_black(s, self._seen(s)[2])

    def default_policy(self, s):
        return self._seen(s)[3].tolist(), self._for_black(s, self._seen(s)[4])

    def heuristic(self, s):
        value, count = self._seen(s)[5:]
        of = lambda a: (0, 0.0, int(count[a]), self._for_black(s, value[a]))
        return {a: of(a) for a in self.legal(s)}

    def even(self, s):
        """Q = 1/2 before the first visit."""
        return dict.fromkeys(self.legal(s), (0, 0.5, 0, 0.0))


def picking(tie_seed):
    """The library's tie-break: of the untried actions the first in order, then by node."""

    def pick(node, equal, taken):
        untried = [a for a in equal if a not in taken]
        tried = [a for a in equal if a in taken]
        choices = {a: taken[a] for a in tried}
        if untried:
            choices[max(untried, key=lambda a: mcts.tie_break(tie_seed, node, a))] = -1
        return max(choices, key=lambda a: mcts.tie_break(tie_seed, node, choices[a]))

    return pick


CASES = {
    "Algorithm 1": (Ucb1(0.4), None, False),
    "Algorithm 2": (Rave(MinimumMse(0.2)), Amaf(first="same"), False),
    "Algorithm 2, heuristic": (Rave(MinimumMse(0.2)), Amaf(first="same"), True),
    "Algorithm 2, legal": (Rave(MinimumMse(0.2)), Amaf(first="same", legal_only=True), False),
    "Algorithm 2, both": (Rave(MinimumMse(0.2)), Amaf(first="same", legal_only=True), True),
    "the text": (Rave(MinimumMse(0.2)), Amaf(), False),
    "the text, legal": (Rave(MinimumMse(0.2)), Amaf(legal_only=True), False),
    "ancestor": (Rave(MinimumMse(0.2)), Amaf(first="same", ancestor=3), False),
    "ancestor, legal": (Rave(MinimumMse(0.2)), Amaf(ancestor=3, legal_only=True), False),
    "Eq. 46": (Rave(MinimumMse(0.2, "amaf")), Amaf(first="same"), False),
    "Eq. 46, mixture": (Rave(MinimumMse(0.2, "mixture")), Amaf(first="same"), False),
    "Eq. 19": (Rave(HandSelected(100.0), initial=0.5), Amaf(first="same"), False),
    "Eq. 18": (
        Rave(HandSelected(100.0), initial=0.5, c=0.3, bonus="plain"),
        Amaf(first="same", legal_only=True),
        False,
    ),
}
BETAS = {"Eq. 46": (gelly_silver.eq_46(0.2), gelly_silver.eq_47(0.2))}
BETAS["Eq. 46, mixture"] = gelly_silver.eq_46_of_mixture(0.2), gelly_silver.eq_46_of_mixture(0.2, 0)
BETAS |= dict.fromkeys(("Eq. 19", "Eq. 18"), (gelly_silver.eq_19(100.0), gelly_silver.eq_19(120.0)))
"""Of a case: its beta, and another that must not give the same trees."""
MORE_SIMULATIONS, MORE_GAMES = 400, 12  # of these cases, so that the other beta shows
DEFAULT = {"Algorithm 2, both"}
THOROUGH = dict.fromkeys(set(CASES) - DEFAULT, pytest.mark.thorough)


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=THOROUGH.get(name, ())) for name in CASES]
)
def test_counts_and_values_match_the_printed_algorithm(case):
    select, amaf, heuristic = CASES[case]
    simulations, count = (MORE_SIMULATIONS, MORE_GAMES) if case in BETAS else (SIMULATIONS, GAMES)
    config = SearchConfig(simulations, select=select, amaf=amaf, final_move="eval", max_depth=99)
    either = amaf is not None and amaf.first == "either"
    run = random_tree.compiled_search(evaluator(True, heuristic, either), config, count)
    codes, key = CODES[:count], jax.random.key(3)
    result = jax.tree.map(np.asarray, run(codes, key))
    game, trees, sizes = Printed(), [], []
    for b, tie_seed in enumerate(tie_seeds(key, count)):
        pick = picking(int(tie_seed))
        root = (int(codes[b]), True)
        if amaf is None:
            plain = gelly_silver.Uct(game, game.default_policy, 0.4, pick)
        else:
            own = None if select.initial is None else game.even
            own = game.heuristic if heuristic else own
            beta, other = BETAS.get(case, (gelly_silver.eq_47(0.2), None))
            needs_q = case == "Eq. 46, mixture"
            more = own, amaf.legal_only, select.c, needs_q, either, amaf.ancestor
            plain = gelly_silver.McRave(game, game.default_policy, pick, beta, *more)
            if other is not None:
                tree = gelly_silver.McRave(game, game.default_policy, pick, other, *more)
                tree.search(root, simulations + 1)
                trees.append((plain, tree))
        best = plain.search(root, simulations + 1)  # the first adds the root
        assert int(result.action[b]) == best
        compare(result.tree, b, plain, root)
        sizes.append(len(plain.tree))
    assert max(sizes) > SIMULATIONS // 2
    assert case not in BETAS or any(plain.n != other.n for plain, other in trees)


class PrintedGo:
    """Go on the plain rules as the algorithms see it; a state is the actions since the root.

    Values are those of the root's player, whom the algorithms call Black.
    """

    def __init__(self, start, rank):
        self.rank, self.first = rank, start.to_play
        self.known = {(): start}

    def _at(self, s):
        if s not in self.known:
            game = copy.deepcopy(self._at(s[:-1]))
            game.play(s[-1])
            self.known[s] = game
        return self.known[s]

    def legal(self, s):
        return np.flatnonzero(self._at(s).legal()).tolist()

    def play(self, s, a):
        return (*s, a)

    def black(self, s):
        return len(s) % 2 == 0

    def over(self, s):
        return self._at(s).passes >= 2

    def _result(self, game):
        return (1 + self.first * np.sign(game.area() - KOMI)) / 2

    def black_wins(self, s):
        return self._result(self._at(s))

    def default_policy(self, s):
        """A playout by the simple ko only; its passes do not count as all-moves-as-first."""
        start = copy.deepcopy(self._at(s))
        start.ko_rule = "simple"
        game, (first, *others) = ordered_reference.play_out(start, self.rank)
        others = [None if a == game.size**2 else a for a in others]
        return [first, *others], self._result(game)


OPENINGS = [], [5, 10, 6], [0, 15, 5, 10, 1, 14, 4]
KOMI = 1.0
GO = Rules(4)


def played(opening):
    """(the plain game, the state) after these actions."""
    game, state = ReferenceGame(GO.size), go.init(GO, KOMI)
    for action in opening:
        game.play(action)
        state = go.play(GO, state, action)
    return game, state


@pytest.mark.thorough
@pytest.mark.parametrize("first", ["same", "either"])
def test_go_matches_the_printed_algorithm(first):
    """With the library's rules of Go and its playouts, here in a fixed order of the points."""
    rank = np.array([np.random.RandomState(colour).permutation(16) for colour in (3, 4)])
    lists = jnp.repeat(jnp.array(rank, jnp.float32)[..., None], len(OPENINGS), axis=-1)
    policy = ordered.policy(ordered.Order(lists, jnp.zeros_like(lists)))
    evaluator = playout_evaluator(GO, policy, first_plays=first, first_action=True)
    amaf = Amaf(first=first, legal_only=True)
    select = Rave(MinimumMse(0.2))
    config = SearchConfig(400, select=select, amaf=amaf, final_move="eval", max_depth=99)
    run = jax.jit(lambda states, key: search(go_game(GO), evaluator, key, states, config))

    games, states = zip(*map(played, OPENINGS), strict=True)
    key = jax.random.key(5)
    result = jax.tree.map(np.asarray, run(jax.tree.map(lambda *x: jnp.stack(x), *states), key))
    ended = 0
    for b, tie_seed in enumerate(tie_seeds(key, len(games))):
        game, beta = PrintedGo(games[b], rank), gelly_silver.eq_47(0.2)
        plain = gelly_silver.McRave(
            *(game, game.default_policy, picking(int(tie_seed)), beta),
            legal_only=True,
            either=first == "either",
        )
        assert int(result.action[b]) == plain.search((), config.num_simulations + 1)
        compare(result.tree, b, plain, ())
        assert len(plain.tree) > 300
        ended += sum(map(game.over, plain.number))
    assert ended > 10  # with exact results


def compare(tree, b, plain, root):
    """Compare every non-terminal node, found by the actions that lead to it."""
    base, todo, seen = b * tree.capacity, [(0, root)], 0
    while todo:
        node, s = todo.pop()
        row, seen = base + node, seen + 1
        children = tree.children[row, : tree.num_children[row]]
        actions = tree.action[base + children]
        legal = plain.game.legal(s)
        visits, sums = (x[row].astype(float) for x in tree.prior_counts)
        np.add.at(visits, actions, tree.visits[base + children])
        np.add.at(sums, actions, -tree.value_sum[base + children])
        assert visits[legal].tolist() == list(plain.n[s].values())
        assert visits[legal].sum() == plain.visits[s] == tree.visits[row]
        same_values(plain.game.black(s), visits[legal], sums[legal], plain.q[s].values())
        if tree.amaf is not None:
            counts, totals = (x[row] for x in tree.amaf)
            if plain.legal_only:
                assert counts.sum() == counts[legal].sum()
                legal = list(plain.n_amaf[s])
            assert counts[legal].tolist() == [plain.n_amaf[s].get(a, 0) for a in legal]
            values = [plain.q_amaf[s].get(a, 0.0) for a in legal]
            same_values(plain.game.black(s), counts[legal], totals[legal], values)
        for child, action in zip(children, actions, strict=True):
            if not tree.over[base + child]:
                todo.append((child, plain.game.play(s, int(action))))
    assert seen == len(plain.tree)


def same_values(black, counts, sums, values):
    """Compare fixed-point sums for the player to move, perhaps Black, with Black's mean values."""
    result = (1 + (1 if black else -1) * sums / 2**14 / np.maximum(counts, 1)) / 2
    np.testing.assert_allclose(result[counts > 0], np.array([*values])[counts > 0], atol=1e-5)
