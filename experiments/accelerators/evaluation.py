"""A network on a large batch on a TPU: the whole batch at once, or in slices.

    python -m experiments.accelerators.evaluation --target v5e      # needs libtpu: extra tpu-ahead

The network is in a loop, as in a search. For each shape and batch, and each number of positions
evaluated at a time, the results file has the compiler's estimate of a round's time; `chosen` marks
the number that `network.apply_in_slices` uses.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from experiments.accelerators.config import RESULTS
from experiments.output import appended_csv
from gozero.compile import ahead, estimate
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.runs import folder as folders

ROUNDS = 8  # of the loop; no loop over slices has this trip count
SHAPES = (  # size, blocks, channels, pool_every, batches
    (9, 6, 64, 0, (1024, 2048, 4096)),
    (9, 6, 96, 2, (1024, 2048, 4096)),
    (9, 6, 128, 2, (2048,)),
    (9, 6, 192, 2, (1024,)),
    (19, 6, 64, 3, (1024,)),
    (19, 10, 128, 3, (256, 512, 1024)),
)


def row(
    target: ahead.Target, size: int, config: NetworkConfig, batch: int, slices: int
) -> dict[str, Any]:
    """The estimate for a network evaluated `ROUNDS` times on a batch, in `slices` slices."""

    def run(params: dict, planes: jax.Array) -> Any:
        params = network.in_dtype(config, params)
        apply = functools.partial(network.apply, config, params)

        def one(shift: jax.Array, _: Any) -> Any:
            inputs = planes + shift  # the input depends on the last output
            if slices == 1:
                output = apply(inputs)
            else:
                output = lax.map(apply, inputs.reshape(slices, batch // slices, *inputs.shape[1:]))
            return output.value.mean(), (output.policy_logits, output.value)

        return lax.scan(one, jnp.float32(0), length=ROUNDS)

    params = jax.eval_shape(lambda: network.init(config, jax.random.key(0)))
    planes = jax.ShapeDtypeStruct((batch, size, size, config.num_planes), jnp.float32)
    compiled = ahead.compile(target, run, params, planes)
    loop = estimate.read(compiled.text, target.chip).find(ROUNDS)
    assert loop is not None
    return {
        "target": target.name,
        "board": size,
        "network": f"{config.blocks}x{config.channels}",
        "pool_every": config.pool_every,
        "batch": batch,
        "at_a_time": batch // slices,
        "chosen": network.num_slices(config, batch, (size, size)) == slices,
        "round_ms": f"{1e3 * loop.seconds:.3f}",
        "temp_mib": round(compiled.temp_bytes / 2**20),
        "compile_cpu_s": f"{compiled.compile_cpu_seconds:.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate a network on a large batch, for a TPU.")
    parser.add_argument("--target", nargs="+", default=["v5e"])
    parser.add_argument("--slices", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--fewest", type=int, default=256, help="the fewest positions in a slice")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS / "evaluation.csv")
    args = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_enable_compilation_cache", False)
    about = {"jax": jax.__version__, "commit": folders.commit().get("git_commit")}
    cases = [
        (
            ahead.target(name),
            size,
            NetworkConfig(blocks, channels, pool_every=pool_every, dtype="bfloat16"),
            batch,
            slices,
        )
        for name in args.target
        for size, blocks, channels, pool_every, batches in SHAPES
        for batch in batches
        for slices in args.slices
        if slices == 1 or batch // slices >= args.fewest
    ]
    with appended_csv(args.out) as add:
        for case in cases:
            cells = row(*case) | about
            add(cells)
            print(*cells.values(), flush=True)


if __name__ == "__main__":
    main()
