"""The flags of ``gozero gtp``: which are refused, and their limits."""

from __future__ import annotations

import dataclasses

import pytest

from gozero.apps import flags, host_game
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.go import coords
from gozero.go.rules import Rules
from gozero.play import player_config, players
from gozero.play.player_config import PlayerConfig
from gozero.play.setups import make_setup
from gozero.td import weights as shape_weights


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"size": 26}, "--size 26: expected from 2 to 25"),
        ({"komi": 6.3}, "--komi 6.3: expected a multiple of 0.5 from -1000 to 1000"),
        ({"komi": float("inf")}, "--komi inf: expected a finite number"),
        ({"ko": "super"}, "--ko super: expected one of simple, positional, situational"),
        ({"evaluator": "guess"}, "--evaluator guess: expected one of network, playout"),
        (
            {"weights": "x.npz"},
            "--weights x.npz: only with --evaluator network; playouts use no network",
        ),
        ({"simulations": 0}, "--simulations 0: expected from 1"),
        ({"leaves": 0}, "--leaves 0: expected from 1 to the 400 of --simulations"),
        ({"leaves": 500}, "--leaves 500: expected from 1 to the 400 of --simulations"),
        (
            {"simulations": 131_070, "leaves": 64, "trees": 2},
            "--simulations 131072, .* at most 131070 with --trees 2; drop it to allow more",
        ),
        (
            {"simulations": 131_071, "search": "annealing"},
            "--simulations 131071, .* at most 131070 with --search annealing; drop it to allow",
        ),
        (
            {"simulations": 10**6, "search": "gumbel", "considered": 361},
            "--simulations 1000000, .* at most 370767 with --search gumbel, whose schedule would",
        ),
        ({"nodes": 100, "trees": 2}, "--trees 2: not with --nodes"),
        (
            {"simulations": 2**30, "leaves": 1},
            "--simulations 1073741824: expected from 1 to 1073741823",
        ),
        ({"search": "alpha-beta"}, "--search alpha-beta: expected one of puct, katago, uct, rave"),
        ({"search": "gumbel", "trees": 2}, "--trees 2: not with --search gumbel"),
        ({"search": "annealing", "ponder": True}, "--ponder: not with --search td, annealing or"),
        (
            {"search": "gumbel", "reuse": False, "exploration": 1.0},
            "--exploration 1.0: not with --search gumbel",
        ),
        (
            {"search": "rave", "evaluator": "network"},
            "--search rave: only with --evaluator playout; all-moves",
        ),
        (
            {"search": "rave", "rave_ancestor": 20, "trees": 2},
            "--rave-ancestor 20: not with --trees",
        ),
        (
            {"search": "rave", "rave_bonus": "plain", "exploration": 0.0},
            "--rave-bonus plain: not with --exploration 0",
        ),
        (
            {"search": "gumbel", "evaluator": "playout", "first_action": True, "reuse": False},
            "--first-action: not with --search gumbel",
        ),
        (
            {"search": "uct", "priors": "mm"},
            "--priors mm: not with --search uct or boltzmann; they",
        ),
        ({"search": "rave", "priors": "mm"}, "--priors mm: not with --search rave; it ignores"),
        ({"exploration": -1.0}, "--exploration -1.0: expected from 0"),
        ({"rave_k": 100.0}, "--rave-k 100.0: only with --search rave"),
        ({"search": "rave", "rave_k": 0.0}, "--rave-k 0.0: expected above 0"),
        ({"search": "rave", "rave_bias": 2.0}, "--rave-bias 2.0: expected from 0 to 1"),
        (
            {"search": "rave", "rave_k": 1.0, "rave_bias": 0.1},
            "--rave-k 1.0: not with --rave-bias; give only one schedule",
        ),
        (
            {"search": "rave", "heuristic": "shape", "size": 13},
            r"--heuristic shape: the package has no local shapes for 13x13, only for 7x7 and 9x9",
        ),
        ({"seconds": 0.0}, "--seconds 0.0: expected above 0"),
        ({"seconds": float("nan")}, "--seconds nan: expected a finite number above 0"),
        ({"seconds": 1e9}, "--seconds 1000000000.0: expected above 0 and at most 86400"),
        ({"resign": 0.5}, "--resign 0.5: expected from -1 to below 0"),
        ({"seed": -1}, "--seed -1: expected from 0"),
    ],
)
def test_bad_flags(flags, message):
    with pytest.raises(ValueError, match=message):
        GtpConfig(**flags)


def test_gumbel_turns_reuse_off():
    assert GtpConfig().reuse
    assert not GtpConfig(search="gumbel").reuse


def of_line(*words: str) -> GtpConfig:
    return flags.parse(GtpConfig, words, prog="gozero gtp")


def settings_of(config: GtpConfig) -> dict:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(PlayerConfig)}


