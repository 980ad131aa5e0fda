"""3x3 and 5x5 convolutions with a third or a fourth of the multiplications, for a CPU.

Winograd's minimal filtering, as Lavin & Gray (2016) use it for networks: the output is cut into
tiles of m x m points. The input patch of a tile, (m + r - 1)^2 points for an r x r kernel, is
multiplied elementwise with the kernel after both are transformed:

    Y = A^T [ sum over channels of (G g G^T) * (B^T d B) ] A

On 9x9 this takes 225 products for each pair of channels instead of 729. They are computed as matrix
products, positions by channels, and the transforms as sums of whole vectors: over the channels of a
position or, where these are few, of several positions side by side. The cost is memory traffic: the
fewer channels, the smaller the gain.

The results equal the convolution's up to rounding: to 3e-6 of the largest.
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
"""Where the polynomials of a tile and a kernel are evaluated, in addition to infinity."""

_TILES = (2, 3, 4, 5)
"""Possible side lengths m of a tile; larger ones lose more precision in f32 and cost more."""

_MOST_SEEN = len(_POINTS) + 1

_SLICE_BYTES = 3 * 2**20
"""Of a slice's transformed inputs of a layer, where a device has several cores: these share each
step of a slice, and shorter steps cost more than they save."""

_SLICE_BYTES_OF_A_CORE = 2**19
"""The same where each device is one core: together with the products (as many bytes again) and the
kernels they fit into its own cache (1 MiB)."""

_FEWEST_POSITIONS = 32
"""With fewer, reading the transformed kernels, which are several times as large, takes too long."""

_FEWEST_TILES = 24
"""In a slice: the number of rows of each matrix product."""

_FEWEST_ROWS = 128
"""The fewest rows of each matrix product in a slice whose gradients are taken: a kernel's gradient
is a sum over them, and with fewer its output is read and written too often."""

_FEWEST_CHANNELS = 32
"""With fewer, the transforms cost as much as the products save."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """How one axis of the board is cut into tiles: fewest products first, then smallest tiles.

    A tile of 5 points has to save more than two products, because it rounds more.
    """

    size: int
    taps: int = 3  # of the kernel, r

    @functools.cached_property
    def tile(self) -> int:
        """m, the number of points of a tile."""
        products = lambda m: -(-self.size // m) * (m + self.taps - 1)
        fit = [m for m in _TILES if m + self.taps - 1 <= _MOST_SEEN]
        return min(fit, key=lambda m: (products(m) + 2 * (m == 5), m))

    @property
    def tiles(self) -> int:
        """The number of tiles; the last may reach beyond the board."""
        return -(-self.size // self.tile)

    @property
    def seen(self) -> int:
        """m + r - 1, the number of input points of a tile."""
        return self.tile + self.taps - 1

    @functools.cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f32: A^T [m, seen], G [seen, r] and B^T [seen, seen]."""
        return _matrices(self.tile, self.taps)

    def seen_points(self, x: jax.Array, axis: int) -> list[jax.Array]:
        """The first, second, ... input point of every tile; zero beyond the board.

        Args:
          x: [..., size, ...].
          axis: the index of that axis; in each result it has one entry per tile.
        """
        reach, beyond = self.tiles * self.tile, self.taps // 2
        padding = [(0, 0)] * x.ndim
        padding[axis] = (beyond, reach + beyond - self.size)
        return self._every_tile(jnp.pad(x, padding), axis, self.seen)

    def to_points(self, seen: Sequence[jax.Array], axis: int) -> jax.Array:
        """The transpose of `seen_points`: for each point, the sum over the tiles that see it.

        Args:
          seen: one array for each input point of a tile, [..., tiles, ...].
          axis: the index of the tiles; in the result it has one entry per point of the board.
        """
        added = []
        for first in range(0, self.seen, self.tile):
            part = list(seen[first : first + self.tile])
            part += [jnp.zeros_like(part[0])] * (self.tile - len(part))
            points = jnp.stack(part, axis + 1)
            *before, tiles, tile = points.shape[: axis + 2]
            points = points.reshape(*before, tiles * tile, *points.shape[axis + 2 :])
            padding = [(0, 0)] * points.ndim
            padding[axis] = (first, self.seen - 1 - first)
            added.append(jnp.pad(points, padding))
        beyond = self.taps // 2
        total = functools.reduce(jnp.add, added)
        return lax.slice_in_dim(total, beyond, beyond + self.size, axis=axis)

    def tile_points(self, x: jax.Array, axis: int) -> list[jax.Array]:
        """The first, second, ... point of every tile itself; arguments as in `seen_points`."""
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, self.tiles * self.tile - self.size)
        return self._every_tile(jnp.pad(x, padding), axis, self.tile)

    def _every_tile(self, padded: jax.Array, axis: int, count: int) -> list[jax.Array]:
        last = (self.tiles - 1) * self.tile
        cut = functools.partial(lax.slice_in_dim, padded, stride=self.tile, axis=axis)
        return [cut(k, k + last + 1) for k in range(count)]


