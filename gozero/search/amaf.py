"""All moves as first: which actions a simulation counts for, at each node that it went through.

Gelly & Silver (2011), section 4: an action that a player takes anywhere in the rest of a
simulation counts at the node as if he had taken it there. The rest of it is the path below the
node, and the playout after it.

Sets of actions are bit words, u32[ceil(A / 32)]: a set for each node of each path is little.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import stages
from gozero.search import rows
from gozero.search.backup import Path
from gozero.search.config import Amaf
from gozero.search.tree import ROOT, Tree


def num_words(num_actions: int) -> int:
    """Words of a set of actions."""
    return -(-num_actions // 32)


def pack(chosen: jax.Array) -> jax.Array:
    """Sets of actions bool[..., A] -> u32[..., W]."""
    num_actions = chosen.shape[-1]
    width = 32 * num_words(num_actions)
    padded = jnp.pad(chosen, [(0, 0)] * (chosen.ndim - 1) + [(0, width - num_actions)])
    bits = padded.reshape(*chosen.shape[:-1], -1, 32).astype(jnp.uint32)
    return jnp.sum(bits << _places(bits.shape), axis=-1, dtype=jnp.uint32)


def unpack(words: jax.Array, num_actions: int) -> jax.Array:
    """Sets of actions u32[..., W] -> bool[..., A]."""
    shape = (*words.shape, 32)
    bits = (jnp.broadcast_to(words[..., None], shape) >> _places(shape)) & np.uint32(1)
    return (bits != 0).reshape(*words.shape[:-1], -1)[..., :num_actions]


def _places(shape: tuple[int, ...]) -> jax.Array:
    """u32[..., 32]: the place of each bit in its word."""
    return lax.broadcasted_iota(jnp.uint32, shape, len(shape) - 1)


def counted(tree: Tree, path: Path, first_play: jax.Array, config: Amaf) -> jax.Array:
    """The actions that count at each node of the paths, for the player to move there.

    Args:
      tree: the trees.
      path: the paths.
      first_play: bool[B, 2, A]: who was first to play what in the playout; 0 is the player to
        move where the path ends.
      config: what counts.

    Returns:
      u32[D + 1, B, W]; of no meaning beyond the ends of the paths.
    """
    played = pack(first_play)
    node_rows = tree.row(0)[None] + jnp.maximum(path.nodes, ROOT)
    action = rows.read(tree.action, node_rows).astype(jnp.int32)  # [D + 1, B]
    num_levels, num_trees, num_sets = *path.nodes.shape, played.shape[-1]

    def walk_up(action, length, mine, other):
        # `mine` and `other`: of the player to move where the path ends, and of his opponent.
        def one_up(i, carry):
            out, mine, other = carry
            level = jnp.max(length) - i
            taken = action[jnp.minimum(level + 1, num_levels - 1)]
            word = jnp.arange(num_sets, dtype=jnp.int32)[None] == (taken // 32)[:, None]
            bit = jnp.where(word, np.uint32(1) << (taken % 32).astype(jnp.uint32)[:, None], 0)
            bit = jnp.where((level < length)[:, None], bit, np.uint32(0))
            is_mine = ((length - level) % 2 == 0)[:, None]
            keep = ~bit if config.first == "either" else ~np.uint32(0)
            mine = jnp.where(is_mine, mine | bit, mine & keep)
            other = jnp.where(is_mine, other & keep, other | bit)
            here = jnp.where(is_mine, mine, other)
            return lax.dynamic_update_slice(out, here[None], (level, 0, 0)), mine, other

        out = jnp.zeros((num_levels, num_trees, num_sets), jnp.uint32)
        return lax.fori_loop(0, jnp.max(length) + 1, one_up, (out, mine, other))

    args = (action, path.length, played[:, 0], played[:, 1])
    return stages.one_kernel(walk_up, *args, reduced=num_trees)[0]
