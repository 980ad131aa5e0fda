"""Play matches, one after the other; write the table and the figure of their results."""

from __future__ import annotations

import sys

from experiments import command, output
from experiments.matches.config import MatchesConfig
from experiments.matches.results import rows, table, write
from gozero.apps import flags, runtime
from gozero.apps.match import gtp_opponent
from gozero.apps.match import run as match


def play(config: MatchesConfig, prog: str) -> int:
    """Plays all matches asked for, and returns the exit status of the program `prog`."""
    runtime.prepare()
    output.check_plots()
    with flags.failing(prog):
        asked = {name: config.match(name) for name in config.only}
        for one in asked.values():
            gtp_opponent.player_names(one)
    status = 0
    for name, one in asked.items():
        print(f"{name}:", file=sys.stderr)
        one.out.parent.mkdir(parents=True, exist_ok=True)
        status = match.run(one)
        write(rows(config.MATCHES, config.out), config.out)
        if status:
            break
    print(table(rows(config.MATCHES, config.out)))
    command.say_results(config.out)
    return status
