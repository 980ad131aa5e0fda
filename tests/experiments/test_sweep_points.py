"""Every experiment's points are valid players."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
from typing import Any

import pytest

from experiments import command
from experiments.ablation import run as ablation
from experiments.ablation import speed as ablation_speed
from experiments.ablation.config import AblationConfig, SpeedConfig
from experiments.heuristic_prior import run as heuristic_prior
from experiments.heuristic_prior.config import HeuristicPriorConfig
from experiments.matches.config import GNUGO
from experiments.network_search import run as network_search
from experiments.network_search.config import NetworkSearchConfig
from experiments.playout_policies import run as playout_policies
from experiments.playout_policies.config import PlayoutPoliciesConfig
from experiments.rave_equivalence import run as rave_equivalence
from experiments.rave_equivalence.config import RaveEquivalenceConfig
from experiments.scaling import run as scaling
from experiments.scaling.config import ScalingConfig
from experiments.schedules import run as schedules
from experiments.schedules.config import SchedulesConfig
from experiments.surveyed import run as surveyed
from experiments.surveyed.config import SurveyedConfig
from experiments.sweeps import anchors, equal_time, ratings, results, speed
from experiments.sweeps.folder import SweepFolder
from gozero.go.rules import Rules
from gozero.runs import statistics
from gozero.search.rules.rave import HandSelected, MinimumMse

RULES = Rules(9)
ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "heuristic_prior" / "results"
SWEEPS = {
    "ablation": (ablation.sweep, AblationConfig()),
    "rave_equivalence": (rave_equivalence.sweep, RaveEquivalenceConfig()),
    "heuristic_prior": (heuristic_prior.sweep, HeuristicPriorConfig()),
    "network_search": (network_search.sweep, NetworkSearchConfig()),
    "playout_policies": (playout_policies.sweep, PlayoutPoliciesConfig()),
    "scaling": (scaling.sweep, ScalingConfig()),
    "schedules": (schedules.sweep, SchedulesConfig()),
    "surveyed": (surveyed.sweep, SurveyedConfig()),
}

NUM_ANCHORS = {"rave_equivalence": 7, "heuristic_prior": 5, "surveyed": 6, "playout_policies": 5}


@pytest.mark.parametrize("name", SWEEPS)
def test_points_are_valid_players(name):
    make, config = SWEEPS[name]
    sweep = make(config)
    assert sweep.name == name == config.out.name
    for contestant in {c for point in sweep.points for c in (point.player, point.opponent)}:
        if contestant.has_tree:
            search = contestant.setup(RULES).search
            trees = search.ensemble.trees if search.ensemble else 1
            assert trees * search.num_simulations == contestant.flags.num_simulations
        assert contestant.text
    assert len({str(point.record(RULES)) for point in sweep.points}) == len(sweep.points)
    assert sum(point.anchor for point in sweep.points) == NUM_ANCHORS.get(name, 4)
    for point in sweep.points:
        if point.anchor:
            match = anchors.match_of(point, dataclasses.replace(config, anchor_command="gnugo"))
            assert match.player.simulations == point.player.flags.simulations


@pytest.mark.parametrize("name", SWEEPS)
def test_gnugo_is_started_with_never_resign(name):
    readme = (ROOT / "experiments" / name / "README.md").read_text()
    (command,) = re.findall(r'--anchor-command "([^"]*)"', readme)
    assert command == GNUGO.replace("--seed", "--never-resign --seed")


def test_schedules_match_their_names():
    of = {
        point.name: point.player.setup(RULES).search.select.schedule
        for point in schedules.sweep(SchedulesConfig()).points
    }
    assert of["hand-selected, k = 300"] == HandSelected(300)
    assert of["Eq. 47, b = 0.03"] == MinimumMse(0.03)
    assert of["Eq. 46, b = 0.03"] == MinimumMse(0.03, mean="amaf")


def test_uct_uses_no_rave():
    sweep = rave_equivalence.sweep(RaveEquivalenceConfig())
    setup = sweep.points[0].player.setup(RULES)
    assert setup.search.amaf is None
    assert sweep.points[0].player.flags.policy == "mogo"
    assert all(point.opponent == sweep.points[0].opponent for point in sweep.points)


def test_a_ladder_doubles_or_is_given():
    assert ScalingConfig().ladder == (250, 500, 1000, 2000, 4000)
    assert ScalingConfig(most=3999).ladder == (250, 500, 1000, 2000)
    sweep = scaling.sweep(ScalingConfig(counts=(3000, 10_000)))
    assert [(p.series, p.player.flags.simulations) for p in sweep.points] == [
        ("UCT", 10_000),
        ("MC-RAVE", 10_000),
    ]
    assert {p.opponent.flags.simulations for p in sweep.points} == {3000}
    for wrong in ({"counts": (2, 1)}, {"counts": (7,)}, {"most": 300}):
        with pytest.raises(ValueError, match="expected two or more simulations, ascending"):
            ScalingConfig(**wrong)
    with pytest.raises(ValueError, match="--least 0: expected at least 1"):
        ScalingConfig(least=0)


def test_a_tournament_has_the_chains_and_all_pairs_near_each_other():
    flags = {"counts": (10, 20, 40), "anchors": (40,)}
    chains = scaling.sweep(ScalingConfig(**flags))
    near, all_pairs = (scaling.sweep(ScalingConfig(**flags, round_robin=k)) for k in (1, 2))
    assert near.points[:4] == all_pairs.points[:4] == chains.points
    assert [point.name for point in near.points[4:6]] == [
        "MC-RAVE, 10 against UCT 10",
        "MC-RAVE, 20 against UCT 10",
    ]
    assert (len(near.ladder), len(near.points), len(all_pairs.points)) == (6, 11, 15)
    pairs = {frozenset((point.player, point.opponent)) for point in all_pairs.points}
    assert len(pairs) == 15
    with pytest.raises(ValueError, match=r"--opponent.nakade: not in a tournament"):
        near.with_flags({}, {"nakade": True})
    resigning = near.resigning(-0.9)
    assert resigning.ladder[-1].player == resigning.points[3].player


def test_a_tournament_is_rated_by_all_its_matches(tmp_path):
    pytest.importorskip("matplotlib")
    sweep = scaling.sweep(ScalingConfig(counts=(10, 20), round_robin=1))
    strength = {rung.player: 100.0 * i for i, rung in enumerate(sweep.ladder)}
    rows = []
    for point in sweep.points:
        score = statistics.expected_score(strength[point.player] - strength[point.opponent])
        names = (field.name for field in dataclasses.fields(results.Row))
        fields: dict[str, Any] = dict.fromkeys(names, 0)
        fields |= {"player": point.player.text, "opponent": point.opponent.text, "anchor": False}
        rows.append(results.Row(**fields | {"series": point.series, "score": score, "games": 1000}))
    rows.append(
        dataclasses.replace(
            rows[0],
            opponent="GNU Go 3.8",
            anchor=True,
            score=0.5,
            games=100,
            low=10 / 110,
            high=100 / 110,
        )
    )
    found = ratings.rated(sweep, rows)
    assert [round(row.elo) for row in found] == [0, 100, 200, 300, 200]
    assert all(row.low < row.elo < row.high for row in found[1:])
    assert ratings.rated(sweep, rows[1:2]) == []
    assert ratings.table(found).splitlines()[2] == "| UCT, 10 | 3000 | +0 [+0, +0] |"
    head, *lines = results.table(sweep, rows, GNUGO).splitlines()
    assert head.endswith("| Elo, GNU Go = 1800 [95%] |")
    assert lines[-1].endswith("| 1,800 [1,400, 2,200] |")
    assert lines[1].endswith("|  |")
    ratings.write(found, tmp_path / "ratings.csv")
    ratings.draw(sweep, found, tmp_path / "results.svg")
    assert (tmp_path / "results.svg").read_text().startswith("<?xml")


def test_ablated_parts_match_their_names():
    of = {point.name: point.player for point in ablation.sweep(AblationConfig()).points}
    assert of["leaves a step, 64"].setup(RULES).search.leaves == 64
    assert {one.flags.num_simulations for one in of.values()} == {1024}
    assert of["16 leaves, virtual loss, loss 10"].setup(RULES).search.virtual_loss == 10
    assert of["subtree reuse, reuse"].reuse
    assert of["PUCT, shared evaluations, shared"].setup(RULES).search.transpositions


def test_speeds_of_an_ablation():
    speeds = dict.fromkeys(name for name, _ in ablation_speed.contestants(SpeedConfig()))
    assert len(speeds) == 4
    for _, contestant in ablation_speed.contestants(SpeedConfig()):
        assert contestant.setup(RULES).search.num_simulations == 1024
    with pytest.raises(ValueError, match="--simulations 1000: not divisible by 64 leaves"):
        SpeedConfig(simulations=1000)


def test_a_heuristic_with_zero_confidence_is_disabled():
    sweep = heuristic_prior.sweep(HeuristicPriorConfig())
    (level,) = [point for point in sweep.points if point.x is None]
    assert level.player == level.opponent
    assert len(sweep.points) == 1 + 4 * 5
    assert "mogo heuristic" in sweep.points[3].player.text
    assert "M 10" in sweep.points[3].player.text
    guessed = heuristic_prior.sweep(HeuristicPriorConfig(visits=5, confidences=(0,)))
    assert [point.player.flags.confidences for point in guessed.points] == [(5, 0)] * 4


def test_heuristics_meet_a_program_at_several_confidences(tmp_path):
    """The recorded folder, which has M = 50 alone, can go on with others and with the baseline."""
    recorded = json.loads((RESULTS / "config.json").read_text())["flags"]
    kept = ("simulations", "games", "parallel", "resign")
    flags = {name: recorded[name] for name in kept} | {"anchor_command": "gnugo"}
    config = HeuristicPriorConfig(**flags, anchor_confidence=(0, 10, 50), out=tmp_path / "out")
    sweep = heuristic_prior.sweep(config)
    anchored = [point for point in sweep.points if point.anchor]
    assert [p.label for p in anchored] == ["M = 0"] + ["M = 10"] * 4 + ["M = 50"] * 4
    baseline = anchors.match_of(anchored[0], config)
    assert (baseline.player.heuristic, baseline.player.simulations) == (None, 400)
    assert anchors.folder(anchored[0], config).name == "no_heuristic_M_0"
    names = {"config.json", "manifest.json", "pieces.jsonl"}
    shutil.copytree(RESULTS, config.out, ignore=lambda _, found: set(found) - names)
    with SweepFolder(sweep.resigning(config.resign), config) as folder:
        assert all(folder.of(point.name) for point in sweep.points)


def test_equal_time_gives_faster_players_more_simulations(tmp_path):
    config = PlayoutPoliciesConfig(simulations=100, out=tmp_path)
    speeds = dict.fromkeys(playout_policies.contestants(config), 50.0) | {"uniform": 125.0}
    sweep = playout_policies.sweep(config, speeds)
    assert [p.player.flags.simulations for p in sweep.points] == [250] + [100] * 8
    assert {p.opponent.flags.simulations for p in sweep.points} == {100}
    assert not any(p.anchor for p in sweep.points)


def test_a_player_without_a_search_has_no_equal_time():
    speeds = dict.fromkeys(surveyed.contestants(SurveyedConfig()), 50.0)
    names = [point.label for point in surveyed.sweep(SurveyedConfig(), speeds).points]
    assert "RLGO" in names
    assert "RLGO 1.0" not in names
    of = {point.label: point for point in surveyed.sweep(SurveyedConfig()).points}
    assert of["RLGO 1.0"].player.text == "local shapes td 0"
    assert "MoGo Titan, 4 machines" not in names  # one machine has no time for four
    assert of["MoGo Titan, 4 machines"].player.flags.simulations == 1600


def test_speeds_are_measured_once_and_beside_the_opponent(tmp_path, monkeypatch):
    players, measured = playout_policies.contestants(PlayoutPoliciesConfig()), []
    rates = {players["MoGo"]: 100.0, players["uniform"]: 300.0, players["MM"]: 50.0}

    def measure(rules, contestants, num_trees, komi, seed):
        measured.append([rates[one] for one in contestants])
        return [speed.Speed(rates[one], 1.0, 0.0, 0.0) for one in contestants]

    monkeypatch.setattr(speed, "measure", measure)
    speeds = lambda *names: equal_time.measured(
        PlayoutPoliciesConfig(),
        {name: players[name] for name in names},
        "MoGo",
        tmp_path / "speeds.json",
    )
    assert speeds("uniform", "MoGo") == {"MoGo": 100, "uniform": 300}
    rates[players["MoGo"]] = 200.0  # the machine is twice as fast now
    rates[players["MM"]] = 100.0
    assert speeds("uniform", "MoGo") == {"MoGo": 100, "uniform": 300}
    assert speeds("uniform", "MoGo", "MM") == {"MoGo": 100, "uniform": 300, "MM": 50}
    assert measured == [[100.0, 300.0], [200.0, 100.0]]
    wider = dataclasses.replace(players["MM"].flags, leaves=4)
    players["MM"] = dataclasses.replace(players["MM"], flags=wider)
    with pytest.raises(
        ValueError, match=r"speeds\.json was .*: MM\.leaves was None and is 4; name a"
    ):
        speeds("MM", "MoGo")
    assert measured == [[100.0, 300.0], [200.0, 100.0]]


def test_all_resign_or_none():
    sweep = rave_equivalence.sweep(RaveEquivalenceConfig()).resigning(-0.9)
    flags = {c.flags.resign for p in sweep.points for c in (p.player, p.opponent)}
    assert flags == {-0.9}
    assert "resign -0.9" in sweep.points[0].player.text


def test_further_flags_apply_to_the_players_that_have_them():
    sweep = rave_equivalence.sweep(RaveEquivalenceConfig())
    given = {"first_action": True, "rave_colours": "same"}
    changed = sweep.with_flags(given, {})
    for before, after in zip(sweep.points, changed.points, strict=True):
        own = {k: v for k, v in given.items() if before.label != "no RAVE" or k == "first_action"}
        assert after.player.flags == dataclasses.replace(before.player.flags, **own)
        assert after.opponent == before.opponent
        assert (
            after.record(RULES).items() >= {f"player.{k}": str(v) for k, v in own.items()}.items()
        )
    assert sweep.with_flags({}, {}) == sweep
    both = sweep.with_flags({}, {"final_move": "eval"})
    assert {point.opponent.flags.final_move for point in both.points} == {"eval"}
    assert both.points[0].player == sweep.points[0].player


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("rave_equivalence", {"rave_k": 9.0}, "--player.rave-k: the experiment's own flags"),
        ("rave_equivalence", {"simulations": 9}, "--player.simulations: the experiment's own"),
        ("rave_equivalence", {"temperature": 0.5}, "--player.temperature: no search of this"),
        ("rave_equivalence", {"leaves": 0}, "--player.leaves 0: expected from 1"),
        ("surveyed", {"final_move": "value"}, "'territory network' is more than flags"),
    ],
)
def test_further_flags_that_are_refused(name, flags, message):
    make, config = SWEEPS[name]
    with pytest.raises(ValueError, match=message):
        make(config).with_flags(flags, {})


def test_further_flags_from_the_command_line():
    words = "--player.no-first-action --player.final-move eval --opponent.rave-colours same"
    config = command.parse(RaveEquivalenceConfig, words.split(), prog="p")
    assert config.player.given == {"first_action": False, "final_move": "eval"}
    assert config.opponent.given == {"rave_colours": "same"}
    assert RaveEquivalenceConfig().player.given == {}
    with pytest.raises(ValueError, match="give both the same flags"):
        equal_time.play(config, surveyed.sweep, {}, "MoGo", with_time=True)


@pytest.mark.parametrize("name", SWEEPS)
def test_recorded_games_can_be_continued(name, tmp_path):
    make, config = SWEEPS[name]
    results = ROOT / "experiments" / name / "results"
    recorded = json.loads((results / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(recorded))
    terms = {k: recorded["terms"][k] for k in ("size", "komi", "openings", "seed")}
    piece = recorded["terms"]["parallel"]
    own = {k: recorded["flags"][k] for k in ("simulations", "resign") if k in recorded["flags"]}
    config = dataclasses.replace(
        config, **terms, **own, parallel=piece, games=2 * piece, out=tmp_path
    )
    sweep = make(config).with_flags(config.player.given, config.opponent.given)
    with SweepFolder(sweep.resigning(config.resign), config):
        points = {point.name for point in sweep.points}
        assert len(points & recorded["points"].keys()) > 1


def test_the_mixture_is_a_mean_of_the_schedules():
    sweep = schedules.sweep(SchedulesConfig(means=("mixture",), biases=(0.03,)))
    assert sweep.points[-1].name == "Eq. 46, mixture, b = 0.03"
    schedule = sweep.points[-1].player.setup(RULES).search.select.schedule
    assert schedule == MinimumMse(0.03, mean="mixture")
    assert len(sweep.points) == 6
