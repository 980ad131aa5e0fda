"""Plain MCTS, one tree of Python objects: the oracle of the batched search.

It follows the formulas, not the arrays. Values are fixed point in units of 2^-14, as the library
promises. Ties are broken by the library's hash: of (tie_seed, node, action) among untried actions
of equal prior, of (tie_seed, node, child) among equal scores.
"""

from __future__ import annotations

import inspect

import numpy as np

F32 = np.float32
ONE = 2**14


def mix(x: int) -> int:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def tie_break(tie_seed: int, node: int, choice: int) -> int:
    seed = mix((tie_seed + node * 0x9E3779B9) & 0xFFFFFFFF)
    return mix(seed ^ (choice * 0x85EBCA6B & 0xFFFFFFFF))


class Node:
    def __init__(self, index, state, depth, evaluation):
        self.index, self.state, self.depth = index, state, depth
        # prior f32[A] with -inf where illegal, value, over; and, in some evaluations only,
        # played bool[2, A], a heuristic's (value, visits, amaf_value, amaf_visits) [A], and a
        # score's mean and standard deviation.
        self.prior, value, self.over, *more = evaluation
        self.played, heuristic, self.score = [*more, None, None, None][:3]
        self.value = fixed(value)
        # 1, 2, 3: lost, drawn, won for the player to move; 0: not known
        exact = self.over and float(value) in (-1, 0, 1)
        self.by_game, self.proven = int(value) + 2 if exact else 0, 0
        self.backup_value = self.value
        self.own_sum = self.own_squares = 0  # over the node's own evaluations
        self.utility = self.own_utility = 0  # of its score; and summed over its evaluations
        self.loss = ONE  # the size of a virtual loss, the score's utility included
        self.evaluated = 0  # how often; repeatedly only where no node could be added
        self.fresh = True  # added in this step
        self.was_asked = False  # it has an evaluation to share
        self.tree_full = False  # evaluated again as the tree is full: descend to its children only
        num_actions = len(self.prior)
        self.visits = np.zeros(num_actions, np.int64)
        self.value_sum = np.zeros(num_actions, np.int64)
        self.utility_sum = np.zeros(num_actions, np.int64)
        self.square_sum = np.zeros(num_actions, np.int64)
        self.lost = np.zeros(num_actions, np.int64)  # pending virtual losses
        self.lost_above = 0  # ... on the edge to this node
        self.guess_visits, self.guess_sum, self.amaf_visits, self.amaf_sum = (
            np.zeros(num_actions, np.int64) for _ in range(4)
        )
        if heuristic is not None:
            value, visits, amaf_value, amaf_visits = heuristic
            self.guess_visits += visits
            self.guess_sum += visits * fixed(value)
            self.amaf_visits += amaf_visits
            self.amaf_sum += amaf_visits * fixed(amaf_value)
        # What other trees found here, see `reference.ensemble`; amaf_* include it too.
        self.other_visits = self.other_sum = 0
        self.other_amaf = np.zeros((2, num_actions), np.int64)
        self.believed = np.stack([self.amaf_visits, self.amaf_sum])
        self.children = {}
        self.above = None  # the node two plies above
        self.cached = None  # the action to try next, whatever the rule says; see `prune`

    def proven_result(self, action):
        """The proven result of an action, for the player to move."""
        child = self.children.get(action)
        return 4 - child.proven if child and child.proven else 0

    def mean(self):
        value = self.own_sum + self.value_sum.sum() + self.lost_above * self.loss + self.other_sum
        value += self.own_utility + self.utility_sum.sum()
        return F32(value) / F32(ONE) / F32(self.num_visits())

    def begin_as(self, above, visits, amaf_visits):
        """Start the actions at the values of a node above that has the same player to move."""
        for action in np.flatnonzero(self.prior >= 0):
            if above.visits[action]:
                value = fixed(mean(above.value_sum, above.visits)[action])
                if above.proven_result(action):
                    value = (above.proven_result(action) - 2) * ONE
            elif above.amaf_visits[action]:
                value = fixed(mean(above.amaf_sum, above.amaf_visits)[action])
            else:
                continue
            self.guess_visits[action] += visits
            self.guess_sum[action] += visits * value
            self.amaf_visits[action] += amaf_visits
            self.amaf_sum[action] += amaf_visits * value

    def back_up(self, backup, prove):
        """Recompute the value and the proven result from children that are up to date."""
        self.proven = self.by_game
        if prove and self.children:
            seen = [self.proven_result(action) for action in self.children]
            untried = set(np.flatnonzero(self.prior >= 0)) - set(self.children)
            if 3 in seen or (not untried and 0 not in seen):
                self.proven = max(seen)
        if backup:
            worth = self.mean()
            if self.children:
                counts = [self.visits[action] for action in self.children]
                values = [-F32(child.backup_value) / F32(ONE) for child in self.children.values()]
                worth = backup(worth, counts, values)
            self.backup_value = (
                (self.proven - 2) * ONE if prove and self.proven else int(fixed(worth))
            )

    def scores(self, rule, backup=None, prove=False, amaf_source=None):
        visits = self.visits + self.guess_visits + self.lost
        sums = self.value_sum + self.utility_sum + self.guess_sum - self.lost * self.loss
        for action, child in self.children.items():
            visits[action] += child.other_visits
            sums[action] -= child.other_sum
        q = mean(sums, visits)
        value = F32(self.backup_value) / F32(ONE) if backup else self.mean()
        for action, child in self.children.items():
            if backup:
                q[action] = -F32(child.backup_value) / F32(ONE)
            if prove and child.proven:
                q[action] = self.proven_result(action) - 2
        amaf_source = amaf_source or self  # the node whose AMAF statistics are used
        amaf = (amaf_source.amaf_visits, mean(amaf_source.amaf_sum, amaf_source.amaf_visits))
        # Illegal actions have no statistics.
        legal = self.prior >= 0
        visits, q = np.where(legal, visits, 0), np.where(legal, q, F32(0))
        with np.errstate(invalid="ignore", divide="ignore"):
            raw = F32(self.value + self.utility) / F32(ONE)
            more = amaf if rule.dense else ()
            if rule.by_above:
                above = self.above or Node(0, None, 0, (self.prior, 0.0, False))
                above_q = mean(above.amaf_sum, above.amaf_visits)
                more = (*more, above.amaf_visits, above_q)
            if rule.by_variance:
                more = (*more, np.where(legal, self.variance(), F32(0)))
            score = rule(self.prior, visits, q, value, raw, *more)
        lost = [prove and self.proven_result(action) == 1 for action in range(len(legal))]
        return np.where(legal, np.where(lost, np.finfo(F32).min, score), -np.inf)

    def variance(self):
        """The variance of each action's simulations; a virtual loss counts as one of value -1."""
        visits = self.visits + self.lost
        sums = self.value_sum + self.utility_sum - self.lost * self.loss
        squares = self.square_sum + self.lost * square(self.loss)
        return np.maximum(mean(squares, visits) - mean(sums, visits) ** 2, F32(0))

    def best_of_all(self, rule, tie_seed, full, *options):
        score = self.scores(rule, *options)
        if full and self.children:
            tried = np.isin(np.arange(len(score)), list(self.children))
            score = np.where(tried, score, -np.inf)
        ties = np.flatnonzero(score == score.max())
        return int(max(ties, key=lambda a: tie_break(tie_seed, self.index, int(a))))

    def best_action(self, rule, tie_seed, *options):
        score = self.scores(rule, *options)
        # Of the unvisited actions only the first in order is considered.
        untried = self.first_untried(score, rule, tie_seed)
        choices = {action: child.index for action, child in self.children.items()}
        if untried is not None and not (self.tree_full and choices):
            choices[untried] = -1
        best = max(score[action] for action in choices)
        ties = [action for action in choices if score[action] == best]
        return max(ties, key=lambda a: tie_break(tie_seed, self.index, choices[a]))

    def first_untried(self, score, rule, tie_seed):
        prior = self.prior.copy()
        prior[list(self.children)] = -np.inf
        rank = score if rule.dense else np.zeros_like(prior) if rule.random_order else prior
        rank = np.where(prior >= 0, rank, -np.inf)
        ties = np.flatnonzero(rank == rank.max())
        untried = int(max(ties, key=lambda a: tie_break(tie_seed, self.index, int(a))))
        return untried if prior[untried] >= 0 else None

    def drop_children(self, kept, rule, tie_seed):
        """Drop the children not kept: their actions are untried, their statistics stay here."""
        lost = {action for action, child in self.children.items() if child not in kept}
        if not lost:
            return
        going_to = self.cached
        if going_to is None:
            going_to = self.best_action(rule, tie_seed)
        untried = going_to
        if going_to in self.children:
            untried = self.first_untried(self.scores(rule), rule, tie_seed)
        for action in sorted(lost):
            if untried is None or self.prior[action] > self.prior[untried]:
                untried = action
            del self.children[action]
            self.evaluated += self.visits[action]
            self.own_sum += self.value_sum[action]
            self.own_squares += self.square_sum[action]
            self.own_utility += self.utility_sum[action]
            self.visits[action] = self.value_sum[action] = self.square_sum[action] = 0
            self.utility_sum[action] = 0
        self.cached = going_to if going_to in self.children else untried

    def num_visits(self):
        return self.evaluated + self.visits.sum() + self.lost_above + self.other_visits


