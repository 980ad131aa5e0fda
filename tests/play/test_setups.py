"""The setups that a player's flags give."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go.rules import Rules, init, play
from gozero.limits import MAX_VISITS
from gozero.nets import kinds, network, weights
from gozero.nets.network import NetworkConfig
from gozero.play import heuristics, players
from gozero.play.player_config import PlayerConfig
from gozero.play.searches import gumbel_search, to_win
from gozero.play.setups import make_player, make_setup
from gozero.playouts.policies.mogo.move_rules import MogoConfig
from gozero.playouts.policies.softmax import strengths
from gozero.playouts.policies.softmax.softmax import softmax_policy
from gozero.runs import memory
from gozero.runs.memory import DoesNotFit
from gozero.search.config import Amaf, Ensemble, Grandfather, SearchConfig
from gozero.search.game import Ancestors
from gozero.search.rules.estimators import Estimators
from gozero.search.rules.expert import ExpertBias
from gozero.search.rules.katago import KataGoPuct
from gozero.search.rules.operators import MixBackup, max_backup
from gozero.search.rules.proportional import Boltzmann, Gaussian
from gozero.search.rules.puct import Puct
from gozero.search.rules.rave import HandSelected, MinimumMse, Rave
from gozero.search.rules.selective import Pruning, Widening
from gozero.search.rules.ucb1 import Ucb1
from gozero.search.score import ScoreUtility
from gozero.search.search import search
from gozero.td import local_shape, shapes
from gozero.td import weights as shape_weights
from tests.nets import katago_files

RULES = Rules(3)
ABOUT_LITERAL = {"evaluator": "playout", "policy": "mogo", "first_action": True}


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ({}, Puct(3.0, first_play="parent")),
        ({"exploration": 1.0}, Puct(1.0, first_play="parent")),
        ({"search": "katago"}, KataGoPuct()),
        ({"search": "katago", "evaluator": "network", "exploration": 2.0}, KataGoPuct(2.0)),
        ({"search": "uct"}, Ucb1(0.25)),
        ({"search": "uct", "exploration": 0.5}, Ucb1(0.5)),
        ({"search": "gaussian", "widening": 10}, Widening(Gaussian(), 10)),
        ({"search": "boltzmann", "pruning": 2}, Pruning(Boltzmann(), 2)),
        ({"search": "boltzmann", "temperature": 0.2}, Boltzmann(0.2)),
        ({"search": "rave"}, Rave(MinimumMse(0.01))),
        ({"search": "rave", "rave_bias": 0.02}, Rave(MinimumMse(0.02))),
        ({"search": "rave", "rave_above": 0.1}, Estimators(0.01, 0.1)),
        (
            {"search": "rave", "priors": "mm", "expert_bonus": 0.1},
            ExpertBias(Rave(MinimumMse(0.01)), 0.1, 0.0),
        ),
        (
            {"search": "rave", "priors": "mm", "expert_visits": 5, "rave_above": 0.1},
            ExpertBias(Estimators(0.01, 0.1), 0.0, 5),
        ),
        ({"search": "rave", "rave_k": 1000.0, "exploration": 0.1}, Rave(HandSelected(1000.0), 0.1)),
        (
            {"search": "rave", "rave_k": 9.0, "rave_per_action": True},
            Rave(HandSelected(9.0, per_action=True)),
        ),
        ({"search": "rave", "rave_mean": "mixture"}, Rave(MinimumMse(0.01, "mixture"))),
        (
            {
                "search": "rave",
                "rave_k": 9.0,
                "rave_initial": 0.5,
                "rave_bonus": "plain",
                "exploration": 0.1,
            },
            Rave(HandSelected(9.0), 0.1, initial=0.5, bonus="plain"),
        ),
    ],
)
def test_rules_of_search(flags, rule):
    player = make_setup(RULES, PlayerConfig(**flags))
    assert player.search.select == rule
    assert player.search.amaf == (Amaf() if flags.get("search") == "rave" else None)
    assert player.search.num_simulations == 400


def test_katagos_search_uses_katagos_move_choice():
    setup = make_setup(RULES, PlayerConfig(search="katago", evaluator="network"))
    assert setup.search.root_select == KataGoPuct().at_root
    assert PlayerConfig(search="katago").effective_final_move == "bound"
    by_visits = make_setup(RULES, PlayerConfig(search="katago", final_move="visits"))
    assert by_visits.search.root_select == KataGoPuct(reduction=0.1)
    assert by_visits.search.final_move == "visits"
    two = make_setup(RULES, PlayerConfig(search="katago", trees=2))
    assert two.search.select == KataGoPuct(spread=0.0)


@pytest.mark.thorough
def test_a_network_is_evaluated_under_all_symmetries():
    player = PlayerConfig(evaluator="network", symmetries="all")
    assert player.text == "network of all symmetries puct 400"
    one, mean = make_setup(RULES, PlayerConfig(evaluator="network")), make_setup(RULES, player)
    assert "symmetries" not in one.evaluator.about
    assert mean.evaluator.about["symmetries"] == "all"
    states = jax.vmap(lambda _: init(RULES))(jnp.arange(1))
    seen = jax.vmap(lambda s: mean.evaluator.observe(s, s.position, None))(states)
    logits = mean.evaluator.evaluate(mean.evaluator.params, jax.random.key(0), seen)[0]
    board = np.asarray(logits[0, :-1]).reshape(3, 3)
    np.testing.assert_allclose(board, np.rot90(board), atol=1e-5)  # as the board is empty
    with pytest.raises(ValueError, match="symmetries"):
        PlayerConfig(symmetries="all").check()


def test_nodes_get_children_after_some_visits_on_request():
    for flags in ({"search": "uct"}, {"search": "gumbel"}):
        assert make_setup(RULES, PlayerConfig(**flags)).search.expand_after == 1
        search = make_setup(RULES, PlayerConfig(**flags, expand_after=8)).search
        assert search.expand_after == 8


def test_results_are_proven_on_request():
    assert not make_setup(RULES, PlayerConfig()).search.prove
    for rule in ("puct", "uct", "rave", "katago"):
        assert make_setup(RULES, PlayerConfig(search=rule, prove=True, trees=2)).search.prove
    assert not PlayerConfig(prove=True).can_prune
    long = PlayerConfig(prove=True, simulations=MAX_VISITS + 1)
    assert make_setup(RULES, long).search.capacity is None


def test_forms_of_the_paper():
    own = {"rave_colours": "same", "rave_ancestor": 20, "rave_legal": True, "playout_moves": 60}
    setup = make_setup(RULES, PlayerConfig(search="rave", final_move="eval", **own))
    assert setup.search.amaf == Amaf("same", 20, legal_only=True)
    assert (setup.search.final_move, setup.prior_counts) == ("eval", False)
    assert setup.evaluator.about["max_moves"] == 60
    literal = make_setup(RULES, PlayerConfig(**players.settings_of("literal", 9)))
    assert literal.search == SearchConfig(
        3000, select=Rave(MinimumMse(0.01)), amaf=Amaf("same", legal_only=True), final_move="eval"
    )
    assert literal.prior_counts
    assert literal.evaluator.about == ABOUT_LITERAL
    uct = make_setup(RULES, PlayerConfig(**players.settings_of("literal-uct", 9)))
    assert uct.search == SearchConfig(3000, select=Ucb1(0.25), final_move="eval")
    assert uct.prior_counts
    assert uct.evaluator.about == ABOUT_LITERAL
    points = RULES.num_points
    backups = [None, max_backup, MixBackup(2.0 * points)]
    for name, backup in zip(("mean", "max", "mix"), backups, strict=True):
        assert make_setup(RULES, PlayerConfig(backup=name)).search.backup == backup
    for flags, message in (
        ({"rave_initial": 0.5}, "--rave-initial 0.5: only with --search rave"),
        ({"search": "rave", "rave_bonus": "plain"}, "--rave-bonus plain: only with --exploration"),
        ({"search": "rave", "rave_per_action": True}, "--rave-per-action: only with --rave-k"),
        ({"search": "rave", "rave_initial": 0.5}, "--rave-initial 0.5: only with --rave-k"),
        (
            {"search": "rave", "rave_initial": 0.5, "rave_k": 9.0, "rave_per_action": True},
            "--rave-initial 0.5: not with --rave-per-action",
        ),
        ({"backup": "max", "leaves": 4}, "--leaves 4: not with --backup"),
        ({"final_move": "eval", "trees": 2}, "--final-move eval: not with --trees"),
        ({"evaluator": "network", "first_action": True}, "--first-action: only with --evaluator"),
        ({"search": "rave", "widening": 9}, "--widening 9: not with --search rave or gumbel"),
        ({"search": "rave", "rave_k": 9, "rave_above": 0.1}, "--rave-k 9: not with --rave-above"),
        ({"search": "rave", "expert_bonus": 0.1}, "--expert-bonus 0.1: only with --priors"),
        ({"expert_visits": 9}, "--expert-visits 9: only with --search rave"),
        ({"search": "gaussian", "trees": 2}, "--search gaussian: not with --trees"),
        ({"search": "katago", "first_action": True}, "--search katago: not with --first-action"),
        ({"pruning": 2, "first_action": True}, "--pruning 2: not with --first-action"),
        ({"search": "gaussian", "exploration": 1.0}, "--exploration 1.0: not with --search"),
        ({"evaluator": "network", "priors": "mm"}, "--priors mm: only with --evaluator playout"),
        ({"prior_strengths": pathlib.Path("a")}, "--prior-strengths a: only with --priors"),
        ({"search": "gumbel", "prove": True}, "--prove: not with --search gumbel"),
        ({"prove": True, "nodes": 99}, "--prove: not with --nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            PlayerConfig(**flags).check()


def test_the_even_heuristic_option(monkeypatch):
    calls, beside = [], heuristics.add_heuristic
    record = lambda *args, **options: calls.append(options) or beside(*args, **options)
    monkeypatch.setattr(heuristics, "add_heuristic", record)
    make_setup(RULES, PlayerConfig(search="rave", heuristic="even", heuristic_eyes=True))
    assert calls[0]["lost_eyes"] is False


def test_gumbel_has_no_noise_in_matches():
    search = make_setup(RULES, PlayerConfig(search="gumbel", simulations=50)).search
    assert search == to_win(gumbel_search(50))
    assert to_win(SearchConfig(50, temperature=1.0)) == SearchConfig(50)
    assert search.root_select.scale == 0.0
    assert search.root_select.max_considered == 16
    assert search.dirichlet_fraction == 0.0


def test_gumbel_takes_leaves_at_a_virtual_loss_of_one():
    search = make_setup(RULES, PlayerConfig(search="gumbel", simulations=50, leaves=8)).search
    assert (search.num_simulations, search.leaves, search.virtual_loss) == (56, 8, 1)


def test_simulations_come_in_whole_steps():
    config = PlayerConfig(search="rave", simulations=3000, leaves=64)
    search = make_setup(RULES, config).search
    assert (search.num_simulations, search.leaves) == (3008, 64)
    assert config.text == "mogo playouts rave 3008 leaves 64"
    assert PlayerConfig(simulations=3000).text == "uniform playouts puct 3000"


def test_mc_rave_uses_mogos_playouts():
    policy = lambda **flags: make_setup(RULES, PlayerConfig(**flags)).evaluator.about["policy"]
    assert [policy(), policy(search="rave"), policy(search="uct")] == ["uniform", "mogo", "uniform"]
    assert policy(search="rave", playouts="uniform") == "uniform"
    assert policy(search="uct", playouts="mogo") == "mogo"


def test_a_heuristic_has_the_given_confidence():
    even = make_setup(RULES, PlayerConfig(search="rave", heuristic="even"))
    assert even.evaluator.about["heuristic"] == {"name": "even", "visits": 0, "amaf_visits": 50}
    assert not even.prior_counts
    counted = PlayerConfig(search="uct", heuristic="mogo", heuristic_visits=4)
    assert counted.confidences == (4, 0)
    assert make_setup(RULES, counted).prior_counts
    flags = {"heuristic": "grandfather", "heuristic_visits": 2, "heuristic_amaf_visits": 0}
    setup = make_setup(RULES, PlayerConfig(search="rave", **flags))
    assert setup.search.grandfather == Grandfather(visits=2)
    assert "heuristic" not in setup.evaluator.about
    assert PlayerConfig(**flags).text == "uniform playouts puct grandfather heuristic 400"


def test_the_classical_player_counts_playouts_and_good_moves():
    """White's stone in the corner is in atari: good moves take it at 3, or are the hane at 4."""
    flags = {"heuristic": "even", "heuristic_amaf_visits": 50, "heuristic_good_visits": 12}
    setup = make_setup(RULES, PlayerConfig(search="rave", nakade=True, **flags))
    state = init(RULES)
    for action in (1, 0):
        state = play(RULES, state, action)

    @jax.jit
    def evaluated(states):
        ancestors = Ancestors(None, jnp.zeros(1, jnp.int32))
        see = lambda state, position: setup.evaluator.observe(state, position, ancestors)
        seen = jax.vmap(see)(states, states.position)
        return setup.evaluator.evaluate(setup.evaluator.params, jax.random.key(0), seen)

    actual = evaluated(jax.tree.map(lambda x: jnp.asarray(x)[None], state))
    assert actual.played.shape == (1, 2, 10)
    assert actual.played.any(axis=2).all()
    expected = [62 if action in (3, 4) else 50 for action in range(10)]
    assert actual.heuristic.amaf_visits.tolist() == [expected]


