"""SGF: files round-trip, sgfmill can replay them, and bad files give one clear error."""

import os
import random

import pytest
from sgfmill import boards
from sgfmill import sgf as sgfmill

from gozero.apps import sgf
from tests.reference.go import ReferenceGame

SHORT = sgf.GameRecord(
    size=3,
    komi=0.5,
    moves=((0, 4), (1, 1), (0, 9), (1, 9)),
    result="B+7.5",
    black="A]b\\c",
    white="Ünï 碁",
    comment="two\nlines: [x]",
)


def random_record(size: int, seed: int) -> sgf.GameRecord:
    rng, game, moves = random.Random(seed), ReferenceGame(size), []
    for _ in range(2 * size * size):
        legal = [p for p, is_legal in enumerate(game.legal()) if is_legal]
        moves.append((len(moves) % 2, rng.choice(legal)))
        game.play(moves[-1][1])
    comments = tuple(f"move {i}" if i % 3 == 0 else "" for i in range(len(moves)))
    return sgf.GameRecord(size, -7.5, tuple(moves), "W+R", move_comments=comments)


def test_the_text_is_unchanged():
    version = sgf.__version__
    assert sgf.to_sgf(SHORT).replace("\n(;", "(;") == (
        f"(;FF[4]AP[gozero:{version}]C[two\nlines: [x\\]]CA[UTF-8]GM[1]KM[0.5]PB[A\\]b\\\\c]"
        "\nPW[Ünï 碁]RE[B+7.5]RU[Chinese]SZ[3];B[bb];W[ba];B[];W[])\n"
    )


@pytest.mark.parametrize("made", [lambda: SHORT, lambda: random_record(19, 2)])
def test_round_trip(made, tmp_path):
    record = made()
    path = tmp_path / "game.sgf"
    sgf.write(path, record)
    assert sgf.read(path) == sgf.read(str(path)) == sgf.read(path.read_bytes()) == record
    assert [file.name for file in tmp_path.iterdir()] == ["game.sgf"]
    sgf.write(path, record)
    assert sgf.read(path) == record


@pytest.mark.parametrize("size", [2, 9, 19])
def test_sgfmill_replays_it(size):
    record = random_record(size, 7)
    game = sgfmill.Sgf_game.from_bytes(sgf.to_sgf(record).encode())
    assert (game.get_size(), game.get_komi(), game.get_winner()) == (size, -7.5, "w")
    board, reference = boards.Board(size), ReferenceGame(size)
    for colour, action in record.moves:
        reference.to_play = 1 - 2 * colour
        reference.play(action)
    for node in game.get_main_sequence()[1:]:
        colour, point = node.get_move()
        if point is not None:
            board.play(*point, colour)
    values = {"b": 1, "w": -1, None: 0}
    from_the_top = [(row, col) for row in reversed(range(size)) for col in range(size)]
    assert [values[board.get(*point)] for point in from_the_top] == reference.board


