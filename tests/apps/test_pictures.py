"""The picture of a board: well-formed, and everything on it where it belongs."""

import xml.etree.ElementTree as ET

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
    found = root.iter(f"{SVG}circle")
    return [(float(c.get("cx")), float(c.get("cy"))) for c in found if c.get("class") == name]


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


def test_everything_lies_in_the_picture():
    for options in ({}, {"title": "t"}, {"title": "t", "last_move": 81}):
        root = draw(np.ones((9, 9), int), cell=20, **options)
        top = float(root.find(f"{SVG}g").get("transform").split()[1].rstrip(")"))
        width, height = float(root.get("width")), float(root.get("height"))
        for element in [*root.iter(f"{SVG}text"), *root.iter(f"{SVG}circle")]:
            x, y = (element.get(n) or element.get("c" + n) for n in "xy")
            assert 0 < float(x) < width
            assert 0 < top + float(y) < height


def test_a_notebook_shows_it():
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
        (STONES, {"visits": np.zeros(81)}, r"visits: shape \(81,\), expected \(82,\)"),
        (STONES, {"last_move": 82}, "last_move: 82"),
    ],
)
def test_what_is_no_board(stones, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        svg.board_svg(stones, **options)


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999"), (1000, "1.0k"), (9999, "9.9k"), (12345, "12k"), (2_100_000, "2.1M")],
)
def test_short_counts(count, text):
    assert svg._short(count) == text