def pays(count: int, board: Sequence[int], channels: int, dtype: jnp.dtype) -> bool:
    """Whether a network evaluates faster this way here; static.

    Few positions and narrow networks are as fast with plain convolutions, which compile faster;
    these are also used for what runs once per search.
    """
    if mode.runs_seldom() or not may_pay(board, channels, dtype):
        return False
    rows, columns = (Axis(size) for size in board)
    in_slice = count // number_of_slices(count, board, channels)
    enough = in_slice * rows.tiles * columns.tiles >= _FEWEST_TILES
    return count >= _FEWEST_POSITIONS and enough


def may_pay(board: Sequence[int], channels: int, dtype: jnp.dtype) -> bool:
    """Whether it pays for any number of positions."""
    if mode.plain() or mode.backend() != "cpu":
        return False
    return channels >= _FEWEST_CHANNELS and min(board) >= 3 and dtype == jnp.float32


def number_of_slices(count: int, board: Sequence[int], channels: int) -> int:
    """The number of equal slices in which to evaluate `count` positions."""
    rows, columns = (Axis(size) for size in board)
    points = rows.tiles * rows.seen * columns.tiles * columns.seen
    most = _SLICE_BYTES_OF_A_CORE if mode.cores_of_a_device() == 1 else _SLICE_BYTES
    fewest = -(-count * points * channels * 4 // most)
    return next((n for n in range(fewest, count) if count % n == 0), count)


def slices_to_learn(count: int, board: Sequence[int], channels: int, dtype: jnp.dtype) -> int:
    """The number of equal slices in which to take gradients of `count` positions this way; 0 where
    plain convolutions are as fast. Static."""
    if count < _FEWEST_POSITIONS or not may_pay(board, channels, dtype):
        return 0
    rows, columns = (Axis(size) for size in board)
    fewest = -(-_FEWEST_ROWS // (rows.tiles * columns.tiles))  # positions of a slice
    most = number_of_slices(count, board, channels)
    return next(
        n for n in range(most, 0, -1) if count % n == 0 and (count // n >= fewest or n == 1)
    )


def transform_kernel(kernel: jax.Array, board: Sequence[int]) -> jax.Array:
    """G g G^T of a kernel f32[r, r, inputs, outputs], for `convolve`: f32[seen, seen, ...]."""
    taps = kernel.shape[0]
    rows, columns = (Axis(size, taps).matrices[1] for size in board)
    both = np.einsum("ia,jb->ijab", rows, columns).reshape(-1, taps * taps)
    made = jnp.einsum("pk,kio->pio", both, kernel.reshape(taps * taps, *kernel.shape[2:]))
    return made.reshape(len(rows), len(columns), *kernel.shape[2:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: jax.Array, kernel: jax.Array, taps: int = 3) -> jax.Array:
    """A convolution that keeps the size of the board.

    Its gradients are products of the same transforms. Those that JAX would derive take a third
    longer: the transposes of slices with a stride.

    Args:
      x: f32[..., rows, columns, K inputs]: boards, or the channels of K boards side by side.
      kernel: from `transform_kernel` for this board size.
      taps: r, the size of the kernel before its transform; static.

    Returns:
      f32[..., rows, columns, K outputs].
    """
    *boards, _, _, _ = x.shape
    rows, columns = _axes(x, taps)
    seen = _seen(x, taps)
    tiles = seen.shape[2:-1]
    made = _product(_by_point(seen, kernel.shape[2]), _flat(kernel), (2, 1))
    made = made.reshape(rows.seen, columns.seen, *tiles, -1)
    made = jnp.stack(_combined(rows.matrices[0], list(made)))
    by_column = [made[:, j] for j in range(columns.seen)]
    made = jnp.stack(_combined(columns.matrices[0], by_column), -2)
    # [m, ..., tiles, tiles, m, K outputs]
    made = jnp.moveaxis(made, 0, -4)
    made = made.reshape(*boards, rows.tiles * rows.tile, columns.tiles * columns.tile, -1)
    return made[..., : rows.size, : columns.size, :]


def _axes(x: jax.Array, taps: int) -> tuple[Axis, Axis]:
    rows, columns = (Axis(size, taps) for size in x.shape[-3:-1])
    return rows, columns


def _seen(x: jax.Array, taps: int) -> jax.Array:
    """B^T d B: f32[seen rows, seen columns, ..., tiles, tiles, K inputs]."""
    rows, columns = _axes(x, taps)
    seen = jnp.stack(_combined(rows.matrices[2], rows.seen_points(x, x.ndim - 3)))
    points = columns.seen_points(seen, seen.ndim - 2)
    return jnp.stack(_combined(columns.matrices[2], points), 1)


def _flat(kernel: jax.Array) -> jax.Array:
    """[seen rows, seen columns, ...] -> [points, ...]."""
    return kernel.reshape(-1, *kernel.shape[2:])


def _by_point(tiles: jax.Array, channels: int) -> jax.Array:
    """[seen rows, seen columns, ..., K channels] -> [points, all tiles, channels]."""
    return tiles.reshape(tiles.shape[0] * tiles.shape[1], -1, channels)


def _product(a: jax.Array, b: jax.Array, summed: tuple[int, int]) -> jax.Array:
    """Products of matrices, one for each point, summed over these axes of `a` and `b`."""
    return lax.dot_general(a, b, (((summed[0],), (summed[1],)), ((0,), (0,))))


def _convolve_forward(x, kernel, taps):
    return convolve(x, kernel, taps), (x, kernel)


def _convolve_backward(taps, residuals, gradient):
    """The transposes of the steps of `convolve`, from its last to its first."""
    x, kernel = residuals
    rows, columns = _axes(x, taps)
    inputs, outputs = kernel.shape[2:]
    made = _combined(rows.matrices[0].T, rows.tile_points(gradient, gradient.ndim - 3))
    points = columns.tile_points(jnp.stack(made), gradient.ndim - 1)
    made = jnp.stack(_combined(columns.matrices[0].T, points), 1)
    tiles, made = made.shape[2:-1], _by_point(made, outputs)
    of_kernel = _product(_by_point(_seen(x, taps), inputs), made, (1, 1))
    seen = _product(made, _flat(kernel), (2, 2)).reshape(rows.seen, columns.seen, *tiles, -1)
    by_column = [seen[:, j] for j in range(columns.seen)]
    seen = columns.to_points(_combined(columns.matrices[2].T, by_column), seen.ndim - 3)
    seen = rows.to_points(_combined(rows.matrices[2].T, list(seen)), x.ndim - 3)
    return seen, of_kernel.reshape(kernel.shape)


convolve.defvjp(_convolve_forward, _convolve_backward)


def _combined(matrix: np.ndarray, terms: Sequence[jax.Array]) -> list[jax.Array]:
    """``matrix @ terms``. Terms with a factor of 0 are left out."""
    return [_weighted_sum(row, terms) for row in matrix]


def _weighted_sum(weights: np.ndarray, terms: Sequence[jax.Array]) -> jax.Array:
    used = [(float(w), term) for w, term in zip(weights, terms, strict=True) if w]
    return functools.reduce(jnp.add, [term if w == 1 else w * term for w, term in used])


@functools.cache
def _matrices(tile: int, taps: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Toom-Cook: a product of polynomials from its values at m + r - 2 points and infinity.

    Its transpose is the filter. B^T is scaled to integers, which are exact in f32, and G inversely.
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
    """The exact inverse of a matrix of fractions, by Gauss-Jordan elimination."""
    size = len(matrix)
    both = np.concatenate([matrix, np.eye(size, dtype=int)], axis=1) * Fraction(1)
    for k in range(size):
        pivot = next(row for row in range(k, size) if both[row, k])
        both[[k, pivot]] = both[[pivot, k]]
        both[k] = both[k] / both[k, k]
        for row in set(range(size)) - {k}:
            both[row] = both[row] - both[k] * both[row, k]
    return both[:, size:]
