"""Evaluations of a run: their matches and records, no effect on training, and resuming."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.go import rules as go
from gozero.nets import network
from gozero.play import arena, devices, setups
from gozero.play.player import Turn, search_player
from gozero.play.player_config import PlayerConfig
from gozero.runs import files
from gozero.search.rules.gumbel import GumbelRoot
from gozero.search.rules.puct import Puct
from tests.train import tiny
from tests.train.events import events_of
from train import checkpoint, folder, matches, run, tensorboard
from train.loop import Loop
from train.matches import RANDOM, RANDOM_PLAYER, UNIFORM, Rated, Terms
from train.plan import make_plan

GAMES, SIMULATIONS = 4, 2
RULES = go.Rules(size=3, ko="simple")
TERMS = Terms(RULES, (8.5, 9.5), 8, SIMULATIONS, seed=0)


def config_of(path, **more):
    evaluations = {"evaluate_games": GAMES, "evaluate_simulations": SIMULATIONS}
    return tiny.config(path, **evaluations | more)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The folder of a run without evaluations."""
    return train(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The folder of the same run with evaluations, after iteration 3 and after the last."""
    path = tmp_path_factory.mktemp("evaluated") / "run"
    return train(path, evaluate_every=3, tensorboard=True)


def train(path, status=0, **more):
    assert run.run(config_of(path, **more)) == status
    return path


def state_of(path):
    """The arrays and keys of a run's newest checkpoint."""
    mesh = devices.mesh_of(1)
    state = run.begin(make_plan(config_of(path), mesh.size), mesh).state
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, state)


def lines_of(path, name):
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


@pytest.mark.slow
def test_training_is_the_same_bit_for_bit(plain, evaluated):
    jax.tree.map(np.testing.assert_array_equal, state_of(plain), state_of(evaluated))
    assert lines_of(plain, "metrics.jsonl")[-1]["losses"] is not None
    assert not (plain / matches.MATCHES).exists()


@pytest.mark.thorough
def test_each_match_has_a_line(evaluated):
    lines = lines_of(evaluated, matches.MATCHES)
    met = [(line["iteration"], line["opponent"]) for line in lines]
    assert met == [(3, RANDOM), (3, UNIFORM), (4, RANDOM), (4, UNIFORM), (4, "000003")]
    for line in lines:
        assert line["won"] + line["drawn"] + line["lost"] == GAMES
        assert line["score"] == (line["won"] + line["drawn"] / 2) / GAMES
        assert line["interval"][0] < line["interval"][1]
        assert (line["seed"], line["simulations"], line["unsound"]) == (0, SIMULATIONS, 0)
        assert line["search"] == "gumbel"


@pytest.mark.thorough
def test_the_metrics_have_the_rating(evaluated):
    lines = lines_of(evaluated, "metrics.jsonl")
    played = lines_of(evaluated, matches.MATCHES)
    assert [line["iteration"] for line in lines if "elo" in line] == [3, 4]
    for line in lines[2:]:
        so_far = [one for one in played if one["iteration"] <= line["iteration"]]
        player = Rated(folder.stem(line["iteration"]), SIMULATIONS, "gumbel")
        rating = matches.rate_lines(so_far)[player]
        assert line["elo"] == round(rating.elo, 1)
        assert line["elo_interval"] == [round(rating.low, 1), round(rating.high, 1)]


