"""A network's weights in a file: f32 arrays by their place in the network, and its shape."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import numpy as np

from gozero.nets import network
from gozero.nets.katago import model_file
from gozero.nets.katago.network import MOST_SIZE
from gozero.nets.network import NetworkConfig
from gozero.runs import arrays

_SINCE = {"features": "compact", "pool_every": 0, "auxiliary": False, "dtype": "float32"}
_SINCE |= {"observation": None, "num_actions": None}
"""What files of earlier versions do not say, and what they are."""

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
    """Write parameters and their description to one file, whole or not at all, and to the disk.

    Args:
      path: ``NAME.safetensors``; or ``NAME.npz``, as earlier versions wrote them: that one has
        its description in a ``NAME.json`` beside it.
      params: as `network.init` makes them.
      config: the network's shape.
      size: the board size that they were trained for; None: the config's, or the rows of the
        planes of a game other than Go.
      about: anything else worth keeping: the command, the steps, the seed.

    Raises:
      ValueError: the path has another suffix, or nothing says the size.
    """
    path = arrays.check_name(path, "weights")
    size = size or config.board_size or (config.observation or [None])[0]
    if size is None:
        raise ValueError("size: give the board size that the weights are for")
    description = {
        "size": size,
        **{name: getattr(config, name) for name in _SHAPE},
        "planes": config.num_planes,
        **about,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays.write(path, "weights", _held(params), description, durable=True)
    return path


def digest(params: dict) -> str:
    """SHA-256 of parameters, as their file has it."""
    return arrays.digest(_held(params))


def load(
    path: pathlib.Path | str, size: int | None = None, data: bytes | None = None
) -> tuple[Any, dict, dict]:
    """Read weights, in the order that `gozero.network_evaluator` takes them.

        config, params, about = load("net.safetensors")
        evaluator = gozero.network_evaluator(rules, config, params)

    Args:
      path: a file of `save`, also one of an earlier version (.npz); or a network of KataGo, .bin
        or .bin.gz, which is of every board up to 19x19.
      size: the board size that they must have been made for; None: any.
      data: what is in the file of `save`, if it is not read from the disk.

    Returns:
      (config, params, about): the network's shape, a `NetworkConfig` with the `board_size` of the
      weights, which evaluators of another board refuse, or a `KataGoConfig`; the parameters; the
      whole description.

    Raises:
      ValueError: a file that is missing, damaged, of another format, another board size or
        another shape of network; says which, and what would be right.
    """
    if model_file.is_model_file(path):
        config, params, about = model_file.read(path)
        if size is not None and size > MOST_SIZE:
            raise ValueError(
                f"weights {path}: KataGo's are for boards up to {MOST_SIZE}x{MOST_SIZE}"
            )
        return config, jax.device_put(params), about
    path = arrays.check_name(path, "weights")
    expected = functools.partial(_expected, size)
    found, about = arrays.read(path, "weights", expected, data=data)
    about = _SINCE | about
    config = _config(about)
    shapes = network.shapes(config)
    leaves = jax.device_put([found[name] for name in _by_name(shapes)])
    return config, jax.tree.unflatten(jax.tree.structure(shapes), leaves), about


def load_own(path: pathlib.Path | str, size: int | None = None) -> tuple[NetworkConfig, dict, dict]:
    """`load`, of a network that `gozero.nets.network` makes: one that can be trained.

    Raises:
      ValueError: as `load`; a network of KataGo.
    """
    config, params, about = load(path, size)
    if not isinstance(config, NetworkConfig):
        raise ValueError(
            f"weights {path}: a network of KataGo, which plays and is not trained; give weights of "
            "python -m train"
        )
    return config, params, about


def _expected(size: int | None, about: dict, names: frozenset[str]) -> dict[str, Any]:
    """The arrays of a network that a description tells; see `load`."""
    try:
        config = _config(_SINCE | about)
    except (ValueError, TypeError) as error:
        raise arrays.NotExpected(error) from error
    made = config.board_size
    if size not in (None, made):
        raise arrays.NotExpected(
            f"made for {made}x{made}, not for {size}x{size}; "
            f"give weights made for {size}x{size}, or --size {made}"
        )
    blocks = len({name.split("/")[0] for name in names if name.startswith("block_")})
    if blocks != config.blocks:  # first: to describe a network of very many takes long
        raise arrays.NotExpected(f"{blocks} blocks, its description says {config.blocks}")
    return _by_name(network.shapes(config))


def _config(about: dict) -> NetworkConfig:
    """The shape that a description tells.

    Raises:
      ValueError: it lacks something, or is of no network of this version.
    """
    wrong = [name for name, kind in _TYPES.items() if type(about.get(name)) is not kind]
    if wrong:
        raise ValueError(f"its description lacks {', '.join(wrong)}")
    shape = {name: about[name] for name in _SHAPE}
    shape["observation"] = tuple(about["observation"] or ()) or None
    config = NetworkConfig(**shape, board_size=about["size"])
    if about["planes"] != config.num_planes:
        raise ValueError(
            f"made for {about['planes']} input planes; {config.features} features have "
            f"{config.num_planes} in this version"
        )
    return config


def _held(params: dict) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf, np.float32) for name, leaf in _by_name(params).items()}


def _by_name(params: dict) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {"/".join(str(key.key) for key in path): leaf for path, leaf in leaves}
