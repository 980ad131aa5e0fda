"""Tiny KataGo networks: files of every version, and their evaluation in plain NumPy."""

from __future__ import annotations

import gzip
import math

import numpy as np

from gozero.nets.katago import model_file

TRUNK, MID, POOLED, HIDDEN = 6, 4, 2, 5
INPUTS = {3: (22, 14), 4: (22, 14), 5: (22, 14), 6: (13, 12), 7: (22, 16)}

ORDINARY, GPOOL = ("ordinary_block",), ("gpool_block",)
NESTED = ("nested_bottleneck_block", (GPOOL, ORDINARY))
LEARNT, FIXED = ("transformer_attention_block", True), ("transformer_attention_block", False)
FEED = ("transformer_ffn_block",)


def model(version, blocks=(ORDINARY, GPOOL), activation="ACTIVATION_MISH", tip="batch", seed=0):
    """The contents of a file: its tokens and arrays in order, and the parts by name."""
    return _Writer(version, activation, np.random.default_rng(seed)).model(blocks, tip)


def data(made, packed=False):
    """The bytes of a model's file."""
    return gzip.compress(made["data"]) if packed else made["data"]


def config(made):
    """The network config that the reader finds in it."""
    return model_file._Reader(made["data"]).model().config


class _Writer:
    def __init__(self, version, activation, rng):
        self.version, self.kind, self.rng = version, activation, rng
        self.out = bytearray()

    def words(self, *words):
        self.out += "".join(f"{word}\n" for word in words).encode()

    def array(self, *shape, positive=False):
        x = self.rng.normal(0, 0.3, shape).astype(np.float32)
        x = np.abs(x) + 0.3 if positive else x
        self.out += b"@BIN@" + x.astype("<f4").tobytes() + b"\n"
        return x

    def conv(self, rows, ins, outs):
        self.words("conv", rows, rows, ins, outs, 1, 1)
        return self.array(rows, rows, ins, outs)

    def dense(self, ins, outs):
        self.words("mul", ins, outs)
        return self.array(ins, outs)

    def bias(self, outs):
        self.words("bias", outs)
        return self.array(outs)

    def norm(self, channels, scale=True):
        self.words("norm", channels, 0.001, int(scale), 1)
        mean, variance = self.array(channels), self.array(channels, positive=True)
        by = self.array(channels) if scale else np.ones(channels, np.float32)
        bias = self.array(channels)
        return mean, variance, by, bias, self.activation()

    def activation(self):
        self.words("act", *([self.kind] if self.version >= 11 else []))
        return self.kind if self.version >= 11 else "ACTIVATION_RELU"

    def rms(self, channels):
        self.words("rms", channels, 1e-5)
        return self.array(channels)

    def block(self, block, channels):
        kind = block[0]
        self.words(kind, "name")
        if kind == "ordinary_block":
            parts = [self.norm(channels), self.conv(3, channels, MID)]
            return kind, *parts, self.norm(MID, scale=False), self.conv(3, MID, channels)
        if kind == "gpool_block":
            parts = [self.norm(channels), self.conv(3, channels, MID)]
            parts += [self.conv(3, channels, POOLED), self.norm(POOLED)]
            parts += [self.dense(3 * POOLED, MID)]
            return kind, *parts, self.norm(MID), self.conv(3, MID, channels)
        if kind == "nested_bottleneck_block":
            self.words(len(block[1]))
            parts = [self.norm(channels), self.conv(1, channels, MID)]
            inner = [self.block(one, MID) for one in block[1]]
            return kind, *parts, inner, self.norm(MID), self.conv(1, MID, channels)
        if kind == "transformer_attention_block":
            learnt = block[1]
            self.words(4, 2, 4, 3, 1, int(learnt))
            parts = [self.rms(channels), self.dense(channels, 16), self.dense(channels, 8)]
            parts += [self.dense(channels, 6), self.dense(12, channels)]
            self.words("rope", *((2, 2, 2) if learnt else (10.0,)))
            return kind, *parts, self.array(2, 2, 2) if learnt else 10.0
        self.words(channels, 7, 1)
        parts = [self.rms(channels), self.dense(channels, 7), self.dense(channels, 7)]
        return kind, *parts, self.dense(7, channels)

    def model(self, blocks, tip):
        version = self.version
        planes, numbers = INPUTS.get(version, (22, 19))
        self.words("tiny", version, planes, numbers)
        scales = (20.0, 20.0, 20.0, 20.0, 40.0, 0.25, 30.0)
        if version >= 13:
            scales = (19.0, 18.0, 17.0, 16.0, 15.0, 0.5, 14.0)
            self.words(*scales)
        self.words(*([0] * 8 if version >= 15 else []))
        self.words("trunk", len(blocks), TRUNK, MID, MID, POOLED, POOLED)
        self.words(*([int(tip != "batch"), 0, 0, 0, 0, 0] if version >= 15 else []))
        made = {"version": version, "scales": scales}
        made["stem"] = self.conv(3, planes, TRUNK), self.dense(numbers, TRUNK)
        made["blocks"] = [self.block(block, TRUNK) for block in blocks]
        if tip == "batch":
            made["tip"] = self.norm(TRUNK)
        else:
            self.words("rms", TRUNK, 1e-5, int(tip == "board"), 0)
            made["tip"] = tip, self.array(TRUNK), self.array(TRUNK), self.activation()
        self.words("policy")
        outputs = 1 if version < 12 else 4 if version == 16 else 2
        self.words(*([outputs, 0, 0, 0] if version >= 17 else []))
        policy = [self.conv(1, TRUNK, MID), self.conv(1, TRUNK, POOLED), self.norm(POOLED)]
        policy += [self.dense(3 * POOLED, MID), self.norm(MID), self.conv(1, MID, outputs)]
        if version < 15:
            policy += [self.dense(3 * POOLED, outputs)]
        else:
            policy += [self.dense(3 * POOLED, MID), self.bias(MID), self.activation()]
            policy += [self.dense(MID, outputs)]
        self.words("value", *([0, 0, 0] if version >= 17 else []))
        scores = 6 if version >= 9 else 4 if version == 8 else 2 if version >= 4 else 1
        value = [self.conv(1, TRUNK, MID), self.norm(MID), self.dense(3 * MID, HIDDEN)]
        value += [self.bias(HIDDEN), self.activation(), self.dense(HIDDEN, 3), self.bias(3)]
        value += [self.dense(HIDDEN, scores), self.bias(scores), self.conv(1, MID, 1)]
        return {**made, "policy": policy, "value": value, "data": bytes(self.out)}