@pytest.mark.parametrize("nakade", [False, True])
def test_heuristics_and_playouts_have_the_same_rules(nakade, monkeypatch):
    calls, beside = [], heuristics.add_heuristic
    record = lambda *args, **options: calls.append((args[2:], options)) or beside(*args, **options)
    monkeypatch.setattr(heuristics, "add_heuristic", record)
    flags = PlayerConfig(search="rave", nakade=nakade, heuristic="mogo", heuristic_visits=3)
    policy = make_setup(RULES, flags).evaluator.about["policy"]
    assert policy == ({"mogo": {"nakade": True, "diversity": 0}} if nakade else "mogo")
    counts = {"visits": 3, "amaf_visits": 50, "good_visits": 0}
    own = {"mogo": MogoConfig(nakade=nakade), "shapes": None, "lost_eyes": True}
    assert calls == [(("mogo",), counts | own)]


def test_trees_share_the_simulations():
    config = PlayerConfig(search="rave", simulations=3000, leaves=8, trees=4)
    search = make_setup(RULES, config).search
    assert (search.num_simulations, search.leaves) == (752, 8)
    assert search.ensemble == Ensemble(4, every=56)
    assert config.text == "mogo playouts rave 3008 leaves 8 trees 4"
    assert make_setup(RULES, PlayerConfig()).search.ensemble is None


