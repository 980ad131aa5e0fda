"""``python -m train evaluate --out DIR``: matches of the networks of a run, and their ratings.

DIR/rated.jsonl      one object per match; the same command plays only the missing ones
DIR/rated.lock       held while matches are played
DIR/ratings.csv      the ratings in the table
DIR/programs/        matches against a GTP program, in the form of ``gozero match``
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gozero.apps import flags
from gozero.go.rules import Rules
from gozero.nets import weights
from gozero.nets.network import NetworkConfig
from gozero.play.player import Player, as_game
from gozero.play.player_config import needs_past_boards
from gozero.runs import arrays, files, settings, statistics
from gozero.runs import folder as folders
from gozero.runs.progress import Progress
from gozero.runs.settings import Conflict, setting
from gozero.runs.statistics import Sprt
from train import folder, gtp_opponent, matches, plan, ratings
from train.matches import OPENING_PLIES, RANDOM, Terms
from train.ratings import Rating, Result

PROG = "python -m train evaluate"
RATED, LOCK, RATINGS = "rated.jsonl", "rated.lock", "ratings.csv"
SPRT_GAMES, SPRT_BATCH = 4000, 64
_FIRST_BATCH = 1000
"""The numbers of a sequential test's batches begin here, for their keys; those of the table are
lower."""


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """Rate the networks of a run in Elo: each plays against random moves, a search without a
    network, and the network before it. Networks search as in training (--root), without its noise.

    Writes DIR/ratings.csv and prints a table. The same command plays only the missing matches.
    """

    out: pathlib.Path = setting()
    """The run's folder."""

    games: int | None = setting(
        None, least=2, step=2, unset="as in the run's evaluations; 4,000 with --sprt"
    )
    """Games in each match; with --sprt, the most."""

    simulations: int | None = setting(None, least=1, unset="as in the run's evaluations")
    """Simulations for each move."""

    every: int = setting(1, least=1)
    """2 rates every second network, 3 every third, counted from the newest."""

    against: tuple[pathlib.Path, ...] = setting((), unset="none")
    """Also play against these weights, of any network for this game, trained on any board size;
    KataGo's (.bin.gz) too."""

    command: str | None = setting(None, unset="none")
    """Also play the newest network against a GTP program: "gnugo --mode gtp --chinese-rules
    --positional-superko --play-out-aftermath --capture-all-dead". The match has one komi: of those
    that the run plays at, the most frequent."""

    sprt: bool = setting(False)
    """Instead, test whether the newest network is stronger than the first of --against, or without
    it than the network before: a sequential test of 0 against 20 Elo, with 5% for either error."""

    openings: int = setting(OPENING_PLIES, least=1)
    """Random plies that each pair of games begins with. No two pairs of a match begin alike while
    there are enough openings; a sequential test ends when they are all played."""

    seed: int = settings.seed_setting()
    """The seed of the openings and the searches."""

    CONFLICTS = (Conflict("command", "sprt", "give only one of them"),)

    EXAMPLES = (
        "python -m train evaluate --out runs/zero-9x9-cpu --games 100",
        "python -m train evaluate --out runs/zero-9x9-cpu --sprt",
    )

    def __post_init__(self):
        settings.check(self)


class Contender(NamedTuple):
    """A player of the table."""

    name: str  # in the table
    digest: str  # of the weights, or the name of a player without any
    player: Player
    number: int  # for the PRNG keys: the iteration of a network of the run; 0 for other players


