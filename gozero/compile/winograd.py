"""Convolutions of 3x3 and 5x5 with a third or a fourth of the products, for a CPU.

Winograd's minimal filtering, as Lavin & Gray (2016) have it for networks: the board is cut into
tiles of m x m points, and what a tile sees, (m + r - 1)^2 points for a kernel of r x r, is
multiplied point by point with the kernel after both are transformed:

    Y = A^T [ sum over channels of (G g G^T) * (B^T d B) ] A

On 9x9 these are 225 products for each pair of channels in place of 729. They are products of
matrices, positions by channels, and the transforms are sums of whole vectors: of a position's
channels, or, where these are few, of several positions' side by side. What it costs is memory
traffic: the fewer channels, the less it gains.

The sums are those of the convolution in another order: the same to 3e-6 of the largest.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gozero.compile import mode

_POINTS = (0, 1, -1, 2, -2, Fraction(1, 2))
"""Where the polynomials of a tile and a kernel are evaluated, beside infinity."""

_TILES = (2, 3, 4, 5)
"""Points on the side of a tile; of larger ones f32 loses more, and the transforms cost more."""

_MOST_SEEN = len(_POINTS) + 1

_SLICE_BYTES = 3 * 2**20
"""Of a layer's transformed inputs, where a device has several cores: they divide each step of a
slice, and shorter steps cost more than they save."""

_SLICE_BYTES_OF_A_CORE = 2**19
"""Where each device is a core: with the products, as many bytes again, and the kernels they fit its
own cache (1 MiB)."""

_FEWEST_POSITIONS = 32
"""With fewer the transformed kernels, several times as large, take too long to read."""

_FEWEST_TILES = 24
"""Of a slice: rows of each product of matrices."""

_FEWEST_CHANNELS = 32
"""With fewer the transforms take what the products save."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """How one axis of the board is cut into tiles: with the fewest products, then the smallest.

    A tile of 5 points has to save more than two products, for what it rounds.
    """

    size: int
    taps: int = 3  # of the kernel, r

    @functools.cached_property
    def tile(self) -> int:
        """m, points of a tile."""
        products = lambda m: -(-self.size // m) * (m + self.taps - 1)
        fit = [m for m in _TILES if m + self.taps - 1 <= _MOST_SEEN]
        return min(fit, key=lambda m: (products(m) + 2 * (m == 5), m))

    @property
    def tiles(self) -> int:
        """How many; the last may reach beyond the board."""
        return -(-self.size // self.tile)

    @property
    def seen(self) -> int:
        """m + r - 1, points that a tile sees."""
        return self.tile + self.taps - 1

    @functools.cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f32: A^T [m, seen], G [seen, r] and B^T [seen, seen]."""
        return _matrices(self.tile, self.taps)

    def seen_points(self, x: jax.Array, axis: int) -> list[jax.Array]:
        """What stands first, second and so on in each tile's view; zero beyond the board.

        Args:
          x: [..., size, ...].
          axis: which one that is; of each result it has an entry for each tile.
        """
        reach, beyond = self.tiles * self.tile, self.taps // 2
        padding = [(0, 0)] * x.ndim
        padding[axis] = (beyond, reach + beyond - self.size)
        padded, last = jnp.pad(x, padding), reach - self.tile
        cut = functools.partial(lax.slice_in_dim, padded, stride=self.tile, axis=axis)
        return [cut(k, k + last + 1) for k in range(self.seen)]


def pays(count: int, board: Sequence[int], channels: int, dtype: jnp.dtype) -> bool:
    """Whether a network evaluates sooner so here; static.

    Few positions and narrow networks are as fast by convolutions, and compile sooner; so does what
    runs once a search.
    """
    if mode.runs_seldom() or not may_pay(board, channels, dtype):
        return False
    rows, columns = (Axis(size) for size in board)
    in_slice = count // number_of_slices(count, board, channels)
    enough = in_slice * rows.tiles * columns.tiles >= _FEWEST_TILES
    return count >= _FEWEST_POSITIONS and enough


def may_pay(board: Sequence[int], channels: int, dtype: jnp.dtype) -> bool:
    """Whether it pays for some number of positions."""
    if mode.plain() or mode.backend() != "cpu":
        return False
    return channels >= _FEWEST_CHANNELS and min(board) >= 3 and dtype == jnp.float32


