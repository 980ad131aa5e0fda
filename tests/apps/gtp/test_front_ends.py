"""Further commands that front ends send: SGF files, KGS, KataGo, GoGui."""

import json
import re

import pytest

from gozero.apps import sgf
from gozero.apps.gtp import run as gtp
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from tests.apps.gtp.test_gtp import SMALL, moves, session


def responses_to(*lines: str) -> list[str]:
    return session("\n".join(lines))


def test_reg_genmove_plays_nothing():
    commands = ["play b C3", "reg_genmove w", "showboard", "clear_cache", "genmove w", "showboard"]
    responses = session("\n".join(commands), GtpConfig(size=5, search="random"))
    assert re.fullmatch(r"= [A-E][1-5]", responses[1])
    assert "Moves: 1 " in responses[2]
    assert responses[3] == "="
    assert "Moves: 2 " in responses[5]


def test_queries_about_the_engine():
    responses = session("komi 5.5\nget_komi\ncputime\ngogui-analyze_commands\n")
    assert responses[1] == "= 5.5"
    assert float(responses[2].removeprefix("= ")) > 0
    names = {"protocol_version", "known_command", "list_commands", "quit"}
    names |= set(gtp.commands(Engine(SMALL)))
    for line in responses[3].removeprefix("= ").splitlines():
        kind, label, command = line.split("/")
        assert kind in ("string", "hstring", "plist", "varc", "none")
        assert label
        assert command.split()[0] in names


def test_set_position():
    responses = responses_to(
        "play b A1", "set_position b C3 w C2 w B3", "showboard", "undo", "play w D3"
    )
    assert responses[1] == "="
    assert responses[2].count("X") == 1
    assert responses[2].count("O") == 2
    assert responses[3:] == ["? cannot undo", "="]
    responses = responses_to(
        "set_position", "set_free_handicap C3 D4", "set_position b A1", "fixed_handicap 2"
    )
    assert responses == ["=", "=", "=", "? board not empty"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("b", "syntax error: expected pairs"),
        ("x C3", "syntax error: x is not a colour"),
        ("b C3 w C3", "illegal position: it contains a point twice, or a pass"),
        ("b pass", "illegal position: it contains a point twice, or a pass"),
        ("b Z1", "illegal position: "),
        ("b A1 w A2 w B1", "illegal position: stones: Black's chain A1 has no liberty"),
    ],
)
def test_refused_positions_leave_the_board_unchanged(words, message):
    responses = session(f"play b C3\nset_position {words}\nplay w C3\n")
    assert responses[1].startswith(f"? {message}")
    assert responses[2] == "? illegal move: C3 is occupied"


def test_files_are_written_and_read(tmp_path):
    path = tmp_path / "game.sgf"
    game = ["komi 6.5", "set_position b C3 w A1", *moves("D4", "B2", "pass").splitlines()]
    responses = responses_to(
        *game, f"printsgf {path}", "printsgf -", "clear_board", f"loadsgf {path}", "printsgf"
    )
    assert responses[5] == "="
    assert responses[6] == responses[-1]
    record = sgf.read(path)
    assert sgf.read(responses[-1].removeprefix("= ").encode()) == record
    assert (record.size, record.komi, len(record.moves)) == (5, 6.5, 3)
    responses = responses_to(
        "boardsize 3", f"loadsgf {path} 2", "showboard", "get_komi", "undo", "undo"
    )
    assert "Moves: 1  Komi: 6.5" in responses[2]
    assert responses[3:] == ["= 6.5", "=", "? cannot undo"]
    again = [f"printsgf {path}", f"loadsgf {path}", "printsgf"]
    responses = responses_to("set_free_handicap C3 D4", "play w A1", *again)
    assert sgf.read(path).handicap == 2
    assert "HA[2]" in responses[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot load file: sgf .*: cannot be read .No such file"),
        ("(;SZ[5]", "cannot load file: sgf .*unexpected end"),
        ("(;SZ[5];B[aa];W[aa])", "cannot load file: move 2: A5 is occupied"),
        ("(;SZ[5]KM[6.3];B[aa])", "cannot load file: komi 6.3 is not"),
        ("(;SZ[26];B[aa])", "cannot load file: sgf .*is not a board size"),
    ],
)
def test_files_that_cannot_be_loaded(text, message, tmp_path):
    path = tmp_path / "game.sgf"
    if text is not None:
        path.write_text(text)
    before = ["boardsize 4", "komi 3", "set_free_handicap A1 D4", "play w B2"]
    responses = responses_to(*before, "showboard", f"loadsgf {path}", "showboard", "printsgf")
    assert re.match(rf"\? {message}", responses[5])
    assert responses[6] == responses[4]  # nothing has changed
    assert "SZ[4]" in responses[7]
    assert "KM[3]" in responses[7]
    assert "HA[2]" in responses[7]