class Pairing(NamedTuple):
    first: Contender
    second: Contender
    numbers: tuple[int, int]  # for the PRNG keys


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 130 if a match against a program was stopped, 1 if the disk
    cannot be written, 2 for bad input."""
    config = flags.parse(EvaluateConfig, argv, prog=PROG)
    with flags.exit_on_error(PROG):
        return run(config)


def run(config: EvaluateConfig) -> int:
    """Do what `main` does.

    Raises:
      ValueError: a folder without networks, or weights that cannot be read, and the message names
        them; or another process evaluates the run.
    """
    terms = _terms(config)
    networks = snapshots(config, terms)
    others = [_contender(terms, path, 0, any_size=True) for path in config.against]
    busy = f"--out {config.out} is being evaluated by another process"
    with folders.lock_file(config.out / LOCK, busy, "nothing else evaluates this run"):
        return _evaluate(config, terms, networks, others)


def _evaluate(
    config: EvaluateConfig,
    terms: Terms,
    networks: Sequence[Contender],
    others: Sequence[Contender],
) -> int:
    if config.sprt:
        older = others or networks[-2:-1]
        if not older:
            raise ValueError(
                f"--sprt: {config.out} has only one network; give another with --against"
            )
        print(sprt(_matches_file(config.out), terms, networks[-1], older[0]))
        return 0
    newest = folder.weights_file(config.out, networks[-1].name)
    if config.command is not None:
        gtp_opponent.check(config.out, config.command, terms, newest)
    results, status = _play_all(config, terms, networks, others), 0
    write(config.out / RATINGS, ratings.rate(results, RANDOM))
    if config.command is not None:
        status, result = gtp_opponent.play(config.out, config.command, terms, newest)
        results += [result] if result is not None else []
    rated = ratings.rate(results, RANDOM)
    write(config.out / RATINGS, rated)
    print(table(rated))
    return status


def _terms(config: EvaluateConfig) -> Terms:
    run = folder.read_config(config.out)
    games = config.games or (SPRT_GAMES if config.sprt else run.evaluate_games)
    simulations = config.simulations or run.evaluate_simulations
    rules = plan.rules_of(run)
    if isinstance(rules, Rules) and any(map(needs_past_boards, config.against)):
        rules = rules.remembering
    limit = as_game(rules).max_moves
    if not config.openings < limit:
        raise ValueError(f"--openings {config.openings}: expected at most {limit - 1}")
    if config.command is not None and run.game != "go":
        raise ValueError(f"--command: GTP programs play Go, but this is a run of {run.game}")
    overrides = {"seed": config.seed, "openings": config.openings}
    return dataclasses.replace(
        Terms.of(run, rules), games=games, simulations=simulations, **overrides
    )


def snapshots(config: EvaluateConfig, terms: Terms) -> list[Contender]:
    """The networks of the run, the oldest first; one that is the same as that before it, which a
    gate kept, is left out.

    Raises:
      ValueError: there are none, or one cannot be read.
    """
    paths = folder.weights_files(config.out)
    if not paths:
        raise ValueError(f"--out {config.out}: there are no networks in its folder weights")
    chosen = paths[::-1][:: config.every][::-1]
    return [_contender(terms, path, int(path.stem), path.stem) for path in _different(chosen)]


def _different(paths: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """Those whose weights differ from those before. Files of earlier versions count as different,
    because they do not tell."""
    digests = [arrays.describe(path, "weights").get("digest") for path in paths]
    chosen = zip(paths, digests, [None, *digests[:-1]], strict=True)
    kept = [path for path, one, before in chosen if one is None or one != before]
    if same := len(paths) - len(kept):
        print(
            f"{same} of {len(paths)} networks are the same as the one before, and not rated",
            file=sys.stderr,
        )
    return kept


def _contender(
    terms: Terms, path: pathlib.Path, number: int, name: str = "", any_size: bool = False
) -> Contender:
    size = terms.rules.size if isinstance(terms.rules, Rules) else None
    network, params, about = weights.load(path, None if any_size else size)
    if isinstance(network, NetworkConfig):
        network = dataclasses.replace(network, board_size=size)
    player = matches.network_player(terms, network, params)
    return Contender(name or str(path), about["sha256"][:16], player, number)


def pairings(
    terms: Terms, networks: Sequence[Contender], others: Sequence[Contender]
) -> Iterator[Pairing]:
    """The matches: each network against the anchors, the network before it, and the others."""
    fixed = [Contender(name, name, player, 0) for name, player in matches.anchors(terms)]
    for i, one in enumerate(networks):
        before = networks[i - 1 : i] if i else []
        for number, other in enumerate([*fixed, *before]):
            yield Pairing(one, other, (one.number, number))
        for number, other in enumerate(others, start=len(fixed) + 1):
            yield Pairing(one, other, (one.number, number))


def _matches_file(out: pathlib.Path) -> pathlib.Path:
    """The file of matches; one from an earlier version is renamed."""
    path, old = out / RATED, out / "league.jsonl"
    if old.exists() and not path.exists():
        old.rename(path)
    return path


def _play_all(config, terms, networks, others) -> list[Result[str]]:
    path, all_pairings = _matches_file(config.out), list(pairings(terms, networks, others))
    lines = [line for line in folder.cut_lines(path) if {"won", "drawn"} <= line.keys()]
    played = {_key(line): line for line in lines}
    total, results = terms.games * len(all_pairings), []
    with Progress("evaluate", total) as progress:
        for done, pairing in enumerate(all_pairings):
            match_settings = _match_settings(pairing, terms)
            line = played.get(_key(match_settings))
            if line is None:
                players = pairing.first.player, pairing.second.player
                show = _shown(progress, pairing, done * terms.games, terms.games)
                match = matches.play(terms, *players, pairing.numbers, progress=show)
                line = match_settings | matches.line_of(match, terms)
                files.add_line(path, line)
            points = line["won"] + line["drawn"] / 2
            results.append(Result(pairing.first.name, pairing.second.name, points, terms.games))
        progress.show(total)
    return results


def _shown(
    progress: Progress, pairing: Pairing, done: int, games: int
) -> Callable[[int, int], None]:
    """For the `progress` of a match of some games, after `done` games of other matches."""
    names = f"{pairing.first.name}, {pairing.second.name}"
    progress.show(done, {"": names})

    def show(ply: int, num_open: int) -> None:
        numbers = {"": f"{names}, ply {ply}"}
        progress.show(done + games - num_open, numbers, begun=num_open)

    return show


def _match_settings(pairing: Pairing, terms: Terms) -> dict:
    """The fields that identify the line of a match."""
    first, second, numbers = pairing
    return {
        "player": first.name,
        "opponent": second.name,
        "weights": [first.digest, second.digest],
        "numbers": list(numbers),
        "games": terms.games,
        "simulations": terms.simulations,
        "seed": terms.seed,
        "search": terms.searched,
        "openings": terms.openings,
    }


def _key(line: dict) -> tuple:
    names = ("weights", "numbers", "games", "simulations", "seed", "search", "openings")
    return tuple(str(line.get(name)) for name in names)


def sprt(path: pathlib.Path, terms: Terms, newest: Contender, older: Contender) -> str:
    """Play games, a batch at a time, until a sequential test of their pairs is decided; returns a
    description of the result.

    No two pairs have the same opening. Each batch is a line of the file, and is not played again.
    """
    test = Sprt()
    played = {_key(line): line["points"] for line in folder.cut_lines(path) if "points" in line}
    points, decision, batch = np.zeros(0), None, 0
    lower, upper = test.bounds
    openings = matches.draw_openings(terms, (newest.number, _FIRST_BATCH))
    max_games = 2 * len(openings)
    with Progress("sequential test", max_games) as progress:
        while decision is None and points.size < max_games:
            games = min(SPRT_BATCH, max_games - points.size)
            numbers = (newest.number, _FIRST_BATCH + batch)
            part = dataclasses.replace(terms, games=games)
            pairing = Pairing(newest, older, numbers)
            match_settings = _match_settings(pairing, part)
            batch_points = played.get(_key(match_settings))
            if batch_points is None:
                lines = openings[points.size // 2 :][: games // 2]
                show = _shown(progress, pairing, points.size, games)
                match = matches.play(part, newest.player, older.player, numbers, lines, show)
                batch_points = match.points.tolist()
                files.add_line(path, match_settings | {"points": batch_points})
            points, batch = np.concatenate([points, batch_points]), batch + 1
            pairs = statistics.pair_scores(points)
            ratio, decision = test.log_likelihood_ratio(pairs), test.decision(pairs)
            tally = f"{statistics.Tally.of(points)} of {points.size}"
            line = f"{newest.name} against {older.name}: {tally}"
            line += f", log-likelihood ratio {ratio:+.2f} of {lower:+.2f} to {upper:+.2f}"
            print(line, file=sys.stderr)
    low, high = statistics.pair_interval(pairs)
    score = points.mean()
    advice = "; give a larger --games"
    if max_games < terms.games:
        advice = f", and all {len(openings)} openings have been played; give a larger --openings"
    conclusions = {
        "H1": f"stronger, by {test.elo1:+g} Elo rather than {test.elo0:+g}",
        "H0": f"not stronger, {test.elo0:+g} Elo rather than {test.elo1:+g}",
        None: f"undecided{advice}",
    }
    # Stopped by its result, the test overstates the difference, so there is no honest interval.
    numbers = f"{score:.1%}" if decision else f"{score:.1%} [{low:.1%}, {high:.1%}]"
    return f"{line}; {numbers}: {conclusions[decision]}"


def table(rated: dict[str, Rating]) -> str:
    """Ratings in Markdown, the weakest first."""
    lines = ["| player | Elo | 95% | score | games |", "|---|--:|--:|--:|--:|"]
    for name, one in sorted(rated.items(), key=lambda item: item[1].elo):
        interval = "" if name == RANDOM else f"{one.low:+.0f} to {one.high:+.0f}"
        score = f"{one.points / one.games:.1%}"
        lines.append(f"| {name} | {one.elo:+.0f} | {interval} | {score} | {one.games:.0f} |")
    return "\n".join(lines)


def write(path: pathlib.Path, rated: dict[str, Rating]) -> None:
    """Write ratings as a CSV table, in the order given."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["player", *Rating._fields])
    for name, one in rated.items():
        rows.writerow([name, *(round(x, 2) for x in one)])
    files.write_whole(path, text.getvalue().encode())
