"""The rules of Danihelka et al. (2022) on whole rows, in float64: oracles for `mcts.search`."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from tests.reference import mcts


@functools.cache
def turns(num_considered, num_simulations):
    """Sequential halving: for each simulation, the visit count of the actions whose turn it is."""

    def endless():
        left, visits = num_considered, 0
        while True:
            phases = math.ceil(math.log2(num_considered)) if num_considered > 1 else 1
            for _ in range(max(1, num_simulations // (phases * max(left, 1)))):
                yield from [visits] * max(left, 1)
                visits += 1
            left = min(max(2, left // 2), num_considered)

    return list(itertools.islice(endless(), num_simulations))


def completed_q(prior, visits, q, raw):
    """Q where there are visits, else v_mix; Eq. (10) and (33)."""
    visited = visits > 0
    if not visited.any():
        return np.full(len(prior), float(raw))
    weight = prior[visited].astype(np.float64)
    mean = (weight * q[visited]).sum() / weight.sum()
    mixed = (raw + visits.sum() * mean) / (1 + visits.sum())
    return np.where(visited, q.astype(np.float64), mixed)


def sigma(prior, visits, q, raw, value_scale, max_visit_init):
    """Eq. (8), of the completed Q stretched to [0, 1]."""
    q = completed_q(prior, visits, q, raw)
    low, high = q[prior >= 0].min(), q[prior >= 0].max()
    return (max_visit_init + visits.max()) * value_scale * (q - low) / max(high - low, 1e-8)


def improved_policy(prior, value):
    """Eq. (11) over all legal actions."""
    legal = prior >= 0
    logits = np.log(np.where(legal, prior, 1).astype(np.float64)) + value
    weight = np.where(legal, np.exp(logits - logits[legal].max()), 0)
    return weight / weight.sum()


class Interior(mcts.Rule):
    """Eq. (14)."""

    def __init__(self, value_scale=0.1, max_visit_init=50.0):
        self.scales = value_scale, max_visit_init

    def __call__(self, prior, visits, q, mean, raw):
        pi = improved_policy(prior, sigma(prior, visits, q, raw, *self.scales))
        return pi - visits / (1 + visits.sum())


class Root(mcts.Rule):
    """Sequential halving over g + logits + sigma, with one tree's Gumbel samples g."""

    def __init__(self, gumbel, max_considered, num_simulations, scales=(0.1, 50.0)):
        self.gumbel, self.scales = gumbel.astype(np.float64), scales
        self.max_considered, self.num_simulations = max_considered, num_simulations

    def score(self, prior, visits, q, raw):
        logits = np.log(np.where(prior >= 0, prior, 1).astype(np.float64))
        return self.gumbel + logits + sigma(prior, visits, q, raw, *self.scales)

    def __call__(self, prior, visits, q, mean, raw):
        considered = min(self.max_considered, int((prior >= 0).sum()))
        now = turns(considered, self.num_simulations)[visits.sum()]
        return np.where(visits == now, self.score(prior, visits, q, raw), -np.inf)

    def final_action(self, prior, visits, q, raw):
        finalist = (visits == visits.max()) & (prior >= 0)
        return int(np.argmax(np.where(finalist, self.score(prior, visits, q, raw), -np.inf)))
