"""The residual network for policy, value, ownership and score, as pure `init` and `apply`.

A flax.nnx module defines it; this file exports pure functions of a nested dict of arrays, so that
``jax.jit``, ``jax.grad`` and files see plain pytrees.

    stem      3x3 convolution of the planes, plus a bias computed from the global inputs
    blocks    x + second(relu(first(relu(x)))), 3x3 convolutions; the second is initialised to
              zero, so that the block starts as the identity and needs no batch statistics: play
              and training compute the same (He et al. 2016, pre-activation; Zhang et al. 2019)
    pooled    a block in which a few channels of the first convolution are pooled into a bias of
              the others: every point sees the whole board (Wu 2019, section 3.3)
    heads     policy: a 1x1 convolution, and the pass from the pooled trunk; value and score: one
              hidden layer on the pooled trunk; ownership: a 1x1 convolution

Every head pools or is a convolution, so one set of weights fits boards of any size. This holds for
Go, and for games whose actions are the points of their planes, or the points and one more. For
other actions, such as the columns of Connect Four, policy and value use dense layers on the pooled
trunk and on a few of its channels at each point (AlphaZero's heads), which fit one board size.

With ``dtype="bfloat16"`` the convolutions and the trunk between them are bf16. Parameters, pooled
sums, heads and outputs are always f32. A CPU computes such a network's activations and gradients in
f32, and only its products may be bf16 (`winograd.product_dtype`). With ``dtype="int8"``, in
addition, the blocks' convolutions use 8-bit integers (`int8`): for evaluation on a TPU, with
parameters that `quantized` makes from f32 ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from gozero.compile import mode, products, winograd
from gozero.nets import int8
from gozero.nets.features import Inputs, feature_set
from gozero.runs.settings import COUNT, Range, check_ranges
from gozero.search.game import Game

DTYPES = ("float32", "bfloat16", "int8")

SCORE_SCALE = 20.0
"""Points per unit of the score head, so that it need not learn large weights first."""

FLAT_CHANNELS = 4
"""The number of channels that dense heads see at each point."""


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Shape of the network.

    Attributes:
      blocks: the number of residual blocks, each with two 3x3 convolutions.
      channels: the number of channels of the trunk.
      features: the name of its feature set (`gozero.nets.features`).
      pool_every: with 2 every second block pools the board, with 1 every block; 0: none.
      auxiliary: whether it has heads for ownership and score; only for Go.
      dtype: the dtype in which the trunk computes, "float32" or "bfloat16"; parameters stay f32.
        "int8": bf16 with 8-bit integers in the blocks; for evaluation only, see `quantized`.
      board_size: the side length of the board that the weights were trained for, which evaluators
        check; None: any board. Not part of the shape: configs that differ only in it are equal.
      observation: for a game other than Go, (rows, columns, channels) of the planes it observes,
        see `of_game`; None: Go, with the planes of `features`.
      num_actions: the number of actions of that game; None: Go.

    Raises:
      ValueError: naming the field, what it was and what is allowed.
    """

    blocks: int = 2
    channels: int = 32
    features: str = "compact"
    pool_every: int = 0
    auxiliary: bool = False
    dtype: str = "float32"
    board_size: int | None = dataclasses.field(default=None, compare=False, repr=False)
    observation: tuple[int, int, int] | None = None
    num_actions: int | None = None

    def __post_init__(self):
        check_ranges(self, blocks=COUNT, channels=COUNT, pool_every=Range(0, whole=True))
        if self.pool_every and self.channels < 2:
            raise ValueError(
                f"channels: {self.channels} is not at least 2; pooled blocks need one to pool"
            )
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype: {self.dtype!r} is not one of {', '.join(DTYPES)}")
        feature_set(self.features)
        if (self.observation is None) != (self.num_actions is None):
            raise ValueError("observation, num_actions: give both, or neither for Go")
        if self.observation is not None and self.auxiliary:
            raise ValueError("auxiliary: only networks for Go have heads for ownership and score")

    @property
    def num_planes(self) -> int:
        return self.observation[-1] if self.observation else feature_set(self.features).num_planes

    @property
    def policy_head(self) -> str:
        """ "points" (one action each), "points and pass" (one more action), or "dense"."""
        if self.observation is None or self.num_actions is None:
            return "points and pass"
        extra = self.num_actions - self.observation[0] * self.observation[1]
        return {0: "points", 1: "points and pass"}.get(extra, "dense")

    @property
    def trunk_dtype(self) -> Any:
        """The dtype of the activations between convolutions."""
        return jnp.dtype("bfloat16" if self.dtype == "int8" else self.dtype)

    @property
    def pooled_channels(self) -> int:
        """How many channels of its first convolution a pooled block pools."""
        return max(1, self.channels // 4)

    def pools(self, block: int) -> bool:
        """Whether this block, counted from 0, pools."""
        return bool(self.pool_every) and (block + 1) % self.pool_every == 0


def of_game(game: Game, **shape: Any) -> NetworkConfig:
    """The config of a network for a game other than Go, from the shape of its observations.

    Args:
      game: must observe planes [rows, columns, channels], of any number type.
      shape: blocks, channels, pool_every and dtype, as in `NetworkConfig`.

    Raises:
      ValueError: the game observes something else.
    """
    observation = jax.eval_shape(lambda key: game.observe(game.init(key)), jax.random.key(0))
    if not hasattr(observation, "shape") or len(observation.shape) != 3:
        raise ValueError(
            f"game: it observes {jax.tree.map(lambda x: x.shape, observation)}; a network needs "
            "planes [rows, columns, channels] (for Go give the Rules in place of the game)"
        )
    return NetworkConfig(observation=observation.shape, num_actions=game.num_actions, **shape)


class NetworkOutput(NamedTuple):
    """Fields have a leading axis [M]. All are for the player to move."""

    policy_logits: jax.Array  # f32[M, A]; the pass, if there is one, last
    value: jax.Array  # f32[M] in [-1, 1]
    ownership_logits: jax.Array | None = None  # f32[M, size^2]; None without auxiliary heads
    score: jax.Array | None = None  # f32[M]: expected final area score in points, komi included

    @property
    def ownership(self) -> jax.Array | None:
        """tanh of the logits, f32[M, size^2]: +1 mover's area at the end, -1 the opponent's."""
        return None if self.ownership_logits is None else jnp.tanh(self.ownership_logits)


def pool(x: jax.Array) -> jax.Array:
    """Pools each channel over the whole board.

    Wu (2019), section 3.3: its mean, its mean times (size - 14) / 10, and its maximum. The second
    lets one set of weights distinguish sums from means across board sizes; with a single board size
    it adds nothing to the first.

    Args:
      x: [M, size, size, C].

    Returns:
      f32[M, 3 C].
    """
    mean, maximum = products.mean_of_board(x), x.astype(jnp.float32).max(axis=(1, 2))
    return jnp.concatenate([mean, mean * ((x.shape[1] - 14) / 10), maximum], axis=-1)


InputHook = Callable[[jax.Array], jax.Array]
"""A hook on the input of a block's convolution; returns the input that the convolution uses."""


def _identity(x: jax.Array) -> jax.Array:
    return x


Board = Sequence[int]
"""Rows and columns."""


class Conv(nnx.Conv):
    """A convolution that keeps the size of the board; by `winograd` once its kernel is transformed.

    With `side_by_side` its input and output are [rows, columns, M, C], so that it transforms
    positions side by side, which is faster where a position has few channels.
    """

    in_tiles = side_by_side = False

    def __call__(self, x: jax.Array) -> jax.Array:
        if not self.in_tiles:
            return super().__call__(x)
        boards = x.reshape(*x.shape[:2], -1) if self.side_by_side else x
        output: Any = winograd.convolve(boards, self.kernel[...], self.kernel_size[0])
        output = output.reshape(*x.shape[:-1], -1)
        return output if self.bias is None else output + over(output, self.bias[...])


def modules_of(module: nnx.Module) -> Iterator[nnx.Module]:
    """Yields the module and all modules within it. (flax's own has version-dependent names.)"""
    yield module
    for part in vars(module).values():
        if isinstance(part, nnx.Module):
            yield from modules_of(part)


IN_TILES = "in_tiles"
"""Key in `prepared` parameters: the 3x3 and 5x5 kernels, transformed for a board by `winograd`."""


def in_tiles(convs: Sequence[Conv], board: Board, dtype: Any) -> list[jax.Array]:
    """The transformed kernels of the convolutions of a network of this dtype: the parameters'
    `IN_TILES`."""
    of_products = winograd.product_dtype(jnp.dtype(dtype))
    transform = lambda conv: winograd.transform_kernel(conv.kernel[...], board)
    return [transform(conv).astype(of_products) for conv in convs]


def use_tiles(
    convs: Sequence[Conv], board: Board, params: dict, dtype: Any, side_by_side: bool = False
) -> None:
    """Makes convolutions use `winograd`, with the parameters' prepared kernels if there are any."""
    kernels = params[IN_TILES] if IN_TILES in params else in_tiles(convs, board, dtype)
    for conv, kernel in zip(convs, kernels, strict=True):
        conv.kernel, conv.in_tiles, conv.side_by_side = nnx.Param(kernel), True, side_by_side


def over(x: jax.Array, channels: jax.Array) -> jax.Array:
    """`channels`, [C], shaped to broadcast against `x`, [..., C]."""
    return channels.reshape(*[1] * (x.ndim - 1), -1)


class _Block(nnx.Module):
    def __init__(self, config: NetworkConfig, rngs: nnx.Rngs):
        channels = config.channels
        # Rounding to integers should be fused with the convolution before it: no barrier there.
        self.barrier = _identity if config.dtype == "int8" else products.fusion_barrier
        self.first = _block_conv(config, channels, channels, rngs)
        self.second = _block_conv(
            config, channels, channels, rngs, kernel_init=nnx.initializers.zeros
        )

    def __call__(self, x, hook: InputHook = _identity):
        hidden = self.first(hook(nnx.relu(x)))
        return x + self.second(hook(nnx.relu(self.barrier(hidden))))


class _PooledBlock(nnx.Module):
    by_point = False

    def __init__(self, config: NetworkConfig, rngs: nnx.Rngs):
        channels, pooled = config.channels, config.pooled_channels
        self.local_channels = channels - pooled
        self.first = _block_conv(config, channels, channels, rngs)
        self.bias = nnx.Linear(3 * pooled, self.local_channels, rngs=rngs)
        # Not int8: its input is known only after pooling, so rounding it would be a pass by itself.
        self.second = _trunk_conv(
            config, self.local_channels, channels, rngs, kernel_init=nnx.initializers.zeros
        )

    def __call__(self, x, hook: InputHook = _identity):
        hidden = self.first(hook(nnx.relu(x)))
        local, pooled = jnp.split(hidden, [self.local_channels], axis=-1)
        pooled = _by_position(pooled) if self.by_point else pooled
        bias = self.bias(pool(nnx.relu(pooled))).astype(local.dtype)
        return x + self.second(nnx.relu(local + _on_board(bias, self.by_point)))


def _by_point(x: jax.Array) -> jax.Array:
    """[M, rows, columns, C] -> [rows, columns, M, C], the layout for `winograd`."""
    return jnp.moveaxis(x, 0, 2)


def _by_position(x: jax.Array) -> jax.Array:
    """The inverse of `_by_point`."""
    return jnp.moveaxis(x, 2, 0)


def _on_board(bias: jax.Array, by_point: bool) -> jax.Array:
    """A bias [M, C], shaped to be added at all points."""
    return bias[None, None] if by_point else bias[:, None, None, :]


class _Network(nnx.Module):
    by_point = False

    def __init__(self, config: NetworkConfig, rngs: nnx.Rngs):
        channels = config.channels
        self.num_blocks, self.are_alike = config.blocks, not config.pool_every
        self.auxiliary = config.auxiliary
        self.head = config.policy_head
        self.stem = _trunk_conv(config, config.num_planes, channels, rngs)
        global_inputs = () if config.observation else feature_set(config.features).global_inputs
        if global_inputs:
            self.stem_globals = nnx.Linear(len(global_inputs), channels, rngs=rngs)
        for i in range(config.blocks):
            block = _PooledBlock if config.pools(i) else _Block
            setattr(self, f"block_{i}", block(config, rngs))
        summary = 2 * channels  # each channel's mean and maximum over the board
        if self.head == "dense":
            assert config.observation is not None
            assert config.num_actions is not None
            rows, columns, _ = config.observation
            self.flat = nnx.Conv(channels, FLAT_CHANNELS, (1, 1), rngs=rngs)
            summary += rows * columns * FLAT_CHANNELS
            self.actions = nnx.Linear(summary, config.num_actions, rngs=rngs)
        else:
            self.points = nnx.Conv(channels, 1, (1, 1), rngs=rngs)
        if self.head == "points and pass":
            self.pass_move = nnx.Linear(summary, 1, rngs=rngs)
        self.value_hidden = nnx.Linear(summary, channels, rngs=rngs)
        self.value = nnx.Linear(channels, 1, rngs=rngs)
        if config.auxiliary:  # last, so that the random draws of the others do not depend on them
            self.owners = nnx.Conv(channels, 1, (1, 1), rngs=rngs)
            self.score = nnx.Linear(channels, 1, kernel_init=nnx.initializers.zeros, rngs=rngs)

    def __call__(self, inputs) -> NetworkOutput:
        x = nnx.relu(self._trunk(inputs))
        x = _by_position(x) if self.by_point else x
        mean, x = products.mean_of_board(x), x.astype(jnp.float32)
        summary = jnp.concatenate([mean, x.max(axis=(1, 2))], axis=-1)
        if self.head == "dense":
            flat = nnx.relu(self.flat(x)).reshape(x.shape[0], -1)
            summary = jnp.concatenate([summary, flat], axis=-1)
            logits = self.actions(summary)
        else:
            logits = self.points(x).reshape(x.shape[0], -1)
        hidden = nnx.relu(self.value_hidden(summary))
        if self.head == "points and pass":
            logits = jnp.concatenate([logits, self.pass_move(summary)], axis=-1)
        output = NetworkOutput(policy_logits=logits, value=jnp.tanh(self.value(hidden)[:, 0]))
        if not self.auxiliary:
            return output
        return output._replace(
            ownership_logits=self.owners(x).reshape(x.shape[0], -1),
            score=SCORE_SCALE * self.score(hidden)[:, 0],
        )

    @property
    def convs(self) -> list[Conv]:
        return [part for part in modules_of(self) if isinstance(part, Conv)]

    def use_tiles(self, board: Board, params: dict, dtype: Any) -> None:
        """Makes all 3x3 convolutions use `winograd`, and the layers between them its layout."""
        use_tiles(self.convs, board, params, dtype, side_by_side=True)
        for part in modules_of(self):
            if isinstance(part, _Network | _PooledBlock):
                part.by_point = True

    def _stem(self, inputs):
        planes = inputs.planes if isinstance(inputs, Inputs) else inputs
        x = self.stem(_by_point(planes) if self.by_point else planes)
        if not isinstance(inputs, Inputs):
            return x
        bias = self.stem_globals(inputs.global_inputs).astype(x.dtype)
        return x + _on_board(bias, self.by_point)

    @property
    def _blocks(self) -> list[Any]:
        return [getattr(self, f"block_{i}") for i in range(self.num_blocks)]

    def _trunk(self, inputs):
        x, blocks = self._stem(inputs), self._blocks
        if self.are_alike:
            layers = [nnx.split(block) for block in blocks]
            step = lambda state, x: nnx.merge(layers[0][0], state)(x)
            return products.apply_layers(step, [state for _, state in layers], x)
        for block in blocks:
            x = block(x)
        return x

    def largest(self, inputs) -> list[jax.Array]:
        """The largest input of each convolution in the blocks that int8 replaces, bf16[] each."""
        x, maxima = self._stem(inputs), []

        def record(x):
            maxima.append(jnp.max(x))
            return x

        for block in self._blocks:
            x = block(x, record)
        return maxima


def _trunk_conv(
    config: NetworkConfig,
    inputs: int,
    outputs: int,
    rngs: nnx.Rngs,
    **kwargs: Any,
) -> nnx.Module:
    dtype = config.trunk_dtype
    return Conv(inputs, outputs, (3, 3), padding="SAME", dtype=dtype, rngs=rngs, **kwargs)


def _block_conv(
    config: NetworkConfig,
    inputs: int,
    outputs: int,
    rngs: nnx.Rngs,
    **kwargs: Any,
) -> nnx.Module:
    if config.dtype == "int8":
        return int8.Int8Conv(inputs, outputs)
    return _trunk_conv(config, inputs, outputs, rngs, **kwargs)


def init(config: NetworkConfig, key: jax.Array) -> dict:
    """Random parameters: a nested dict of f32 arrays."""
    config = _trainable(config)
    state = nnx.state(_Network(config, nnx.Rngs(key)), nnx.Param)
    return nnx.to_pure_dict(state)


def apply(config: NetworkConfig, params: dict, inputs: jax.Array | Inputs) -> NetworkOutput:
    """Evaluates the network on M positions.

    Inputs are what the feature set ``config.features`` or the game observes: planes
    f32[M, rows, columns, C], and f32[M, G] where the set has global inputs.
    """
    return _network(config, params)(inputs)


def _network(config: NetworkConfig, params: dict) -> _Network:
    graph, state = _abstract(config)
    nnx.replace_by_pure_dict(state, plain(params))
    return nnx.merge(graph, state)


def plain(params: dict) -> dict:
    """The parameters without what `prepared` added."""
    return {name: x for name, x in params.items() if name != IN_TILES}


def prepared(config: NetworkConfig, params: dict, board: Board) -> dict:
    """The parameters with the work done that would be repeated in each call: converted to the
    trunk's dtype, or their kernels transformed for `apply_on_cpu`. Idempotent."""
    return prepared_as(in_dtype, _network, config, params, board)


def prepared_as(
    convert: Callable[[Any, dict], dict],
    network_of: Callable[[Any, dict], Any],
    config: Any,
    params: dict,
    board: Board,
) -> dict:
    """`prepared`, for another kind of network: `convert` is its `in_dtype`, and `network_of` builds
    it, with its `convs`."""
    if IN_TILES in params:
        return params
    if not winograd.may_be_faster(board, config.channels, jnp.dtype(config.dtype)):
        return convert(config, params)
    return {**params, IN_TILES: in_tiles(network_of(config, params).convs, board, config.dtype)}


_SLICE_BYTES = 3 * 2**23
"""Bytes of a layer's activations that a TPU keeps on chip along with those of the next layer."""


def apply_in_slices(
    config: NetworkConfig, params: dict, inputs: jax.Array | Inputs
) -> NetworkOutput:
    """`apply`, one slice of the positions after another: a TPU keeps their activations on chip."""
    first = jax.tree.leaves(inputs)[0]
    number = num_slices(config, first.shape[0], first.shape[1:3])
    return in_slices(functools.partial(apply, config, params), inputs, number)


def apply_on_cpu(config: NetworkConfig, params: dict, inputs: jax.Array | Inputs) -> NetworkOutput:
    """`apply` in the form that is faster on a CPU: with `prepared` parameters, or for many
    positions, by `winograd`, in slices."""
    shape, dtype = jax.tree.leaves(inputs)[0].shape, jnp.dtype(config.dtype)
    count, board = shape[0], shape[1:3]
    if not winograd.is_faster(count, board, config.channels, dtype, IN_TILES in params):
        return apply(_on_cpu(config), params, inputs)
    number = winograd.num_slices(count, board, config.channels)
    return in_slices(_network_in_tiles(config, params, board, config.dtype), inputs, number)


def _on_cpu(config: NetworkConfig) -> NetworkConfig:
    """The network with f32 activations, as a CPU has no convolutions of bf16 numbers: XLA would
    only round theirs."""
    return dataclasses.replace(config, dtype="float32") if config.dtype == "bfloat16" else config


def apply_to_learn(
    config: NetworkConfig, params: dict, inputs: jax.Array | Inputs
) -> NetworkOutput:
    """`apply` for losses and gradients, on a CPU with activations in f32."""
    return apply(_on_cpu(config) if mode.backend() == "cpu" else config, params, inputs)


def apply_in_tiles(
    config: NetworkConfig, params: dict, inputs: jax.Array | Inputs
) -> NetworkOutput:
    """`apply` with its 3x3 convolutions by `winograd`, whose gradients a CPU can take in a loop."""
    board = jax.tree.leaves(inputs)[0].shape[1:3]
    return _network_in_tiles(config, params, board, "float32")(inputs)


def _network_in_tiles(config: NetworkConfig, params: dict, board: Board, dtype: Any) -> _Network:
    net = _network(_on_cpu(config), params)
    net.use_tiles(board, params, dtype)
    return net


def num_gradient_slices(config: NetworkConfig, inputs: jax.Array | Inputs) -> int:
    """The number of equal slices in which a CPU takes gradients by `apply_in_tiles`; 0 where
    those of `apply_to_learn` are as fast."""
    count, *board, _ = jax.tree.leaves(inputs)[0].shape
    dtype = jnp.dtype(config.dtype)
    return winograd.num_gradient_slices(count, board, config.channels, dtype)


def in_slices(evaluate: Callable, inputs: jax.Array | Inputs, number: int) -> Any:
    """``evaluate(inputs)``, computed in `number` equal slices of positions, one after another."""
    if number == 1:
        return evaluate(inputs)
    split = jax.tree.map(lambda x: x.reshape(number, -1, *x.shape[1:]), inputs)
    output = lax.map(evaluate, split)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), output)


