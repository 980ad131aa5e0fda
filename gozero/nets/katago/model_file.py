"""KataGo's model files, ``NAME.bin`` and ``NAME.bin.gz``.

A file holds words separated by white space (numbers, and names without significance) and arrays:
``@BIN@`` followed by little-endian f32. The parts are identified by their order; a header gives the
version. Convolutions are [rows, columns, in, out], matrices [in, out].

A file may be untrusted. Every number is checked against its bounds, and every array against the
bytes that are left, before it is used; an error is a ValueError that names the file and the field.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import math
import os
import pathlib
import re
from typing import Any, NamedTuple

import numpy as np

from gozero.limits import KATAGO_SUFFIXES
from gozero.nets.katago.network import (
    NEWEST,
    OLDEST,
    Attention,
    Bottleneck,
    Convolution,
    Dense,
    FeedForward,
    KataGoConfig,
    Norm,
    Ordinary,
    PolicyHead,
    Pooled,
    RootMeanSquare,
    Rotation,
    Scales,
    Trunk,
    ValueHead,
)
from gozero.runs.arrays import MOST_BYTES, MOST_RATIO, SMALL, ContentError, as_value_error
from gozero.runs.files import open_regular

_MAX_CHANNELS = 2**14
_MAX_BLOCKS = 512
_MAX_DEPTH = 4
_MAX_KERNEL = 19
_MAX_WORD = 256  # bytes
_WORD = re.compile(rb"\s*(\S{1,%d})(?=\s)" % _MAX_WORD)
_ARRAY = re.compile(rb"\s{0,100}@BIN@")
_NUMBER = re.compile(r"[-+]?[0-9]{1,12}")


class KataGoModel(NamedTuple):
    """The contents of a file."""

    config: KataGoConfig
    params: dict[str, Any]  # f32 arrays by the names of the layers
    about: dict[str, Any]  # name, version, parameters, sha256


def is_model_file(path: pathlib.Path | str) -> bool:
    """Whether the file's name is that of a KataGo model."""
    return str(path).endswith(KATAGO_SUFFIXES)


def read(path: pathlib.Path | str) -> KataGoModel:
    """Reads a KataGo network.

    Raises:
      ValueError: the file is missing, damaged, too large, or holds a network that is not supported
        here; names the file and the field.
    """
    path = pathlib.Path(path)
    with as_value_error(f"weights {path}", "a KataGo model file"):
        data, digest = _unpacked(path)
        reader = _Reader(data)
        model = reader.model()
        count = sum(array.size for array in reader.arrays)
    return model._replace(about={**model.about, "parameters": count, "sha256": digest})


def _unpacked(path: pathlib.Path) -> tuple[bytes, str]:
    """(the bytes of a file, decompressed if it is gzipped; SHA-256 of the file itself)."""
    raw_file: Any = open_regular(path, MOST_BYTES)
    with raw_file as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            return file.read(MOST_BYTES), digest
        file.seek(0)
        max_bytes = min(MOST_BYTES, SMALL + MOST_RATIO * size)
        with gzip.GzipFile(fileobj=file) as packed:
            data = packed.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"its {size} bytes would unpack to more than {max_bytes}")
    return data, digest


