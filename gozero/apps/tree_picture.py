"""A search tree as an SVG picture: the visits and values of its top nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gozero import limits
from gozero.apps.pictures import BLACK, BLUE, LINES, WHITE, Svg, picture, text
from gozero.search import tree as trees
from gozero.search import values

WIDTH, HEIGHT = 74, 78
"""Pixels from node to node, across and down."""


class DrawnNode(NamedTuple):
    """A node as drawn."""

    action: int  # the action that led here
    visits: int
    value: float  # in [-1, 1], for the player who moved here (at the root: the player to move)
    children: tuple[DrawnNode, ...]  # most visited first


def node_of(tree: trees.Tree, index: int = 0, *, depth: int = 3, width: int = 4) -> DrawnNode:
    """The top of a search tree, copied to the host.

    Args:
      tree: `SearchResult.tree`.
      index: which of its trees.
      depth: levels below the root.
      width: the most children per node; the most visited are kept.

    Raises:
      ValueError: there is no tree with this index.
    """
    if not 0 <= index < tree.num_trees:
        raise ValueError(f"index: {index} is not from 0 to {tree.num_trees - 1}")
    rows = slice(index * tree.capacity, (index + 1) * tree.capacity)
    read = lambda array: np.asarray(array[rows])
    visits, sums = read(tree.visits), values.to_int64(tree.value_sum)[rows]
    children, counts, actions = read(tree.children), read(tree.num_children), read(tree.action)

    def visit(node: int, level: int) -> DrawnNode:
        child_rows = children[node, : counts[node]] if level < depth else []
        best = sorted(map(int, child_rows), key=lambda child: -visits[child])[:width]
        mean = sums[node] / max(1, visits[node]) / limits.VALUE_ONE
        return DrawnNode(
            int(actions[node]),
            int(visits[node]),
            float(-mean if level else mean),
            tuple(visit(child, level + 1) for child in best),
        )

    return visit(trees.ROOT, 0)


def tree_svg(
    tree: trees.Tree,
    index: int = 0,
    *,
    name: Callable[[int], str] = str,
    depth: int = 3,
    width: int = 4,
    title: str = "Search tree",
) -> Svg:
    """Draw the top of a search tree: each node's action, the winning percentage of the player who
    took it, and its visits. Edges are wider the more simulations went through them.

    Args: those of `node_of`, and
      name: the name of an action; for Go, ``functools.partial(coords.to_gtp, size)``.
    """
    root = node_of(tree, index, depth=depth, width=width)
    parts: list[str] = []
    leaves, deepest = _draw(root, 0, 0.0, root.visits, name, parts)
    height = (deepest + 1) * HEIGHT
    return picture(leaves * WIDTH, height, title, [_edges_first(parts)], background=WHITE)


def _draw(
    node: DrawnNode,
    level: int,
    left: float,
    total: int,
    name: Callable[[int], str],
    parts: list[Any],
) -> tuple[float, int]:
    """Draw a node and its subtree from column `left` on; (columns used, deepest level)."""
    columns_used, deepest, placed = 0.0, level, []
    for child in node.children:
        columns, depth = _draw(child, level + 1, left + columns_used, total, name, parts)
        placed.append((left + columns_used + columns / 2, child))
        columns_used, deepest = columns_used + columns, max(deepest, depth)
    columns_used = max(1.0, columns_used)
    x, y = (left + columns_used / 2) * WIDTH, (level + 0.5) * HEIGHT
    for middle, child in placed:
        line_width = 0.5 + 9 * child.visits / max(1, total)
        parts.append(
            f'<path class="edge" d="M{x:g} {y:g}L{middle * WIDTH:g} {y + HEIGHT:g}" '
            f'stroke="{LINES}" stroke-width="{line_width:.2f}"/>'
        )
    parts.append(_box(node, x, y, total, name(node.action) if level else "root"))
    return columns_used, deepest


def _box(node: DrawnNode, x: float, y: float, total: int, label: str) -> str:
    share = node.visits / max(1, total)
    ink = WHITE if share > 0.4 else BLACK
    lines = (label, f"{50 * (1 + node.value):.0f}%", f"{node.visits}")
    words = [text(x, y + 15 * (i - 1), line, 13, ink) for i, line in enumerate(lines)]
    box = f'<rect x="{x - 31:g}" y="{y - 25:g}" width="62" height="50" rx="6"'
    return (
        f'<g class="node">{box} fill="{WHITE}"/>{box} fill="{BLUE}" '
        f'fill-opacity="{0.1 + 0.9 * share:.2f}" stroke="{LINES}"/>{"".join(words)}</g>'
    )


def _edges_first(parts: list[str]) -> str:
    """The parts in drawing order: edges first, so that boxes lie on top of them."""
    return "".join(sorted(parts, key=lambda part: not part.startswith("<path")))