def test_a_file_without_a_komi_leaves_the_engines(tmp_path):
    (tmp_path / "with.sgf").write_text("(;SZ[5]KM[0];B[aa])")
    (tmp_path / "without.sgf").write_text("(;SZ[5];B[aa])")
    names = [f"loadsgf {tmp_path}/{name}.sgf" for name in ("without", "with")]
    responses = responses_to("komi 4.5", names[0], "get_komi", names[1], "get_komi")
    assert responses[2::2] == ["= 4.5", "= 0"]


def test_a_file_with_too_many_passes_is_refused_at_once(tmp_path):
    path = tmp_path / "passes.sgf"
    path.write_text("(;SZ[5]" + ";B[];W[]" * 200 + ";B[])")
    responses = responses_to(
        "play b C3", f"loadsgf {path}", "play w C3", f"loadsgf {path} 3", "showboard"
    )
    assert responses[1] == "? cannot load file: 401 moves; expected at most 400 on 5x5"
    assert responses[2] == "? illegal move: C3 is occupied"  # the board is unchanged
    assert "Moves: 2 " in responses[4]


@pytest.mark.parametrize(
    ("text", "moves"), [("AB[aa]AW[bb]PL[W]", ""), ("AB[aa]", " 1"), ("", " 1"), ("PL[W]", " 1")]
)
def test_a_file_says_who_is_to_play(text, moves, tmp_path):
    """By PL, or by who plays next."""
    path = tmp_path / "white.sgf"
    path.write_text(f"(;SZ[5]{text};W[cc];B[dd])" if moves else f"(;SZ[5]{text})")
    responses = responses_to(
        f"loadsgf {path}{moves}", "showboard", "printsgf", "clear_board", "printsgf"
    )
    assert "White to play" in responses[1]
    assert "PL[W]" in responses[2]
    assert "PL" not in responses[4]


def test_files_that_cannot_be_written(tmp_path):
    (responses,) = responses_to(f"printsgf {tmp_path}/none/x.sgf")
    assert responses == "? cannot write file: No such file or directory"
    assert responses_to("loadsgf x 0")[0].startswith(
        "? syntax error: expected the number of a move"
    )


def rules_of(answer: str) -> tuple[str, bool]:
    rules = json.loads(answer.removeprefix("= "))
    return rules["ko"], rules["suicide"]


def test_rules():
    commands = [
        "kata-set-rules chinese",
        "kgs-rules new_zealand",
        'kata-set-rules {"ko": "SIMPLE"}',
        "kgs-rules chinese",
        "kgs-rules aga",
    ]
    lines = [line for one in commands for line in (one, "kata-get-rules")]
    responses = responses_to("kata-get-rules", *lines)
    assert responses[1::2] == ["="] * 5
    assert [rules_of(answer) for answer in responses[::2]] == [
        *(("POSITIONAL", False), ("SIMPLE", False), ("SITUATIONAL", True), ("SIMPLE", True)),
        *(("POSITIONAL", False), ("SITUATIONAL", False)),
    ]


