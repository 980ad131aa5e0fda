"""KaTrain's own engine class drives ``gozero analyze --json``: it reviews a game and plays one.

Slow, and only where KaTrain is installed (``pip install katrain``; tested with 1.20.0).
"""

import os
import shlex
import sys
import time

import pytest

from gozero.apps import sgf
from gozero.go import coords

pytestmark = pytest.mark.slow
MOVES = "E5 G2 D3 B6 E2 E3 F3 G5 G4 H5 H4 G8 C7 C6 D6"


@pytest.fixture(scope="module")
def katrain(tmp_path_factory):
    """KaTrain without its GUI."""
    with pytest.MonkeyPatch.context() as patch:
        home = str(tmp_path_factory.mktemp("kivy"))
        for name in ("KIVY_NO_ARGS", "KIVY_NO_CONSOLELOG", "KIVY_NO_FILELOG"):
            patch.setenv(name, "1")
        patch.setenv("KIVY_HOME", home)
        base = pytest.importorskip("katrain.core.base_katrain")

        class Headless(base.KaTrainBase):
            def __init__(self):
                super().__init__(force_package_config=True, debug_level=0)
                self.log_lines: list[tuple] = []

            def log(self, message, level=0):
                if hasattr(self, "log_lines"):  # the base class logs in its __init__
                    self.log_lines.append((level, str(message)))

            def __call__(self, *arguments, **options):
                self.log_lines.append((-1, str(arguments)))

            def update_state(self, *arguments, **options):
                pass

        yield Headless()


@pytest.fixture(scope="module")
def engine(katrain):
    from katrain.core.engine import KataGoEngine

    command = [sys.executable, "-m", "gozero.apps.cli", "analyze", "--json"]
    command += ["--search", "rave", "--simulations", "60", "--batch", "8", "--score-playouts", "4"]
    settings = {"backend": "custom", "altcommand": shlex.join(command), "max_visits": 60}
    settings |= {"fast_visits": 25, "max_time": 60.0, "wide_root_noise": 0.0}
    settings |= {"_enable_ownership": True, "allow_recovery": False}
    engine = KataGoEngine(katrain, dict(katrain.config("engine")) | settings)
    yield engine
    engine.shutdown(finish=None)


def wait_until(done, seconds=300):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_game_is_reviewed(katrain, engine, tmp_path):
    from katrain.core.game import Game, KaTrainSGF

    moves = tuple((i % 2, coords.from_gtp(9, vertex)) for i, vertex in enumerate(MOVES.split()))
    path = tmp_path / "game.sgf"
    sgf.write(path, sgf.GameRecord(9, 7.0, moves, rules="Japanese"))
    game = Game(katrain, engine, move_tree=KaTrainSGF.parse_file(os.fspath(path)))
    wait_until(engine.is_idle)
    node, reviewed = game.root, 0
    while node.children:
        node = node.children[0]
        assert node.analysis_complete
        assert 0 <= node.winrate <= 1
        assert node.candidate_moves
        assert len(node.analysis["ownership"]) == 81
        assert len(node.analysis["policy"]) == 82
        reviewed += 1
    assert reviewed == len(moves)


def test_a_game_is_played(katrain, engine):
    from katrain.core.ai import generate_ai_move
    from katrain.core.constants import AI_DEFAULT
    from katrain.core.game import Game

    game = Game(katrain, engine, game_properties={"SZ": 9, "KM": 7.0, "RU": "chinese"})
    for _ in range(10):
        wait_until(lambda: game.current_node.analysis_complete)
        generate_ai_move(game, AI_DEFAULT, {})
    assert game.current_node.depth == 10
    assert not [message for level, message in katrain.log_lines if level == -1]
