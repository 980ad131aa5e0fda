"""GTP's time control and resignation, with fake clocks."""

from __future__ import annotations

import io

import jax.numpy as jnp
import pytest

from gozero.apps import flags
from gozero.apps.gtp import (
    engine as gtp_engine,
)
from gozero.apps.gtp import (
    protocol as gtp_protocol,
)
from gozero.apps.gtp import (
    run as gtp,
)
from gozero.apps.gtp import (
    search as gtp_search,
)
from gozero.apps.gtp.clock import GameClock, Increment
from gozero.apps.gtp.config import GtpConfig
from gozero.go import rules as go
from gozero.play import setups
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.puct import Puct
from tests.search.evaluators import hash_evaluate


class Clock:
    """A clock that advances `tick` seconds at each look."""

    def __init__(self, tick=0.0):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


class FakeSearcher:
    """A searcher that only records the time that it is given."""

    def __init__(self, engine, thinks=0.0):
        self.engine, self.thinks, self.asked, self.resigns = engine, thinks, [], False
        self.warmed = 0

    def warm_up(self):
        self.warmed += 1

    def search(self, state, colour, number, played, seconds, look):
        self.asked.append(seconds)
        self.engine.clock.now += self.thinks
        free = [p for p in range(81) if p not in [a for _, a in self.engine.game.moves]]
        return gtp_search.SearchedMove(free[0], 0.0, True, self.resigns)


def session(engine, *lines):
    out = io.StringIO()
    gtp_protocol.serve(gtp.commands(engine), io.BytesIO("\n".join(lines).encode()), out)
    return out.getvalue().split("\n\n")[:-1]


def thinking(thinks=0.0, **settings):
    engine = gtp_engine.Engine(GtpConfig(**settings), Clock())
    engine.searches.searcher = FakeSearcher(engine, thinks)
    return engine, engine.searcher


def test_remaining_time_is_divided_by_expected_moves():
    engine, fake_searcher = thinking()
    responses = session(
        engine,
        "genmove b",  # no limit
        "time_settings 300 0 0",
        "clear_board",
        "genmove b",
        "genmove w",
        "time_left b 30 0",
        "genmove b",
        "time_left b 30 3",
        "genmove b",
        "time_left w 0 0",
        "genmove w",
        "time_settings 0 30 0",  # means no limit in GTP
        "genmove b",
    )
    assert not [answer for answer in responses if answer.startswith("?")]
    expected = [300 / (60.75 / 2), 300 / (59.75 / 2), 30 / (58.75 / 2), 10.0, 0.0]
    assert fake_searcher.asked[0] is None
    assert fake_searcher.asked[1:-1] == pytest.approx([0.95 * x for x in expected])
    assert fake_searcher.asked[-1] is None


@pytest.mark.parametrize("settings", [(0, 1, 0), (0, 0, 0)])
def test_time_left_sets_no_limit_where_there_is_none(settings):
    clock = GameClock()
    clock.set_left(0, 30.0, 0)
    assert clock.limited, "no settings were sent"
    clock.set(*settings)
    clock.set_left(0, 0.0, 0)
    clock.reset()
    clock.set_left(0, 0.0, 0)
    assert not clock.limited
    clock.set(60, 0, 0)
    clock.set_left(0, 10.0, 0)
    assert clock.for_move(0, 81, 60) == pytest.approx(0.95)


def test_max_time_limits_each_move():
    engine, fake_searcher = thinking(seconds=5.0)
    session(
        engine, "genmove b", "time_settings 300 0 0", "genmove w", "time_left b 9 9", "genmove b"
    )
    assert fake_searcher.asked == pytest.approx([5.0, 5.0, 8.5 / 9])