def test_playouts_of_every_kind():
    policy = lambda **flags: make_setup(RULES, PlayerConfig(**flags)).evaluator.about["policy"]
    for name in ("mm", "balanced", "mm-atari", "balanced-atari"):
        assert policy(playouts=name) == name
    assert policy(search="rave", nakade=True, diversity=2) == {
        "mogo": {"nakade": True, "diversity": 2}
    }


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_strengths_from_a_file(tmp_path):
    path = tmp_path / "mine.safetensors"
    strengths.save(path, strengths.uniform())
    evaluator = make_setup(RULES, PlayerConfig(playouts="mm", strengths=path)).evaluator
    about = {"policy": "mm", "strengths": str(path), "strengths_sha256": sha256(path)}
    assert evaluator.about == {"evaluator": "playout", **about}
    expected = softmax_policy(strengths.uniform(), 3)
    jax.tree.map(np.testing.assert_array_equal, evaluator.params, expected)
    shipped = make_setup(RULES, PlayerConfig(playouts="balanced")).evaluator.about
    assert shipped["strengths"] == "balanced_9"
    assert shipped["strengths_sha256"] == strengths.load("balanced_9")[1]["sha256"]


def test_strengths_of_priors_from_a_file(tmp_path):
    path = tmp_path / "mine.safetensors"
    far = strengths.uniform().distance * 2
    strengths.save(path, strengths.uniform()._replace(distance=far))
    flags = {"search": "rave", "expert_bonus": 0.1, "priors": "mm"}
    evaluator = make_setup(RULES, PlayerConfig(**flags, prior_strengths=path)).evaluator
    about = {"priors": "mm", "prior_strengths": str(path), "prior_strengths_sha256": sha256(path)}
    assert about.items() <= evaluator.about.items()
    np.testing.assert_allclose(evaluator.params[1].distance[1:], np.log(far), rtol=1e-6)
    shipped = make_setup(RULES, PlayerConfig(**flags)).evaluator.about
    assert shipped["priors_sha256"] == strengths.load("mm_9")[1]["sha256"]
    katago = make_setup(RULES, PlayerConfig(**flags | {"priors": "katago"})).evaluator.about
    assert katago["priors_sha256"] == strengths.load("katago_13")[1]["sha256"]