@pytest.mark.parametrize(
    ("words", "ko", "suicide"),
    [
        ("new zealand", "SITUATIONAL", True),
        ("nz", "SITUATIONAL", True),
        ("BGA", "SITUATIONAL", False),
        ("tromp taylor", "POSITIONAL", True),
        ("{}", "POSITIONAL", True),
        ('{"ko": "SIMPLE", "whiteHandicapBonus": "N", "friendlyPassOk": true}', "SIMPLE", True),
    ],
)
def test_rules_by_the_names_of_katago(words, ko, suicide):
    responses = responses_to(f"kata-set-rules {words}", "kata-get-rules")
    assert (responses[0], rules_of(responses[1])) == ("=", (ko, suicide))


REFUSED = ["stone-scoring", "aga-button", '{"tax":"ALL"}', '{"komi":7}', '{"hasButton":true}']
REFUSED += ["japanese", "{", "[]", '{"ko": 3}', '{"scoring":"TERRITORY"}', '{"suicide":1}']
REFUSED += ['{"score":"TERRITORY"}', '{"friendlyPass":true}']


@pytest.mark.parametrize("words", [*REFUSED, "[" * 9000], ids=range(14))
def test_rules_that_are_refused(words):
    answer, rules = responses_to(f"kata-set-rules {words}", "kata-get-rules")
    assert answer.startswith(("? unknown rules", "? unsupported rules"))
    assert rules_of(rules) == ("POSITIONAL", False)


def test_rules_change_for_the_game_so_far():
    """White's second stone is suicide: refused by default. Once played, no rules may ban it."""
    around = moves("A2", "pass", "B2", "pass", "C1", "A1", "pass").splitlines()
    rules_texts = ('{"ko": "SIMPLE", "suicide": true}', '{"ko": "POSITIONAL", "suicide": false}')
    set_rules = [f"kata-set-rules {rules}" for rules in rules_texts]
    responses = responses_to(
        *around, "play w B1", set_rules[0], "play w B1", set_rules[1], "kata-get-rules"
    )
    responses = responses[len(around) :]
    assert responses[:3] == ["? illegal move: B1 is suicide", "=", "="]
    assert responses[3].endswith("is not legal under these rules: move 8: B1 is suicide")
    assert rules_of(responses[4]) == ("SIMPLE", True)


@pytest.mark.parametrize(
    ("words", "response"),
    [
        ("none", "="),
        ("absolute 60", "="),
        ("byoyomi 60 10 5", "="),
        ("canadian 0 300 25", "="),
        ("absolute 2147483647", "="),
        (
            "absolute 2147483648",
            "? syntax error: main time 2.14748e+09 is not from 0 to 2147483647",
        ),
        ("fischer 60", "? syntax error: expected none, absolute MAIN"),
        ("byoyomi 60 10", "? syntax error: expected none"),
        ("absolute x", "? syntax error: could not convert"),
        ("absolute nan", "? syntax error: main time nan"),
        ("canadian 1 1 inf", "? syntax error: cannot convert"),
    ],
)
def test_time_settings(words, response, monkeypatch):
    warmed = []
    monkeypatch.setattr(Engine, "_warm_up", lambda self: warmed.append(self.game_clock.limited))
    for name in ("kgs", "kata"):
        assert session(f"{name}-time_settings {words}\n")[0].startswith(response)
    assert warmed == [words != "none"] * 2 * (response == "=")


@pytest.mark.parametrize(
    ("words", "response"),
    [
        ("fischer 60 10", "="),
        ("Fischer 0 0.5", "="),
        ("fischer-capped 60 10 60 -1", "="),
        ("fischer-capped 60 10 -1 5", "="),
        ("fischer-capped 60 10 59 5", "? syntax error: 59 and 5 are no limits for 60 seconds"),
        ("fischer-capped 60 10 nan 5", "? syntax error: nan and 5 are no limits"),
        ("fischer 60 -1", "? syntax error: increment -1 is not from 0"),
        ("fischer-capped 60 10", "? syntax error: expected none, absolute MAIN, byoyomi"),
    ],
)
def test_fischers_time_settings(words, response, monkeypatch):
    monkeypatch.setattr(Engine, "_warm_up", lambda self: None)
    lines = [f"{name}-time_settings {words}" for name in ("kata", "kgs")]
    katas, kgs, kinds = responses_to(*lines, "kata-list_time_settings")
    assert katas.startswith(response)
    assert kgs.startswith("? syntax error: expected none, absolute MAIN, byoyomi MAIN PERIOD")
    assert kinds == "= none absolute byoyomi canadian fischer fischer-capped"