def test_fischers_increment_is_added_after_each_move():
    """On 81 points after 60 moves, (81 * 0.75 - 60) / 2 moves are to come: at least 10."""
    clock = GameClock()
    seconds = lambda: clock.for_move(0, 81, 60)
    clock.set(100.0, 0.0, 0, Increment(6.0))
    assert seconds() == pytest.approx(95 / 10 + 6)
    clock.spend(0, 90.0)  # 16 are left, of which a twentieth is the reserve
    assert seconds() == pytest.approx(15.2 / 10 + 6)
    clock.spend(0, 14.0)  # 8 are left
    assert seconds() == pytest.approx(7.5 / 10 + 6)
    clock.spend(0, 7.5)  # 6.5 are left: no more can be spent
    assert seconds() == pytest.approx(6.0)
    clock.set_left(0, 1.0, 0)
    assert seconds() == pytest.approx(0.5)
    clock.set(20.0, 0.0, 0, Increment(6.0, cap=22.0, longest_move=7.0))
    clock.spend(0, 1.0)  # 25 would be left
    assert seconds() == 7.0
    clock.spend(0, 13.0)  # 15 are left of 22
    assert seconds() == 7.0
    clock.spend(0, 13.0)  # 8 are left
    assert seconds() == pytest.approx(7.5 / 10 + 6)
    clock.set(0.0, 0.0, 0, Increment(6.0))
    assert clock.limited
    assert seconds() == 0.0
    clock.spend(0, 0.1)
    assert seconds() == pytest.approx(5.5)


def test_the_engine_keeps_time_without_time_left():
    clock = GameClock()
    clock.set(20.0, 30.0, 2)
    seconds = lambda: clock.for_move(0, 81, 60)
    assert seconds() == pytest.approx(0.95 * 15)  # the time for each stone in the first period
    clock.spend(0, 15.0)
    clock.spend(0, 8.0)  # exceeds the main time
    assert seconds() == pytest.approx(0.95 * 15)
    clock.spend(0, 20.0)
    assert seconds() == pytest.approx(0.95 * 10)  # one stone more
    clock.spend(0, 9.0)
    assert seconds() == pytest.approx(0.95 * 15)  # the next period
    clock.reset()
    assert clock.for_move(0, 361, 0) == pytest.approx(0.95 * 15)
    clock.set(1000.0, 0.0, 0)
    clock.spend(1, 990.0)
    assert clock.for_move(1, 81, 80) == pytest.approx(0.95)
    assert clock.for_move(0, 81, 80) == pytest.approx(95)
    clock.set_left(0, -0.2, 0)  # some controllers report negative times
    assert clock.for_move(0, 81, 80) == 0
    clock.set(60.0, 30.0, 1)  # KGS: three periods left, of one stone each
    clock.set_left(0, 30.0, 3)
    assert clock.for_move(0, 81, 0) == pytest.approx(0.95 * 30)
    clock.spend(0, 12.0)
    assert clock.for_move(0, 81, 2) == pytest.approx(0.95 * 30)
    engine, fake_searcher = thinking(thinks=100.0)
    session(engine, "time_settings 200 0 0", *["genmove b", "genmove w"] * 3)
    assert fake_searcher.asked[-1] == fake_searcher.asked[-2] == 0


def test_half_of_a_short_period_is_reserved():
    clock = GameClock()
    clock.set(0.0, 0.4, 1)
    assert clock.for_move(0, 81, 0) == pytest.approx(0.2)
    clock.set(1.0, 4.0, 4)
    assert clock.for_move(0, 81, 0) == pytest.approx(3.5 / 4)
    clock.set_left(0, 4.0, 4)
    assert clock.for_move(0, 81, 0) == pytest.approx(3.5 / 4)
    clock.set_left(0, 1.2, 1)
    assert clock.for_move(0, 81, 0) == pytest.approx(0.7)


