"""3x3 and 5x5 convolutions with a third or a fourth of the multiplications, for a CPU.

Winograd's minimal filtering, as Lavin & Gray (2016) use it for networks: the output is cut into
tiles of m x m points. The input patch of a tile, (m + r - 1)^2 points for an r x r kernel, is
multiplied elementwise with the kernel after both are transformed:

    Y = A^T [ sum over channels of (G g G^T) * (B^T d B) ] A

On 9x9 this takes 225 products for each pair of channels instead of 729. They are computed as matrix
products, positions by channels, and the transforms as sums of whole vectors: over the channels of a
position or, where these are few, of several positions side by side. The cost is memory traffic: the
fewer channels, the smaller the gain.

The results equal the convolution's up to rounding: to 3e-6 of the largest. A network of dtype
bfloat16 may round the factors of the products to bf16, where the processor multiplies them faster
(`product_dtype`); transforms, sums and activations stay f32.
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

_HALF = Fraction(1, 2)

_POINTS = {
    4: (0, 1, -1),
    5: (0, 1, -_HALF, -2),
    6: (0, 1, -1, _HALF, -2),
    7: (0, 1, -1, 2, -2, _HALF),
}
"""By the size of a patch: where the polynomials of a tile and a kernel are evaluated, besides
infinity. Those of 5 and 6 round least among the small fractions that were tried."""

_TILES = (2, 3, 4, 5)
"""Possible side lengths m of a tile; larger ones lose more precision in f32 and cost more."""

_MAX_PATCH = max(_POINTS)

_SLICE_BYTES = 3 * 2**20
"""Of a slice's transformed inputs of a layer, where a device has several cores: these share each
step of a slice, and shorter steps cost more than they save."""

_SLICE_BYTES_OF_A_CORE = 2**19
"""The same where each device is one core: together with the products (as many bytes again) and the
kernels they fit into its own cache (1 MiB)."""

_FEWEST_POSITIONS = 32
"""With fewer, transforming the kernels, where that has not been done before, takes too long."""

_FEWEST_TILES = 24
"""In a slice: the number of rows of each matrix product, if kernels are not transformed before."""

_NARROW, _FEWEST_OF_NARROW = 64, 16
"""A network of fewer channels keeps plain convolutions for fewer positions, even with kernels
transformed before: a search gains a tenth (4x32, eight leaves a step, on Zen 3), but a program's
first move takes a sixth longer, as there is more to compile."""

_CHANNELS_OF_A_TILE = 32
"""With kernels transformed before, a slice needs a tile for each so many channels: with fewer,
reading the kernels, which are several times as large, takes longer than the products."""

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
        allowed = [m for m in _TILES if m + self.taps - 1 <= _MAX_PATCH]
        return min(allowed, key=lambda m: (products(m) + 2 * (m == 5), m))

    @property
    def tiles(self) -> int:
        """The number of tiles; the last may reach beyond the board."""
        return -(-self.size // self.tile)

    @property
    def patch(self) -> int:
        """m + r - 1, the number of input points of a tile."""
        return self.tile + self.taps - 1

    @functools.cached_property
    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f32: A^T [m, patch], G [patch, r] and B^T [patch, patch]."""
        return _matrices(self.tile, self.taps)

    def patch_points(self, x: jax.Array, axis: int) -> list[jax.Array]:
        """The first, second, ... input point of every tile; zero beyond the board.

        Args:
          x: [..., size, ...].
          axis: the index of that axis; in each result it has one entry per tile.
        """
        reach, beyond = self.tiles * self.tile, self.taps // 2
        padding = [(0, 0)] * x.ndim
        padding[axis] = (beyond, reach + beyond - self.size)
        return self._every_tile(jnp.pad(x, padding), axis, self.patch)

    def to_points(self, patches: Sequence[jax.Array], axis: int) -> jax.Array:
        """The transpose of `patch_points`: for each point, the sum over the patches it is in.

        Args:
          patches: one array for each input point of a tile, [..., tiles, ...].
          axis: the index of the tiles; in the result it has one entry per point of the board.
        """
        parts = []
        for first in range(0, self.patch, self.tile):
            part = list(patches[first : first + self.tile])
            part += [jnp.zeros_like(part[0])] * (self.tile - len(part))
            points = jnp.stack(part, axis + 1)
            *before, tiles, tile = points.shape[: axis + 2]
            points = points.reshape(*before, tiles * tile, *points.shape[axis + 2 :])
            padding = [(0, 0)] * points.ndim
            padding[axis] = (first, self.patch - 1 - first)
            parts.append(jnp.pad(points, padding))
        beyond = self.taps // 2
        total = functools.reduce(jnp.add, parts)
        return lax.slice_in_dim(total, beyond, beyond + self.size, axis=axis)

    def tile_points(self, x: jax.Array, axis: int) -> list[jax.Array]:
        """The first, second, ... point of every tile itself; arguments as in `patch_points`."""
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, self.tiles * self.tile - self.size)
        return self._every_tile(jnp.pad(x, padding), axis, self.tile)

    def _every_tile(self, padded: jax.Array, axis: int, count: int) -> list[jax.Array]:
        last = (self.tiles - 1) * self.tile
        cut = functools.partial(lax.slice_in_dim, padded, stride=self.tile, axis=axis)
        return [cut(k, k + last + 1) for k in range(count)]