def num_slices(config: NetworkConfig, count: int, board: tuple[int, int]) -> int:
    """The number of equal slices in which a TPU evaluates `count` positions on `board`, (rows,
    columns); 1 if no equal slices of 128 positions or more are small enough."""
    row = board[0] * board[1] * config.channels * config.trunk_dtype.itemsize
    min_slices = -(-count * row // _SLICE_BYTES)
    return next((n for n in range(min_slices, count // 128 + 1) if count % n == 0), 1)


def in_dtype(config: NetworkConfig, params: Any) -> Any:
    """The parameters, with the trunk's convolutions in the trunk's dtype; `apply` returns the same.

    Given f32 ones, `apply` converts them in every call, even inside a loop where they are constant.
    """

    def convert(path: tuple, x: jax.Array) -> jax.Array:
        return jnp.asarray(x).astype(config.trunk_dtype) if _is_of_trunk(path) else x

    return jax.tree_util.tree_map_with_path(convert, params)


def _is_of_trunk(path: tuple) -> bool:
    """Whether a parameter belongs to a 3x3 convolution."""
    names = [part.key for part in path if isinstance(part, jax.tree_util.DictKey)]
    return "stem" in names or "first" in names or "second" in names


def _trainable(config: NetworkConfig) -> NetworkConfig:
    """The network whose parameters `quantized` takes."""
    return dataclasses.replace(config, dtype="bfloat16") if config.dtype == "int8" else config


def quantized(config: NetworkConfig, params: dict, inputs: jax.Array | Inputs) -> dict:
    """The parameters for a network of dtype "int8". Idempotent.

    Args:
      config: with dtype "int8".
      params: as `init` makes them.
      inputs: M positions for calibration: the largest input of each convolution on these positions
        is the largest it can represent; larger ones are clipped.
    """
    if "per_unit" in params["block_0"]["first"]:
        return params
    graph, state = _abstract(_trainable(config))
    nnx.replace_by_pure_dict(state, params)
    largest = iter(nnx.merge(graph, state).largest(inputs))
    quantized_params = in_dtype(config, params)
    for i in range(config.blocks):
        for conv in ("first",) if config.pools(i) else ("first", "second"):
            name = f"block_{i}"
            conv_params = int8.quantized(params[name][conv], next(largest))
            quantized_params[name] = {**quantized_params[name], conv: conv_params}
    return quantized_params


def shapes(config: NetworkConfig) -> dict:
    """The shapes and dtypes of the parameters that `init` makes."""
    return nnx.to_pure_dict(_abstract(_trainable(config))[1])


def by_name(params: dict) -> dict[str, Any]:
    """The leaves of a nested dict, by names such as block_0/first/kernel."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {"/".join(str(key.key) for key in path): leaf for path, leaf in leaves}


def check_params(config: NetworkConfig, params: Any) -> None:
    """Raises:
    ValueError: not the parameters of such a network; names the first array that differs.
    """
    if not isinstance(params, dict):
        raise ValueError(f"params: a {type(params).__name__}, not the dict of network.init")
    found, expected = (
        {name: jnp.shape(leaf) for name, leaf in by_name(tree).items()}
        for tree in (plain(params), shapes(config))
    )
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            raise ValueError(
                f"params: {name} has shape {found.get(name)}; with this config it has "
                f"{expected.get(name)} (None: it is not there)"
            )


def _abstract(config: NetworkConfig) -> tuple[Any, nnx.State]:
    graph, state = _abstract_split(config)
    return graph, jax.tree.map(lambda x: x, state)  # a fresh container: the caller fills it


@functools.cache
def _abstract_split(config: NetworkConfig) -> tuple[Any, nnx.State]:
    return nnx.split(nnx.eval_shape(lambda: _Network(config, nnx.Rngs(0))))