# --- plain NumPy, one position -------------------------------------------------------------


def evaluate(made, planes, numbers):
    """(policy [size^2 + 1, P], value [3], scores, ownership [size, size]), before any scale."""
    kernel, dense = made["stem"]
    x = _conv(planes, kernel) + numbers @ dense
    for block in made["blocks"]:
        x = _block(block, x)
    tip = made["tip"]
    x = _norm(tip, x) if len(tip) == 5 else _tip(tip, x)
    conv1, conv_pooled, norm_pooled, bias, norm, conv2, *passes = made["policy"]
    pooled = _pool(_norm(norm_pooled, _conv(x, conv_pooled)))
    points = _conv(_norm(norm, _conv(x, conv1) + pooled @ bias), conv2)
    passed = pooled @ passes[0]
    if len(passes) > 1:
        passed = _act(passes[2], passed + passes[1]) @ passes[3]
    policy = np.concatenate([points.reshape(-1, points.shape[-1]), passed[None]])
    conv, norm, hidden, bias, kind, value, vbias, score, sbias, owners = made["value"]
    v = _norm(norm, _conv(x, conv))
    mean, wide = v.mean((0, 1)), len(v) - 14
    three = np.concatenate([mean, mean * wide / 10, mean * (wide**2 / 100 - 0.1)])
    h = _act(kind, three @ hidden + bias)
    return policy, h @ value + vbias, h @ score + sbias, _conv(v, owners)[..., 0]