def test_files_of_other_programs():
    read = sgf.read(
        b"noise (;GM[1]SZ[3]KM[375]RU[chinese];C[no move here]PL[B];B[tt]C[x]LB[aa:1]"
        b"(;W[aa];B[])(;W[bb]))(;GM[1])"
    )
    assert read.komi == 7.5
    assert read.moves == ((0, 9), (1, 0), (0, 9))
    assert read.comment == "no move here"
    assert read.move_comments == ("x", "", "")
    assert read.result == "?"
    assert read.first_player == 0
    bare = sgf.read(b"(;B[aa])")
    assert (bare.size, bare.komi, bare.moves) == (19, 0.0, ((0, 0),))
    empty = sgf.read(b"(;SZ[9]KM[]HA[]GM[];B[])")
    assert (empty.komi, empty.handicap, empty.moves) == (0.0, 0, ((0, 81),))
    assert sgf.read("(;CA[GB18030]PB[柯洁])".encode("gb18030")).black == "柯洁"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no SGF"),
        (b"(;SZ[9];B[aa]", "unexpected end"),
        (b"(;SZ[9];B[bb];AB[aa])", "set up or removed .* after move 1; expected this only before"),
        (b"(;SZ[9]AB[aa]AW[aa])", "different points"),
        (b"(;SZ[9]AB[tt])", "sgf: AB, AW or AE names what"),
        (b"(;SZ[9]HA[two])", "HA.two. is not a number"),
        (b"(;SZ[9];B[aa];AE[aa])", "after move 1"),
        (
            b"(;SZ[1])",
            r"SZ\[1\] is not a board size; expected 2 to 25 points on a side, as in SZ\[19\]",
        ),
        (b"(;SZ[26])", r"SZ\[26\] is not a board size"),
        (b"(;SZ[])", r"SZ\[\] is not a board size; expected 2 to 25"),
        (b"(;SZ[9:13])", r"SZ\[9:13\]: the board is not square"),
        (b"(;SZ[:])", r"SZ\[:\] is not a board size"),
        (b"(;SZ[9:9:9])", "not square"),
        (b"(;SZ[9]AB[aa:bb]AE[bb])", "AE names points of AB or AW"),
        (b"(;SZ[x])", "SZ"),
        (b"(;SZ[9]GM[2])", "a game other than Go"),
        (b"(;SZ[9]KM[lots])", r"KM\[lots\] is not a number; expected one as in KM\[6.5\]"),
        (b"(;SZ[9]KM[nan])", "KM|komi"),
        (b"(;SZ[9];B[jj])", "move 1: .*'jj'"),
        (b"(;SZ[9];B[aa];W[a])", "move 2"),
        (b"(;SZ[9];B[aa]W[bb])", "both colours"),
        (b"(;SZ[9];B[aa];W[bb][cc])", "move 2 has two points"),
        (b"(;SZ[9]AB[zz])", "AB, AW or AE names what is not a point of 9x9"),
        (b"(;SZ[9]AE[a])", "AB, AW or AE names what is not a point of 9x9"),
    ],
)
def test_bad_files_are_one_clear_line(data, message):
    with pytest.raises(ValueError, match=message) as caught:
        sgf.read(data)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("sgf: ")


def test_repeated_properties_lose_no_game():
    """The format allows none of them twice in a node."""
    record = sgf.read(b"(;SZ[9]PB[a][b]RE[B+1]RE[W+1]C[one]C[two];B[aa]C[x][y\\]z])")
    assert (record.black, record.result, record.comment) == ("a", "B+1", "one\ntwo")
    assert record.move_comments == ("x\ny]z",)


def test_stones_set_up_at_the_root():
    record = sgf.GameRecord(
        9, 0.5, ((1, 40), (0, 81)), black_stones=(20, 60), white_stones=(3,), handicap=2
    )
    text = sgf.to_sgf(record)
    assert "AB[cc][gg]" in text
    assert "AW[da]" in text
    assert "HA[2]" in text
    assert sgf.read(text.encode()) == record
    # Some programs write a handicap, and its stones as moves.
    assert sgf.read(b"(;SZ[9]HA[2];B[cc];B[gg])").handicap == 0


def test_points_cleared_at_the_root_are_empty_anyway():
    record = sgf.read(b"(;SZ[9]AE[aa:bb]AB[cc]AW[da];B[aa])")
    assert (record.black_stones, record.white_stones, record.moves) == ((20,), (3,), ((0, 0),))


def test_a_square_board_may_be_written_as_a_rectangle():
    assert [sgf.read(b"(;SZ[%s])" % text).size for text in (b"19:19", b" 9 : 9")] == [19, 9]


@pytest.mark.parametrize(
    ("points", "komi"),
    [
        *((325, 6.5), (375, 7.5), (550, 5.5), (650, 6.5), (750, 7.5), (12, 12.0)),
        *((3.75, 7.5), (2.75, 5.5), (0.25, 0.5), (-1.25, -2.5), (6.5, 6.5)),
        *((6.25, 6.25), (-6.25, -6.25), ("6,5", 6.5), ("3,75", 7.5)),
    ],
)
def test_komi_in_hundredths_or_in_stones(points, komi):
    assert sgf.read(f"(;KM[{points}])".encode()).komi == komi


