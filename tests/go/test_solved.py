"""Small boards solved with the library's own rules, against known values."""

from __future__ import annotations

import jax
import numpy as np

from gozero.go import rules as go
from gozero.go import scoring
from tests.go.stepping import in_chunks

SIZE = 3
POINTS = SIZE**2
UNREACHED = -1
CHUNK = 4096


def test_3x3_is_nine_in_the_centre_and_minus_nine_in_the_corner():
    """Every position under simple ko, area scoring, no komi.

    Games may go on for ever under simple ko, so a position has two values: with endless games
    worth -9, and with endless games worth +9. Where they are equal, the value is exact.
    """
    to_play, children, over, score = _all_positions()
    low = _solve(children, over, score, to_play, endless=-POINTS)
    high = _solve(children, over, score, to_play, endless=POINTS)
    start = 0
    assert (low[start], high[start]) == (9, 9)
    for action, value in ((4, 9), (0, -9)):
        child = children[start, action]
        assert low[child] == high[child], action
        assert low[child] == value, action


def _all_positions():
    """(player to move, child per action, is it over, score) of each position, empty board first."""
    rules = go.Rules(size=SIZE, ko="simple")
    step = jax.jit(jax.vmap(lambda p, a: go.play_position(rules, p, a)))
    legal = jax.jit(jax.vmap(lambda p: go.action_mask(rules, go.legal_points(rules, p))))
    count = jax.jit(jax.vmap(lambda p: scoring.area_difference(rules, p)))
    start = jax.tree.map(lambda x: np.asarray(x)[None], go.empty_position(rules))
    index = {_key(start, 0): 0}
    level, levels, children = start, [start], []
    while True:
        masks = in_chunks(legal, CHUNK, level) & (level.passes < 2)[:, None]
        parents, actions = np.nonzero(masks)
        rows = np.full(masks.shape, UNREACHED)
        children.append(rows)
        if not len(parents):
            break
        parent_positions = jax.tree.map(lambda x, parents=parents: x[parents], level)
        moved = in_chunks(step, CHUNK, parent_positions, actions.astype(np.int32))
        moved = moved.replace(ply=np.zeros_like(moved.ply))
        fresh = []
        for i, (parent, action) in enumerate(zip(parents, actions, strict=True)):
            key = _key(moved, i)
            if key not in index:
                index[key] = len(index)
                fresh.append(i)
            rows[parent, action] = index[key]
        level = jax.tree.map(lambda x, fresh=fresh: x[fresh], moved)
        if not fresh:
            break
        levels.append(level)
    every = jax.tree.map(lambda *x: np.concatenate(x), *levels)
    return (
        every.to_play,
        np.concatenate(children),
        every.passes >= 2,
        in_chunks(count, CHUNK, every),
    )


def _key(positions, i):
    words = (*positions.black, *positions.white, positions.ko, positions.passes, positions.to_play)
    return tuple(int(word[i]) for word in words)


def _solve(children, over, score, to_play, endless):
    """The value of each position for Black if a game without end is worth `endless`."""
    value = np.where(over, score, endless)
    sign = np.where(to_play == go.BLACK, 1, -1)
    while True:
        reached = np.where(children >= 0, sign[:, None] * value[children], -POINTS - 1)
        better = np.where(over, score, sign * reached.max(axis=1))
        if (better == value).all():
            return value
        value = better