def _act(kind, x):
    small = np.clip(x, -60, 60)
    return {
        "ACTIVATION_IDENTITY": x,
        "ACTIVATION_RELU": np.maximum(x, 0),
        "ACTIVATION_SILU": x / (1 + np.exp(-small)),
        "ACTIVATION_MISH": x * np.tanh(np.log1p(np.exp(small))),
    }[kind]


def _norm(norm, x):
    mean, variance, scale, bias, kind = norm
    return _act(kind, (x - mean) / np.sqrt(variance + 0.001) * scale + bias)


def _tip(tip, x):
    where, scale, bias, kind = tip
    axes = None if where == "board" else -1
    mean = (x**2).mean(axis=axes, keepdims=True)
    return _act(kind, x / np.sqrt(mean + 1e-5) * scale + bias)


def _conv(x, kernel):
    size, reach = len(x), len(kernel) // 2
    wide = np.pad(x, ((reach, reach), (reach, reach), (0, 0)))
    out = np.zeros((size, size, kernel.shape[-1]))
    for row in range(len(kernel)):
        for column in range(len(kernel)):
            out += wide[row : row + size, column : column + size] @ kernel[row, column]
    return out


def _pool(x):
    mean = x.mean((0, 1))
    return np.concatenate([mean, mean * (len(x) - 14) / 10, x.max((0, 1))])


def _block(block, x):
    kind, *parts = block
    if kind == "ordinary_block":
        norm1, conv1, norm2, conv2 = parts
        return x + _conv(_norm(norm2, _conv(_norm(norm1, x), conv1)), conv2)
    if kind == "gpool_block":
        norm1, conv1, pooled_conv, pooled_norm, bias, norm2, conv2 = parts
        y = _norm(norm1, x)
        pooled = _pool(_norm(pooled_norm, _conv(y, pooled_conv)))
        return x + _conv(_norm(norm2, _conv(y, conv1) + pooled @ bias), conv2)
    if kind == "nested_bottleneck_block":
        norm1, conv1, inner, norm2, conv2 = parts
        y = _conv(_norm(norm1, x), conv1)
        for one in inner:
            y = _block(one, y)
        return x + _conv(_norm(norm2, y), conv2)
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * parts[0]
    if kind == "transformer_ffn_block":
        first, gate, second = parts[1:]
        return x + (_act("ACTIVATION_SILU", y @ first) * (y @ gate)) @ second
    return x + _attention(parts[1:], y)


def _attention(parts, y):
    """4 query heads, 2 key heads; the first channel of each rotary pair has an even index."""
    queries, keys, values, out, rope = parts
    size = len(y)
    flat = y.reshape(size * size, -1)
    q, k = (flat @ w for w in (queries, keys))
    found = np.zeros((size * size, 12))
    for head in range(4):
        own = head // 2
        a, b = q[:, 4 * head : 4 * head + 4], k[:, 4 * own : 4 * own + 4]
        a, b = (_turn(z, own, rope, size) for z in (a, b))
        v = (flat @ values)[:, 3 * own : 3 * own + 3]
        scores = np.exp(a @ b.T / math.sqrt(4))
        found[:, 3 * head : 3 * head + 3] = scores / scores.sum(1, keepdims=True) @ v
    return (found @ out).reshape(size, size, -1)


def _turn(z, head, rope, size):
    out = np.zeros_like(z)
    for place in range(size * size):
        row, column = divmod(place, size)
        for pair in range(2):
            if isinstance(rope, float):  # a pair for rows and one for columns, both of frequency 1
                angle = (row, column)[pair] / rope ** (0 / 2)
            else:
                angle = column * rope[head, pair, 0] + row * rope[head, pair, 1]
            a, b = z[place, 2 * pair : 2 * pair + 2]
            out[place, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            out[place, 2 * pair + 1] = a * math.sin(angle) + b * math.cos(angle)
    return out