def test_local_shapes_from_a_file(tmp_path):
    path, chosen = tmp_path / "mine.safetensors", shapes.Shapes(3, largest=2)
    weights = np.zeros(shapes.sharing(chosen).num_weights + 1, np.float32)
    weights[1] = 1.5
    shape_weights.save(path, chosen, weights)
    flags = PlayerConfig(search="rave", heuristic="shape", shapes=path)
    evaluator = make_setup(RULES, flags).evaluator
    assert evaluator.about["shapes"] == str(path)
    assert evaluator.about["shapes_sha256"] == sha256(path)
    np.testing.assert_array_equal(evaluator.params.table, local_shape.table(chosen, weights))
    with pytest.raises(ValueError, match=r"mine\.safetensors is for 3x3, but the board is 5x5"):
        make_setup(Rules(5), flags)
    with pytest.raises(ValueError, match=r"local shapes no\.npz: there is no file no.npz"):
        make_setup(RULES, PlayerConfig(**vars(flags) | {"shapes": pathlib.Path("no.npz")}))
    flags = PlayerConfig(search="rave", heuristic="shape")
    shipped = make_setup(Rules(7), flags).evaluator.about
    assert shipped["shapes"] == "local_shape_7"
    assert shipped["shapes_sha256"] == shape_weights.load(7).about["sha256"]