class _Reader:
    """Reads the parts of a file in order; each is returned as (description, parameters)."""

    def __init__(self, data: bytes):
        self.data, self.place = data, 0
        self.version = 0
        self.arrays: list[np.ndarray] = []

    # --- words and arrays

    def word(self, field: str) -> str:
        match = _WORD.match(self.data, self.place)
        if match is None:
            raise ContentError(
                f"{field}: expected a word of at most {_MAX_WORD} bytes; the file ends, or it is "
                "longer"
            )
        self.place = match.end()
        return match[1].decode("ascii", "backslashreplace")

    def integer(self, field: str, least: int, most: int) -> int:
        text = self.word(field)
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise ContentError(
                f"{field}: {text[:40]!r} is not a whole number from {least} to {most}"
            )
        return int(text)

    def positive(self, field: str) -> float:
        text = self.word(field)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise ContentError(f"{field}: {text[:40]!r} is not a number above 0")
        return number

    def reserved(self, field: str, count: int) -> None:
        """Reads numbers that are reserved for later versions and must be 0."""
        for _ in range(count):
            text = self.word(field)
            if text != "0":
                raise ContentError(f"{field}: {text[:40]!r} is an option that is not supported")

    def array(self, field: str, *shape: int) -> np.ndarray:
        match = _ARRAY.match(self.data, self.place)
        if match is None:
            raise ContentError(
                f"{field}: expected an array, @BIN@ (in place of a text file use its .bin.gz)"
            )
        count = math.prod(shape)
        if 4 * count > len(self.data) - match.end():
            available = len(self.data) - match.end()
            raise ContentError(
                f"{field}: cut off; {list(shape)} takes {4 * count} bytes, and {available} are left"
            )
        self.place = match.end() + 4 * count
        array = np.frombuffer(self.data, "<f4", count, match.end())
        if not np.isfinite(array).all():
            raise ContentError(f"{field}: has numbers that are not finite")
        self.arrays.append(array)
        return array.astype(np.float32).reshape(shape)

    def channels(self, field: str, expected: int | None = None) -> int:
        count = self.integer(field, 1, _MAX_CHANNELS)
        if expected not in (None, count):
            raise ContentError(f"{field}: {count}, expected {expected}")
        return count

    # --- layers

    def conv(self, field: str, inputs: int | None, outputs: int | None = None):
        self.word(field)
        rows = self.integer(f"{field}: rows", 1, _MAX_KERNEL)
        columns = self.integer(f"{field}: columns", 1, _MAX_KERNEL)
        if rows % 2 == 0 or columns % 2 == 0:
            raise ContentError(f"{field}: {rows}x{columns}, but both sides must be odd")
        ins = self.channels(f"{field}: channels in", inputs)
        outs = self.channels(f"{field}: channels out", outputs)
        down = self.integer(f"{field}: dilation", 1, _MAX_KERNEL)
        right = self.integer(f"{field}: dilation", 1, _MAX_KERNEL)
        kernel = self.array(field, rows, columns, ins, outs)
        return Convolution(rows, columns, ins, outs, (down, right)), {"kernel": kernel}

    def dense(self, field: str, inputs: int | None, outputs: int | None = None):
        self.word(field)
        ins = self.channels(f"{field}: channels in", inputs)
        outs = self.channels(f"{field}: channels out", outputs)
        return Dense(ins, outs), {"kernel": self.array(field, ins, outs)}

    def dense_with_bias(self, field: str, inputs: int | None, outputs: int | None = None):
        spec, params = self.dense(field, inputs, outputs)
        self.word(f"{field}: bias")
        self.channels(f"{field}: bias", spec.outputs)
        bias = self.array(f"{field}: bias", spec.outputs)
        return spec._replace(bias=True), {**params, "bias": bias}

    def norm(self, field: str, channels: int):
        """A batch norm, merged into an affine map, and the activation after it."""
        self.word(field)
        self.channels(f"{field}: channels", channels)
        epsilon = self.positive(f"{field}: epsilon")
        has_scale, has_bias = (self.integer(f"{field}: has scale, bias", 0, 1) for _ in range(2))
        mean, variance = (self.array(f"{field}: {x}", channels) for x in ("mean", "variance"))
        scale = self.array(f"{field}: scale", channels) if has_scale else np.ones_like(mean)
        bias = self.array(f"{field}: bias", channels) if has_bias else np.zeros_like(mean)
        spread = variance.astype(np.float64) + epsilon
        if not (spread > 0).all():
            raise ContentError(f"{field}: variance is not above 0")
        scale = scale / np.sqrt(spread)
        params = {"scale": scale, "bias": bias - scale * mean}
        params = {name: value.astype(np.float32) for name, value in params.items()}
        if not all(np.isfinite(value).all() for value in params.values()):
            raise ContentError(f"{field}: has numbers that are not finite")
        return Norm(channels, self.activation(f"{field}: activation")), params

    def activation(self, field: str) -> str:
        self.word(field)
        if self.version < 11:
            return "relu"
        name = self.word(field).removeprefix("ACTIVATION_").lower()
        if name not in ("identity", "relu", "mish", "silu"):
            raise ContentError(f"{field}: {name[:40]!r} is not supported")
        return name

    def root_mean_square(self, field: str, channels: int):
        """The RMS norm of a transformer block: a scale only."""
        self.word(field)
        self.channels(f"{field}: channels", channels)
        epsilon = self._small(f"{field}: epsilon")
        return RootMeanSquare(channels, epsilon), {"scale": self.array(field, channels)}

    def _small(self, field: str) -> float:
        epsilon = self.positive(field)
        if epsilon > 1:
            raise ContentError(f"{field}: {epsilon} is above 1")
        return epsilon

    def last_root_mean_square(self, field: str, channels: int):
        """The RMS norm at the end of the trunk, with an activation."""
        self.word(field)
        self.channels(f"{field}: channels", channels)
        epsilon = self._small(f"{field}: epsilon")
        whole_board = bool(self.integer(f"{field}: spatial", 0, 1))
        self.reserved(f"{field}: groups of channels", 1)
        params = {name: self.array(f"{field}: {name}", channels) for name in ("scale", "bias")}
        activation = self.activation(f"{field}: activation")
        return RootMeanSquare(channels, epsilon, True, whole_board, activation), params

    # --- blocks

    def blocks(self, field: str, count: int, channels: int, depth: int = 0):
        specs, params = [], {}
        for i in range(count):
            block_field = f"{field}: block {i}"
            kind = self.word(block_field)
            read_block = {
                "ordinary_block": self.ordinary,
                "gpool_block": self.pooled,
                "nested_bottleneck_block": functools.partial(self.bottleneck, depth=depth),
                "transformer_attention_block": self.attention,
                "transformer_ffn_block": self.feed_forward,
            }.get(kind)
            if read_block is None:
                raise ContentError(f"{block_field}: {kind[:40]!r} is not a supported kind of block")
            self.word(block_field)
            spec, block_params = read_block(block_field, channels)
            specs.append(spec)
            params[f"block_{i}"] = block_params
        return tuple(specs), params

    def ordinary(self, field: str, channels: int):
        norm1 = self.norm(f"{field}: norm 1", channels)
        conv1 = self.conv(f"{field}: convolution 1", channels)
        norm2 = self.norm(f"{field}: norm 2", conv1[0].outputs)
        conv2 = self.conv(f"{field}: convolution 2", conv1[0].outputs, channels)
        return _joined(Ordinary, norm1=norm1, conv1=conv1, norm2=norm2, conv2=conv2)

    def pooled(self, field: str, channels: int):
        norm1 = self.norm(f"{field}: norm 1", channels)
        conv1 = self.conv(f"{field}: convolution 1", channels)
        conv_pooled = self.conv(f"{field}: pooled convolution", channels)
        pooled = conv_pooled[0].outputs
        norm_pooled = self.norm(f"{field}: pooled norm", pooled)
        bias = self.dense(f"{field}: pooled bias", 3 * pooled, conv1[0].outputs)
        norm2 = self.norm(f"{field}: norm 2", conv1[0].outputs)
        conv2 = self.conv(f"{field}: convolution 2", conv1[0].outputs, channels)
        parts = {"norm1": norm1, "conv1": conv1, "conv_pooled": conv_pooled, "bias": bias}
        return _joined(Pooled, **parts, norm_pooled=norm_pooled, norm2=norm2, conv2=conv2)

    def bottleneck(self, field: str, channels: int, depth: int):
        if depth == _MAX_DEPTH:
            raise ContentError(f"{field}: blocks nested more than {_MAX_DEPTH} deep")
        count = self.integer(f"{field}: blocks", 1, _MAX_BLOCKS)
        norm1 = self.norm(f"{field}: norm 1", channels)
        conv1 = self.conv(f"{field}: convolution 1", channels)
        inner = conv1[0].outputs
        blocks, params = self.blocks(field, count, inner, depth + 1)
        norm2 = self.norm(f"{field}: norm 2", inner)
        conv2 = self.conv(f"{field}: convolution 2", inner, channels)
        parts = {"norm1": norm1, "conv1": conv1, "norm2": norm2, "conv2": conv2}
        return _joined(Bottleneck, params, **parts, blocks=(blocks, None))

    def attention(self, field: str, channels: int):
        heads = self.channels(f"{field}: heads")
        key_heads = self.channels(f"{field}: heads of keys")
        if heads % key_heads:
            raise ContentError(
                f"{field}: {heads} heads are not a multiple of the {key_heads} heads of keys"
            )
        of_query, of_value = (self.channels(f"{field}: channels of a head") for _ in range(2))
        rope, learnt = (self.integer(f"{field}: rotation", 0, 1) for _ in range(2))
        if rope and of_query % 2:
            raise ContentError(f"{field}: {of_query} channels of a head cannot be rotated in pairs")
        norm = self.root_mean_square(f"{field}: norm", channels)
        parts = {
            "norm": norm,
            "queries": self.dense(f"{field}: queries", channels, heads * of_query),
            "keys": self.dense(f"{field}: keys", channels, key_heads * of_query),
            "values": self.dense(f"{field}: values", channels, key_heads * of_value),
            "out": self.dense(f"{field}: out", heads * of_value, channels),
        }
        rotation = (None, None)
        if rope:
            rotation = self.rotation(f"{field}: rotation", key_heads, of_query // 2, bool(learnt))
        fixed = {"heads": (heads, None), "key_heads": (key_heads, None)}
        return _joined(Attention, **parts, rotation=rotation, **fixed)

    def rotation(self, field: str, heads: int, pairs: int, learnt: bool):
        self.word(field)
        if not learnt:
            return Rotation(heads, pairs, self.positive(f"{field}: theta")), None
        for name, number in (("heads", heads), ("pairs", pairs), ("axes", 2)):
            self.channels(f"{field}: {name}", number)
        return Rotation(heads, pairs, None), {"frequencies": self.array(field, heads, pairs, 2)}

    def feed_forward(self, field: str, channels: int):
        self.channels(f"{field}: channels", channels)
        inner = self.channels(f"{field}: inner channels")
        if not self.integer(f"{field}: gate", 0, 1):
            raise ContentError(f"{field}: a feed-forward block without a gate is not supported")
        norm = self.root_mean_square(f"{field}: norm", channels)
        first = self.dense(f"{field}: first", channels, inner)
        gate = self.dense(f"{field}: gate", channels, inner)
        second = self.dense(f"{field}: second", inner, channels)
        return _joined(FeedForward, norm=norm, first=first, gate=gate, second=second)

    # --- the trunk, the heads, the whole

    def trunk(self, planes: int, global_inputs: int):
        self.word("trunk")
        count = self.integer("trunk: blocks", 1, _MAX_BLOCKS)
        channels = self.channels("trunk: channels")
        for name in ("mid", "regular", "dilated", "pooled"):
            self.integer(f"trunk: {name} channels", 0, _MAX_CHANNELS)
        by_root = self.integer("trunk: kind of norm", 0, 1) if self.version >= 15 else 0
        self.reserved("trunk: option", 5 if self.version >= 15 else 0)
        conv = self.conv("trunk: first convolution", planes, channels)
        dense = self.dense("trunk: global inputs", global_inputs, channels)
        blocks, params = self.blocks("trunk", count, channels)
        norm = (self.last_root_mean_square if by_root else self.norm)("trunk: norm", channels)
        parts = {"conv": conv, "global_inputs": dense, "norm": norm}
        return _joined(Trunk, params, **parts, blocks=(blocks, None))

    def policy(self, channels: int):
        self.word("policy head")
        outputs = 1 if self.version < 12 else 4 if self.version == 16 else 2
        if self.version >= 17:
            outputs = self.integer("policy head: outputs", 2, 4)
            if outputs == 3:
                raise ContentError("policy head: outputs: 3 is neither 2 nor 4")
            self.reserved("policy head: option", 3)
        conv1 = self.conv("policy head: convolution 1", channels)
        conv_pooled = self.conv("policy head: pooled convolution", channels)
        width, pooled = conv1[0].outputs, conv_pooled[0].outputs
        norm_pooled = self.norm("policy head: pooled norm", pooled)
        bias = self.dense("policy head: pooled bias", 3 * pooled, width)
        norm = self.norm("policy head: norm", width)
        conv2 = self.conv("policy head: convolution 2", width, outputs)
        parts = {"conv1": conv1, "conv_pooled": conv_pooled, "norm_pooled": norm_pooled}
        parts |= {"bias": bias, "norm": norm, "conv2": conv2}
        if self.version < 15:
            first = self.dense("policy head: pass", 3 * pooled, outputs)
            return _joined(PolicyHead, **parts, pass_first=first)
        first = self.dense_with_bias("policy head: pass", 3 * pooled, width)
        activation = self.activation("policy head: pass")
        second = self.dense("policy head: pass 2", width, outputs)
        passes = {"pass_first": first, "pass_second": second}
        return _joined(PolicyHead, **parts, **passes, pass_activation=(activation, None))

    def value(self, channels: int):
        self.word("value head")
        self.reserved("value head: option", 3 if self.version >= 17 else 0)
        conv = self.conv("value head: convolution", channels)
        width = conv[0].outputs
        norm = self.norm("value head: norm", width)
        hidden = self.dense_with_bias("value head: hidden", 3 * width)
        activation = self.activation("value head: activation")
        inner, version = hidden[0].outputs, self.version
        value = self.dense_with_bias("value head: value", inner, 3)
        scores = 6 if version >= 9 else 4 if version == 8 else 2 if version >= 4 else 1
        score = self.dense_with_bias("value head: scores", inner, scores)
        owners = self.conv("value head: ownership", width, 1)
        parts = {"conv": conv, "norm": norm, "hidden": hidden, "value": value, "score": score}
        return _joined(ValueHead, **parts, owners=owners, activation=(activation, None))

    def model(self) -> KataGoModel:
        name = self.word("name")
        self.version = self.integer("version", 0, 10**6)
        if not OLDEST <= self.version <= NEWEST:
            raise ContentError(
                f"version: {self.version} of KataGo's models is not supported; supported are "
                f"{OLDEST} to {NEWEST}"
            )
        planes, global_inputs = (self.channels(f"{x} inputs") for x in ("spatial", "global"))
        scales = Scales()
        if self.version >= 13:
            scales = Scales(*(self.positive(f"scale of {x}") for x in Scales._fields))
        by_suicide = bool(self._options()) if self.version >= 15 else False
        trunk, in_trunk = self.trunk(planes, global_inputs)
        policy, in_policy = self.policy(trunk.conv.outputs)
        value, in_value = self.value(trunk.conv.outputs)
        if self.data[self.place :].strip():
            raise ContentError(f"{len(self.data) - self.place} bytes follow the value head")
        config = KataGoConfig(self.version, trunk, policy, value, scales, by_suicide)
        expected = config.num_planes, config.num_global_inputs
        if (planes, global_inputs) != expected:
            raise ContentError(
                f"inputs: {planes} planes and {global_inputs} numbers; those of version "
                f"{self.version} are {expected[0]} and {expected[1]}"
            )
        params = {"trunk": in_trunk, "policy": in_policy, "value": in_value}
        about = {"format": "katago", "name": name, "version": self.version}
        return KataGoModel(config, params, about)

    def _options(self) -> int:
        if self.integer("metadata encoder", 0, 10**6):
            raise ContentError(
                "metadata encoder: networks that imitate human players (humansl) are not "
                "supported, because they have further inputs"
            )
        by_suicide = self.integer("pass-alive areas by suicide", 0, 1)
        self.reserved("option", 6)
        return by_suicide


def _joined(kind: Any, extra: dict | None = None, /, **parts: tuple[Any, Any]) -> tuple[Any, dict]:
    """(`kind` with the parts' descriptions; the parts' parameters by name, and `extra`)."""
    params = {
        name: params_of_part
        for name, (_, params_of_part) in parts.items()
        if params_of_part is not None
    }
    return kind(**{name: spec for name, (spec, _) in parts.items()}), {**params, **(extra or {})}