def test_measured_lag_increases_the_reserve():
    clock = GameClock()
    clock.set(0.0, 1.0, 1)
    clock.spend(0, 0.45, 0.5)
    assert clock.for_move(1, 81, 0) == pytest.approx(0.5)
    clock.spend(0, 0.7, 0.5)  # lateness counts for both colours
    assert clock.for_move(1, 81, 0) == pytest.approx(1 - 3 * 0.2 - 0.2)
    clock.spend(1, 0.2, 0.2)
    assert clock.for_move(0, 81, 0) == pytest.approx(1 - 4 * 0.18)
    clock.spend(1, 0.9)  # no time was given: lateness is unknown
    assert clock.for_move(0, 81, 0) == pytest.approx(0.5 - 0.162)
    clock.spend(0, 30.0, 0.2)
    assert clock.for_move(0, 81, 0) == 0.0
    assert clock._delay == 1.0
    for _ in range(30):
        clock.spend(0, 0.05, 0.1)
    assert clock.for_move(0, 81, 0) == pytest.approx(0.5 - 0.9**30)
    engine, fake_searcher = thinking(thinks=0.9)
    session(engine, "time_settings 0 1 1", *["genmove b", "genmove w"] * 3)
    assert fake_searcher.asked == [0.5, *[0.0] * 5]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("time_settings 300 0", "expected time_settings MAIN_TIME BYO_YOMI_TIME BYO_YOMI_STONES"),
        ("time_settings -1 0 0", "main time -1 is not from 0 to 2147483647"),
        ("time_settings 1 3e9 0", "byo-yomi time 3e+09 is not from 0 to 2147483647"),
        ("time_settings 1 2 1.5", "1.5 is not a number of stones"),
        ("time_left b soon 0", "soon is not a number of seconds"),
        ("time_left b nan 0", "nan is not a number of seconds"),
        ("time_left red 1 0", "red is not a colour; expected b, w, black or white"),
        ("time_left b 1 -1", "stones -1 is not from 0 to 2147483647"),
    ],
)
def test_invalid_arguments_are_refused_and_change_nothing(line, answer):
    engine, fake_searcher = thinking()
    assert session(engine, line, "genmove b")[0] == f"? syntax error: {answer}"
    assert fake_searcher.asked == [None]


def test_resignation_is_an_answer_but_not_a_move():
    engine, fake_searcher = thinking()
    fake_searcher.resigns = True
    responses = session(engine, "genmove b", "showboard")
    assert responses[0] == "= resign"
    assert responses[1].endswith("Moves: 0  Komi: 7  Black to play")


def test_flags():
    config = flags.parse(GtpConfig, ["--seconds", "2.5", "--resign", "-0.95"], prog="gozero gtp")
    assert (config.seconds, config.resign) == (2.5, -0.95)


def evaluate_as_lost(params, key, observations):
    """Lost for the player to move at even depths, won at odd ones: lost for the root's player."""
    evaluation = hash_evaluate(10, 1.0, 0.0)(params, key, observations)
    return Evaluation(evaluation.prior_logits, jnp.where(observations % 2 == 0, -0.99, 0.99))


def observe_depth(context, position, ancestors):
    return ancestors.length.astype(jnp.uint32)


@pytest.fixture(scope="module")
def lost():
    """(a searcher of a game that Black has lost, whatever it does; its clock)."""
    setup = setups.Setup(
        Evaluator(evaluate_as_lost, None, observe_depth, Puct()),
        SearchConfig(num_simulations=60),
    )
    config, clock = GtpConfig(size=3, simulations=60, resign=-0.9), Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gtp_search, "make_setup", lambda *_: setup)
        searcher = gtp_search.TreeSearcher(go.Rules(3, "simple", max_moves=400), config, clock)
    return searcher, clock


@pytest.mark.slow  # to compile
def test_a_time_limit_ends_the_search_and_keeps_its_tree(lost):
    searcher, clock = lost
    rules = go.Rules(3, "simple", max_moves=400)
    state = go.init(rules)
    clock.tick = 0.0
    result = searcher.search(state, 0, 1, None, 100.0)
    assert result.resigns
    assert result.ok
    assert result.value < -0.9
    in_all = int(searcher._kept.visits[0])
    assert 17 < in_all <= 61
    clock.tick = 1.0
    result = searcher.search(state, 0, 2, None, 1.0)
    assert int(searcher._kept.visits[0]) == 17  # one chunk
    state = go.play(rules, state, result.action)
    other = searcher.search(state, 1, 3, [result.action], 1.0)
    assert int(searcher._kept.visits[0]) > 17  # the kept tree counts
    assert not other.resigns
    assert searcher._timed._advance.jitted._cache_size() == 1


def test_compilation_happens_before_the_clock_starts():
    engine, fake_searcher = thinking()
    session(engine, "clear_board", "komi 7", "boardsize 9")
    assert fake_searcher.warmed == 0  # no clock: compiling at the first genmove is soon enough
    session(engine, "time_settings 300 0 0")
    assert fake_searcher.warmed == 1
    session(engine, "clear_board", "boardsize 9", "genmove b")
    assert fake_searcher.warmed == 3
    session(engine, "time_settings 0 30 0", "clear_board")
    assert fake_searcher.warmed == 3
