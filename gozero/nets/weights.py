"""Files of weights: f32 arrays named by their place in the network, and the network's shape."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import numpy as np

from gozero.limits import KATAGO_MAX_SIZE
from gozero.nets import network
from gozero.nets.katago import model_file
from gozero.nets.network import NetworkConfig
from gozero.runs import arrays

_DEFAULTS = {"features": "compact", "pool_every": 0, "auxiliary": False, "dtype": "float32"}
_DEFAULTS |= {"observation": None, "num_actions": None}
"""Defaults for entries that files of earlier versions lack."""

_SHAPE = [field.name for field in dataclasses.fields(NetworkConfig) if field.compare]
_TYPES = dict.fromkeys(("size", "blocks", "channels", "planes", "pool_every"), int)
_TYPES |= {"features": str, "auxiliary": bool, "dtype": str}


def save(
    path: pathlib.Path | str,
    params: dict,
    config: NetworkConfig,
    size: int | None = None,
    **about: Any,
) -> pathlib.Path:
    """Writes parameters and their description to one file, atomically and synced to disk.

    Args:
      path: ``NAME.safetensors``; or ``NAME.npz``, the format of earlier versions, which keeps the
        description in a ``NAME.json`` beside it.
      params: as `network.init` makes them.
      config: the network's shape.
      size: the board size that the parameters were trained for; None: the config's `board_size`,
        or for a game other than Go the number of rows of its planes.
      about: anything else worth keeping: the command, the steps, the seed.

    Raises:
      ValueError: the path has another suffix, the size is given nowhere, or the parameters are not
        those of such a network, or not finite.
    """
    path = arrays.check_name(path, "weights")
    size = size or config.board_size or (config.observation or [None])[0]
    if size is None:
        raise ValueError("size: missing; give the board size that the weights are for")
    description = {
        "size": size,
        **{name: getattr(config, name) for name in _SHAPE},
        "planes": config.num_planes,
        **about,
    }
    stored = _named_arrays(params)
    try:
        arrays.check_shapes(stored, network.by_name(network.shapes(config)))
        arrays.check_finite(stored)
    except ValueError as error:
        raise ValueError(f"params: {error}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays.write(path, "weights", stored, description, durable=True)
    return path


def digest(params: dict) -> str:
    """SHA-256 of the parameters as `save` would store them."""
    return arrays.digest(_named_arrays(params))


def load(
    path: pathlib.Path | str, size: int | None = None, data: bytes | None = None
) -> tuple[Any, dict, dict]:
    """Reads weights; returns them in the order in which `gozero.network_evaluator` takes them.

        config, params, about = load("net.safetensors")
        evaluator = gozero.network_evaluator(rules, config, params)

    Args:
      path: a file written by `save`, including earlier versions' .npz; or a KataGo network, .bin
        or .bin.gz, which plays on boards of any size up to 19x19.
      size: the board size that the weights must have been made for; None: any.
      data: the contents of a file written by `save`, if they are not to be read from disk.

    Returns:
      (config, params, about): the network's shape, either a `KataGoConfig` or a `NetworkConfig`
      with the weights' `board_size` (evaluators for another board refuse it); the parameters; the
      whole description.

    Raises:
      ValueError: the file is missing, damaged, of another format, or for another board size or
        shape of network; the message says which, and what would be right.
    """
    if model_file.is_model_file(path):
        config, params, about = model_file.read(path)
        if size is not None and size > KATAGO_MAX_SIZE:
            raise ValueError(
                f"weights {path}: KataGo's networks are for boards up to "
                f"{KATAGO_MAX_SIZE}x{KATAGO_MAX_SIZE}"
            )
        return config, jax.device_put(params), about
    path = arrays.check_name(path, "weights")
    expected = functools.partial(_expected, size)
    stored, about = arrays.read(path, "weights", expected, data=data)
    about = _DEFAULTS | about
    config = _config(about)
    shapes = network.shapes(config)
    leaves = jax.device_put([stored[name] for name in network.by_name(shapes)])
    return config, jax.tree.unflatten(jax.tree.structure(shapes), leaves), about


def load_own(path: pathlib.Path | str, size: int | None = None) -> tuple[NetworkConfig, dict, dict]:
    """`load` for a network of `gozero.nets.network`, which can be trained.

    Raises:
      ValueError: as `load`, or the network is KataGo's.
    """
    config, params, about = load(path, size)
    if not isinstance(config, NetworkConfig):
        raise ValueError(
            f"weights {path}: a KataGo network, which cannot be trained here; give weights made by "
            "python -m train"
        )
    return config, params, about


def _expected(size: int | None, about: dict, names: frozenset[str]) -> dict[str, Any]:
    """The arrays that a file with this description must contain; see `load`."""
    try:
        config = _config(_DEFAULTS | about)
    except (ValueError, TypeError) as error:
        raise arrays.ContentError(error) from error
    trained_size = config.board_size
    if size not in (None, trained_size):
        raise arrays.ContentError(
            f"made for {trained_size}x{trained_size}, not for {size}x{size}; "
            f"give weights made for {size}x{size}, or --size {trained_size}"
        )
    blocks = len({name.split("/")[0] for name in names if name.startswith("block_")})
    if blocks != config.blocks:  # checked first: the shapes of very many blocks take long
        raise arrays.ContentError(
            f"it has {blocks} blocks, but its description says {config.blocks}"
        )
    return network.by_name(network.shapes(config))


def _config(about: dict) -> NetworkConfig:
    """The network's shape, from a file's description.

    Raises:
      ValueError: the description lacks an entry, or fits no network of this version.
    """
    missing = [name for name, kind in _TYPES.items() if type(about.get(name)) is not kind]
    if missing:
        raise ValueError(f"its description lacks {', '.join(missing)}")
    shape = {name: about[name] for name in _SHAPE}
    shape["observation"] = tuple(about["observation"] or ()) or None
    config = NetworkConfig(**shape, board_size=about["size"])
    if about["planes"] != config.num_planes:
        raise ValueError(
            f"made for {about['planes']} input planes; {config.features} features have "
            f"{config.num_planes} in this version"
        )
    return config


def _named_arrays(params: dict) -> dict[str, np.ndarray]:
    named = network.by_name(network.plain(params))
    return {name: np.asarray(leaf, np.float32) for name, leaf in named.items()}
