"""Makes a larger network that computes the same as a smaller one, to continue its training.

As Net2Net (Chen, Goodfellow & Shlens 2016), but nothing is duplicated: new channels get random
inputs, and nothing reads them yet (their outgoing weights to old channels and to outputs are 0,
whose gradients are not); new blocks are the identity, as every block is at first.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gozero.nets import network
from gozero.nets.network import NetworkConfig

GROWING = ("blocks", "channels")
"""The fields of a `NetworkConfig` in which a network may grow."""


def can_grow(old: NetworkConfig, new: NetworkConfig) -> bool:
    """Whether `grow` can make the new network from the old one: only blocks and channels differ."""
    larger = all(getattr(new, name) >= getattr(old, name) for name in GROWING)
    unchanged = {name: getattr(new, name) for name in (*GROWING, "dtype")}
    return larger and dataclasses.replace(old, **unchanged) == new


def grow(old: NetworkConfig, params: dict, new: NetworkConfig, key: jax.Array) -> dict:
    """The parameters of a larger network with the same outputs, up to rounding.

    Args:
      old: the network to grow.
      params: its parameters, f32.
      new: the same with more blocks, more channels, or both.
      key: PRNG key of the new channels' random weights.

    Returns:
      Parameters as `network.init(new, key)` makes them.

    Raises:
      ValueError: the new network is smaller, or differs in more than blocks and channels.
    """
    if not can_grow(old, new):
        raise ValueError(f"new: {new} must differ from {old} only by more blocks or channels")
    initial = network.init(new, key)
    layout = _Layout(old, new)
    grown = {
        name: initial[name]
        if name not in params
        else layout.module(name, params[name], initial[name])
        for name in initial
    }
    return jax.tree.map(jnp.asarray, grown)


_Parts = tuple[tuple[int, int], ...]
"""An axis as parts that lie one after another: (old length, new length) of each. An old part is at
the beginning of its new one."""


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Where the old network's channels are in the new one."""

    old: NetworkConfig
    new: NetworkConfig

    @property
    def _trunk(self) -> tuple[int, int]:
        return self.old.channels, self.new.channels

    @property
    def _pooled(self) -> tuple[int, int]:
        return self.old.pooled_channels, self.new.pooled_channels

    @property
    def _local(self) -> tuple[int, int]:
        (old, new), (old_pooled, new_pooled) = self._trunk, self._pooled
        return old - old_pooled, new - new_pooled

    def module(self, name: str, old: dict, initial: dict) -> dict:
        """The grown parameters of a module of the network; `initial` is the new network's."""
        if not name.startswith("block_"):
            return _layer(old, initial, *self._axes(name))
        return {
            part: _layer(old[part], initial[part], *self._in_block(name, part)) for part in initial
        }

    def _axes(self, name: str) -> tuple[_Parts, _Parts]:
        """(the inputs, the outputs) of a layer outside of the blocks; () for an axis of equal
        length, or for the rest of one."""
        trunk = (self._trunk,)
        inputs: dict[str, _Parts] = {"stem": (), "stem_globals": ()}
        inputs |= {name: trunk * 2 for name in ("actions", "pass_move", "value_hidden")}
        outputs = {name: trunk for name in ("stem", "stem_globals", "value_hidden")}
        return inputs.get(name, trunk), outputs.get(name, ())

    def _in_block(self, block: str, part: str) -> tuple[_Parts, _Parts]:
        """`_axes` of a layer of a block."""
        trunk, local, pooled = self._trunk, self._local, self._pooled
        pools = self.old.pools(int(block.removeprefix("block_")))
        return {
            "first": ((trunk,), (local, pooled) if pools else (trunk,)),
            "bias": ((pooled,) * 3, (local,)),
            "second": ((local if pools else trunk,), (trunk,)),
        }[part]


def _layer(old: dict, initial: dict, inputs: _Parts, outputs: _Parts) -> dict:
    """The kernel [..., inputs, outputs] and the bias [outputs] of a layer."""
    kernel, old_kernel = np.array(initial["kernel"]), np.asarray(old["kernel"])
    rows = _places(inputs, old_kernel.shape[-2], kernel.shape[-2])
    columns = _places(outputs, old_kernel.shape[-1], kernel.shape[-1])
    kernel[..., columns] = 0.0  # old outputs read no new inputs
    kernel[..., rows[:, None], columns] = old_kernel
    grown: dict[str, Any] = {"kernel": kernel}
    if "bias" in initial:
        bias = np.array(initial["bias"])
        bias[columns] = old["bias"]
        grown["bias"] = bias
    return grown


def _places(parts: _Parts, old: int, new: int) -> np.ndarray:
    """i64[old]: the place in the new axis of each index of the old one. What the parts leave over
    follows them, and has one length in both."""
    starts = [sum(part[i] for part in parts) for i in (0, 1)]
    assert old - starts[0] == new - starts[1]
    parts = (*parts, (old - starts[0], new - starts[1]))
    begin = np.cumsum([0, *(length for _, length in parts[:-1])])
    return np.concatenate([at + np.arange(n) for at, (n, _) in zip(begin, parts, strict=True)])