def test_reused_trees_have_prior_counts():
    states = jax.tree.map(lambda x: jnp.asarray(x)[None], init(RULES))
    rooms = {}
    for heuristic, more in ((None, {}), ("even", {"heuristic_visits": 5})):
        player = make_player(RULES, PlayerConfig(heuristic=heuristic, **more), reuse=True)
        trees = jax.eval_shape(player.player.begin, player.player.params, states)
        assert (trees.prior_counts is not None) == (heuristic is not None)
        rooms[heuristic] = player.describe_memory(3)
    assert rooms[None] != rooms["even"]


def test_several_trees_of_a_game_are_reused():
    states = jax.tree.map(lambda x: jnp.stack([x] * 3), init(RULES))
    player = make_player(RULES, PlayerConfig(trees=2, simulations=100), reuse=True)
    trees = jax.eval_shape(player.player.begin, player.player.params, states)
    assert (trees.num_trees, trees.capacity) == (6, 101)
    assert trees.last_sync is not None
    assert player.describe_memory(3).startswith("6 trees of 101 nodes: ")


def test_trees_that_do_not_fit_are_refused(monkeypatch):
    player = make_player(RULES, PlayerConfig(simulations=100))
    two = re.search(r"([\d.]+) KiB a game", player.describe_memory(2))
    assert two is not None
    per_device = int(2.5 * 1024 * float(two[1])) // jax.local_device_count()
    monkeypatch.setattr(memory, "of_device", lambda num_devices: per_device)
    assert player.describe_memory(2).startswith("2 trees of 101 nodes: ")
    with pytest.raises(DoesNotFit, match=r"^3 trees of 101 nodes: .* MiB: lower --nodes"):
        player.describe_memory(3)
    monkeypatch.setattr(memory, "of_device", lambda num_devices: None)  # unknown
    assert player.describe_memory(3).startswith("3 trees of 101 nodes: ")