def is_faster(
    count: int, board: Sequence[int], channels: int, dtype: jnp.dtype, has_kernels: bool
) -> bool:
    """Whether a network evaluates `count` positions faster this way on this machine; static.

    Narrow networks are as fast with plain convolutions, which compile faster; these are also used
    for what runs once per search.

    Args:
      has_kernels: whether the kernels have been transformed before, once for many evaluations.
    """
    if mode.prefers_fast_compile() or not may_be_faster(board, channels, dtype):
        return False
    rows, columns = (Axis(size) for size in board)
    in_slice = count // num_slices(count, board, channels)
    tiles = in_slice * rows.tiles * columns.tiles
    if has_kernels:
        is_enough = channels >= _NARROW or count >= _FEWEST_OF_NARROW
        return is_enough and tiles * _CHANNELS_OF_A_TILE >= channels
    return count >= _FEWEST_POSITIONS and tiles >= _FEWEST_TILES


def may_be_faster(board: Sequence[int], channels: int, dtype: jnp.dtype) -> bool:
    """Whether it is faster for some number of positions."""
    if mode.plain() or mode.backend() != "cpu":
        return False
    has_dtype = dtype in (jnp.float32, jnp.bfloat16)
    return channels >= _FEWEST_CHANNELS and min(board) >= 3 and has_dtype