def test_stones_set_up_before_the_first_move_are_those_of_the_root():
    record = sgf.read(b"(;GM[1]FF[4]SZ[5]KM[2.5];HA[2]AB[aa][bb]C[even];W[cc])")
    assert (record.komi, record.handicap, record.moves) == (2.5, 2, ((1, 12),))
    assert (record.black_stones, record.white_stones, record.comment) == ((0, 6), (), "even")
    changed = sgf.read(b"(;SZ[5]AB[aa:ca]KM[1];AE[ba]AW[ca];PL[W]KM[0.5];AB[ee]B[dd];W[ed])")
    assert (changed.black_stones, changed.white_stones) == ((0, 24), (2,))
    assert (changed.komi, changed.to_play, len(changed.moves)) == (0.5, 1, 2)
    assert sgf.read(b"(;SZ[5]KM[2];KM[])").komi == 2


def test_facts_about_the_game_are_kept():
    data = "(;SZ[5]DT[2016-03-09]EV[a \\] cup: 杯]RO[2 (final)]BR[9p]TM[two\nhours]XX[no];B[aa])"
    record = sgf.read(data.encode())
    assert record.info == (
        *(("BR", "9p"), ("DT", "2016-03-09"), ("EV", "a ] cup: 杯"), ("RO", "2 (final)")),
        ("TM", "two\nhours"),
    )
    assert sgf.read(sgf.to_sgf(record).encode()) == record


@pytest.mark.parametrize(("text", "given"), [("KM[0]", True), ("", False), ("KM[]", False)])
def test_whether_the_komi_is_given(text, given):
    record = sgf.read(f"(;SZ[5]{text})".encode())
    assert (record.komi, record.komi_given) == (0, given)
    assert ("KM" in sgf.to_sgf(record)) == given


def test_comments_between_moves_are_kept():
    record = sgf.read(b"(;SZ[5]C[a];C[b];B[aa]C[c];C[d];W[bb];LB[aa:1])")
    assert (record.comment, record.move_comments) == ("a\nb", ("c\nd", ""))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("PL[W]", 1),
        ("PL[B]AB[aa][bb]HA[2]", 0),
        ("PL[white];B[cc]", 1),
        ("AB[aa][bb]HA[2]", 1),
        ("AB[aa][bb]", 0),
        ("AB[aa][bb];W[cc]", 1),
        ("", 0),
    ],
)
def test_who_plays_first(text, first):
    record = sgf.read(f"(;SZ[5]{text})".encode())
    assert record.first_player == first
    assert sgf.read(sgf.to_sgf(record).encode()) == record


@pytest.mark.parametrize(
    ("data", "black"),
    [
        ("(;PB[\u7881])".encode(), "\u7881"),
        ("(;CA[UTF-8]PB[\u7881])".encode(), "\u7881"),
        ("(;CA[GB18030]PB[\u7881])".encode("gb18030"), "\u7881"),
        ("(;PB[\u00fc])".encode("latin-1"), "\u00fc"),
        # The second byte of these is a backslash.
        ("(;CA[Shift_JIS]SZ[9]PB[\u30bd];B[ee];W[cc])".encode("shift_jis"), "\u30bd"),
        ("(;CA[Big5]PB[\u56e0\u70ba]PW[\u4e5f])".encode("big5"), "\u56e0\u70ba"),
        # Not of the charset that the file names, but of a superset.
        ("(;CA[GB2312]PB[\u9555])".encode("gbk"), "\u9555"),
        ("(;CA[x-sjis]PB[\u2460])".encode("cp932"), "\u2460"),
        # Of none, or of one that is not known, or cannot be.
        ("(;CA[klingon]PB[\u7881])".encode(), "\u7881"),
        ("(;CA[]PB[\u00fc])".encode("latin-1"), "\u00fc"),
        (b"(;CA[UTF-16]PB[x])", "x"),
        (b"(;CA[punycode]PB[x])", "x"),
        (b"(;CA[undefined]PB[x])", "x"),
        (b"(;CA[rot13]PB[x])", "x"),
        # Cut within a character.
        (b"(;CA[UTF-8]PB[\xe7\xa2];B[ee])", "\ufffd"),
    ],
)
def test_encodings(data, black):
    assert sgf.read(data).black == black


