"""Analysis commands: their arguments, the lines they print, and how soon they end."""

import io
import itertools
import math
import os
import re
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.apps.analysis import search as analysis
from gozero.apps.gtp import analyst as gtp_analyst
from gozero.apps.gtp import analyze, protocol
from gozero.apps.gtp import run as gtp
from gozero.apps.gtp import search as gtp_search
from gozero.apps.gtp.analyst import Analyst, Reports
from gozero.apps.gtp.analyze import AnalyzeOptions
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.apps.gtp.protocol import Command, GtpFailure
from gozero.apps.restricted import RestrictedState
from gozero.go import rules as go
from gozero.go import symmetry
from gozero.play import setups
from gozero.runs import memory
from gozero.search.config import SearchConfig
from gozero.search.game import Evaluator
from gozero.search.rules.puct import Puct
from tests.apps.test_analysis import _search_view
from tests.search.evaluators import hash_evaluate, observe_position

RULES = go.Rules(3, "simple", max_moves=400)  # quick to compile
WHOLE = "avoid b A1,pass 3 minmoves 2 maxmoves 5 interval 7 pvVisits true ownershipStdev true"


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        ("lz", "", AnalyzeOptions()),
        ("lz", "b", AnalyzeOptions(0)),
        ("kata", "W 50", AnalyzeOptions(1, 0.5)),
        ("kata", "0", AnalyzeOptions(interval=0.01)),
        ("kata", "B ownership true", AnalyzeOptions(0, ownership=True)),
        ("kata", "rootInfo TRUE movesOwnership false", AnalyzeOptions(root_info=True)),
        ("kata", WHOLE, AnalyzeOptions(None, 0.07, 2, 5, ((0, (6, 9), 3),), pv_visits=True)),
        ("lz", "w allow w A1,B1 1", AnalyzeOptions(1, avoid=((1, (0, 1, 2, 3, 4, 5, 8, 9), 1),))),
    ],
)
def test_arguments_are_parsed(kind, words, expected):
    assert analyze.parse_options(3, kind, tuple(words.split())) == expected


def test_genmove_without_an_interval_reports_only_at_the_end():
    for words, interval in (("", 9), ("maxmoves 5", 9), ("b 50", 0.5), ("interval 7", 0.07)):
        assert analyze.parse_options(3, "lz", tuple(words.split()), interval=9).interval == interval


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("lz", "ownership true", "unknown key ownership"),
        ("kata", "red", "unknown key red"),
        ("kata", "b b", "unknown key b"),
        ("kata", "ownership", "ownership must be true or false"),
        ("kata", "interval x", "x is not an interval in hundredths of a second"),
        ("kata", "1e9x", "1e9x is not an interval"),
        ("kata", "interval inf", "inf is not an interval"),
        ("kata", "minmoves -1", "minmoves must be a number, not -1"),
        ("kata", "maxmoves", "maxmoves must be a number, not nothing"),
        ("kata", "avoid b A1", "expected avoid COLOUR VERTEX"),
        ("kata", "avoid b A9 1", "invalid vertex 'A9'"),
        ("kata", "avoid red A1 1", "red is not a colour"),
        ("kata", "allow b A1 1 allow w A1 1", "allow can be given only once, and not with avoid"),
        ("kata", "allow b A1 1 avoid w A1 1", "allow can be given only once, and not with avoid"),
    ],
)
def test_invalid_arguments_are_refused(kind, words, message):
    with pytest.raises(GtpFailure, match=re.escape(message)):
        analyze.parse_options(3, kind, tuple(words.split()))


def test_the_memory_of_an_analysis_is_told(capsys):
    """Before its first search, which makes its tree."""
    config = GtpConfig(size=3, simulations=4, analysis_visits=8)
    assert Analyst(go.Rules(3), config, lambda: 0.0)._searches.settings.num_simulations == 8
    assert "gozero gtp: to analyse, a tree of 9 nodes: " in capsys.readouterr().err