def test_an_evaluation_does_not_read_the_earlier_metrics(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    files.write_lines(path, [{"iteration": 1}, {"iteration": 2}])
    with monkeypatch.context() as patches:
        patches.setattr(files, "read_lines", None)
        folder.add_to_last_line(path, {"elo": 1.0})
        assert folder.last_line(path) == {"iteration": 2, "elo": 1.0}
    folder.add_to_last_line(path, {"elo": 2.0, "before": [1, 2, 3]})  # a kill came before
    last = {"iteration": 2, "elo": 2.0, "before": [1, 2, 3]}
    assert files.read_lines(path) == [{"iteration": 1}, last]
    assert folder.last_line(tmp_path / "none.jsonl") == {}


@pytest.mark.thorough
def test_tensorboard_has_the_metrics(evaluated):
    lines = lines_of(evaluated, "metrics.jsonl")
    found = events_of(evaluated / tensorboard.FOLDER)
    expected = {name for line in lines for name, _ in tensorboard.scalars(line)}
    assert found.keys() == expected >= {"losses/policy", "games_per_s", "elo"}
    for name, values in found.items():
        scalars = {line["iteration"]: dict(tensorboard.scalars(line)).get(name) for line in lines}
        assert values == {i: pytest.approx(x) for i, x in scalars.items() if x is not None}


@pytest.mark.thorough
def test_the_metrics_add_up(evaluated):
    before, games = 0, 0
    for line in lines_of(evaluated, "metrics.jsonl"):
        ended, before = line["games"] - before, line["games"]
        by_komi = np.array([*line["by_komi"].values()])
        assert by_komi[:, 0].sum() == ended
        if ended:
            assert round(by_komi[:, 1].sum() / ended, 4) == line["black_won"]
            assert round(by_komi[:, 2].sum() / ended, 4) == line["drawn"]
        assert line["surprise"] > 0
        if line["losses"] is not None:
            assert 0 < line["target_entropy"] <= line["losses"]["policy"]
        games += ended
    assert games > 8


@pytest.mark.thorough
def test_a_resumed_run_plays_the_same_matches(evaluated, tmp_path):
    """The last evaluation's checkpoint is lost."""
    path = shutil.copytree(evaluated, tmp_path / "run")
    shutil.rmtree(path / "checkpoints" / "000004")
    train(path, evaluate_every=3)
    assert lines_of(path, matches.MATCHES) == lines_of(evaluated, matches.MATCHES)
    ratings = [
        [line.get("elo") for line in lines_of(one, "metrics.jsonl")] for one in (path, evaluated)
    ]
    assert ratings[0] == ratings[1]


@pytest.mark.parametrize(
    "last", [pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.thorough)]
)
def test_a_stop_defers_an_evaluation(evaluated, tmp_path, monkeypatch, capsys, last):
    """If SIGTERM comes when an evaluation is due, the checkpoint is written first, without it."""
    path, iterate = tmp_path / "run", Loop.iterate

    def interrupted(loop, *how):
        numbers = iterate(loop, *how)
        if loop.iteration == last:
            os.kill(os.getpid(), signal.SIGTERM)
        return numbers

    monkeypatch.setattr(Loop, "iterate", interrupted)
    train(path, status=143, evaluate_every=3)  # also after the last iteration
    assert "run the same command again to continue" in capsys.readouterr().out
    assert last not in [line["iteration"] for line in folder.read_lines(path / matches.MATCHES)]
    monkeypatch.undo()
    train(path, evaluate_every=3)
    assert "run the same command again to continue" not in capsys.readouterr().out
    assert lines_of(path, matches.MATCHES) == lines_of(evaluated, matches.MATCHES)
    metrics = [lines_of(one, "metrics.jsonl") for one in (path, evaluated)]
    assert [*map(tiny.untimed, metrics[0])] == [*map(tiny.untimed, metrics[1])]
    jax.tree.map(np.testing.assert_array_equal, state_of(path), state_of(evaluated))


class Killed(BaseException):
    """An exception that our code never catches."""


@pytest.mark.thorough
def test_a_kill_during_an_evaluation_loses_only_its_matches(
    evaluated, tmp_path, monkeypatch, capsys
):
    """The iteration is saved, though no checkpoint was due, and has a line in the metrics."""
    path, play, iterate = tmp_path / "run", matches.play, Loop.iterate
    iterations = []

    def killed(terms, first, second, numbers, progress):
        if numbers == (3, 1):
            raise Killed
        return play(terms, first, second, numbers, progress=progress)

    def counted(loop, *how):
        iterations.append(loop.iteration)
        return iterate(loop, *how)

    monkeypatch.setattr(Loop, "iterate", counted)
    monkeypatch.setattr(matches, "play", killed)
    with pytest.raises(Killed):
        train(path, evaluate_every=3, checkpoint_every=100)
    assert [line["opponent"] for line in lines_of(path, matches.MATCHES)] == [RANDOM]
    assert "elo" not in lines_of(path, "metrics.jsonl")[-1]
    monkeypatch.setattr(matches, "play", play)
    train(path, evaluate_every=3, checkpoint_every=100)
    assert "resuming after iteration 3" in capsys.readouterr().err
    assert iterations == [0, 1, 2, 3]
    assert lines_of(path, matches.MATCHES) == lines_of(evaluated, matches.MATCHES)
    metrics = [lines_of(one, "metrics.jsonl") for one in (path, evaluated)]
    assert [*map(tiny.untimed, metrics[0])] == [*map(tiny.untimed, metrics[1])]
    jax.tree.map(np.testing.assert_array_equal, state_of(path), state_of(evaluated))


