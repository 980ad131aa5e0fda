"""The settings of the matches of a KataGo network."""

from __future__ import annotations

import pathlib

from experiments.katago.config import MATCHES, PEER, REDUCTIONS, KataGoConfig
from experiments.matches.config import GNUGO

ROOT = pathlib.Path(__file__).parents[2]
NETWORK = pathlib.Path("a network.bin.gz")


def test_every_match_is_valid(tmp_path):
    config = KataGoConfig(weights=NETWORK, katago="/there/katago", out=tmp_path)
    matches = {name: config.match(name) for name in MATCHES}
    assert all(match.games == 200 for match in matches.values())
    for name in ("gnugo-1", "gnugo-1-symmetries", "gnugo-16"):
        assert matches[name].opponent.command == GNUGO
        assert matches[name].player.simulations == (15 if name == "gnugo-16" else 1)
    by_score = {name: match.player.effective_score_utility for name, match in matches.items()}
    assert by_score["gnugo-16"] == by_score["katago-9x9"] == by_score["katago-13x13"] == "on"
    seen_in = {name: match.player.effective_symmetries for name, match in matches.items()}
    assert (seen_in["gnugo-1"], seen_in["gnugo-1-symmetries"]) == ("random", "all")
    assert seen_in["gnugo-16"] == seen_in["katago-9x9"] == "random"
    command = ["/there/katago", "gtp", "-model", str(NETWORK), "-config", str(PEER)]
    for name, size in (("katago-9x9", 9), ("katago-13x13", 13), ("katago-reduced", 9)):
        match = matches[name]
        assert (match.size, match.paired) == (size, True)
        assert match.opponent.words() == command
        if name != "katago-reduced":
            assert (match.player.weights, match.player.simulations) == (NETWORK, 199)
            assert match.player.effective_final_move == "bound"
    assert matches["katago-reduced"].player.words() == [*command, "-override-config", REDUCTIONS]
    prior, mean = (matches[f"katago-{name}"] for name in ("gnugo-1", "gnugo-1-symmetries"))
    assert prior.opponent.command == mean.opponent.command == GNUGO
    *_, one = prior.player.words()
    assert {"maxVisits=1", "chosenMoveTemperatureEarly=0"} < set(one.split(","))
    assert mean.player.words()[-1] == f"{one},rootNumSymmetriesToSample=8"


def test_katago_has_as_many_visits_and_the_rules_of_the_match():
    lines = (ROOT / PEER).read_text().splitlines()
    settings = dict(line.split(" = ") for line in lines if line and not line.startswith("#"))
    assert settings["maxVisits"] == "200"  # ours: 199 simulations and the root
    assert (settings["koRule"], settings["scoringRule"]) == ("POSITIONAL", "AREA")
    assert (settings["multiStoneSuicideLegal"], settings["friendlyPassOk"]) == ("false", "false")