def number_of_slices(count: int, board: Sequence[int], channels: int) -> int:
    """How many slices of equal size to evaluate so many positions in."""
    rows, columns = (Axis(size) for size in board)
    points = rows.tiles * rows.seen * columns.tiles * columns.seen
    most = _SLICE_BYTES_OF_A_CORE if mode.cores_of_a_device() == 1 else _SLICE_BYTES
    fewest = -(-count * points * channels * 4 // most)
    return next((n for n in range(fewest, count) if count % n == 0), count)


def transform_kernel(kernel: jax.Array, board: Sequence[int]) -> jax.Array:
    """G g G^T of f32[r, r, inputs, outputs], what `convolve` takes: f32[seen, seen, ...]."""
    taps = kernel.shape[0]
    rows, columns = (Axis(size, taps).matrices[1] for size in board)
    both = np.einsum("ia,jb->ijab", rows, columns).reshape(-1, taps * taps)
    made = jnp.einsum("pk,kio->pio", both, kernel.reshape(taps * taps, *kernel.shape[2:]))
    return made.reshape(len(rows), len(columns), *kernel.shape[2:])


def convolve(x: jax.Array, kernel: jax.Array, taps: int = 3) -> jax.Array:
    """The convolution that keeps the size of the board.

    Args:
      x: f32[..., rows, columns, K inputs]: boards, or the channels of K boards side by side.
      kernel: of `transform_kernel` for such a board.
      taps: r, of the kernel before that.

    Returns:
      f32[..., rows, columns, K outputs].
    """
    *boards, _, _, _ = x.shape
    rows, columns = (Axis(size, taps) for size in x.shape[-3:-1])
    inputs, outputs = kernel.shape[-2:]
    seen = _combined(rows.matrices[2], rows.seen_points(x, x.ndim - 3), 0)
    seen = _combined(columns.matrices[2], columns.seen_points(seen, seen.ndim - 2), 1)
    # [seen rows, seen columns, ..., tiles, tiles, K inputs]
    tiles = seen.shape[2:-1]
    seen = seen.reshape(rows.seen * columns.seen, -1, inputs)
    kernel = kernel.reshape(-1, inputs, outputs)
    made = lax.dot_general(seen, kernel, (((2,), (1,)), ((0,), (0,))))
    made = made.reshape(rows.seen, columns.seen, *tiles, -1)
    made = _combined(rows.matrices[0], list(made), 0)
    by_column = [made[:, j] for j in range(columns.seen)]
    made = _combined(columns.matrices[0], by_column, -2)  # [m, ..., tiles, tiles, m, K outputs]
    made = jnp.moveaxis(made, 0, -4)
    made = made.reshape(*boards, rows.tiles * rows.tile, columns.tiles * columns.tile, -1)
    return made[..., : rows.size, : columns.size, :]


def _combined(matrix: np.ndarray, terms: Sequence[jax.Array], axis: int) -> jax.Array:
    """``matrix @ terms``, put together along a new axis. Terms with a factor of 0 are left out."""
    return jnp.stack([_weighted_sum(row, terms) for row in matrix], axis)


def _weighted_sum(weights: np.ndarray, terms: Sequence[jax.Array]) -> jax.Array:
    used = [(float(w), term) for w, term in zip(weights, terms, strict=True) if w]
    return functools.reduce(jnp.add, [term if w == 1 else w * term for w, term in used])


@functools.cache
def _matrices(tile: int, taps: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Toom and Cook's: a product of polynomials from its values at m + r - 2 points and infinity.

    Transposed it is the filter. B^T is scaled to whole numbers, which f32 has, and G back.
    """
    seen = tile + taps - 1
    points = [Fraction(point) for point in _POINTS[: seen - 1]]
    powers = lambda number: np.array(
        [[p**k for k in range(number)] for p in points] + [[0] * (number - 1) + [1]], object
    )
    back = _inverse(powers(seen)).T
    scale = np.array([np.lcm.reduce([x.denominator for x in row]) for row in back], object)
    kernel = powers(taps) / scale[:, None]
    as_f32 = lambda matrix: matrix.astype(np.float32)
    return as_f32(powers(tile).T), as_f32(kernel), as_f32(back * scale[:, None])


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Of a matrix of fractions, exactly, by Gauss and Jordan."""
    size = len(matrix)
    both = np.concatenate([matrix, np.eye(size, dtype=int)], axis=1) * Fraction(1)
    for k in range(size):
        pivot = next(row for row in range(k, size) if both[row, k])
        both[[k, pivot]] = both[[pivot, k]]
        both[k] = both[k] / both[k, k]
        for row in set(range(size)) - {k}:
            both[row] = both[row] - both[k] * both[row, k]
    return both[:, size:]
