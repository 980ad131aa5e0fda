"""KataGo's score utility, which adds to the value of a game according to its points.

Wu (2019), "Accelerating Self-Play Learning in Go", appendix F; in KataGo's source `ScoreValue` and
`getScoreUtility`. Trees keep these utilities separate from the values (`Tree.scores`), so that the
reported values of a search remain results in [-1, 1].
"""

from __future__ import annotations

import dataclasses
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gozero.runs.settings import ABOVE_0, SHARE, check_ranges

_DEVIATIONS = np.arange(-50, 51, dtype=np.float32) / 10
_WEIGHTS = np.exp(-0.5 * _DEVIATIONS.astype(np.float64) ** 2)
_WEIGHTS = (_WEIGHTS / _WEIGHTS.sum()).astype(np.float32)
"""Weights of the normal distribution at every 0.1 standard deviations, up to +-5."""


def final(score: jax.Array) -> jax.Array:
    """f32[..., 2]: mean and standard deviation for final scores f32[...].

    As in KataGo, a whole number of points counts as half a point more or less with equal chances.
    """
    return jnp.stack([score, jnp.where(score == jnp.round(score), 0.5, 0.0)], axis=-1)


@dataclasses.dataclass(frozen=True)
class ScoreUtility:
    """The utility of a normally distributed score, to be added to a value in [-1, 1].

    static E[f(s / (2 side))] + dynamic E[f((s - center) / (scale side))], f(x) = 2 / pi atan(x).
    The center is the score that the root expects, moved towards 0.

    Attributes:
      side: of the board, in points: the square root of its area.
      static, dynamic: the maximum of each part.
      zero_weight: the share of the expected score by which the center is moved towards 0.
      scale: the scale of the dynamic part, in board sides.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    side: float
    static: float = 0.1
    dynamic: float = 0.3
    zero_weight: float = 0.2
    scale: float = 0.75

    def __post_init__(self):
        check_ranges(self, side=ABOVE_0, static=SHARE, dynamic=SHARE, zero_weight=SHARE)
        check_ranges(self, scale=ABOVE_0)
        if self.most > 1:
            raise ValueError(
                f"static, dynamic: their sum is {self.most}; it must not exceed the value of a win"
            )

    @property
    def most(self) -> float:
        """The largest utility."""
        return self.static + self.dynamic

    def center(self, mean: jax.Array) -> jax.Array:
        """f32[...]: the center for expected scores f32[...], within `scale` sides of them."""
        max_shift = self.side * self.scale
        return jnp.clip(mean * (1.0 - self.zero_weight), mean - max_shift, mean + max_shift)

    def __call__(self, score: jax.Array, center: jax.Array) -> jax.Array:
        """f32[...]: the utility, in [-static - dynamic, static + dynamic].

        Args:
          score: f32[..., 2]; the mean and standard deviation of the score, for the player to move.
          center: f32[...]; for the same player.
        """
        chex.assert_equal_shape([score[..., 0], center])
        mean, stdev = score[..., 0], score[..., 1]
        static = _expected(mean / (2.0 * self.side), stdev / (2.0 * self.side))
        width = self.scale * self.side
        return self.static * static + self.dynamic * _expected(
            (mean - center) / width, stdev / width
        )


def _expected(mean: jax.Array, stdev: jax.Array) -> jax.Array:
    """f32[...]: the mean of 2 / pi atan(x) for normal x. (KataGo reads it from a table.)"""
    on_last_axis = lambda x: jnp.asarray(x.reshape(*[1] * mean.ndim, -1))
    points = mean[..., None] + stdev[..., None] * on_last_axis(_DEVIATIONS)
    return jnp.sum(jnp.arctan(points) * on_last_axis(_WEIGHTS), axis=-1) * (2.0 / math.pi)