def fixed(value):
    return np.round(np.clip(np.asarray(value, F32), -1, 1) * F32(ONE)).astype(np.int64)


def square(value):
    """Rounded to the nearest 2^-14."""
    return (value * value + ONE // 2) // ONE


def mean(sums, visits):
    return (sums.astype(F32) / F32(ONE)) / np.maximum(visits, 1).astype(F32)


class Rule:
    dense = False  # unvisited actions differ in more than their priors
    random_order = False  # unvisited actions do not differ at all
    by_above = False  # needs the all-moves-as-first values of the node two plies above
    by_variance = False  # needs the variance of each action's simulations


class Puct(Rule):
    """Q + c P sqrt(1 + sum N) / (1 + N)."""

    def __init__(self, c, c_base=None, first_play="zero", reduction=0.0):
        self.c, self.c_base, self.first_play, self.reduction = c, c_base, first_play, reduction

    def __call__(self, prior, visits, q, mean, raw):
        total = F32(visits.sum())
        c = F32(self.c)
        if self.c_base is not None:
            c = c + np.log((F32(1) + total + F32(self.c_base)) / F32(self.c_base))
        visited = visits > 0
        first = {
            "zero": F32(0),
            "loss": F32(-1),
            "parent": mean - F32(self.reduction) * np.sqrt(prior[visited].sum(dtype=F32)),
        }[self.first_play]
        q = np.where(visited, q, first)
        return q + c * np.sqrt(F32(1) + total) * prior / (F32(1) + visits.astype(F32))


class KataGoPuct(Rule):
    """Q + f (c + l log((n + b) / b)) P sqrt(n + .01) / (1 + N), where n = sum N. An unvisited
    action has Q = w V + (1 - w) v - r sqrt(p), with p the prior mass of the visited ones, w = p^2.
    f = 1 + s (d / .4 - 1); d^2 is the variance of all values at the node and two of variance .4^2.
    """

    by_variance = True

    def __init__(self, c, log, base, reduction, spread):
        self.c, self.log, self.base = F32(c), F32(log), F32(base)
        self.reduction, self.spread = F32(reduction), F32(spread)

    def __call__(self, prior, visits, q, mean, raw, variance):
        visited, total = visits > 0, F32(visits.sum())
        mass = np.clip(prior[visited].sum(dtype=F32), F32(0), F32(1))
        share = mass * mass
        first = share * mean + (F32(1) - share) * raw - self.reduction * np.sqrt(mass)
        c = self.c + self.log * np.log((total + self.base) / self.base)
        c = c * (
            F32(1)
            + self.spread * (self.deviation(visits, q, mean, raw, variance) / F32(0.4) - F32(1))
        )
        bonus = c * np.sqrt(total + F32(0.01)) * prior / (F32(1) + visits.astype(F32))
        return np.where(visited, q, first) + bonus

    def deviation(self, visits, q, mean, raw, variance):
        if not visits.any():
            return F32(0.4)
        squares = [raw * raw]
        for n, value, v in zip(visits.astype(F32), q, variance, strict=True):
            squares.append(n * (v + value * value))
        count, of_mean = F32(1 + visits.sum()), mean * mean
        seen = max(F32(np.sum(squares, dtype=F32)), count * of_mean)
        usual = F32(2) * (of_mean + F32(0.4) ** 2)
        return np.sqrt(max((usual + seen) / (count + F32(1)) - of_mean, F32(0)))


class Forced(Rule):
    """A visited action gets at least sqrt(k P sum N) visits before `rule` chooses."""

    def __init__(self, rule, k):
        self.rule, self.k = rule, k

    def __call__(self, prior, visits, q, mean, raw):
        wanted = np.sqrt(F32(self.k) * np.maximum(prior, 0) * F32(visits.sum()))
        forced = (visits > 0) & (visits.astype(F32) < wanted)
        return np.where(forced, F32(np.inf), self.rule(prior, visits, q, mean, raw))


class Ucb1(Rule):
    """(1 + Q) / 2 + c sqrt(log sum N / N); an unvisited action scores `first_play`.

    Tuned: c sqrt(log sum N / N min(1/4, V)), V = Q (1 - Q) + sqrt(2 log sum N / N), Q in [0, 1].
    """

    random_order = True

    def __init__(self, c, first_play=np.inf, tuned=False):
        self.c, self.first_play, self.tuned = c, first_play, tuned

    def __call__(self, prior, visits, q, mean, raw):
        scores = np.full(len(visits), F32(self.first_play))
        log_total = np.log(F32(max(visits.sum(), 1)))
        for action in np.flatnonzero(visits):
            value, share = (F32(1) + q[action]) / F32(2), log_total / F32(visits[action])
            bound = F32(1)
            if self.tuned:
                bound = min(value * (F32(1) - value) + np.sqrt(F32(2) * share), F32(0.25))
            scores[action] = value + F32(self.c) * np.sqrt(share * bound)
        return scores


class Flat(Rule):
    """Choose the action with the fewest visits."""

    random_order = True

    def __call__(self, prior, visits, q, mean, raw):
        return -visits.astype(F32)


class Gaussian(Rule):
    """(exp(-2.4 (Q_0 - Q) / sqrt(2 (s_0^2 + s^2))) + e P) / (1 + N)."""

    by_variance = True

    def __init__(self, floor=0.1):
        self.floor = F32(floor)

    def __call__(self, prior, visits, q, mean, raw, variance):
        squares = []  # s^2
        for n, v in zip(visits.astype(F32), variance, strict=True):
            squares.append((n * v + F32(4)) / (n + F32(1)) / np.clip(n, F32(1), F32(500)))
        tried = np.flatnonzero(visits)
        best = max((q[a] for a in tried), default=F32(-1))
        of_best = max((squares[a] for a in tried if q[a] == best), default=F32(0))
        score = np.zeros(len(prior), F32)
        for a, s in enumerate(squares):
            behind = max(best - (q[a] if visits[a] else mean), F32(0))
            likely = np.exp(F32(-2.4) * (behind / np.sqrt(F32(2) * (of_best + s))))
            score[a] = (likely + self.floor * prior[a]) / (F32(1) + F32(visits[a]))
        return score


class Boltzmann(Rule):
    """(1 + Q) / 2 / T - log(1 + N); unvisited actions come first."""

    random_order = True

    def __init__(self, temperature):
        self.temperature = F32(temperature)

    def __call__(self, prior, visits, q, mean, raw):
        score = (F32(1) + q) / F32(2) / self.temperature - np.log(F32(1) + visits.astype(F32))
        return np.where(visits > 0, score, F32(np.inf))


class Widening(Rule):
    """Only the first action in order until t_1 visits, the first two until t_2, and so on."""

    def __init__(self, rule, first, growth):
        self.rule, self.first, self.growth = rule, first, growth
        self.by_variance = rule.by_variance

    def __call__(self, prior, visits, *more):
        considered, t, step = 1, self.first, self.first
        while visits.sum() >= t:
            considered, step = considered + 1, step * self.growth
            t += step
        closed = (visits > 0).sum() >= considered
        score = self.rule(prior, visits, *more)
        return np.where((visits == 0) & closed, F32(-np.inf), score)


class Pruning(Rule):
    """Never choose an action whose Q + r standard errors is below another's Q - r of its own."""

    by_variance = True

    def __init__(self, rule, deviations, least):
        self.rule, self.deviations, self.least = rule, F32(deviations), least
        self.random_order = rule.random_order

    def __call__(self, prior, visits, q, mean, raw, variance):
        more = (variance,) if self.rule.by_variance else ()
        score = self.rule(prior, visits, q, mean, raw, *more)
        known = np.flatnonzero(visits >= self.least)
        reach = self.deviations * np.sqrt(variance / np.maximum(visits, 1).astype(F32))
        bar = max((q[a] - reach[a] for a in known), default=F32(-np.inf))
        for a in known:
            if q[a] + reach[a] < bar:
                score[a] = -np.inf
        return score


class Rave(Rule):
    """(1 - beta) Q + beta Q~ + c sqrt(log N(s) / (1 + N)), in probabilities of winning.

    `beta` maps N(s, a), N~(s, a), N(s), Q~ and Q to a weight; it may leave out Q. Before the first
    visit Q is `initial`, and the score is Q~ alone if that is None. With `plain` the bonus is
    Eq. 18's, c sqrt(log N(s) / N), where 1000 stands for the infinite one of an untried action.
    """

    dense = True

    def __init__(self, beta, c=0.0, first_play=2.0, initial=None, plain=False):
        self.beta, self.c, self.first_play = beta, c, first_play
        self.initial, self.plain = initial, plain
        self.by_value = len(inspect.signature(beta).parameters) == 5

    def __call__(self, prior, visits, q, mean, raw, amaf_visits, amaf_q):
        total = F32(visits.sum())
        score = np.full(len(prior), F32(self.first_play))
        for a in np.flatnonzero((visits > 0) | (amaf_visits > 0)):
            n, n_amaf = F32(visits[a]), F32(amaf_visits[a])
            mu = (F32(1) + q[a]) / F32(2)
            mus = ((F32(1) + amaf_q[a]) / F32(2), *([mu] if self.by_value else []))
            beta = F32(self.beta(n, n_amaf, total, *mus))
            own = q[a] if n > 0 or self.initial is None else F32(2 * self.initial - 1)
            mixed = own + beta * (amaf_q[a] - own)
            mixed = mixed if n > 0 or self.initial is not None else amaf_q[a]
            score[a] = (F32(1) + (mixed if n_amaf > 0 else q[a])) / F32(2)
        if self.plain:
            bonus = np.full(len(prior), F32(1000))
            tried = visits > 0
            rate = np.log(np.maximum(total, F32(1))) / visits[tried].astype(F32)
            bonus[tried] = F32(self.c) * np.sqrt(rate)
            score = score + bonus
        elif self.c:
            bonus = np.sqrt(np.log(np.maximum(total, F32(1))) / (F32(1) + visits.astype(F32)))
            score = score + F32(self.c) * bonus
        return score


class Estimators(Rule):
    """Three values weighted by their inverse mean squared errors, 1 / (4 N) + b^2, one by one."""

    dense = by_above = True

    def __init__(self, bias, above_bias, first_play=2.0):
        self.biases, self.first_play = (0.0, bias, above_bias), first_play

    def __call__(self, prior, visits, q, mean, raw, amaf_visits, amaf_q, above_visits, above_q):
        estimators = (visits, q), (amaf_visits, amaf_q), (above_visits, above_q)
        score = np.full(len(prior), F32(self.first_play))
        for a in range(len(prior)):
            value = total = F32(0)
            for (count, of), bias in zip(estimators, self.biases, strict=True):
                n = F32(count[a])
                weight = n / (F32(1) + F32(4 * bias**2) * n)
                total = total + weight
                value = value + weight / np.maximum(total, F32(1e-6)) * (of[a] - value)
            if total > 0:
                score[a] = (F32(1) + value) / F32(2)
        return score


class ExpertBias(Rule):
    """A rule's score plus C P / log(2 + N) and w P / (1 + N~)."""

    dense = True

    def __init__(self, rule, weight, confidence):
        self.rule, self.weight, self.confidence = rule, F32(weight), F32(confidence)

    def __call__(self, prior, visits, q, mean, raw, amaf_visits, amaf_q):
        score = self.rule(prior, visits, q, mean, raw, amaf_visits, amaf_q)
        for a in np.flatnonzero(prior >= 0):
            lasting = self.weight / np.log(F32(2) + F32(visits[a]))
            fading = self.confidence / (F32(1) + F32(amaf_visits[a]))
            score[a] += (lasting + fading) * prior[a]
        return score


class HeuristicUcb1(Ucb1):
    """UCB1 on visits and values that start at a heuristic's."""

    dense = True

    def __call__(self, prior, visits, q, mean, raw, *amaf):
        return super().__call__(prior, visits, q, mean, raw)


class Known:
    """The keys of the positions evaluated so far, in buckets of four."""

    def __init__(self, key_of, num_slots):
        self.key_of = key_of  # state -> two integers
        self.buckets = [[] for _ in range(num_slots // 4)]
        self.evaluations = 0

    def __contains__(self, state):
        key = self.key_of(state)
        return key in self._bucket(key)

    def _bucket(self, key):
        return self.buckets[key[0] % len(self.buckets)]

    def begin(self, nodes):
        """Insert what a reused tree has evaluated; full buckets take no more."""
        for node in nodes:
            key = self.key_of(node.state)
            if node.was_asked and key not in self._bucket(key) and len(self._bucket(key)) < 4:
                self._bucket(key).append(key)

    def add(self, state):
        """Count an evaluation and insert its key; a full bucket forgets one of its keys."""
        self.evaluations += 1
        key = self.key_of(state)
        bucket = self._bucket(key)
        if len(bucket) < 4:
            bucket.append(key)
        else:
            bucket[key[1] % 4] = key


def search(
    root_state,
    play,
    evaluate,
    num_simulations,
    max_depth,
    rule,
    tie_seed,
    root_rule=None,
    amaf=None,
    expand_after=1,
    capacity=None,
    leaves=1,
    virtual_loss=0,
    nodes=None,
    backup=None,
    prove=False,
    ancestor=None,
    grandfather=None,
    known=None,
    prune=False,
    utility=None,
):
    """Run one search; `evaluate(state)` returns a `Node`'s evaluation, `play` a new state.

    `amaf` is "either", "same" or None. A node with fewer than `ancestor` visits uses the
    all-moves-as-first values of its nearest ancestor with the same player to move that has at
    least `ancestor`. A new node starts with the values of the node two plies above, counted as
    `grandfather` says: (visits, amaf_visits). `backup` maps (mean, visits, values) to a node's
    value by its children; `prove` propagates proven results. The search continues from `nodes`, if
    given. With `prune` a tree of `capacity` nodes is cut to half of them before a step for whose
    leaves it has no room.

    `utility` is a pair: (the root's score) -> a center, and (a score, a center) -> the utility
    added to the value, fixed point; a score of None asks for the largest utility. All are for the
    player to move. A node of an earlier search keeps its utility.

    With a `Known`, equal positions share an evaluation. The value of a known position, or of an
    ended game, is backed up at once; a step ends when `leaves` leaves wait for an evaluation,
    equal ones included, or no simulation is left.
    """

    def new_node(*args):
        node = Node(*args)
        if not amaf:  # then a heuristic's AMAF values are not kept
            node.amaf_visits[:] = node.amaf_sum[:] = 0
        return node

    def of_score(node):
        return utility[1](node.score, -center if node.depth % 2 else center) if utility else 0

    def about_score(node):
        node.utility, node.loss = of_score(node), ONE + (utility[1](None, None) if utility else 0)
        return node

    center = utility[0](nodes[0].score if nodes else evaluate(root_state)[5]) if utility else 0
    if not nodes:
        nodes = [new_node(0, root_state, 0, evaluate(root_state))]
        nodes[0].evaluated, nodes[0].fresh = 1, False
        about_score(nodes[0])
        nodes[0].own_sum, nodes[0].own_utility = nodes[0].value, nodes[0].utility
        nodes[0].own_squares = square(nodes[0].value + nodes[0].utility)
        nodes[0].back_up(backup, prove)
        if amaf:
            credit([], nodes[0], amaf)
    if known:
        known.begin(nodes)

    def amaf_source(node, path):
        if ancestor and node.num_visits() < ancestor:
            for above, _ in path[-2::-2]:  # 2, 4, ... plies up
                if above.num_visits() >= ancestor:
                    return above
        return node

    def descend():
        node, path = nodes[0], []
        while True:
            if prove and node.proven:
                return path, node
            full = capacity is not None and len(nodes) >= capacity and not prune
            grows = node.depth < max_depth and not full and not node.over and not node.fresh
            if node is not nodes[0]:
                grows &= node.num_visits() >= expand_after
            if not node.children and not grows:
                return path, node
            if node.cached is not None:
                action = node.cached
            elif root_rule and not path:
                action = node.best_of_all(root_rule, tie_seed, full, backup, prove)
            else:
                action = node.best_action(rule, tie_seed, backup, prove, amaf_source(node, path))
            if action not in node.children and not grows:
                node.tree_full |= full and node.depth < max_depth
                return path, node
            path.append((node, action))
            if action not in node.children:
                child = play(node.state, action)
                node.children[action] = new_node(len(nodes), child, node.depth + 1, evaluate(child))
                nodes.append(about_score(node.children[action]))
                nodes[-1].above = path[-2][0] if len(path) > 1 else None
                if grandfather and len(path) > 1:
                    nodes[-1].begin_as(path[-2][0], *grandfather)
                return path, nodes[-1]
            node = node.children[action]

    def lose(path, amount):
        for parent, action in path:
            parent.cached, parent.lost[action] = None, parent.lost[action] + amount
            parent.children[action].lost_above += amount

    def back_up(path, end):
        end.evaluated += 1
        end.fresh = False
        end.was_asked |= known is not None and not end.over
        value = (end.proven - 2) * ONE if prove and end.proven else end.value
        more = of_score(end)
        end.own_sum += value
        end.own_utility += more
        end.own_squares += square(value + more)
        for parent, action in reversed(path):
            value, more = -value, -more
            parent.visits[action] += 1
            parent.value_sum[action] += value
            parent.utility_sum[action] += more
            parent.square_sum[action] += square(value + more)
            parent.cached = None
        if amaf:
            credit(path, end, amaf)
        if rule.by_above:  # later simulations elsewhere change the values above
            if backup or prove:
                for node in reversed(nodes):
                    node.back_up(backup, prove)
            for node in [*(parent for parent, _ in path), end]:
                own_root = root_rule and node is nodes[0]
                can = np.any(node.prior >= 0)
                node.cached = None
                if can and not own_root:
                    node.cached = node.best_action(rule, tie_seed, backup, prove)

    left = num_simulations
    while left:
        if prune and len(nodes) + leaves > capacity:
            nodes = pruned(nodes, capacity // 2, rule, tie_seed)
        found = []
        while len(found) < min(leaves, left):
            path, end = descend()
            if known and (end.over or end.state in known):
                back_up(path, end)
                left -= 1
            else:
                found.append((path, end))
                lose(path, virtual_loss)
        left -= len(found)
        pending = set()
        for path, end in found:
            lose(path, -virtual_loss)
            back_up(path, end)
            if known and known.key_of(end.state) not in pending:
                known.add(end.state)
                pending.add(known.key_of(end.state))
        if backup or prove:
            for node in reversed(nodes):  # children come after their parents
                node.back_up(backup, prove)
    return nodes


def pruned(nodes, most, rule, tie_seed):
    """The `most` most visited nodes, earlier ones first among equals, in their original order."""
    kept = sorted(nodes, key=lambda node: (-node.num_visits(), node.index))[:most]
    kept.sort(key=lambda node: node.index)
    for node in kept:
        node.drop_children(set(kept), rule, tie_seed)
    for index, node in enumerate(kept):
        node.index = index
    return kept


def reroot(nodes, action):
    """The subtree of the root's child by an action, in the nodes' order; [] if there is none."""
    root = nodes[0].children.get(action)
    if root is None:
        return []
    kept, todo = [], [root]
    while todo:
        node = todo.pop()
        kept.append(node)
        todo += node.children.values()
    kept.sort(key=lambda node: node.index)
    above = root.depth
    for index, node in enumerate(kept):
        node.index, node.depth, node.tree_full = index, node.depth - above, False
        node.above = node.above if node.depth > 1 else None
    return kept


def credit(path, end, amaf):
    """Gelly & Silver (2011), 4.3: credit each node with the actions that its mover plays later.

    "same" counts every action the mover plays from there on, "either" only those that the mover
    plays before the opponent does.
    """
    num_actions = len(end.prior)
    played = [] if end.played is None or end.over else end.played
    for i in range(len(path) + 1):
        node = path[i][0] if i < len(path) else end
        mover = (len(path) - i) % 2  # 0: the player to move at the end
        value = -end.value if mover else end.value
        for action in range(num_actions):
            later = [(len(path) - j) % 2 for j in range(i, len(path)) if path[j][1] == action]
            if amaf == "same":
                counts = mover in later or (len(played) and played[mover][action])
            elif later:
                counts = later[0] == mover
            else:
                counts = len(played) and played[mover][action]
            if counts:
                node.amaf_visits[action] += 1
                node.amaf_sum[action] += value