def test_the_memory_of_a_network_is_told_and_counted(monkeypatch):
    flags = PlayerConfig(evaluator="network", simulations=10, leaves=2)
    told = make_player(RULES, flags).describe_memory(300)
    sizes = re.search(r"([\d.]+) MiB, .*; parameters ([\d.]+) MiB, activations ([\d.]+) MiB$", told)
    assert sizes is not None
    trees, params, activations = map(float, sizes.groups())
    evaluator = make_setup(RULES, flags).evaluator
    size = kinds.activation_bytes(NetworkConfig(), RULES.num_points)
    assert evaluator.position_bytes == size
    assert activations == pytest.approx(600 * size / 2**20, abs=0.051)
    prepared = sum(x.nbytes for x in jax.tree.leaves(evaluator.prepared().params))
    assert params == pytest.approx(prepared / 2**20, abs=0.051)
    averaged = make_player(RULES, dataclasses.replace(flags, symmetries="all"))
    assert f"activations {8 * 600 * size / 2**20:,.1f} MiB" in averaged.describe_memory(300)

    whole = trees + params + activations
    limit = lambda share: int(share * whole * 2**20) // jax.local_device_count()
    monkeypatch.setattr(memory, "of_device", lambda num_devices: limit(0.9))
    with pytest.raises(DoesNotFit, match=r"300 trees of 11 nodes: .*; parameters .* MiB; but"):
        make_player(RULES, flags).describe_memory(300)
    monkeypatch.setattr(memory, "of_device", lambda num_devices: limit(1.1))
    assert make_player(RULES, flags).describe_memory(300) == told
    assert "activations" not in make_player(RULES, PlayerConfig(simulations=10)).describe_memory(3)


def test_temporal_difference_search(tmp_path):
    path, chosen = tmp_path / "mine.safetensors", shapes.Shapes(3, largest=1)
    shape_weights.save(path, chosen, np.zeros(shapes.sharing(chosen).num_weights + 1, np.float32))
    flags = PlayerConfig(search="td", simulations=8, shapes=path)
    player = make_player(RULES, flags)
    about = {"shapes": str(path), "shapes_sha256": sha256(path)}
    assert player.about == {"evaluator": "local shapes", **about}
    assert player.player.begin is None
    assert player.describe_memory(4) == "4 games, one after the other"
    assert flags.text == "local shapes td 8"
    with pytest.raises(ValueError, match="search: td has neither a tree nor"):
        make_setup(RULES, flags)
    with pytest.raises(
        ValueError, match=r"--opponent\.search td: the package has no local shapes for 5x5"
    ):
        PlayerConfig(search="td").check_size(5, "opponent.")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"strengths": "x.npz", "search": "rave"},
            "--strengths x.npz: only with --playouts mm, balanced, mm-atari or balanced-atari",
        ),
        ({"shapes": "x.npz"}, "--shapes x.npz: used only with --heuristic shape or --search td"),
        (
            {"shapes": "x.npz", "search": "rave", "heuristic": "mogo"},
            "--shapes x.npz: used only with --heuristic shape",
        ),
        ({"nakade": True}, "--nakade: only with --playouts mogo; only MoGo's playouts have"),
        ({"search": "td", "leaves": 8}, "--leaves 8: not with --search td"),
        ({"search": "td", "evaluator": "network"}, "--evaluator network: not with --search td"),
        ({"playouts": "mogo", "diversity": 9}, "--diversity 9: expected from 0 to 8"),
        ({"first_play": 0.5}, "--first-play 0.5: only with --search uct or rave"),
        ({"search": "rave", "first_play": -1.0}, "--first-play -1.0: expected from 0"),
        ({"heuristic": "good"}, "--heuristic good: expected one of even, grandfather, mogo, shape"),
        ({"heuristic_visits": 1}, "--heuristic-visits 1: only with --heuristic"),
        (
            {"search": "uct", "heuristic": "even", "heuristic_good_visits": 5},
            "--heuristic-good-visits 5: not with --heuristic-amaf-visits 0",
        ),
        (
            {"heuristic": "even"},
            "--heuristic even: has no effect with a weight of 0; set --heuristic-visits",
        ),
        (
            {"heuristic": "even", "heuristic_visits": -1},
            "--heuristic-visits -1: expected from 0 to",
        ),
        (
            {"heuristic": "even", "heuristic_visits": 131_000, "simulations": 71},
            "--heuristic-visits 131000: expected from 0 to 130999",
        ),
        (
            {
                "search": "rave",
                "heuristic": "mogo",
                "heuristic_amaf_visits": 65_000,
                "heuristic_good_visits": 65_000,
                "simulations": 2000,
            },
            "--heuristic-amaf-visits 65000: expected from 0 to 64070",
        ),
        (
            {"heuristic": "even", "heuristic_visits": 1, "heuristic_amaf_visits": 5},
            "--heuristic-amaf-visits 5: only with --search rave",
        ),
        (
            {"search": "rave", "heuristic": "grandfather", "leaves": 8},
            "--leaves 8: not with --heuristic grandfather; it needs one tree and one leaf",
        ),
        (
            {"search": "rave", "heuristic": "mogo", "heuristic_eyes": True},
            "--heuristic-eyes: not with --heuristic mogo; MoGo's rules value them as lost, too",
        ),
        (
            {"search": "rave", "heuristic": "grandfather", "heuristic_eyes": True},
            "--heuristic-eyes: only with --heuristic even or shape",
        ),
        ({"score_utility": "on"}, "--score-utility on: only with --evaluator network"),
        (
            {"evaluator": "network", "score_utility": "on", "trees": 2},
            "--trees 2: not with --score-utility on",
        ),
        ({"trees": 401}, "--trees 401: expected from 1 to the 400 of --simulations"),
        ({"resign": 0.5}, "--resign 0.5: expected from -1 to below 0"),
    ],
)
def test_invalid_flags(flags, message):
    with pytest.raises(ValueError, match=message):
        PlayerConfig(**flags).check()


