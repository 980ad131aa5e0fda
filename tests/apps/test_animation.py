"""Animated games: what each board shows at each moment."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gozero.apps.animation import games_svg

SVG = "{http://www.w3.org/2000/svg}"


def seen_at(use, moment):
    """Whether a stone is visible at a fraction of the cycle, by SMIL's discrete animation rules."""
    animate = use.find(f"{SVG}animate")
    times = [float(x) for x in animate.get("keyTimes").split(";")]
    shown = animate.get("values").split(";")
    assert times[0] == 0
    assert times == sorted(times)
    assert animate.get("calcMode") == "discrete"
    assert len(times) == len(shown)
    return shown[sum(time <= moment for time in times) - 1] == "1"


@pytest.mark.parametrize("seed", range(3))
def test_each_moment_shows_the_boards_of_its_move(seed):
    rng = np.random.default_rng(seed)
    boards = rng.choice([-1, 0, 0, 1], size=(7, 5, 3, 3))
    root = ET.fromstring(games_svg(boards, columns=2, cell=10, seconds_per_move=1, pause=3))
    groups = [g for g in root.iter(f"{SVG}g") if g.get("transform")]
    assert len(groups) == 5
    for game, group in enumerate(groups):
        stones = [use for use in group.iter(f"{SVG}use") if use.get("href") in ("#b", "#w")]
        for move in range(7):
            board = np.zeros((3, 3), int)
            for use in stones:
                if seen_at(use, (move + 0.5) / 10):
                    col, row = float(use.get("x")) / 10 - 1, float(use.get("y")) / 10
                    board[int(row), int(col)] += 1 if use.get("href") == "#b" else -1
            assert (board == boards[move, game]).all()
        at_rest = [use for use in stones if use.get("opacity") != "0"]
        assert len(at_rest) == np.count_nonzero(boards[-1, game])


def test_boards_lie_in_rows_and_have_labels():
    boards = np.zeros((1, 3, 2, 2), int)
    root = ET.fromstring(games_svg(boards, labels=["B+1", "0", "<R>"], columns=2, cell=10))
    assert [t.text for t in root.iter(f"{SVG}text")] == ["B+1", "0", "<R>"]
    places = [g.get("transform") for g in root.iter(f"{SVG}g") if g.get("transform")]
    assert places == ["translate(0 10)", "translate(30 10)", "translate(0 52)"]
    assert (root.get("width"), root.get("height")) == ("60", "87")


@pytest.mark.parametrize(
    ("boards", "options", "complaint"),
    [
        (np.zeros((3, 3)), {}, "boards: shape"),
        (np.zeros((1, 2, 3, 4)), {}, "boards: shape"),
        (np.zeros((0, 2, 3, 3)), {}, "boards: shape"),
        (np.zeros((1, 2, 3, 3)), {"labels": ["one"]}, "labels: 1 labels for 2 games"),
        (np.zeros((1, 2, 3, 3)), {"columns": 0}, "columns"),
        (np.zeros((1, 2, 3, 3)), {"seconds_per_move": 0}, "seconds_per_move"),
    ],
)
def test_invalid_boards(boards, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        games_svg(boards, **options)
