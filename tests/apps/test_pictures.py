"""The picture of a board: well-formed, with everything in its place."""

import xml.etree.ElementTree as ET

import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps import pictures as svg

SVG = "{http://www.w3.org/2000/svg}"
STONES = np.zeros((9, 9), np.int8)
STONES[0, 0] = STONES[4, 4] = STONES[8, 2] = 1
STONES[2, 8] = STONES[4, 5] = -1


def draw(stones=STONES, **kwargs):
    return ET.fromstring(svg.board_svg(stones, **kwargs))


def circles(root, name):
    elements = root.iter(f"{SVG}circle")
    return [(float(c.get("cx")), float(c.get("cy"))) for c in elements if c.get("class") == name]


def texts(root):
    return [element.text for element in root.iter(f"{SVG}text")]


def test_stones_lie_on_their_points():
    root = draw(cell=10)
    assert sorted(circles(root, "black")) == [(10, 0), (30, 80), (50, 40)]
    assert sorted(circles(root, "white")) == [(60, 40), (90, 20)]
    for circle in root.iter(f"{SVG}circle"):
        assert (circle.get("fill") == svg.WHITE) == (circle.get("class") == "white")


@pytest.mark.parametrize(("size", "letters"), [(9, "ABCDEFGHJ"), (19, "ABCDEFGHJKLMNOPQRST")])
def test_coordinates_leave_out_i(size, letters):
    words = texts(draw(np.zeros((size, size), int)))
    assert "".join(word for word in words if word.isalpha()) == letters
    assert [int(word) for word in words if word.isdigit()] == list(range(size, 0, -1))


@pytest.mark.parametrize(
    ("size", "count"), [(2, 0), (4, 0), (5, 1), (7, 5), (8, 4), (9, 5), (13, 9), (18, 4), (19, 9)]
)
def test_star_points_are_symmetric(size, count):
    stars = set(svg.star_points(size))
    assert len(stars) == count
    assert {(size - 1 - row, col) for row, col in stars} == stars
    assert {(col, row) for row, col in stars} == stars


def test_star_points_of_19():
    assert set(svg.star_points(19)) == {(r, c) for r in (3, 9, 15) for c in (3, 9, 15)}


def test_visits_are_shaded_and_counted():
    visits = np.zeros(82, int)
    visits[[1, 40 + 2, 81]] = 10, 1234, 7
    root = draw(visits=visits, cell=10)
    assert circles(root, "visits") == [(20, 0), (70, 40)]
    shades = [
        float(c.get("fill-opacity")) for c in root.iter(f"{SVG}circle") if c.get("fill-opacity")
    ]
    assert shades[0] < shades[1] == 1
    assert {"10", "1.2k", "pass: 7 of 1251 visits"} <= set(texts(root))


def test_a_game_may_have_no_pass():
    """As 9x9 with a pass of no visits, but nothing is said of it."""
    visits = np.zeros(81, int)
    visits[[1, 80]] = 10, 30
    root = draw(visits=visits, policy=visits / 40, cell=10)
    assert circles(root, "visits") == [(20, 0), (90, 80)]
    assert {"10", "30", "25%", "75%"} <= set(texts(root))
    assert not [one for one in texts(root) if "pass" in one]


def test_values_are_percentages_of_wins_above_the_visits():
    visits, values = np.zeros(82, int), np.zeros(82)
    visits[[1, 3]], values[[1, 3]] = (10, 20), (-1.0, 0.5)
    root = draw(visits=visits, values=values, cell=10)
    elements = {
        element.text: float(element.get("y"))
        for element in root.iter(f"{SVG}text")
        if float(element.get("x")) in (20, 40) and -5 < float(element.get("y")) < 5
    }
    assert set(elements) == {"0%", "10", "75%", "20"}
    assert elements["0%"] < elements["10"]


def squares(root, name):
    """(centre x, centre y, side) of the squares of a class."""
    elements = [r for r in root.iter(f"{SVG}rect") if r.get("class") == name]
    numbers = [[float(r.get(key)) for key in ("x", "y", "width")] for r in elements]
    return [(round(x + w / 2, 3), round(y + w / 2, 3), round(w, 3)) for x, y, w in numbers]


def test_a_policy_is_squares_with_percentages():
    policy = np.zeros(82)
    policy[[0, 10, 11, 81]] = 0.6, 0.3, 0.005, 0.095
    root = draw(policy=policy, cell=10)
    assert [place[:2] for place in squares(root, "policy")] == [(10, 0), (20, 10)]
    assert {"60%", "30%", "pass: 10%"} <= set(texts(root))
    assert "0%" not in texts(root)


