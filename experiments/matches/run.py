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
    """Plays all matches of --only, and returns the exit status of the program `prog`."""
    runtime.prepare()
    output.check_plots()
    with flags.exit_on_error(prog):
        matches = {name: config.match(name) for name in config.only}
        for match_config in matches.values():
            gtp_opponent.player_names(match_config)
    status = 0
    for name, match_config in matches.items():
        print(f"{name}:", file=sys.stderr)
        match_config.out.parent.mkdir(parents=True, exist_ok=True)
        status = match.run(match_config)
        write(rows(config.MATCHES, config.out), config.out)
        if status:
            break
    runtime.print_result(table(rows(config.MATCHES, config.out), config.MATCHES))
    command.print_results(config.out)
    return status