LZ = (
    "info move A3 visits 3 winrate 7500 prior 1000 lcb 2561 order 0 pv A3 B3 pass "
    "info move B3 visits 1 winrate 2500 prior 1000 lcb 146 order 1 pv B3"
)


def test_lines_of_leela_zero():
    line = lambda **asked: analyze.info_line(3, "lz", AnalyzeOptions(**asked), 0, _search_view())
    assert line() == LZ
    assert line(most=1) == LZ.partition(" info")[0]
    third = " info move C3 visits 0 winrate 6250 prior 1000 lcb 833 order 2 pv C3"
    assert line(least=3) == LZ + third
    nothing = _search_view()._replace(visits=np.zeros(10, int))
    assert (
        analyze.info_line(3, "lz", AnalyzeOptions(ownership=True, root_info=True), 0, nothing) == ""
    )


def test_katago_lines_are_for_the_player_to_move():
    everything = AnalyzeOptions(
        ownership=True, moves_ownership=True, pv_visits=True, root_info=True
    )
    for colour, sign in ((0, 1), (1, -1)):
        line = analyze.info_line(3, "kata", everything, colour, _search_view())
        first, second, rest = line.split("info ")[1:2] + line.split("info ")[2].split(" rootInfo ")
        assert first.startswith("move A3 visits 3 edgeVisits 3 utility 0.500000 winrate 0.750000 ")
        assert f" scoreLead {-3 * sign:.6f} " in first
        assert " pv A3 B3 pass pvVisits 3 2 1 movesOwnership " in first
        assert f" scoreLead {4 * sign:.6f} " in second
        root, owners = rest.split(" ownership ")
        assert root.startswith("visits 5 utility 0.250000 winrate 0.625000 ")
        assert [float(x) for x in owners.split()] == pytest.approx(
            list(sign * np.linspace(-1, 1, 9))
        )


def test_sabaki_finds_the_variation_at_the_end_of_a_move():
    line = analyze.info_line(3, "kata", AnalyzeOptions(ownership=True), 0, _search_view())
    line = line[: line.index("ownership")]
    moves = [part.strip() for part in re.split(r"\s*info\s+", line)[1:]]
    variations = [re.search(r"(pass|[A-Za-z]\d+)(\s+(pass|[A-Za-z]\d+))*$", one) for one in moves]
    assert [one[0] for one in variations] == ["A3 B3 pass", "B3"]
    assert [one.string[: one.start()].split()[-1] for one in variations] == ["pv", "pv"]


# --- lines that arrive meanwhile -------------------------------------------------------


class Pipe:
    """A server for a table of commands, whose input a test sends line by line."""

    def __init__(self, table, **more):
        read, write = os.pipe()
        self.out, self.ends = io.StringIO(), os.fdopen(write, "wb", buffering=0)
        self._in = os.fdopen(read, "rb")
        work = lambda: protocol.serve(table, self._in, self.out, io.StringIO(), **more)
        self._thread = threading.Thread(target=work)
        self._thread.start()

    def send(self, line):
        self.ends.write(line.encode() + b"\n")

    def end(self):
        self.ends.close()
        self._thread.join(20)
        self._in.close()
        assert not self._thread.is_alive()
        return self.out.getvalue()


def until_interrupted(talk):
    talk.begin()
    talk.say("info")
    began.set()
    assert talk.is_interrupted(20)
    return ""


def until_stopped(talk):
    began.set()
    while not talk.is_stopped():
        assert not talk.is_interrupted(0.001) or more.is_set()
        if talk.is_interrupted():
            seen.set()
    return "D4"


began, seen, more = threading.Event(), threading.Event(), threading.Event()
TALKING = {
    "analyze": Command(until_interrupted, talks=True),
    "genmove": Command(until_stopped, talks=True),
    "stop": Command(lambda: ""),
    "bad": Command(lambda talk: (talk.begin(), 1 / 0), talks=True),
}


@pytest.mark.parametrize("line", ["", "2 name", "# said"])
def test_any_line_ends_an_analysis(line):
    began.clear()
    pipe = Pipe(TALKING)
    pipe.send("1 analyze")
    assert began.wait(20)
    pipe.send(line)
    responses = pipe.end()
    assert responses == "=1\ninfo\n\n" + ("?2 unknown command\n\n" if "name" in line else "")


