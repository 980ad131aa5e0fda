"""The page in headless Chromium: a game played by clicks, a review, watched games, a phone.

With ``GOZERO_SCREENSHOTS=DIR`` its screenshots are kept in DIR.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from sgfmill import sgf as sgfmill

from tests.apps.web.served import served

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright is installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
]

SIZE = 5
GAME = "(;FF[4]SZ[5]KM[0.5]PB[A<b>]PW[B]RE[B+R];B[cc];W[aa]C[<i>far away</i>];B[bc];W[ee];B[cb])"
WAIT = 600_000  # milliseconds: enough for a search to compile


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page served by the command; any console message or error fails the tests."""
    watched = tmp_path_factory.mktemp("games")
    (watched / "1.sgf").write_text(GAME)
    flags = ("--player", "random", "--size", str(SIZE), "--komi", "0.5", "--visits", "64")
    with (
        served(tmp_path_factory.mktemp("web"), *flags, "--watch", str(watched)) as (address, _),
        playwright.sync_playwright() as started,
    ):
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(WAIT)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.goto(address)
        yield page
        browser.close()
        assert wrong == []


def status(page, words):
    page.locator(".status", has_text=words).wait_for()


def click(page, at):
    box = page.locator(".board svg").bounding_box()
    cells = 2 * 0.95 + SIZE - 1
    across, down = (box["width"] * (0.95 + i) / cells for i in (at % SIZE, at // SIZE))
    page.mouse.click(box["x"] + across, box["y"] + down)


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def stones(page):
    elements = page.locator(".board [data-at]").all()
    return {int(one.get_attribute("data-at")) for one in elements}


def picture(page, name):
    if folder := os.environ.get("GOZERO_SCREENSHOTS"):
        page.screenshot(path=pathlib.Path(folder) / f"{name}.png")


def test_a_game_is_played_to_its_end_by_clicks(page):
    status(page, "Black to play")
    for move in range(60):
        page.mouse.move(1, 1)
        free = [at for at in range(SIZE * SIZE) if at not in stones(page)]
        before = page.locator(".status").inner_text()
        if move > 8 or not free:
            button(page, "Pass").click()
        else:
            click(page, free[len(free) // 2])
        page.wait_for_timeout(100)
        if page.locator(".error").count():  # such as suicide: then pass
            button(page, "Close this message").click()
            button(page, "Pass").click()
        page.locator(".status", has_not_text=before).wait_for()
        page.locator(".status", has_text="thinks").wait_for(state="detached")
        if "wins by" in page.locator(".status").inner_text():
            break
    assert "points" in page.locator(".status").inner_text()
    picture(page, "game")


def test_undo_and_variations(page):
    button(page, "New game").click()
    page.locator("select[name=white]").select_option("you")
    page.get_by_role("button", name="Start").click()
    status(page, "Black to play")
    page.locator(".stone-b").first.wait_for(state="detached")
    click(page, 12)
    status(page, "Move 1, Black C3")
    click(page, 7)
    status(page, "Move 2, White C4")
    button(page, "Undo").click()
    status(page, "Move 1")
    click(page, 6)
    status(page, "Move 2, White B4")
    assert page.locator(".tree circle").count() == 4
    page.locator(".tree circle").nth(2).click()
    status(page, "Move 2, White C4")
    page.keyboard.press("ArrowLeft")
    status(page, "Move 1")
    picture(page, "variations")
    with page.expect_download() as saved:
        button(page, "Save SGF").click()
    root = sgfmill.Sgf_game.from_bytes(pathlib.Path(saved.value.path()).read_bytes()).get_root()
    assert [node.get_move() for node in root[0]] == [("w", (3, 2)), ("w", (3, 1))]


def test_a_game_is_reviewed(page, tmp_path):
    (tmp_path / "game.sgf").write_text(GAME)
    with page.expect_file_chooser() as chooser:
        button(page, "Open SGF").click()
    chooser.value.set_files(tmp_path / "game.sgf")
    page.locator(".players", has_text="A<b>").wait_for()
    page.get_by_role("button", name="Review the game").click()
    page.locator(".graph polyline").wait_for()
    page.locator(".status", has_text="positions").wait_for(state="detached")
    page.locator(".mistakes li").first.click()
    page.locator(".cross").wait_for()
    picture(page, "review")
    for name, kind in (
        ("Policy", "rect.policy"),
        ("Territory", "rect.owner"),
        ("Moves", "circle.visits"),
    ):
        button(page, name).click()
        page.mouse.move(1, 1)
        page.locator(f".board {kind}").first.wait_for()
        picture(page, name)
    page.locator(".all").evaluate(  # faster than the server answers
        """(all) => ["Home", "ArrowRight", "ArrowRight"].forEach((key) =>
             all.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))"""
    )
    page.locator(".comment", has_text="<i>far away</i>").wait_for()


def test_the_result_of_a_record_is_not_that_of_a_variation(page, tmp_path):
    (tmp_path / "game.sgf").write_text(GAME.replace("A<b>", "recorded"))
    with page.expect_file_chooser() as chooser:
        button(page, "Open SGF").click()
    chooser.value.set_files(tmp_path / "game.sgf")
    page.locator(".players", has_text="recorded").wait_for()
    page.locator(".all").press("End")
    status(page, "Black wins by resignation")
    page.locator(".all").press("Home")
    status(page, "Black to play")
    click(page, 6)
    status(page, "Move 1, Black B4. White to play")
    assert "wins" not in page.locator(".status").inner_text()


def test_games_are_watched(page):
    button(page, "Watch").click()
    page.get_by_role("dialog").get_by_role("button", name="Watch").click()
    page.locator(".mini", has_text="1 B+R").wait_for()
    page.get_by_role("button", name="Back to the board").click()
    button(page, "Watch").click()
    page.locator("select[name=what]").select_option("selfplay")
    page.locator("select[name=player]").select_option("random")
    page.get_by_role("dialog").get_by_role("button", name="Watch").click()
    page.locator(".mini", has_text="move 12").first.wait_for()
    picture(page, "watched")
    page.locator(".mini").nth(3).click()
    status(page, "Move 1")


def test_the_module_is_a_widget_of_a_notebook(page):
    """anywidget's `render`, with a model that answers as a kernel would."""
    sent = page.evaluate("""async () => {
      const module = await import("./board.js"), listeners = [], sent = [];
      const el = document.createElement("div");
      document.body.append(el);
      const model = { send: (said) => sent.push(said), on: (_, f) => listeners.push(f) };
      module.default.render({ model, el });
      const tell = (message) => listeners.forEach((f) => f(message));
      const game = { size: 2, komi: 0.5 }, nodes = [[-1, 0, -1], [0, 0, 3]];
      tell({ tell: "hello", players: ["random"], player: "random", sizes: [2, 25], ...game });
      tell({ tell: "game", nodes, hands: [true, true], ...game });
      tell({ tell: "at", node: 1, stones: "...X", turn: 1, ended: false, engine: false });
      await new Promise((done) => setTimeout(done, 300));
      const stones = el.firstChild.shadowRoot.querySelectorAll(".board [data-at]").length;
      el.remove();
      return [stones, ...sent.map((message) => message.do)];
    }""")
    assert sent == [1, "hello", "new"]


def test_a_phone_in_the_dark(page):
    context = page.context.browser.new_context(
        **{"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
        **{"device_scale_factor": 2, "has_touch": True, "is_mobile": True},
    )
    phone = context.new_page()
    phone.goto(page.url)
    status(phone, "Black to play")
    assert phone.evaluate("() => document.documentElement.scrollWidth") <= 390
    button(phone, "Analysis").click()
    phone.set_default_timeout(WAIT)
    phone.locator(".found td").first.wait_for()
    picture(phone, "phone")
    context.close()
