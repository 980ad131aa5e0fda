"""KataGo's networks in Flax: descriptions of their layers, and `apply`.

A description is nested tuples of layers (`Trunk`, `PolicyHead`, `ValueHead`, the blocks), which
`model_file` reads; parameters are a nested dict with the same names. A board is evaluated at its
own size: every layer is a convolution, pools, or attends to all points.

    Ordinary     x + conv2(norm2(conv1(norm1(x))))
    Pooled       the same, with a second convolution pooled over the board into a bias of conv1
    Bottleneck   x + conv2(norm2(blocks(conv1(norm1(x))))), blocks of fewer channels
    Attention    x + attention among the points, optionally with rotary embeddings (RoPE)
    FeedForward  x + second(silu(first(x)) * gate(x))

A norm is an affine map of each channel and an activation; batch statistics are merged into it
(Wu 2019, "Accelerating Self-Play Learning in Go"; the format and the meaning of every number are
those of KataGo's public source, ``cpp/neuralnet``).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from gozero.compile import products, winograd
from gozero.nets.features import Inputs
from gozero.nets.network import (
    IN_TILES,
    Board,
    Conv,
    in_slices,
    modules_of,
    over,
    plain,
    pool,
    prepared_as,
    use_tiles,
)

ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": jax.nn.relu,
    "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    "silu": jax.nn.silu,
}
DTYPES = ("float32", "bfloat16")
OLDEST, NEWEST = 3, 17
"""The model versions that are supported."""

_MAX_SCORE = 1e6
_FEATURES = {3: (22, 14), 4: (22, 14), 5: (13, 12), 6: (22, 16), 7: (22, 19)}
"""(planes, global inputs) by the version of the inputs."""


class Convolution(NamedTuple):
    rows: int
    columns: int
    inputs: int
    outputs: int
    dilation: tuple[int, int] = (1, 1)


class Dense(NamedTuple):
    inputs: int
    outputs: int
    bias: bool = False


class Norm(NamedTuple):
    channels: int
    activation: str


class RootMeanSquare(NamedTuple):
    channels: int
    epsilon: float
    bias: bool = False
    whole_board: bool = False  # one mean of squares per board, not one per point
    activation: str = "identity"


class Rotation(NamedTuple):
    """Rotary position embedding of queries and keys: learnt frequencies, or powers of theta."""

    heads: int
    pairs: int
    theta: float | None  # None: learnt


class Ordinary(NamedTuple):
    norm1: Norm
    conv1: Convolution
    norm2: Norm
    conv2: Convolution


class Pooled(NamedTuple):
    norm1: Norm
    conv1: Convolution
    conv_pooled: Convolution
    norm_pooled: Norm
    bias: Dense
    norm2: Norm
    conv2: Convolution


class Bottleneck(NamedTuple):
    norm1: Norm
    conv1: Convolution
    blocks: tuple[Any, ...]
    norm2: Norm
    conv2: Convolution


class Attention(NamedTuple):
    norm: RootMeanSquare
    queries: Dense
    keys: Dense
    values: Dense
    out: Dense
    rotation: Rotation | None
    heads: int
    key_heads: int


class FeedForward(NamedTuple):
    norm: RootMeanSquare
    first: Dense
    gate: Dense
    second: Dense


class Trunk(NamedTuple):
    conv: Convolution
    global_inputs: Dense
    blocks: tuple[Any, ...]
    norm: Norm | RootMeanSquare


class PolicyHead(NamedTuple):
    conv1: Convolution
    conv_pooled: Convolution
    norm_pooled: Norm
    bias: Dense
    norm: Norm
    conv2: Convolution
    pass_first: Dense
    pass_second: Dense | None = None
    pass_activation: str = "identity"


class ValueHead(NamedTuple):
    conv: Convolution
    norm: Norm
    hidden: Dense
    value: Dense
    score: Dense
    owners: Convolution
    activation: str = "relu"


class Scales(NamedTuple):
    """The factors of the outputs; files give them from version 13 on."""

    td_score: float = 20.0
    score_mean: float = 20.0
    score_stdev: float = 20.0
    lead: float = 20.0
    variance_time: float = 40.0
    value_error: float = 0.25
    score_error: float = 30.0


_DEFAULT_SCALES = Scales()


@dataclasses.dataclass(frozen=True)
class KataGoConfig:
    """A KataGo network, and the rules for its inputs that gozero's `Rules` do not have.

    Attributes:
      version: the model version, 3 to 17.
      trunk, policy, value: its layers.
      scales: the factors of its outputs.
      pass_alive_by_suicide: whether pass-alive areas are computed as if suicide were allowed.
      dtype: the dtype in which the trunk computes, "float32" or "bfloat16"; not the parameters'.
      scoring: the scoring rule in the network's inputs: "area", as gozero counts, or "territory"
        (its main phase; the encore is not played here).
      tax: the group tax, "none", "seki" or "all".
      button: whether the first pass is worth half a point and does not count towards the end.
      friendly_pass: whether the inputs hide that a pass would end the game. (What KataGo's engines
        call passing hacks is not done: they also hide it where the game would end as a loss, and
        limit the prior of a pass to 95%.)
      optimism: the weight, 0 to 1, of the optimistic policy that networks from version 12 on have
        beside the plain one; the default is that of KataGo's GTP and analysis engines.
      root_optimism: the same for positions that have no ancestors in a search tree.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    version: int
    trunk: Trunk
    policy: PolicyHead
    value: ValueHead
    scales: Scales = _DEFAULT_SCALES
    pass_alive_by_suicide: bool = False
    dtype: str = "float32"
    scoring: Literal["area", "territory"] = "area"
    tax: Literal["none", "seki", "all"] = "none"
    button: bool = False
    friendly_pass: bool = False
    optimism: float = 1.0
    root_optimism: float = 0.2

    auxiliary = True
    features = "katago"
    observation = None
    board_size = None

    def __post_init__(self):
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}: {getattr(self, name)!r} is not one of {', '.join(map(str, allowed))}"
                )
        for name in ("optimism", "root_optimism"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not from 0 to 1")
        if self.inputs_version < 6 and self.tax != "none":
            raise ValueError(f"tax: a network of version {self.version} does not support one")
        if self.inputs_version < 7 and self.button:
            raise ValueError(f"button: a network of version {self.version} does not support it")
        if self.button and self.scoring != "area":
            raise ValueError("button: it requires scoring='area'")

    @property
    def inputs_version(self) -> int:
        return {3: 3, 4: 3, 5: 4, 6: 5, 7: 6}.get(self.version, 7)

    @property
    def num_planes(self) -> int:
        return _FEATURES[self.inputs_version][0]

    @property
    def num_global_inputs(self) -> int:
        return _FEATURES[self.inputs_version][1]

    @property
    def channels(self) -> int:
        return self.trunk.conv.outputs

    @property
    def most_heads(self) -> int:
        """The most heads of an attention among the points; 0 without attention."""
        return _most_heads(self.trunk.blocks)

    @property
    def is_optimistic(self) -> bool:
        """Whether the network has an optimistic policy."""
        return self.policy.conv2.outputs > 1


def _most_heads(blocks: tuple[Any, ...]) -> int:
    own = [block.heads for block in blocks if isinstance(block, Attention)]
    inner = [_most_heads(block.blocks) for block in blocks if isinstance(block, Bottleneck)]
    return max(own + inner, default=0)


_ALLOWED = {
    "version": range(OLDEST, NEWEST + 1),
    "dtype": DTYPES,
    "scoring": ("area", "territory"),
    "tax": ("none", "seki", "all"),
}


class KataGoOutput(NamedTuple):
    """Fields have a leading axis [M]. All are for the player to move."""

    policy_logits: jax.Array  # f32[M, A]; the pass last
    value: jax.Array  # f32[M] in [-1, 1]: win - loss
    ownership_logits: jax.Array  # f32[M, size^2]
    score: jax.Array  # f32[M]: the lead in points, komi included
    win: jax.Array  # f32[M]
    loss: jax.Array  # f32[M]
    no_result: jax.Array  # f32[M]; 0 under superko and area scoring
    score_mean: jax.Array  # f32[M]: expected final score, in points
    score_stdev: jax.Array  # f32[M]: its standard deviation; 0 for version 3
    # From version 9 on, else None; see KataGo's `varTimeLeft` and `shorttermWinlossError`.
    variance_time: jax.Array | None = None  # f32[M]: how long the result stays uncertain, in moves
    value_error: jax.Array | None = None  # f32[M]: of the value, against a search a few moves later
    score_error: jax.Array | None = None  # f32[M]: the same of the score, in points

    @property
    def ownership(self) -> jax.Array:
        """f32[M, size^2]: +1 mover's area at the end, -1 the opponent's."""
        return jnp.tanh(self.ownership_logits)


# --- layers -----------------------------------------------------------------------------


class _Convolution(Conv):
    def __init__(self, spec: Convolution, dtype: str, rngs: nnx.Rngs):
        shape = spec.inputs, spec.outputs, (spec.rows, spec.columns)
        options = {"padding": "SAME", "kernel_dilation": spec.dilation, "use_bias": False}
        super().__init__(*shape, **options, dtype=jnp.dtype(dtype), rngs=rngs)
        self.has_tiles = spec[:2] in ((3, 3), (5, 5)) and spec.dilation == (1, 1)


class _Dense(nnx.Linear):
    def __init__(self, spec: Dense, dtype: str, rngs: nnx.Rngs):
        options = {"use_bias": spec.bias, "dtype": jnp.dtype(dtype)}
        super().__init__(spec.inputs, spec.outputs, **options, rngs=rngs)


class _Norm(nnx.Module):
    def __init__(self, spec: Norm, dtype: str, rngs: nnx.Rngs):
        del dtype, rngs
        self.activation = spec.activation
        self.scale = nnx.Param(jnp.ones(spec.channels))
        self.bias = nnx.Param(jnp.zeros(spec.channels))

    def __call__(self, x):
        scale, bias = self.scale[...].astype(x.dtype), self.bias[...].astype(x.dtype)
        return ACTIVATIONS[self.activation](x * over(x, scale) + over(x, bias))


class _RootMeanSquare(nnx.Module):
    def __init__(self, spec: RootMeanSquare, dtype: str, rngs: nnx.Rngs):
        del dtype, rngs
        self.spec = spec
        self.scale = nnx.Param(jnp.ones(spec.channels))
        if spec.bias:
            self.bias = nnx.Param(jnp.zeros(spec.channels))

    def __call__(self, x):
        as_f32 = x.astype(jnp.float32)
        axes = tuple(range(1, x.ndim)) if self.spec.whole_board else (-1,)
        mean = jnp.mean(as_f32 * as_f32, axis=axes, keepdims=True)
        y = as_f32 * jax.lax.rsqrt(mean + self.spec.epsilon) * over(x, self.scale[...])
        y = y + over(x, self.bias[...]) if self.spec.bias else y
        return ACTIVATIONS[self.spec.activation](y).astype(x.dtype)


class _Rotation(nnx.Module):
    def __init__(self, spec: Rotation, dtype: str, rngs: nnx.Rngs):
        del dtype, rngs
        self.spec = spec
        if spec.theta is None:
            self.frequencies = nnx.Param(jnp.zeros((spec.heads, spec.pairs, 2)))

    def __call__(self, x, rows: int, columns: int):
        """Rotates each pair of channels of [M, points, heads, channels] by its point's angle."""
        y, x_of = (a.reshape(-1).astype(np.float32) for a in np.indices((rows, columns)))
        if self.spec.theta is None:
            f = self.frequencies[...]
            angles = x_of[:, None, None] * f[None, ..., 0] + y[:, None, None] * f[None, ..., 1]
            angles = jnp.repeat(angles, x.shape[2] // self.spec.heads, axis=1)
        else:
            angles = self._fixed(y, x_of)[:, None, :]
        cos, sin = jnp.cos(angles)[None], jnp.sin(angles)[None]
        pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        rotated = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
        return rotated.reshape(x.shape).astype(x.dtype)

    def _fixed(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f32[points, pairs]: angles, from the row for the first half of the pairs, then column."""
        assert self.spec.theta is not None
        pairs, half = self.spec.pairs, self.spec.pairs // 2
        power = np.where(np.arange(pairs) < half, np.arange(pairs), np.arange(pairs) - half)
        frequencies = self.spec.theta ** (-2.0 * power / pairs)
        place = np.where(np.arange(pairs) < half, y[:, None], x[:, None])
        return (place * frequencies).astype(np.float32)


class _Parts(nnx.Module):
    """A module for each layer in a description, under the same name."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, spec: Any, dtype: str, rngs: nnx.Rngs):
        self.spec = spec
        for name, part in zip(spec._fields, spec, strict=True):
            if name == "blocks":
                for i, block in enumerate(part):
                    setattr(self, f"block_{i}", _module(block, dtype, rngs))
            elif type(part) in _MODULES:
                setattr(self, name, _module(part, dtype, rngs))

    def through_blocks(self, x):
        for i in range(len(self.spec.blocks)):
            x = getattr(self, f"block_{i}")(x)
        return x


class _Ordinary(_Parts):
    def __call__(self, x):
        return x + self.conv2(self.norm2(self.conv1(self.norm1(x))))


class _Pooled(_Parts):
    def __call__(self, x):
        y = self.norm1(x)
        bias = self.bias(pool(self.norm_pooled(self.conv_pooled(y))))
        y = self.conv1(y)
        return x + self.conv2(self.norm2(y + bias[:, None, None].astype(y.dtype)))


class _Bottleneck(_Parts):
    def __call__(self, x):
        return x + self.conv2(self.norm2(self.through_blocks(self.conv1(self.norm1(x)))))


class _Attention(_Parts):
    def __call__(self, x):
        """x is [M, rows, columns, C]; its points are flattened row by row."""
        count, rows, columns, channels = x.shape
        flat = self.norm(x).reshape(count, rows * columns, channels)
        by_head = lambda y, heads: y.reshape(*y.shape[:2], heads, -1)
        queries = by_head(self.queries(flat), self.spec.heads)
        keys = by_head(self.keys(flat), self.spec.key_heads)
        values = by_head(self.values(flat), self.spec.key_heads)
        if self.spec.rotation is not None:
            queries, keys = (self.rotation(y, rows, columns) for y in (queries, keys))
        group = self.spec.heads // self.spec.key_heads
        keys, values = (jnp.repeat(y, group, axis=2) for y in (keys, values))
        scores = jnp.einsum("mqhd,mkhd->mhqk", queries, keys).astype(jnp.float32)
        weights = jax.nn.softmax(scores / math.sqrt(queries.shape[-1]), axis=-1)
        attended = jnp.einsum("mhqk,mkhd->mqhd", weights.astype(values.dtype), values)
        return x + self.out(attended.reshape(count, rows * columns, -1)).reshape(x.shape)


class _FeedForward(_Parts):
    def __call__(self, x):
        y = self.norm(x)
        return x + self.second(jax.nn.silu(self.first(y)) * self.gate(y))


class _Trunk(_Parts):
    def __call__(self, inputs: Inputs):
        x = self.conv(inputs.planes)
        x = x + self.global_inputs(inputs.global_inputs)[:, None, None].astype(x.dtype)
        return self.norm(self.through_blocks(x))


class _PolicyHead(_Parts):
    def __call__(self, x):
        """f32[M, A, P]: the logits of P policies."""
        pooled = pool(self.norm_pooled(self.conv_pooled(x)))
        points = self.conv1(x) + self.bias(pooled)[:, None, None]
        points = self.conv2(self.norm(points))
        pass_move = self.pass_first(pooled)
        if self.spec.pass_second is not None:
            pass_move = self.pass_second(ACTIVATIONS[self.spec.pass_activation](pass_move))
        points = points.reshape(points.shape[0], -1, points.shape[-1])
        return jnp.concatenate([points, pass_move[:, None]], axis=1)


class _ValueHead(_Parts):
    def __call__(self, x):
        """f32[M, 3] logits of win, loss and no result; f32[M, 1 | 2 | 4 | 6]; f32[M, size^2]."""
        v = self.norm(self.conv(x))
        mean, wider = products.mean_of_board(v), v.shape[1] - 14
        parts = [mean, mean * (wider / 10), mean * (wider * wider / 100 - 0.1)]
        hidden = ACTIVATIONS[self.spec.activation](self.hidden(jnp.concatenate(parts, axis=-1)))
        owners = self.owners(v).reshape(v.shape[0], -1)
        return self.value(hidden), self.score(hidden), owners


class _Network(nnx.Module):
    def __init__(self, config: KataGoConfig, rngs: nnx.Rngs):
        self.trunk = _module(config.trunk, config.dtype, rngs)
        self.policy = _module(config.policy, "float32", rngs)
        self.value = _module(config.value, "float32", rngs)

    @property
    def convs(self) -> list[Conv]:
        """The convolutions that `winograd` can do."""
        parts = modules_of(self.trunk)
        return [part for part in parts if isinstance(part, _Convolution) and part.has_tiles]

    def __call__(self, inputs: Inputs):
        x = self.trunk(inputs).astype(jnp.float32)
        return self.policy(x), *self.value(x)


_MODULES = {
    Convolution: _Convolution,
    Dense: _Dense,
    Norm: _Norm,
    RootMeanSquare: _RootMeanSquare,
    Rotation: _Rotation,
    Ordinary: _Ordinary,
    Pooled: _Pooled,
    Bottleneck: _Bottleneck,
    Attention: _Attention,
    FeedForward: _FeedForward,
    Trunk: _Trunk,
    PolicyHead: _PolicyHead,
    ValueHead: _ValueHead,
}


def _module(spec: Any, dtype: str, rngs: nnx.Rngs) -> Any:
    return _MODULES[type(spec)](spec, dtype, rngs)


# --- the network --------------------------------------------------------------------------


def apply(config: KataGoConfig, params: dict, inputs: Inputs) -> KataGoOutput:
    """The network on M positions of one size.

    Args:
      config: the network.
      params: as `model_file.read` returns them.
      inputs: planes f32[M, size, size, C], global inputs f32[M, G] and optimism f32[M] (None: that
        of a root); see `inputs.observe`.
    """
    return _output(config, inputs, *_network(config, params)(inputs))


def apply_on_cpu(config: KataGoConfig, params: dict, inputs: Inputs) -> KataGoOutput:
    """`apply` in the form that is faster on a CPU; see `gozero.nets.network.apply_on_cpu`."""
    count, *board, _ = inputs.planes.shape
    on_cpu, dtype = dataclasses.replace(config, dtype="float32"), jnp.dtype(config.dtype)
    if not winograd.is_faster(count, board, config.channels, dtype, IN_TILES in params):
        return apply(on_cpu, params, inputs)
    net = _network(on_cpu, params)
    use_tiles(net.convs, board, params, config.dtype)
    number = winograd.num_slices(count, board, config.channels)
    return in_slices(lambda inputs: _output(config, inputs, *net(inputs)), inputs, number)


def _network(config: KataGoConfig, params: dict) -> _Network:
    graph, state = _abstract(config)
    state = jax.tree.map(lambda x: x, state)  # a fresh container to fill
    nnx.replace_by_pure_dict(state, plain(params))
    return nnx.merge(graph, state)


def prepared(config: KataGoConfig, params: dict, board: Board) -> dict:
    """As `gozero.nets.network.prepared`."""
    return prepared_as(in_dtype, _network, config, params, board)


def shapes(config: KataGoConfig) -> dict:
    """The parameters' shapes and dtypes."""
    return nnx.to_pure_dict(_abstract(config)[1])


def in_dtype(config: KataGoConfig, params: dict) -> dict:
    """The parameters, with the trunk's kernels in the trunk's dtype; `apply` returns the same."""
    convert = lambda path, x: jnp.asarray(x).astype(config.dtype) if path[-1].key == "kernel" else x
    return {**params, "trunk": jax.tree_util.tree_map_with_path(convert, params["trunk"])}


@functools.cache
def _abstract(config: KataGoConfig) -> tuple[Any, nnx.State]:
    return nnx.split(nnx.eval_shape(lambda: _Network(config, nnx.Rngs(0))))


def _output(config: KataGoConfig, inputs: Inputs, policy, value, score, owners) -> KataGoOutput:
    logits = policy[..., 0]
    if config.is_optimistic:
        optimism = inputs.optimism
        optimism = config.root_optimism if optimism is None else optimism[:, None]
        logits = logits + (policy[..., 1] - logits) * optimism
    if config.version > 3:  # only simple ko or territory scoring leaves games without a result
        global_inputs = inputs.global_inputs
        has_result = (global_inputs[:, 6] != 0) & (global_inputs[:, 9] == 0)
        value = value.at[:, 2].add(jnp.where(has_result, -jnp.inf, 0.0))
    win, loss, no_result = jnp.moveaxis(jax.nn.softmax(value, axis=-1), -1, 0)
    lead, mean, stdev = _scores(config, score, inputs.planes.shape[1])
    p_result = 1.0 if config.version == 3 else 1.0 - no_result  # scores are conditional on a result
    return KataGoOutput(
        policy_logits=logits,
        value=win - loss,
        ownership_logits=owners,
        score=lead * p_result,
        win=win,
        loss=loss,
        no_result=no_result,
        score_mean=mean * p_result,
        # With p = p_result: E[s^2] = p (mean^2 + stdev^2), E[s] = p mean.
        score_stdev=jnp.sqrt(jnp.maximum(p_result * (stdev**2 + mean**2 * (1.0 - p_result)), 0.0)),
        **_errors(config, score),
    )


def _scores(config: KataGoConfig, score: jax.Array, size: int) -> tuple[jax.Array, ...]:
    """f32[M] each: the lead, the mean of the final score and its standard deviation, in points."""
    if config.version == 3:  # one unit is 2 size points, the scale of KataGo's arctangent of scores
        mean = jnp.clip(score[:, 0], -_MAX_SCORE, _MAX_SCORE) * (2.0 * size)
        return mean, mean, jnp.zeros_like(mean)
    mean = score[:, 0] * config.scales.score_mean
    stdev = jax.nn.softplus(score[:, 1]) * config.scales.score_stdev
    lead = score[:, 2] * config.scales.lead if config.version >= 8 else mean
    return lead, mean, stdev


def _errors(config: KataGoConfig, score: jax.Array) -> dict[str, jax.Array]:
    """The outputs of a network of version 9 or later that say how sure the others are, by name."""
    if config.version < 9:
        return {}
    scales, (value_error, score_error) = config.scales, (score[:, 4], score[:, 5])
    if config.version >= 14:
        spread = lambda x, scale: jax.nn.softplus(x * 0.5) * math.sqrt(scale)
    elif config.version >= 10:
        spread = lambda x, scale: jnp.sqrt(jax.nn.softplus(x) * scale)
    else:
        spread = lambda x, scale: jax.nn.softplus(x) * scale
        scales = scales._replace(value_error=1.0, score_error=10.0)
    return {
        "variance_time": jax.nn.softplus(score[:, 3]) * scales.variance_time,
        "value_error": spread(value_error, scales.value_error),
        "score_error": spread(score_error, scales.score_error),
    }