@pytest.mark.parametrize("stop", ["stop", "# interrupt"])
def test_move_choice_ends_only_when_stopped(stop):
    for event in (began, seen, more):
        event.clear()
    pipe = Pipe(TALKING)
    pipe.send("1 genmove")
    assert began.wait(20)
    more.set()
    pipe.send("2 known_command stop")
    assert seen.wait(20)
    assert pipe.out.getvalue() == ""
    pipe.send(stop)
    answered = "=1 D4\n\n=2 true\n\n"
    assert pipe.end() == answered + ("=\n\n" if stop == "stop" else "")


def test_a_started_answer_is_always_finished():
    out, err = io.StringIO(), io.StringIO()
    protocol.serve(TALKING, io.BytesIO(b"3 bad\nknown_command bad\n"), out, err)
    assert out.getvalue() == "=3\n\n= true\n\n"
    assert "ZeroDivisionError" in err.getvalue()


def test_idle_work_ends_when_a_line_arrives_and_may_fail():
    idled = []

    def idle(is_interrupted):
        idled.append(0)
        while not is_interrupted():
            pass
        raise RuntimeError("no more")

    out, err = io.StringIO(), io.StringIO()
    read, write = os.pipe()
    threading.Timer(
        0.02, lambda: (os.write(write, b"known_command x\nquit\n"), os.close(write))
    ).start()
    with os.fdopen(read, "rb") as stream:
        protocol.serve({}, stream, out, err, idle)
    assert out.getvalue() == "= false\n\n=\n\n"
    assert idled
    assert "pondering: internal error: RuntimeError: no more" in err.getvalue()


# --- with a fake clock ------------------------------------------------------------------


class FakeSearches:
    """Fake `Searches` that take a second for 250 steps."""

    settings = SearchConfig(num_simulations=1_000)

    def __init__(self):
        self.now, self.chunks = 0.0, []

    def begin(self, number, asked):
        return 0, None

    def advance(self, running, steps):
        self.now += steps / 250
        self.chunks.append(steps / 250)
        return running + steps

    def analyse(self, running):
        visits = np.array([[running] + [0] * 9])
        zero = np.zeros((1, 10))
        lines = np.full((1, 1, 2), -1)
        return analysis.Analysis(
            visits, zero, zero, np.zeros(1), np.ones(1), np.zeros((1, 1), int), lines, lines
        )


class FakeTalk:
    """A fake `Talk` to which a line is sent at the time `when`."""

    def __init__(self, slow, when):
        self._slow, self._when = slow, when

    def is_interrupted(self, seconds=0.0):
        self._slow.now += seconds
        return self._slow.now >= self._when

    def until(self, is_done):
        return True


@pytest.mark.parametrize("when", [0.0, 0.35, 2.0, 9.0])
def test_an_analysis_runs_in_chunks_and_reports_in_time(when):
    slow, shown = FakeSearches(), []
    analyst = Analyst(go.Rules(3), GtpConfig(size=3), lambda: slow.now)
    analyst.__dict__["_searches"] = slow
    show = lambda run_commands: shown.append((slow.now, int(run_commands.visits[0])))
    analyst.analyse(None, 1, Reports(0.5, False, show), FakeTalk(slow, when))
    assert when <= slow.now <= when + 0.1 or when > 4.0
    assert max(slow.chunks, default=0) <= 0.1
    times = [now for now, _ in shown]
    assert len(shown) == pytest.approx(when / 0.5, abs=1)
    assert all(0.45 <= later - now < 0.65 for now, later in itertools.pairwise(times))
    visits = [visits for _, visits in shown]
    assert visits == sorted(visits)
    if when == 9.0:  # all simulations are done
        assert visits[-1] >= 1_000
        assert slow.now == pytest.approx(9.0, abs=0.5)