def test_the_rules_in_use_are_those_of_the_file():
    used = ["chinese", "aga", "nz", "tromp-taylor", '{"ko":"SIMPLE","suicide":true}']
    lines = [line for name in used for line in (f"kata-set-rules {name}", "printsgf")]
    files = responses_to("printsgf", *lines)[::2]
    names = ["Chinese", "Chinese", "AGA", "NZ", "Tromp-Taylor", "area, simple ko, suicide"]
    assert [sgf.read(text.removeprefix("= ").encode()).rules for text in files] == names


def test_one_rule_is_set():
    lines = ["kata-set-rule ko situational", "kata-set-rule suicide TRUE", "kata-get-rules"]
    lines += ["kata-set-rule suicide false", "kata-set-rule scoring AREA", "kata-get-rules"]
    lines += ["kata-set-rule tax ALL", "kata-set-rule ko SPIGHT", "kata-set-rule colour red"]
    lines += ["kata-set-rule whiteHandicapBonus N", "kata-set-rule whiteHandicapBonus 0"]
    responses = responses_to(*lines)
    assert responses[:2] + responses[3:5] == ["="] * 4
    rules = [rules_of(responses[i]) for i in (2, 5)]
    assert rules == [("SITUATIONAL", True), ("SITUATIONAL", False)]
    assert responses[6].startswith("? unsupported rules")
    assert responses[7:] == [
        "? ko must be SIMPLE, POSITIONAL or SITUATIONAL",
        "? Unknown rules option: colour",
        "=",
        "=",
    ]


@pytest.mark.thorough
def test_white_gets_points_for_handicap_stones():
    """As in KataGo: as many as there are stones under Chinese rules, and one less under AGA's."""
    start = ["komi 1", "kata-set-rules chinese", "set_free_handicap A1 E5 C3"]
    game = [*start, "play w pass", "play b pass", "final_score", "kata-get-rules", "get_komi"]
    again = ["kata-set-rules aga", "final_score", "komi 0.5", "final_score"]
    none = ["kata-set-rule whiteHandicapBonus 0", "final_score"]
    responses = responses_to(*game, *again, *none, "clear_board", "final_score")
    assert responses[5] == "= B+21"  # 25 - 1 - 3
    assert json.loads(responses[6][2:])["whiteHandicapBonus"] == "N"
    assert responses[7] == "= 1"
    assert responses[9::2] == ["= B+22", "= B+22.5", "= B+24.5", "= W+0.5"]
    responses = responses_to("komi 1000", *start[1:], "showboard")  # the highest komi
    assert responses[-1].startswith("=\n")


def test_other_rules_compile_before_the_clock_runs(monkeypatch):
    warmed = []
    monkeypatch.setattr(Engine, "_warm_up", lambda self: warmed.append((self.ko, self.suicide)))
    session("time_settings 60 0 0\nkata-set-rules tromp-taylor\n")
    assert len(warmed) == 2
    assert warmed[1][1], "multi-stone suicide, by the new rules"


def test_dead_stones_by_playouts():
    """White's stone stands in Black's area, where it has one liberty and cannot make two eyes.
    With it Black has 23 points and White 1, without it Black has all 25."""
    commands = [f"final_status_list {status}" for status in ("dead", "alive", "seki", "x")]
    commands += ["komi 0.5", "final_score"]
    responses = responses_to("set_position b D1 b D2 b D3 b D4 b D5 b E3 w E1", *commands)
    assert responses[1] == "= E1"
    assert set(responses[2].split()) == {"=", "D1", "D2", "D3", "D4", "D5", "E3"}
    assert responses[3:] == ["=", "? syntax error: x is not alive, dead or seki", "=", "= B+24.5"]