def test_a_stop_during_a_save_defers_the_evaluation(tmp_path, monkeypatch, capsys):
    path, save = tmp_path / "run", checkpoint.save

    def interrupted(*what):
        os.kill(os.getpid(), signal.SIGTERM)
        return save(*what)

    monkeypatch.setattr(checkpoint, "save", interrupted)
    train(path, status=143, evaluate_every=1)
    assert "1 of 4 iterations" in capsys.readouterr().out
    assert not (path / matches.MATCHES).exists()


def test_the_elo_is_shown(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(run.Display, "add", lambda display, numbers: shown.append(numbers))
    train(tmp_path / "run", evaluate_every=3)
    by_iteration = {numbers["iteration"]: numbers for numbers in shown}
    assert [*map(tiny.untimed, by_iteration.values())] == [
        *map(tiny.untimed, lines_of(tmp_path / "run", "metrics.jsonl"))
    ]
    assert ["elo" in numbers for numbers in shown] == [False, False, False, True, False, True]


@pytest.mark.thorough
def test_later_lines_are_removed_from_a_finished_run(evaluated, tmp_path):
    path = shutil.copytree(evaluated, tmp_path / "run")
    shutil.rmtree(path / "checkpoints" / "000004")
    train(path, iterations=3)
    assert {line["iteration"] for line in lines_of(path, matches.MATCHES)} == {3}
    assert len(lines_of(path, "metrics.jsonl")) == 3


def test_lines_are_removed_by_iteration(tmp_path):
    path = tmp_path / "some.jsonl"
    assert folder.cut_lines(path, 5) == []
    assert not path.exists()
    path.write_text('{"iteration": 5}\n{"iteration": 6}\n{"iterat')
    assert folder.cut_lines(path, 5) == [{"iteration": 5}]
    assert path.read_text() == '{"iteration": 5}\n'


def params_of(seed):
    plan = make_plan(tiny.config())
    return network.init(plan.learner.network, jax.random.key(seed))


@pytest.mark.thorough
def test_networks_are_compiled_once_and_are_arguments(evaluated, tmp_path, capsys):
    path = shutil.copytree(evaluated, tmp_path / "run")
    plan, compiled = make_plan(config_of(path)), arena.choose_actions._cache_size()
    matches.evaluate(plan, 6, jax.device_get(params_of(1)))
    assert [line["opponent"] for line in lines_of(path, matches.MATCHES)[-3:]] == [
        RANDOM,
        UNIFORM,
        "000004",
    ]
    # Iteration 6's weights were never written, so the next evaluation skips them, and says so.
    matches.evaluate(plan, 8, jax.device_get(params_of(2)))
    assert [line["opponent"] for line in lines_of(path, matches.MATCHES)[-2:]] == [
        RANDOM,
        UNIFORM,
    ]
    assert "evaluation: no match against 000006: weights" in capsys.readouterr().err
    assert arena.choose_actions._cache_size() == compiled
    networks = [matches.network_player(TERMS, plan.learner.network, params_of(i)) for i in (1, 2)]
    assert networks[0].choose is networks[1].choose


@pytest.mark.thorough
def test_a_repeated_evaluation_replaces_its_lines(evaluated, tmp_path):
    path = shutil.copytree(evaluated, tmp_path / "run")
    plan = make_plan(config_of(path))
    found = matches.evaluate(plan, 3, jax.device_get(params_of(1)))
    met = [(line["iteration"], line["opponent"]) for line in lines_of(path, matches.MATCHES)]
    assert met == [(3, RANDOM), (3, UNIFORM)]
    assert found["elo_interval"][0] < found["elo"] < found["elo_interval"][1]


def test_an_evaluation_that_is_stopped_in_a_match_is_the_same_when_it_is_played(
    evaluated, tmp_path
):
    path, whole = (shutil.copytree(evaluated, tmp_path / name) for name in ("run", "whole"))
    before, params = lines_of(path, matches.MATCHES), jax.device_get(params_of(1))
    asked = []

    def stop():
        asked.append(len(lines_of(path, matches.MATCHES)) - len(before))
        return asked.count(1) == 4

    evaluate = lambda out, *how: matches.evaluate(make_plan(config_of(out)), 6, params, *how)
    assert evaluate(path, stop) == {}
    assert asked[-4:] == [1, 1, 1, 1], "in the second match, after its third ply"
    assert len(lines_of(path, matches.MATCHES)) == len(before) + 1
    found, expected = evaluate(path), evaluate(whole)
    assert tiny.untimed(found) == tiny.untimed(expected)
    assert lines_of(path, matches.MATCHES) == lines_of(whole, matches.MATCHES)


def play(*numbers, terms=TERMS):
    (_, chance), _ = matches.anchors(terms)
    return matches.play(terms, chance, chance, numbers)


@pytest.mark.thorough
def test_openings_are_paired_and_komi_go_by_pairs():
    match = play(1, 0)
    assert match.start.komi.tolist() == [8.5, 8.5, 9.5, 9.5, 8.5, 8.5, 9.5, 9.5]
    boards = boards_of(match)
    assert (boards[::2] == boards[1::2]).all()
    assert len(np.unique(boards, axis=0)) == 4
    assert match.start.position.ply.tolist() == [matches.OPENING_PLIES] * 8
    assert match.first_colour.tolist() == [0, 1] * 4


def boards_of(match):
    """i8[B, 3, 3]: the boards that the games of a match begin with."""
    return np.asarray(jax.vmap(lambda state: go.stones(RULES, state))(match.start))


def test_games_are_determined_by_number_and_seed():
    first = play(1, 0)
    again = play(1, 0)
    np.testing.assert_array_equal(again.actions, first.actions)
    np.testing.assert_array_equal(boards_of(again), boards_of(first))
    other_seed = Terms(RULES, (8.5, 9.5), 8, SIMULATIONS, seed=1)
    for other in (play(1, 1), play(2, 0), play(1, 0, terms=other_seed)):
        assert (boards_of(other) != boards_of(first)).any()


@pytest.mark.thorough
def test_openings_are_repeated_if_too_few(capsys):
    terms = Terms(RULES, (8.5,), 24, SIMULATIONS, seed=0, openings=1)
    boards = boards_of(play(1, 0, terms=terms))[::2]
    assert "9 openings of 1 plies for 12 pairs" in capsys.readouterr().err
    assert len(np.unique(boards[:9], axis=0)) == 9
    np.testing.assert_array_equal(boards[9:], boards[:3])


@pytest.mark.thorough
def test_the_uninformed_search_knows_how_games_end():
    """After a pass, the player who is ahead passes too, and the one who is behind does not."""
    state = go.init(RULES, 0.0)
    for action in (4, RULES.pass_action):
        state = go.play(RULES, state, action)
    komi = jnp.array([8.5, 9.5])  # Black, to play, has all 9 points
    states = jax.tree.map(lambda x: jnp.stack([x, x]), state).replace(komi=komi)
    legal = jax.vmap(lambda one: go.legal_actions(RULES, one))(states)
    turn = Turn(states, legal, jnp.full((2, 2), -1))
    _, (_, player) = matches.anchors(Terms(RULES, (0.0,), 2, 16, seed=0))
    choice = arena.choose_actions(player.choose, player.params, jax.random.key(0), 0, turn, None)
    assert choice.action[0] == RULES.pass_action
    assert choice.action[1] != RULES.pass_action
    assert choice.ok.all()


@pytest.mark.parametrize("root", ["gumbel", "puct"])
def test_networks_search_as_in_training_without_its_noise(root, monkeypatch):
    """The same search as in `gozero match`, whose moves do not depend on the key; but PUCT's
    constants are those of the run."""
    configs = []
    player = lambda rules, evaluator, config: (
        configs.append(config) or search_player(rules, evaluator, config)
    )
    monkeypatch.setattr(matches, "search_player", player)
    matches._searcher.cache_clear()
    run_config = config_of(None, root=root, evaluate_simulations=3, max_considered=16)
    terms = Terms.of(run_config, RULES)
    matches.network_player(terms, make_plan(run_config).learner.network, params_of(1))
    matches._searcher.cache_clear()
    asked = PlayerConfig(evaluator="network", search=root, simulations=3)
    expected = setups.make_setup(RULES, asked).search
    if root == "puct":
        expected = dataclasses.replace(expected, select=Puct(1.25, 19_652))
    assert configs == [expected]
    assert isinstance(configs[0].root_select, GumbelRoot) == (root == "gumbel")
    fewer = dataclasses.replace(run_config, max_considered=3)
    matches.network_player(Terms.of(fewer, RULES), make_plan(fewer).learner.network, params_of(1))
    if root == "gumbel":
        assert configs[1].root_select.max_considered == 3
        scaled = dataclasses.replace(run_config, value_scale=0.2)
        of = Terms.of(scaled, RULES)
        matches.network_player(of, make_plan(scaled).learner.network, params_of(1))
        assert (configs[2].root_select.value_scale, configs[2].select.value_scale) == (0.2, 0.2)
        assert of.searched == "gumbel, value scale 0.2"
    assert terms.searched == root


def line(iteration, opponent, won, simulations, **more):
    counts = {"won": won, "drawn": 0, "lost": 40 - won}
    return (
        {"iteration": iteration, "opponent": opponent, "simulations": simulations} | counts | more
    )


def test_with_another_search_a_network_is_another_player():
    """Old lines, from when PUCT was the only search, do not name their search."""
    lines = [
        line(5, RANDOM, 30, 16),
        line(5, RANDOM, 20, 32, search="puct, value scale 0.2"),
        line(7, "000005", 30, 16),
        line(5, RANDOM, 10, 16, search="gumbel"),
        line(5, UNIFORM, 20, 16, search="gumbel"),
    ]
    rated = matches.rate_lines(lines)
    assert rated[RANDOM_PLAYER].elo == 0
    assert rated[Rated("000005", 16, "puct")].elo == pytest.approx(190.8, abs=0.2)
    assert rated[Rated("000005", 32, "puct")].elo == pytest.approx(0.0, abs=0.2)
    assert rated[Rated("000007", 16, "puct")].elo == pytest.approx(381.7, abs=0.4)
    assert rated[Rated("000005", 16, "gumbel")].elo == pytest.approx(-190.8, abs=0.2)
    assert rated[Rated(UNIFORM, 16, "puct")].elo == pytest.approx(-190.8, abs=0.4)
    assert len(rated) == 6


def test_only_a_gumbel_root_has_a_value_scale():
    searches = [
        Terms.of(config_of(None, root=root, value_scale=0.2), RULES).searched
        for root in ("gumbel", "puct")
    ]
    assert searches == ["gumbel, value scale 0.2", "puct"]


def test_draws_count_half():
    drawn = {"iteration": 1, "opponent": RANDOM, "simulations": 1, "won": 1, "drawn": 1, "lost": 0}
    assert matches.rate_lines([drawn])[Rated("000001", 1, "puct")].points == 1.5


@pytest.mark.parametrize(
    ("every", "iterations", "due"), [(0, 10, []), (4, 10, [4, 8, 10]), (5, 10, [5, 10])]
)
def test_when_a_run_is_evaluated(every, iterations, due):
    config = config_of(None, evaluate_every=every, iterations=iterations)
    assert [i for i in range(1, 11) if matches.due(config, i)] == due
