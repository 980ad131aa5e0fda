"""Algorithms 1 and 2 of Gelly & Silver (2011), line by line as they are printed.

Values are Black's probabilities of winning, whoever is to move; Black maximises and White
minimises. Nothing here is taken from the library, nor from `reference.mcts`.
"""

from __future__ import annotations

import itertools
import math

SAME = 1e-9
"""Scores that differ by less count as equal, as the order of additions may differ."""


class Uct:
    """Algorithm 1: two-player UCT.

    Args:
      game: has ``legal(s)``, ``play(s, a)``, ``over(s)`` and ``black_wins(s)`` of an ended game.
      default_policy: (s) -> (the actions of a game from s to its end, z).
      c: the exploration constant.
      pick: (the node's number, the best actions, {action tried there: its node's number}) -> one of
        the best actions.
    """

    def __init__(self, game, default_policy, c, pick):
        self.game, self.default_policy, self.c, self.pick = game, default_policy, c, pick
        self.tree, self.number = set(), {}  # number: the order in which states were first reached
        self.n, self.q, self.visits, self.next = {}, {}, {}, {}

    def search(self, s0, simulations):
        for _ in range(simulations):
            self.simulate(s0)
        return self.select_move(s0, 0, black=True)

    def simulate(self, s0):
        states, actions, s = self.sim_tree(s0)
        more, z = self.sim_default(s)
        self.backup(states, actions + more, z)

    def sim_tree(self, s0):
        s, states, actions, black = s0, [], [], True
        while not self.game.over(s):
            states.append(s)
            self.number.setdefault(s, len(self.number))
            if s not in self.tree:
                self.new_node(s, black)
                return states, actions, s
            a = self.select_move(s, self.c, black)
            after = self.game.play(s, a)
            self.next.setdefault((s, a), after)
            actions.append(a)
            s, black = after, not black
        self.number.setdefault(s, len(self.number))
        return states, actions, s

    def sim_default(self, s):
        if self.game.over(s):
            return [], self.game.black_wins(s)
        return self.default_policy(s)

    def select_move(self, s, c, black):
        sign = 1 if black else -1
        scores = {a: self.score(s, a, c, sign) for a in self.game.legal(s)}
        best = max(scores.values())
        equal = [a for a, score in scores.items() if score == best or abs(score - best) < SAME]
        taken = {a: self.number[self.next[s, a]] for a in scores if (s, a) in self.next}
        return self.pick(self.number[s], equal, taken)

    def score(self, s, a, c, sign):
        if c and not self.n[s][a]:
            return math.inf
        bonus = c * math.sqrt(math.log(self.visits[s]) / self.n[s][a]) if c else 0.0
        return sign * self.value(s, a) + bonus

    def value(self, s, a):
        return self.q[s][a]

    def new_node(self, s, black):
        del black
        self.tree.add(s)
        self.visits[s] = 0
        self.n[s] = dict.fromkeys(self.game.legal(s), 0)
        self.q[s] = dict.fromkeys(self.game.legal(s), 0.0)

    def backup(self, states, actions, z):
        for t, s in enumerate(states):
            a = actions[t]
            self.visits[s] += 1
            self.n[s][a] += 1
            self.q[s][a] += (z - self.q[s][a]) / self.n[s][a]


def eq_47(bias):
    """The beta of Algorithm 2, with bias b."""
    return lambda visits, n, n_amaf, q_amaf: n_amaf / (n + n_amaf + 4 * n * n_amaf * bias**2)


def eq_46(bias):
    """The beta of Eq. 46 with Q~ as mu*, which is kept from 0 and 1 by 0.01."""

    def beta(visits, n, n_amaf, q_amaf):
        mu = min(max(q_amaf, 0.01), 0.99)
        return n_amaf / (n + n_amaf + n * n_amaf * bias**2 / (mu * (1 - mu)))

    return beta