def test_ownership_is_squares_in_the_owners_colour():
    ownership = np.zeros(81)
    ownership[[0, 4, 8]] = 1.0, 0.01, -0.5
    root = draw(ownership=ownership, cell=10)
    assert squares(root, "blacks") == [(10, 0, 4)]
    assert squares(root, "whites") == [(90, 0, 2)]
    assert svg.board_svg(STONES, ownership=ownership.reshape(9, 9)) == svg.board_svg(
        STONES, ownership=ownership
    )


def test_numbers_and_variations():
    numbers = np.zeros((9, 9), int)
    numbers[0, 0], numbers[4, 5] = 11, 12
    root = draw(numbers=numbers, variation=[1, 81, 2, 1], to_play=1, cell=10)
    ink = {t.text: t.get("fill") for t in root.iter(f"{SVG}text") if not t.text.isalpha()}
    assert (ink["11"], ink["12"]) == (svg.WHITE, svg.BLACK)
    assert circles(root, "variation") == [
        (20, 0),
        (30, 0),
    ]  # White's, and after a pass White's again
    ghosts = [c for c in root.iter(f"{SVG}circle") if c.get("class") == "variation"]
    assert [c.get("fill") for c in ghosts] == [svg.WHITE, svg.WHITE]
    padded = svg.board_svg(STONES, variation=jnp.array([1, 81, -1, -1]), crossed=jnp.array([3]))
    assert padded == svg.board_svg(STONES, variation=[1, 81], crossed=[3])


def test_a_board_of_numbers():
    board = svg.number_board(np.array([[1, 0, 130], [0, 2, 0], [-5, 0, 0]]))
    assert board.splitlines()[1:4] == [
        " 3    1   . 130 3",
        " 2    .   2   . 2",
        " 1   -5   .   . 1",
    ]
    with pytest.raises(ValueError, match="numbers: shape"):
        svg.number_board(np.zeros(9))


def test_no_visits_at_all():
    assert circles(draw(visits=np.zeros(82)), "visits") == []


def test_the_last_move_is_marked():
    assert circles(draw(last_move=40, cell=10), "last") == [(50, 40)]
    passed = draw(last_move=81)
    assert circles(passed, "last") == []
    assert "last move: pass" in texts(passed)


def test_text_is_escaped():
    root = draw(title='<script>"a" & b</script>')
    assert '<script>"a" & b</script>' in texts(root)
    assert not list(root.iter(f"{SVG}script"))


def test_everything_lies_within_the_picture():
    for options in ({}, {"title": "t"}, {"title": "t", "last_move": 81}):
        root = draw(np.ones((9, 9), int), cell=20, **options)
        top = float(root.find(f"{SVG}g").get("transform").split()[1].rstrip(")"))
        width, height = float(root.get("width")), float(root.get("height"))
        for element in [*root.iter(f"{SVG}text"), *root.iter(f"{SVG}circle")]:
            x, y = (element.get(n) or element.get("c" + n) for n in "xy")
            assert 0 < float(x) < width
            assert 0 < top + float(y) < height


def test_a_notebook_displays_it():
    board = svg.board_svg(STONES)
    assert board._repr_svg_() == board
    assert isinstance(board, str)


@pytest.mark.parametrize(
    ("stones", "options", "complaint"),
    [
        (np.zeros((3, 4)), {}, "stones: shape"),
        (np.zeros(9), {}, "stones: shape"),
        (np.zeros((26, 26)), {}, "stones: shape"),
        (np.full((3, 3), 2), {}, "stones: expected"),
        (STONES, {"visits": np.zeros(80)}, r"visits: shape \(80,\), expected \(82,\)"),
        (
            STONES,
            {"visits": np.zeros(81), "policy": np.zeros(82)},
            r"policy: shape \(82,\), expected \(81,\)",
        ),
        (STONES, {"policy": np.zeros(81), "crossed": [81]}, "crossed: 81 is not .* 0 to 80"),
        (STONES, {"last_move": 82}, "last_move: 82"),
        (STONES, {"values": np.zeros(82)}, "values: shown only with visits"),
        (STONES, {"policy": np.full(82, np.nan)}, "policy: expected finite numbers"),
        (STONES, {"ownership": np.zeros(82)}, r"ownership: shape \(82,\), expected \(81,\)"),
        (STONES, {"numbers": np.zeros(81)}, r"numbers: shape \(81,\), expected \(9, 9\)"),
        (STONES, {"variation": [3, 82]}, "variation: 82 is not an action from 0 to 81"),
    ],
)
def test_invalid_boards(stones, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        svg.board_svg(stones, **options)


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999"), (1000, "1.0k"), (9999, "9.9k"), (12345, "12k"), (2_100_000, "2.1M")],
)
def test_short_counts(count, text):
    assert svg._short_count(count) == text