def product_dtype(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of the factors of the products in a network of dtype `dtype`, on this machine."""
    is_bf16 = dtype == jnp.bfloat16 and mode.multiplies_bf16()
    return jnp.dtype("bfloat16" if is_bf16 else "float32")


def num_slices(count: int, board: Sequence[int], channels: int) -> int:
    """The number of equal slices in which to evaluate `count` positions."""
    rows, columns = (Axis(size) for size in board)
    points = rows.tiles * rows.patch * columns.tiles * columns.patch
    max_bytes = _SLICE_BYTES_OF_A_CORE if mode.cores_of_a_device() == 1 else _SLICE_BYTES
    min_slices = -(-count * points * channels * 4 // max_bytes)
    return next((n for n in range(min_slices, count) if count % n == 0), count)


def num_gradient_slices(count: int, board: Sequence[int], channels: int, dtype: jnp.dtype) -> int:
    """The number of equal slices in which to take gradients of `count` positions this way; 0 if
    plain convolutions are as fast. Static."""
    if count < _FEWEST_POSITIONS or not may_be_faster(board, channels, dtype):
        return 0
    rows, columns = (Axis(size) for size in board)
    min_positions = -(-_FEWEST_ROWS // (rows.tiles * columns.tiles))  # positions of a slice
    max_slices = num_slices(count, board, channels)
    return next(
        n
        for n in range(max_slices, 0, -1)
        if count % n == 0 and (count // n >= min_positions or n == 1)
    )


def transform_kernel(kernel: jax.Array, board: Sequence[int]) -> jax.Array:
    """G g G^T of a kernel f32[r, r, inputs, outputs], for `convolve`: f32[patch, patch, ...]."""
    taps = kernel.shape[0]
    rows, columns = (Axis(size, taps).matrices[1] for size in board)
    both = np.einsum("ia,jb->ijab", rows, columns).reshape(-1, taps * taps)
    transformed = jnp.einsum("pk,kio->pio", both, kernel.reshape(taps * taps, *kernel.shape[2:]))
    return transformed.reshape(len(rows), len(columns), *kernel.shape[2:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: jax.Array, kernel: jax.Array, taps: int = 3) -> jax.Array:
    """A convolution that keeps the size of the board.

    Its gradients are products of the same transforms. Those that JAX would derive take a third
    longer: the transposes of slices with a stride.

    Args:
      x: f32[..., rows, columns, K inputs]: boards, or the channels of K boards side by side.
      kernel: from `transform_kernel` for this board size; in bf16 (without gradients) the factors
        of the products are rounded to that, and summed in f32.
      taps: r, the size of the kernel before its transform; static.

    Returns:
      f32[..., rows, columns, K outputs].
    """
    *boards, _, _, _ = x.shape
    rows, columns = _axes(x, taps)
    patches = _transformed_input(x, taps)
    tiles = patches.shape[2:-1]
    output = _product(_by_point(patches, kernel.shape[2]), _flat(kernel), (2, 1))
    output = output.reshape(rows.patch, columns.patch, *tiles, -1)
    output = jnp.stack(_combined(rows.matrices[0], list(output)))
    by_column = [output[:, j] for j in range(columns.patch)]
    output = jnp.stack(_combined(columns.matrices[0], by_column), -2)
    # [m, ..., tiles, tiles, m, K outputs]
    output = jnp.moveaxis(output, 0, -4)
    output = output.reshape(*boards, rows.tiles * rows.tile, columns.tiles * columns.tile, -1)
    return output[..., : rows.size, : columns.size, :]


def _axes(x: jax.Array, taps: int) -> tuple[Axis, Axis]:
    rows, columns = (Axis(size, taps) for size in x.shape[-3:-1])
    return rows, columns


def _transformed_input(x: jax.Array, taps: int) -> jax.Array:
    """B^T d B: f32[patch rows, patch columns, ..., tiles, tiles, K inputs]."""
    rows, columns = _axes(x, taps)
    by_row = jnp.stack(_combined(rows.matrices[2], rows.patch_points(x, x.ndim - 3)))
    points = columns.patch_points(by_row, by_row.ndim - 2)
    return jnp.stack(_combined(columns.matrices[2], points), 1)


def _flat(kernel: jax.Array) -> jax.Array:
    """[patch rows, patch columns, ...] -> [points, ...]."""
    return kernel.reshape(-1, *kernel.shape[2:])


def _by_point(tiles: jax.Array, channels: int) -> jax.Array:
    """[patch rows, patch columns, ..., K channels] -> [points, all tiles, channels]."""
    return tiles.reshape(tiles.shape[0] * tiles.shape[1], -1, channels)


def _product(a: jax.Array, b: jax.Array, summed: tuple[int, int]) -> jax.Array:
    """Products of matrices, one for each point, summed over these axes of `a` and `b`; computed in
    the dtype of `b` and summed in f32."""
    axes = ((summed[0],), (summed[1],)), ((0,), (0,))
    return lax.dot_general(a.astype(b.dtype), b, axes, preferred_element_type=jnp.float32)


def _convolve_forward(x, kernel, taps):
    return convolve(x, kernel, taps), (x, kernel)


def _convolve_backward(taps, residuals, gradient):
    """The transposes of the steps of `convolve`, from its last to its first."""
    x, kernel = residuals
    rows, columns = _axes(x, taps)
    inputs, outputs = kernel.shape[2:]
    gradients = _combined(rows.matrices[0].T, rows.tile_points(gradient, gradient.ndim - 3))
    points = columns.tile_points(jnp.stack(gradients), gradient.ndim - 1)
    gradients = jnp.stack(_combined(columns.matrices[0].T, points), 1)
    tiles, gradients = gradients.shape[2:-1], _by_point(gradients, outputs)
    kernel_gradient = _product(_by_point(_transformed_input(x, taps), inputs), gradients, (1, 1))
    input_gradient = _product(gradients, _flat(kernel), (2, 2)).reshape(
        rows.patch, columns.patch, *tiles, -1
    )
    by_column = [input_gradient[:, j] for j in range(columns.patch)]
    input_gradient = columns.to_points(
        _combined(columns.matrices[2].T, by_column), input_gradient.ndim - 3
    )
    input_gradient = rows.to_points(_combined(rows.matrices[2].T, list(input_gradient)), x.ndim - 3)
    return input_gradient, kernel_gradient.reshape(kernel.shape)


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
    patch = tile + taps - 1
    points = [Fraction(point) for point in _POINTS[patch]]
    powers = lambda number: np.array(
        [[p**k for k in range(number)] for p in points] + [[0] * (number - 1) + [1]], object
    )
    inverse = _inverse(powers(patch)).T
    scale = np.array([_to_integers(row) for row in inverse], object)
    kernel = powers(taps) / scale[:, None]
    as_f32 = lambda matrix: matrix.astype(np.float32)
    return as_f32(powers(tile).T), as_f32(kernel), as_f32(inverse * scale[:, None])


def _to_integers(row: np.ndarray) -> Fraction:
    """The smallest factor that makes integers of a row of fractions."""
    denominator = np.lcm.reduce([x.denominator for x in row])
    return Fraction(denominator, np.gcd.reduce([x.numerator for x in row * denominator]))


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
