"""The parameters of a network that begins from another network's weights."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Sequence

import jax

from gozero.nets import growth
from gozero.nets.network import NetworkConfig
from train import hosts

_SHAPE = ("features", "blocks", "channels", "pool_every", "auxiliary")
"""The fields of a `NetworkConfig` in which two networks for one game may differ."""


def grown(
    path: pathlib.Path,
    old: NetworkConfig,
    params: dict,
    new: NetworkConfig,
    seed: int,
    complaint: Callable[[Sequence[str]], str],
) -> dict:
    """The parameters with which a network begins: those of a file, grown if it is larger.

    Args:
      path: the file, to be named.
      old, params: the network in it, for the same game.
      new: the network that begins.
      seed: the seed of the random weights of new channels, see `gozero.nets.growth`.
      complaint: the text of the error, for the names of the fields that differ.

    Raises:
      ValueError: the new network is smaller, or differs in more than blocks and channels.
    """
    differ = [name for name in _SHAPE if getattr(old, name) != getattr(new, name)]
    if not differ:
        return params
    if not growth.can_grow(old, new):
        raise ValueError(complaint(differ))
    if hosts.is_first():
        larger = " and ".join(f"{getattr(old, n)} to {getattr(new, n)} {n}" for n in differ)
        print(f"--weights {path}: the network is grown from {larger}", file=sys.stderr)
    return growth.grow(old, params, new, jax.random.key(seed))
