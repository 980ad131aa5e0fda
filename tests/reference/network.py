"""The network in NumPy and float64, convolutions tap by tap: one position at a time."""

from __future__ import annotations

import jax
import numpy as np


def convolve(x: np.ndarray, layer: dict) -> np.ndarray:
    """[rows, columns, C] -> [rows, columns, D]: odd kernels [w, w, C, D], zeros outside."""
    kernel = layer["kernel"]
    width, (rows, columns, _) = len(kernel), x.shape
    reach = width // 2
    padded = np.pad(x, ((reach, reach), (reach, reach), (0, 0)))
    out = np.zeros((rows, columns, kernel.shape[-1])) + layer["bias"]
    for row in range(width):
        for column in range(width):
            out += padded[row : row + rows, column : column + columns] @ kernel[row, column]
    return out


def dense(x: np.ndarray, layer: dict) -> np.ndarray:
    return x @ layer["kernel"] + layer["bias"]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def block(x: np.ndarray, layers: dict) -> np.ndarray:
    """A residual block; one with a "bias" layer pools its last channels."""
    y = convolve(relu(x), layers["first"])
    if "bias" in layers:
        local = layers["bias"]["kernel"].shape[1]
        y, pooled = y[..., :local], relu(y[..., local:])
        mean, most = pooled.mean(axis=(0, 1)), pooled.max(axis=(0, 1))
        y = y + dense(np.concatenate([mean, mean * (len(x) - 14) / 10, most]), layers["bias"])
    return x + convolve(relu(y), layers["second"])


def forward(params: dict, planes: np.ndarray) -> dict[str, np.ndarray]:
    """Policy logits, value, and the other heads' outputs for planes [rows, columns, C]."""
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    x = convolve(np.asarray(planes, np.float64), params["stem"])
    for name in sorted(name for name in params if name.startswith("block_")):
        x = block(x, params[name])
    x = relu(x)
    pooled = np.concatenate([x.mean(axis=(0, 1)), x.max(axis=(0, 1))])
    if "flat" in params:  # dense heads, see `gozero.nets.network`
        pooled = np.append(pooled, relu(convolve(x, params["flat"])))
        logits = dense(pooled, params["actions"])
    else:
        logits = convolve(x, params["points"]).reshape(-1)
    if "pass_move" in params:
        logits = np.append(logits, dense(pooled, params["pass_move"]))
    hidden = relu(dense(pooled, params["value_hidden"]))
    out = {"policy_logits": logits, "value": np.tanh(dense(hidden, params["value"])[0])}
    if "owners" in params:
        out["ownership"] = np.tanh(convolve(x, params["owners"]).reshape(-1))
        out["score"] = 20 * dense(hidden, params["score"])[0]
    return out