def test_katago_networks_enable_score_utility():
    katagos = functools.partial(PlayerConfig, "network", weights=pathlib.Path("b6c96.bin.gz"))
    assert katagos().effective_score_utility == "on"
    assert katagos(score_utility="off").effective_score_utility == "off"
    assert (
        katagos(trees=2).effective_score_utility
        == katagos(search="gumbel").effective_score_utility
        == "off"
    )
    assert (
        katagos(backup="max").effective_score_utility
        == katagos(heuristic="even").effective_score_utility
        == "off"
    )
    assert (
        PlayerConfig().effective_score_utility
        == PlayerConfig("network").effective_score_utility
        == "off"
    )


@pytest.mark.thorough
def test_other_networks_with_a_score_head_may_use_score_utility(tmp_path):
    def player(auxiliary):
        shape = NetworkConfig(blocks=1, channels=4, auxiliary=auxiliary)
        params = jax.jit(network.init, static_argnums=0)(shape, jax.random.key(3))
        params = jax.tree.map(lambda x: x + 0.05, params)  # heads are initialised to zeros
        path = weights.save(tmp_path / f"{auxiliary}.npz", params, shape, size=3)
        return make_setup(RULES, PlayerConfig("network", weights=path, score_utility="on"))

    setup = player(auxiliary=True)
    assert setup.search.score_utility == ScoreUtility(3)
    states = jax.vmap(lambda komi: init(RULES, komi))(jnp.array([0.5, 7.5]))
    config = dataclasses.replace(setup.search, num_simulations=8)
    run = lambda states: search(go_game(RULES), setup.evaluator, jax.random.key(0), states, config)
    result = jax.jit(run)(states)
    assert result.ok.all()
    assert not (np.asarray(result.tree.scores.sums) == 0).all()
    with pytest.raises(ValueError, match="no score head"):
        player(auxiliary=False)


def test_a_network_computes_in_the_requested_type(tmp_path):
    """The weights stay f32; KataGo's and our own random ones alike."""
    path = tmp_path / "tiny.bin"
    path.write_bytes(katago_files.data(katago_files.model(8)))
    for file in (path, None):
        player = PlayerConfig("network", weights=file, dtype="bfloat16", symmetries="one")
        assert player.text == "network in bfloat16 puct 400"
        plain = dataclasses.replace(player, dtype=None)
        narrow, wide = (make_setup(RULES, one).evaluator for one in (player, plain))
        assert (narrow.about["dtype"], wide.about["dtype"]) == ("bfloat16", "float32")
        jax.tree.map(np.testing.assert_array_equal, narrow.params, wide.params)
    with pytest.raises(ValueError, match="--dtype bfloat16: only with --evaluator network"):
        PlayerConfig(dtype="bfloat16").check()


def test_conflicting_flags_are_named():
    with pytest.raises(
        ValueError, match=r"^--opponent\.search rave: only with --opponent\.evaluator"
    ):
        PlayerConfig(evaluator="network", search="rave").check("opponent.")
    with pytest.raises(
        ValueError, match="--playouts mogo: only with --evaluator playout; a network runs no"
    ):
        make_setup(RULES, PlayerConfig(evaluator="network", playouts="mogo"))
    with pytest.raises(
        ValueError, match="--leaves 500: expected from 1 to the 400 of --simulations"
    ):
        make_setup(RULES, PlayerConfig(leaves=500))