def eq_46_of_mixture(bias, steps=4):
    """The beta of Eq. 46 with Q* itself as mu*, by fixed-point steps from Eq. 47's; (..., Q)."""

    def beta(visits, n, n_amaf, q_amaf, q):
        del visits
        weight = n_amaf / (n + n_amaf + 4 * n * n_amaf * bias**2)
        for _ in range(steps):
            mu = min(max((1 - weight) * q + weight * q_amaf, 0.01), 0.99)
            weight = n_amaf / (n + n_amaf + n * n_amaf * bias**2 / (mu * (1 - mu)))
        return weight

    return beta


def eq_19(k):
    """The beta of Eq. 19, the hand-selected schedule."""
    return lambda visits, n, n_amaf, q_amaf: math.sqrt(k / (3 * visits + k))


class McRave(Uct):
    """Algorithm 2: two-player MC-RAVE. (As printed it has no exploration term, and no N(s).)

    Args:
      beta: (N(s), N, N~, Q~) -> the weight of Q~; with `needs_q` also of Q.
      heuristic: (s) -> {a: (N, Q, N~, Q~)}, with which a new node starts; None for none.
      legal_only: whether an action counts only at states where it is legal (section 4.3).
      c: of Eq. 18, whose bonus is infinite for untried actions; of these, the best mixture first.
      either: whether an action counts only if neither player has played it before since the state,
        as in the text of section 4.2; if not, if the same player has not, as printed.
      ancestor: the visits that a state needs to use its own all-moves-as-first values; with fewer
        it uses those of the nearest state before it in the tree with the same player to move that
        has them. None: always its own.
    """

    def __init__(
        self,
        game,
        default_policy,
        pick,
        beta,
        heuristic=None,
        legal_only=False,
        c=0.0,
        needs_q=False,
        either=False,
        ancestor=None,
    ):
        super().__init__(game, default_policy, c, pick)
        self.beta, self.heuristic, self.legal_only = beta, heuristic, legal_only
        self.needs_q, self.either, self.ancestor = needs_q, either, ancestor
        self.n_amaf, self.q_amaf, self.before = {}, {}, {}

    def sim_tree(self, s0):
        states, actions, s = super().sim_tree(s0)
        for earlier, later in itertools.pairwise(states):
            self.before.setdefault(later, earlier)
        return states, actions, s

    def owner(self, s):
        """The state whose all-moves-as-first values count at s."""
        if self.ancestor is None or self.visits[s] >= self.ancestor:
            return s
        earlier = self.before.get(self.before.get(s))
        while earlier is not None and self.visits[earlier] < self.ancestor:
            earlier = self.before.get(self.before.get(earlier))
        return s if earlier is None else earlier

    def value(self, s, a):
        at = self.owner(s)
        n, n_amaf = self.n[s][a], self.n_amaf[at].get(a, 0)
        if not n and not n_amaf:
            return math.nan  # neither value says anything
        q_amaf = self.q_amaf[at].get(a, 0.0)
        q = [self.q[s][a]] if self.needs_q else []
        beta = self.beta(self.visits[s], n, n_amaf, q_amaf, *q)
        return (1 - beta) * self.q[s][a] + beta * q_amaf

    def score(self, s, a, c, sign):
        value = self.value(s, a)
        score = 10.0 if math.isnan(value) else sign * value  # without statistics it comes first
        if not c:
            return score
        n = self.n[s][a]
        return score + (c * math.sqrt(math.log(self.visits[s]) / n) if n else 1e3)

    def new_node(self, s, black):
        super().new_node(s, black)
        self.n_amaf[s], self.q_amaf[s] = {}, {}
        for a, (n, q, n_amaf, q_amaf) in (self.heuristic(s) if self.heuristic else {}).items():
            self.n[s][a], self.q[s][a] = n, q
            self.n_amaf[s][a], self.q_amaf[s][a] = n_amaf, q_amaf

    def backup(self, states, actions, z):
        super().backup(states, actions, z)
        for t, s in enumerate(states):
            for u in range(t, len(actions), 2):
                a = actions[u]
                if a in (actions[t:u] if self.either else actions[t:u:2]):
                    continue
                if self.legal_only and a not in self.n[s]:
                    continue
                count = self.n_amaf[s].get(a, 0) + 1
                value = self.q_amaf[s].get(a, 0.0)
                self.n_amaf[s][a] = count
                self.q_amaf[s][a] = value + (z - value) / count
