"""How notebooks display states, searches and matches, and the picture of a search tree."""

import functools
import subprocess
import sys
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.apps import notebook, tree_picture
from gozero.go import coords
from gozero.play.arena import NO_ONE, MatchResult

SVG = "{http://www.w3.org/2000/svg}"
RULES = gozero.Rules(size=3, ko="simple")


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def after(*vertices):
    state = gozero.init(RULES, komi=1.0)
    for vertex in vertices:
        state = gozero.play(RULES, state, jnp.int32(coords.from_gtp(3, vertex)))
    return state


def batch(*states):
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


@pytest.fixture(scope="module")
def searched():
    game, evaluator = gozero.go_game(RULES), gozero.playout_evaluator(RULES)
    config = gozero.SearchConfig(num_simulations=24, select=evaluator.select)
    states = batch(after(), after("B2"))
    run = jax.jit(lambda s, k: gozero.search(game, evaluator, k, s, config))
    return run(states, jax.random.key(0))


def test_a_state_is_shown_as_its_board():
    assert "White to play" in texts(notebook.state_svg(after("B2")))
    assert "The game is over" in texts(notebook.state_svg(after("B2", "pass", "pass")))
    many = ET.fromstring(notebook.state_svg(batch(*[after("B2")] * 20)))
    assert many.find(f"{SVG}title").text == "16 of 20 games"
    assert sum(use.get("href") == "#b" for use in many.iter(f"{SVG}use")) == 16
    assert notebook.state_svg(jax.eval_shape(after)) is None


def test_a_search_is_shown_as_visits_and_values(searched):
    for index, player in enumerate(("Black", "White")):
        svg = notebook.search_svg(searched, index)
        visits = np.asarray(searched.visits[index])
        percent = 50 * (1 + float(searched.value[index]))
        assert f"{player} to play: {percent:.0f}%" in texts(svg)
        assert f"pass: {visits[-1]} of {visits.sum()} visits" in texts(svg)
        drawn = [c for c in ET.fromstring(svg).iter(f"{SVG}circle") if c.get("class") == "visits"]
        assert len(drawn) == np.count_nonzero(visits[:-1])


def test_a_tree_has_the_nodes_of_the_search(searched):
    for index in range(2):
        root = tree_picture.node_of(searched.tree, index, depth=2, width=10)
        visits, q = np.asarray(searched.visits[index]), np.asarray(searched.q[index])
        assert {c.action: c.visits for c in root.children} == {
            a: visits[a] for a in np.flatnonzero(visits)
        }
        for child in root.children:
            assert child.value == pytest.approx(q[child.action], abs=1e-6)
            assert child.visits == 1 + sum(below.visits for below in child.children)
        assert [c.visits for c in root.children] == sorted(visits[visits > 0].tolist())[::-1]
        assert root.value == pytest.approx(float(searched.value[index]), abs=1e-6)
    name = functools.partial(coords.to_gtp, 3)
    best = root.children[0]
    svg = tree_picture.tree_svg(searched.tree, 1, name=name, depth=1)
    assert {"root", name(best.action), str(best.visits)} <= set(texts(svg))
    with pytest.raises(ValueError, match="index: 2 is not from 0 to 1"):
        tree_picture.node_of(searched.tree, 2)


def test_a_match_is_shown_as_its_games():
    actions = np.array([[4, 0], [1, 9], [-1, 9]], np.int16)
    match = MatchResult(
        first_colour=np.zeros(2, np.int8),
        score=np.array([3.5, -1.0]),
        outcome=np.ones(2, np.int8),
        plies=np.array([2, 3]),
        truncated=np.zeros(2, bool),
        resigned=np.array([1, NO_ONE], np.int8),
        ok=np.ones(2, bool),
        actions=actions,
        start=jax.device_get(batch(after(), after())),
        opening_plies=0,
    )
    assert texts(notebook.match_svg(match)) == ["B+R", "W+1"]
    boards = notebook.replay(3, match.start.position, actions)
    assert boards.shape == (4, 2, 3, 3)
    assert boards[:, 0, 1, 1].tolist() == [0, 1, 1, 1]
    assert boards[2:, 0, 0, 1].tolist() == [-1, -1]


def test_replay_takes_prisoners():
    moves = [coords.from_gtp(3, vertex) for vertex in ["A2", "A1", "B1"]]
    boards = notebook.replay(3, batch(after()).position, np.array(moves)[:, None])
    assert boards[2, 0, 2, 0] == -1
    assert boards[3, 0, 2, 0] == 0


def test_ipython_displays_them_automatically():
    program = """if True:
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        import gozero, sys
        assert "jax" not in sys.modules
        state = gozero.init(gozero.Rules(size=3))
        data, _ = shell.display_formatter.format(state)
        assert data["image/svg+xml"].startswith("<svg "), data
    """
    subprocess.run([sys.executable, "-c", program], check=True)