def test_a_backslash_within_a_character_ends_no_move():
    text = "(;CA[Shift_JIS]SZ[9]PB[\u30bd];B[ee];W[cc])"
    assert sgf.read(text.encode("shift_jis")).moves == ((0, 40), (1, 20))


LABELLED = "(;CA[{}]SZ[9]KM[7.5]PB[{}]PW[x];B[aa];W[bb];B[cc])"


@pytest.mark.parametrize("charset", ["GB2312", "gb18030", "Big5", "Shift_JIS", "EUC-KR"])
@pytest.mark.parametrize("name", ["柯洁", "李世石", "Лё", "И"])
def test_utf_8_with_the_label_of_another_charset_loses_nothing(charset, name):
    record = sgf.read(LABELLED.format(charset, name).encode())
    assert (record.komi, record.white, len(record.moves)) == (7.5, "x", 3)
    if name in ("柯洁", "李世石"):
        assert record.black == name


def test_charsets_that_are_named_rightly_are_used():
    for charset, name in [
        *(("GB2312", "李世石"), ("GBK", "丂"), ("EUC-KR", "이세돌"), ("ISO-2022-JP", "本因坊")),
        *(("Big5", "包"), ("Shift_JIS", "従"), ("latin-1", "Ã¼")),  # 包, 従: the second byte is ]
    ]:
        record = sgf.read(LABELLED.format(charset, name).encode(charset))
        assert (record.black, len(record.moves)) == (name, 3)


@pytest.mark.parametrize("charset", ["GB2312", "gb18030", "Big5", "Shift_JIS"])
@pytest.mark.parametrize("cut", [b"\xa5", b"\x83", b"\xe7", b"\xff"])
def test_half_a_character_does_not_swallow_the_bracket_after_it(charset, cut):
    whole = LABELLED.format(charset, "北\n").encode(charset)
    record = sgf.read(whole.replace(b"\n", cut).replace(b"PW[x]", b"PW[x%s]C[%s]" % (cut, cut)))
    assert (record.komi, record.black[0], record.white[0], len(record.moves)) == (7.5, "北", "x", 3)
    assert len(sgf.read(b"(;CA[%s]SZ[9];B[aa]C[%s])" % (charset.encode(), cut)).moves) == 1


@pytest.mark.parametrize(
    ("charset", "name"),
    [("big5", "成功"), ("shift_jis", "代表"), ("big5", "包先生"), ("shift_jis", "従う")],
)
def test_a_charset_that_must_be_named_is_asked_for(charset, name):
    data = f"(;SZ[9]PB[{name}];B[aa];W[bb];B[cc])".encode(charset)
    with pytest.raises(ValueError, match=r"does not name the charset .* as in CA\[Big5\]"):
        sgf.read(data)
    named = sgf.read(data.replace(b"(;", b"(;CA[%s]" % charset.encode()))
    assert (named.black, len(named.moves)) == (name, 3)


def test_a_bracket_escaped_after_a_latin_1_letter_is_read():
    record = sgf.read("(;SZ[9]C[(see [café\\]) é];B[aa]C[à])".encode("latin-1"))
    assert (record.comment, record.move_comments) == ("(see [café]) é", ("à",))


def test_the_encoding_of_the_caller_takes_precedence():
    data = "(;CA[UTF-8]PB[\u30bd])".encode("shift_jis")
    assert sgf.read(data, "shift_jis").black == "\u30bd"
    with pytest.raises(ValueError, match="klingon"):
        sgf.read(data, "klingon")