def test_without_flags_it_is_the_strong_player_of_each_board():
    config = of_line()
    assert (config.player, config.size, config.evaluator, config.simulations) == (
        *("strong", 9, "network", 200),
    )
    assert config.weights == players.NETWORKS[9]
    assert (config.search, config.symmetries, config.reuse) == ("katago", "random", True)
    other = config.on(13)
    assert (other.size, other.evaluator, other.search, other.heuristic) == (
        *(13, "playout", "rave", "mogo"),
    )
    assert other.reuse
    assert other.on(7).weights == players.NETWORKS[7]
    assert settings_of(other.on(9)) == settings_of(config)


def test_flags_refine_a_player_on_every_board():
    config = of_line("--simulations", "400", "--seconds", "2", "--komi", "5", "--no-reuse")
    assert (config.player, config.evaluator, config.simulations) == ("strong", "network", 400)
    other = config.on(19)
    assert (other.search, other.simulations, other.seconds, other.komi, other.reuse) == (
        *("rave", 400, 2.0, 5.0, False),
    )
    config = of_line("--player", "rave", "--exploration", "0.1", "--size", "5")
    assert (config.nakade, config.simulations, config.exploration) == (True, 3000, 0.1)
    assert config.on(7).exploration == 0.1


@pytest.mark.parametrize(
    "words",
    [
        *("--final-move value", "--nodes 1000", "--trees 2", "--exploration 1", "--symmetries all"),
        *("--dtype bfloat16", "--score-utility off"),
    ],
)
def test_flags_that_only_adjust_a_search_keep_the_player(words):
    config = of_line(*words.split())
    assert (config.player, config.search, config.weights) == (
        *("strong", "katago", players.NETWORKS[9]),
    )
    assert vars(config) != vars(of_line())


def test_weights_make_a_network_of_the_evaluator():
    config = of_line("--weights", str(players.NETWORKS[7]))
    assert (config.player, config.evaluator, config.size) == (None, "network", 7)


def test_a_katago_network_plays_on_every_board(monkeypatch):
    monkeypatch.setattr(Engine, "_warm_up", lambda self: None)
    engine = Engine(of_line("--weights", "net.bin.gz", "--size", "9"))
    engine.set_size(19)
    assert engine.size == 19
    with pytest.raises(ValueError, match=r"net.bin.gz: KataGo's networks support .* not 21x21"):
        engine.set_size(21)
    assert engine.size == 19
    engine = Engine(of_line("--weights", str(players.NETWORKS[9])))
    with pytest.raises(ValueError, match="the weights are for 9x9"):
        engine.set_size(19)


def test_flags_of_another_search_select_no_named_player():
    """These flags mean the same as before there were named players."""
    for words in (["--search", "rave"], ["--evaluator", "playout"], ["--playouts", "mogo"]):
        config = of_line(*words)
        plain = GtpConfig(**{words[0][2:]: words[1]})
        assert config == plain
        assert config.player is None
        assert config.on(13) is config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--player", "weak"],
            "--player weak: expected one of strong, fast, rave, uct, literal, literal-uct, random",
        ),
        (["--player", "uct", "--weights", "x"], "--weights x: only with --evaluator network"),
        (
            ["--player", "literal", "--search", "uct"],
            "values; --player literal sets --rave-bias 0.01",
        ),
        (
            ["--player", "random", "--leaves", "2"],
            "--leaves 2: not with --search td, annealing or random",
        ),
        (["--player", "random", "--resign", "-0.9"], "--resign -0.9: not with --search random"),
    ],
)
def test_flags_that_conflict_with_a_player(words, message, capsys):
    with pytest.raises(SystemExit):
        of_line("--size", "9", *words)
    assert message in capsys.readouterr().err


def test_an_analysis_may_have_as_many_visits_as_a_search():
    config = GtpConfig(search="rave", trees=2, analysis_visits=10**6).for_analysis()
    assert (config.simulations, config.trees) == (10**6, 1)
    assert config.capacity == player_config.LONG_NODES
    assert GtpConfig(leaves=64, analysis_visits=10).for_analysis().leaves == 10
    message = "--analysis-visits 1000000: expected at most 131070 with --backup max, whose trees"
    with pytest.raises(ValueError, match=message):
        GtpConfig(search="uct", backup="max", analysis_visits=10**6).for_analysis()


@pytest.mark.parametrize("flags", [{"search": "gumbel"}, {"search": "uct", "backup": "max"}])
def test_a_long_search_without_pruning_has_room_for_all_its_nodes(flags):
    config = GtpConfig(simulations=10**6, **flags)
    assert config.capacity is None
    search = make_setup(Rules(size=9, ko="simple"), config).search
    assert search.num_nodes == 10**6 + 1
    assert search.wide


def test_limits_match_those_of_the_library():
    assert set(player_config.SHAPE_SIZES) == set(shape_weights.shipped())
    assert all(
        host_game.ample_move_limit(n) < 2**15 for n in range(coords.MIN_SIZE, coords.MAX_SIZE + 1)
    )
