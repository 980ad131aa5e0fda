"""The page for users of mctx: its example runs unchanged."""

import pathlib
import re

import jax
import jax.numpy as jnp

from gozero.search import search as package
from tests.search import tictactoe

PAGE = pathlib.Path(package.__file__).parent / "MCTX.md"


def test_the_example_runs():
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    names = {
        "env_play": tictactoe.play,
        "env_legal": tictactoe.legal,
        "env_over": lambda board: tictactoe.outcome(board)[0],
        "env_value": lambda board: tictactoe.outcome(board)[1],
        "network": lambda params, boards: (jnp.zeros(boards.own.shape), jnp.zeros(len(boards.own))),
        "params": None,
        "key": jax.random.key(0),
        "states": tictactoe.boards("XX. OO. ...", "... ... ..."),
        "env_new": tictactoe.init,
    }
    exec(example, names)
    result = names["result"]
    assert int(result.action[0]) == 2  # it wins
    assert result.visits.sum(axis=1).tolist() == [64, 64]