def test_the_final_position_is_analysed(monkeypatch):
    """As if the passes that ended the game had not been played."""
    one, seen = Engine(GtpConfig(size=3)), []
    analyst = types.SimpleNamespace(analyse=lambda state, *_: seen.append(state.state))
    monkeypatch.setattr(type(one.searches), "analyst", analyst)
    for colour, action in ((0, 4), (1, 9), (0, 9)):
        one.game.play(colour, action)
    one.analyse(1, np.zeros((2, 10), np.int32), None, FakeTalk(FakeSearches(), 2.0))
    (state,) = seen
    assert one.game.ended
    assert (int(state.position.passes), bool(state.ended), int(state.to_play)) == (0, False, 1)


def by_stones(rules, *_):
    """A forecast by hand: Black leads by the sum of 1, ..., 9 over the points of his stones."""

    def forecast(key, states):
        stones = jax.vmap(lambda s: go.position_stones(rules, s.position))(states).reshape(-1, 9)
        return ((stones == 1) @ jnp.arange(1, 10)).astype(jnp.float32), stones.astype(jnp.float32)

    return forecast


@pytest.mark.thorough
def test_every_visited_move_is_forecast(monkeypatch):
    """Three at a time; a second report forecasts only what is new."""
    evaluator = Evaluator(hash_evaluate(10, 1.0, 0.2), None, observe_position, Puct())
    setup = lambda rules, config, seed: setups.Setup(evaluator, SearchConfig(config.simulations))
    monkeypatch.setattr(analysis, "make_setup", setup)
    monkeypatch.setattr(analysis, "forecast", by_stones)
    monkeypatch.setattr(analysis, "DETAILED", 3)
    searches = analysis.Searches(RULES, GtpConfig(size=3, simulations=40), 0, 1)
    calls, forecast = [], searches._forecast_after
    searches._forecast_after = lambda *args: calls.append(0) or forecast(*args)
    state = jax.device_get(go.init(RULES))
    restricted = RestrictedState(state, np.zeros((2, 10), np.int32))
    running, games = searches.begin(1, [restricted])
    running = searches.advance(running, 40)
    full = searches.analyse_fully(running, games)
    visited = np.flatnonzero(full.visits[0])
    assert len(visited) > 6
    np.testing.assert_array_equal(full.leads[0, visited], np.where(visited == 9, 0, visited + 1))
    assert len(calls) == -(-len(visited) // 3)
    searches.analyse_fully(running, games, full)
    assert len(calls) == -(-len(visited) // 3) + 1


def test_moves_without_a_forecast_have_no_score(monkeypatch):
    monkeypatch.setattr(gtp_analyst, "forecast", by_stones)
    outlook = gtp_analyst.Outlook(RULES, GtpConfig(size=3))
    state = jax.device_get(go.init(RULES))
    outlook.begin(state)
    searched = analysis.Analysis(*(x[0] for x in FakeSearches().analyse(0)))
    visits = np.array([0, 2, 0, 0, 7, 0, 0, 0, 0, 1])
    searched = searched._replace(visits=visits, actions=np.array([4]))
    scores = []
    for _ in range(4):
        full = outlook.add_forecasts(searched)
        line = analyze.info_line(3, "kata", AnalyzeOptions(), 1, full)
        scores.append([re.findall(r"scoreLead (\S+)", part) for part in line.split("info ")[1:]])
        outlook.learn(searched)
    five, two, none = ["-5.000000"], ["-2.000000"], []
    zero = ["-0.000000"]
    assert scores == [[none] * 3, [five, none, none], [five, two, none], [five, two, zero]]
    assert not outlook.learn(searched)


# --- small searches --------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine():
    """An engine that evaluates by a hash, and predicts that Black owns everything."""
    evaluator = Evaluator(hash_evaluate(10, 1.0, 0.2), None, observe_position, Puct())
    setup = lambda rules, config, seed: setups.Setup(evaluator, SearchConfig(config.simulations))
    everything = lambda key, states: (np.full(1, 2.0), np.ones((1, 9)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gtp_search, "make_setup", setup)
        patch.setattr(analysis, "make_setup", setup)
        patch.setattr(analysis, "forecast", lambda *_: everything)
        patch.setattr(gtp_analyst, "forecast", lambda *_: everything)
        patch.setattr(Engine, "_rules", lambda self: RULES)
        yield Engine(GtpConfig(size=3, simulations=40, analysis_visits=100, reuse=False))


def run_commands(engine, *lines):
    out = io.StringIO()
    protocol.serve(gtp.commands(engine), io.BytesIO("\n".join(lines).encode()), out)
    return out.getvalue().split("\n\n")[:-1]


@pytest.mark.thorough
def test_reports_do_not_change_the_move(engine):
    played = run_commands(engine, "genmove b", "undo", "clear_cache")[0]
    engine._num_searches -= 1
    for kind in ("lz", "kata"):
        lines = run_commands(engine, f"5 {kind}-genmove_analyze b 1", "undo")[0].splitlines()
        engine._num_searches -= 1
        assert lines[0] == "=5"
        assert lines[-1] == f"play {played.removeprefix('= ')}"
        assert len(lines) >= 3
        assert re.match(r"info move \w+ visits \d+ ", lines[-2])
        visits = [int(x) for x in re.findall(r"visits (\d+)", lines[-2])]
        assert sum(visits) == 40
    assert " scoreLead 2.000000 " in lines[-2]


@pytest.mark.slow  # to compile
def test_a_move_avoids_the_listed_moves(engine):
    engine.clear()
    response = run_commands(
        engine, "kata-genmove_analyze w allow w B2,C1 1 ownership true", "undo"
    )[0]
    assert set(re.findall(r"move (\w+)", response)) <= {"B2", "C1"}
    assert re.search(r"\nplay (B2|C1)$", response)
    assert response.count(" -1.000000") == 9  # Black owns all points


def test_a_pass_to_avoid_is_not_played_where_it_wins():
    engine = Engine(GtpConfig(size=3))
    engine.searches.searcher, engine.searches.avoiding_searcher = "any", "avoiding"
    for colour, action in ((0, 4), (1, 9)):
        engine.game.play(colour, action)
    assert engine.game.wins_by_passing(0)
    avoid = np.zeros((2, 10), np.int32)
    assert engine.searcher_for(0, None) is None
    assert engine.searcher_for(0, avoid) is None
    avoid[0, 9] = 1
    assert engine.searcher_for(0, avoid) == "avoiding"
    engine.game.play(0, 9)
    assert engine.searcher_for(1, avoid) is None  # the game has ended


def test_a_player_that_ponders_can_avoid_moves():
    """Its tree is for one search, as nothing to ponder is kept."""
    config = GtpConfig(size=3, simulations=8, ponder=True)
    searcher = gtp_search.make_searcher(go.Rules(3), config, avoids=True)
    assert searcher._begin() is None


@pytest.mark.slow  # to compile
def test_an_analysis_reports_until_a_line_arrives(engine):
    shown = threading.Event()

    class Out(io.StringIO):
        def write(self, text):
            if text.startswith("info"):
                shown.set()
            return super().write(text)

    read, write = os.pipe()
    os.write(write, b"kata-analyze b 1 ownership true minmoves 20\n")

    def send():
        shown.wait(60)
        os.write(write, b"name\nquit\n")
        os.close(write)

    threading.Thread(target=send).start()
    out = Out()
    engine.clear()
    with os.fdopen(read, "rb") as stream:
        protocol.serve(gtp.commands(engine), stream, out)
    first, name, _ = out.getvalue().split("\n\n")[:3]
    assert first.startswith("=\ninfo move ")
    assert name == "= gozero"
    line = first.splitlines()[1]
    assert len(re.findall("info move", line)) == 10
    assert len(line.partition(" ownership ")[2].split()) == 9


@pytest.mark.parametrize("words", ["b", "b avoid b A1 1"])
def test_a_search_that_cannot_be_made_is_a_failure(words, monkeypatch):
    """Without the `=` of a success before it."""
    monkeypatch.setattr(memory, "of_device", lambda num_devices: 1000)
    one = Engine(GtpConfig(size=3, simulations=40))
    for kind in ("lz", "kata"):
        (response,) = run_commands(one, f"7 {kind}-genmove_analyze {words}")
        assert re.match(r"\?7 a tree of \d+ nodes: .*; but there are only", response)


def test_players_without_a_tree_play_without_reports():
    one = Engine(GtpConfig(size=3, search="random"))
    responses = run_commands(
        one, "lz-analyze", "kata-genmove_analyze b 10", "kata-genmove_analyze b avoid b A1 1"
    )
    assert responses[0] == "? cannot analyze: search random has no tree to report"
    assert re.fullmatch(r"=\nplay [A-C][1-3]", responses[1])
    assert responses[2] == "? cannot avoid moves: the player does not search a tree"


@pytest.mark.slow  # to compile
def test_a_raw_network(engine, tmp_path):
    from gozero.nets import network, weights
    from gozero.nets.network import NetworkConfig

    assert run_commands(engine, "kata-raw-nn 0") == [
        "? cannot evaluate: the player has no weights file"
    ]
    shape = NetworkConfig(blocks=1, channels=4, auxiliary=True)
    params = network.init(shape, jax.random.key(0))
    path = weights.save(tmp_path / "net.safetensors", params, shape, 3)
    one = Engine(GtpConfig(evaluator="network", weights=path))
    plain, turned, all_ = run_commands(
        one, "play b A1", "kata-raw-nn 0", "kata-raw-nn 5", "kata-raw-nn all"
    )[1:]
    assert all_.removeprefix("= ").startswith(plain.removeprefix("= ") + "\nsymmetry 1\n")
    assert turned.removeprefix("= ") in all_
    words = plain.removeprefix("= ").split()
    assert words[:2] == ["symmetry", "0"]
    at = {word: i for i, word in enumerate(words) if not re.fullmatch(r"-?[\d.]+|nan", word)}
    policy = [float(x) for x in words[at["policy"] + 1 : at["policyPass"]]]
    assert [math.isnan(x) for x in policy] == [False] * 6 + [True, False, False]
    total = np.nansum(policy) + float(words[at["policyPass"] + 1])
    assert total == pytest.approx(1, abs=1e-5)
    assert float(words[at["whiteWin"] + 1]) + float(words[at["whiteLoss"] + 1]) == pytest.approx(1)
    assert len(words) - at["whiteOwnership"] == 10


def test_symmetries_have_katagos_numbers(monkeypatch):
    """The board as the network sees it, turned over by hand: 1 flips y, 2 x, and 4 transposes."""
    expected = ["abcdefghi", "ghidefabc", "cbafedihg", "ihgfedcba"]
    expected += ["adgbehcfi", "gdahebifc", "cfibehadg", "ifchebgda"]
    seen = lambda self, k, **_: {"x": [symmetry.map_points(3, np.arange(9), k)]}
    monkeypatch.setattr(Engine, "raw_network", seen)
    one = Engine(GtpConfig(size=3))
    (all_,) = run_commands(one, "kata-raw-nn all")
    (sixth,) = run_commands(one, "kata-raw-nn 6")
    boards = all_.removeprefix("= ").split("symmetry ")[1:]
    assert [board[0] for board in boards] == [*"01234567"]
    letters = ["".join("abcdefghi"[int(float(x))] for x in b.split()[2:]) for b in boards]
    assert letters == expected
    assert sixth == f"= symmetry {boards[6]}".rstrip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("8", "expected a symmetry from 0 to 7, or all"),
        ("b", "expected a symmetry from 0 to 7, or all"),
        ("w all 1.5", "1.5 is no optimism from 0 to 1"),
        ("0 nan", "nan is no optimism from 0 to 1"),
        ("0 0.5 b", "b is one word too many"),
    ],
)
def test_bad_words_for_a_raw_network(engine, words, message):
    assert run_commands(engine, f"kata-raw-nn {words}") == [f"? syntax error: {message}"]
