"""The sides of a match: named players, and flags that override their settings."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from gozero.apps import flags
from gozero.apps.match.config import MatchConfig, Side
from gozero.apps.match.folder import MatchFolder
from gozero.play import players
from gozero.play.player_config import PlayerConfig


def of_line(*words: str) -> MatchConfig:
    return flags.parse(MatchConfig, words, prog="gozero match")


def settings_of(side: Side) -> dict:
    return {field.name: getattr(side, field.name) for field in dataclasses.fields(PlayerConfig)}


def named(name, size) -> dict:
    return dataclasses.asdict(PlayerConfig(**players.settings_of(name, size)))


def test_each_side_may_be_a_named_player():
    config = of_line("--player.player", "literal", "--opponent.player", "strong")
    assert settings_of(config.player) == named("literal", 9)
    assert settings_of(config.opponent) == named("strong", 9)
    assert not config.player.reuse
    config = of_line("--player.player", "strong", "--opponent.search", "uct", "--size", "13")
    assert settings_of(config.player) == named("strong", 13)
    assert config.opponent == Side(search="uct")


def test_flags_override_a_named_player_even_by_a_default():
    words = "--player.player literal --player.no-first-action --player.simulations=100"
    config = of_line(*words.split(), "--player.reuse")
    other = {"first_action": False, "simulations": 100}
    assert settings_of(config.player) == named("literal", 9) | other
    assert config.player.reuse
    again = dataclasses.replace(config, parallel=3)
    assert again.player == config.player
    in_python = MatchConfig(player=Side(player="rave", leaves=4))
    assert settings_of(in_python.player) == named("rave", 9) | {"leaves": 4}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--player.player weak", "--player.player weak: expected one of strong, fast, rave, uct"),
        (
            "--opponent.player uct --opponent.command gnugo",
            "--opponent.player uct: not with --opponent.command; a program has its own search",
        ),
        (
            "--player.player literal --player.search uct",
            "values; --player.player literal sets --player.rave-bias 0.01",
        ),
        (
            "--player.player uct --player.symmetries all",
            "all: only with --player.evaluator network",
        ),
        (
            "--player.player rave --game hex",
            "--player.player rave: named players play only Go, not hex",
        ),
    ],
)
def test_flags_that_conflict_with_a_name(words, message, capsys):
    with pytest.raises(SystemExit):
        of_line(*words.split())
    assert message in capsys.readouterr().err


def test_a_match_may_resume_by_a_name_or_by_its_settings(tmp_path):
    out = tmp_path / "run"
    with MatchFolder(of_line("--player.player", "literal", "--out", str(out))):
        pass
    flags_of_literal = Side(**players.settings_of("literal", 9))
    with MatchFolder(MatchConfig(player=flags_of_literal, out=out)):
        pass
    other = MatchConfig(player=Side(player="rave"), out=pathlib.Path(out))
    with pytest.raises(ValueError, match=r"player\.nakade was False and is True"):
        MatchFolder(other)
