"""Matches of a network against a program that speaks GTP, by ``gozero match``."""

from __future__ import annotations

import contextlib
import json
import pathlib
import statistics
import sys
import zlib

from gozero.apps.match import gtp_opponent as opponents
from gozero.apps.match import run as match
from gozero.apps.match.config import MatchConfig, Side
from gozero.go.rules import Rules
from gozero.search.rules.puct import Puct
from train.matches import Terms
from train.ratings import Result


def play(
    run: pathlib.Path, command: str, terms: Terms, weights: pathlib.Path
) -> tuple[int, Result[str] | None]:
    """Play the games of a match that have not been played yet.

    Args:
      run: the run's folder.
      command: the program's command line.
      terms: of the match; if there are several komi, the most frequent is used.
      weights: the file of our network, DIR/weights/NAME.safetensors.

    Returns:
      (the exit status of ``gozero match``, the result, or None if no game counts).

    Raises:
      ValueError: invalid flags.
      SystemExit: the program is missing or refuses the game.
    """
    config = match_of(run, command, terms, weights)
    config.out.parent.mkdir(exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):
        status = match.run(config)
    summary = json.loads((config.out / "summary.json").read_text(encoding="utf-8"))
    if not summary["games"]:
        return status, None
    points = summary["wins"] + summary["draws"] / 2
    return status, Result(weights.stem, summary["opponent"], points, summary["games"])


def check(run: pathlib.Path, command: str, terms: Terms, weights: pathlib.Path) -> None:
    """Check that the program is installed and can play these games.

    Raises:
      ValueError: it is not or cannot, or the flags are invalid.
    """
    opponents.player_names(match_of(run, command, terms, weights))


def match_of(run: pathlib.Path, command: str, terms: Terms, weights: pathlib.Path) -> MatchConfig:
    """The settings of the match, which has a folder of its own. With puct its player has the run's
    --c-puct, which does not grow with the visits: at a few hundred of them it hardly would."""
    considered = terms.considered if terms.search == "gumbel" else None
    if terms.value_scale != 1.0:
        raise ValueError(
            f"--command: `gozero match` plays networks with a value scale of 1, and this run has "
            f"--value-scale {terms.value_scale:g}"
        )
    rules = terms.rules
    assert isinstance(rules, Rules)  # programs play Go; `evaluate` refuses other games
    identity = f"{command} {terms.simulations} {terms.seed} {terms.search} {considered}"
    identity += f" {terms.openings}"
    exploration = terms.puct.c_puct
    if terms.search != "puct" or exploration == Puct().c_puct:  # as in matches already played
        exploration = None
    identity += "" if exploration is None else f" {exploration}"
    out = run / "programs" / f"{weights.stem}-{zlib.crc32(identity.encode()):08x}"
    return MatchConfig(
        player=Side(
            evaluator="network",
            weights=weights.resolve(),
            search=terms.search,
            simulations=terms.simulations,
            considered=considered,
            exploration=exploration,
        ),
        opponent=Side(command=command),
        games=max(terms.games, _games_before(out)),
        size=rules.size,
        komi=statistics.mode(terms.komi),
        ko=rules.ko,
        openings=terms.openings,
        seed=terms.seed,
        out=out,
    )


def _games_before(folder: pathlib.Path) -> int:
    """The games of the match in a folder, which cannot become fewer; 0 if there is none."""
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return int(settings["games"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0  # if the folder holds something else, `gozero match` says so