def test_all_games_of_a_collection(tmp_path):
    records = [SHORT, random_record(5, 1), SHORT]
    path = tmp_path / "games.sgf"
    path.write_text("noise\n" + "\nnoise\n".join(map(sgf.to_sgf, records)) + ")")
    assert sgf.read_all(path) == records
    assert sgf.read(path) == SHORT
    assert sgf.read_all(sgf.to_sgf(SHORT).encode()) == [SHORT]


@pytest.mark.parametrize(
    ("games", "message"),
    [
        (b"(;SZ[9])(;SZ[9])(;SZ[9];B[zz])", "sgf: game 3: move 1: "),
        (b"(;SZ[9])(;SZ[9]AB[tt])", "sgf: game 2: AB, AW or AE names what"),
        (b"(;SZ[9])(;SZ[9]", "sgf: game 2: unexpected end"),
        (b"(;SZ[9];B[zz])(;SZ[9])", "sgf: move 1: "),
        (b"", "sgf: no SGF"),
    ],
)
def test_a_bad_game_of_a_collection_is_named(games, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        sgf.read_all(games)


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"gone\.sgf: cannot be read \(No such file"):
        sgf.read(tmp_path / "gone.sgf")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"(;SZ[19]AB" + b"[aa:ss]" * 3000 + b")", "more than the 361 points"),
        (b"(;SZ[19]" + b";AB[aa:ss]" * 50_000 + b")", "more than the 361 points"),
        (b"(;SZ[19]AB" + b"[aa:ss]" * 300_000 + b")", "more than 200,000 nodes and values"),
        (b"(;SZ[9]" + b"(;B[aa]" * 2_000 + b")" * 2_001, "more than 2,000 deep"),
        (b"(;SZ[9]C[" + b"c" * 2**23 + b"])", "more than 8,388,608 bytes"),
        (b"(;GM[" + b"9" * 5_000 + b"])", r"GM\[9{100,200}$"),
        (b"(;SZ[" + b"9" * 5_000 + b"])", r"SZ\[9{20}\] is not a board size; .* as in SZ\[19\]$"),
    ],
    ids=["stones", "nodes", "values", "depth", "bytes", "quotation", "size"],
)
def test_oversized_input_is_refused_before_parsing(data, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        sgf.read(data)
    path = tmp_path / "large.sgf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"large\.sgf: .*{message}"):
        sgf.read(path)


def test_brackets_in_a_comment_do_not_count_as_depth():
    text = rb"(;SZ[9]C[" + rb"\]([;\\" * 3_000 + rb"];B[aa](;W[bb])(;W[cc]))"
    assert sgf.read(text).moves == ((0, 0), (1, 10))


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.sgf")
    with pytest.raises(ValueError, match=r"pipe\.sgf: is not a file"):
        sgf.read(tmp_path / "pipe.sgf")


def test_damaged_files_raise_value_error():
    rng, whole = random.Random(3), bytearray(sgf.to_sgf(random_record(5, 4)).encode())
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            sgf.read(bytes(data[: rng.randrange(len(data))] + b")" * rng.randint(0, 2)))
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 1}, "size: 1"),
        ({"komi": float("nan")}, "komi: nan"),
        ({"moves": ((0, 82),)}, r"move 1 is \(0, 82\)"),
        ({"moves": ((2, 0),)}, "colour 0 or 1"),
        ({"black_stones": (3, 81)}, "different points from 0 to 80"),
        ({"black_stones": (3, 4), "handicap": 3}, "handicap: 3"),
        ({"info": (("SZ", "9"),)}, "info: 'SZ' is not one of AN, BR"),
        ({"move_comments": ("x",)}, "1 comments for 0 moves"),
    ],
)
def test_invalid_records_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        sgf.GameRecord(**{"size": 9, "komi": 7.0, "moves": (), **fields})
