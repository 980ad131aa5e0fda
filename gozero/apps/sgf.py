"""Games as SGF files (FF[4]): the main line, from an empty board or stones set up before it."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import itertools
import math
import pathlib
import re
import warnings
from collections.abc import Iterator, Sequence

from gozero import __version__
from gozero.go import coords
from gozero.go.coords import MAX_SIZE, MIN_SIZE
from gozero.runs.files import write_whole

with warnings.catch_warnings():
    # sgfmill 1.1.1's docstrings have stray backslashes. Python warns of them (since 3.12 visibly)
    # when it compiles the files: at the first import, unless the installer did that.
    warnings.filterwarnings("ignore", message="invalid escape sequence")
    from sgfmill import sgf as sgfmill
    from sgfmill import sgf_grammar

_COLOURS = ("B", "W")
_SETUP = ("AB", "AW", "AE")
_MOST_CHINESE_KOMI = 5
"""Komi in Chinese stones, half the points, is below this: 3.75 or 2.75 are usual."""
_FOX_KOMI = {325.0: 6.5, 375.0: 7.5, 550.0: 5.5, 650.0: 6.5, 750.0: 7.5}
"""The Fox server writes Chinese komi in hundredths of a stone, so that 375 is 3.75 stones or 7.5
points, and other komi in hundredths of a point."""

INFO = (
    *("AN", "BR", "BT", "CP", "DT", "EV", "GC", "GN", "ON", "OT", "PC", "RO", "SO", "TM", "US"),
    *("WR", "WT"),
)
"""Facts about a game that are kept as text: SGF's game information without the fields of
`GameRecord`."""

MAX_BYTES = 2**23
MAX_TOKENS = 200_000
MAX_DEPTH = 2_000
"""Limits of a file to read: bytes, nodes and values, and the nesting of variations."""

_TOKEN = re.compile(rb"[(;)]|\[[^\]\\]*+(?:\\.?[^\]\\]*+)*+\]?", re.DOTALL)
_CHARSET = re.compile(rb"(?:^|[\s;\]])CA\s*\[([^\]]{0,40})\]")
_SYNTAX = b"(;SZ[9]C[\\])"
_NOT_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "unicode-escape"}
"""Python's codecs of text that are no charsets; that of punycode takes quadratic time."""
_ALIASES = {"windows-31j": "cp932", "x-sjis": "cp932"}
_SUPERSETS = {
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "cp950",
}
"""Files with characters beyond the charset that they name are common; each is a part of these."""
_NEXT = r"\s*+(?:(?:\(\s*+)?;?\s*+[A-Z]{1,9}\s*+\[|(?:\)\s*+)++(?:\(\s*+;|\Z))"
"""What follows the last `]` of a property, and hardly any other: a property, or the end of a
variation."""
_CLOSING_CHARACTER = re.compile(rf"[^\x00-\x7f](?={_NEXT})", re.ASCII)
_UNNAMED_CHARSET = re.compile(rb"[\x81-\xfe](?:\\\](?=%s)|\][^\s\w;()\[])" % _NEXT.encode("ascii"))
r"""A character of two bytes, read as two: the second is a `\` that would escape the closing `]`, or
a `]` that would close the value in its midst."""
_LONGEST_QUOTE = 200  # characters of a file in an error


@dataclasses.dataclass(frozen=True)
class GameRecord:
    """A game as plain data. It is not replayed, so its moves need not be legal.

    Attributes:
      size: points on a side.
      komi: points for White.
      komi_given: whether the record says its komi (SGF's KM); if not, komi is 0.
      moves: (colour, action) of each move: 0 Black, 1 White; actions are row-major from the top
        left, and size * size is the pass.
      black_stones, white_stones: the points of stones on the board before the first move.
      handicap: how many of the black stones are handicap stones (SGF's HA); 0 for none.
      to_play: who is to play before the first move (SGF's PL): 0 Black, 1 White; None if the
        record does not say, see `first_player`.
      result: ``B+3.5``, ``W+R``, ``0`` for a draw, ``Void`` if there is none, ``?`` if unknown.
      black, white: the players' names.
      rules: the name of the rules (SGF's RU).
      comment: on the whole game.
      info: (name, text) of other facts about the game, such as ("DT", "2016-03-09"); the names are
        those of `INFO`.
      move_comments: one per move, or none at all.

    Raises:
      ValueError: a field is invalid; the message names it, its value and what is allowed.
    """

    size: int
    komi: float
    moves: tuple[tuple[int, int], ...]
    result: str = "?"
    black: str = ""
    white: str = ""
    rules: str = "Chinese"
    comment: str = ""
    move_comments: tuple[str, ...] = ()
    black_stones: tuple[int, ...] = ()
    white_stones: tuple[int, ...] = ()
    handicap: int = 0
    to_play: int | None = None
    komi_given: bool = True
    info: tuple[tuple[str, str], ...] = ()

    @property
    def first_player(self) -> int:
        """Who is to play at first: `to_play`, else who makes the first move, else Black, or White
        after handicap stones."""
        if self.to_play is not None:
            return self.to_play
        return self.moves[0][0] if self.moves else int(self.handicap > 0)

    def __post_init__(self):
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise ValueError(f"size: {self.size} is not a board size from {MIN_SIZE} to {MAX_SIZE}")
        if not math.isfinite(self.komi):
            raise ValueError(f"komi: {self.komi} is not a finite number")
        for number, (colour, action) in enumerate(self.moves, start=1):
            if colour not in (0, 1) or not 0 <= action <= self.size**2:
                raise ValueError(
                    f"moves: move {number} is {(colour, action)}; expected a colour 0 or 1 and "
                    f"an action from 0 to {self.size**2}"
                )
        placed = self.black_stones + self.white_stones
        if len(set(placed)) != len(placed) or not all(0 <= p < self.size**2 for p in placed):
            raise ValueError(
                f"black_stones, white_stones: {placed}; expected different points from 0 to "
                f"{self.size**2 - 1}"
            )
        if self.handicap < 0 or self.handicap == 1 or self.handicap > len(self.black_stones):
            raise ValueError(
                f"handicap: {self.handicap} is not 0, or from 2 to the "
                f"{len(self.black_stones)} black stones set up"
            )
        if self.to_play not in (None, 0, 1):
            raise ValueError(f"to_play: {self.to_play} is neither 0, 1 nor None")
        for name, _ in self.info:
            if name not in INFO:
                raise ValueError(f"info: {name!r} is not one of {', '.join(INFO)}")
        if len(self.move_comments) not in (0, len(self.moves)):
            raise ValueError(
                f"move_comments: {len(self.move_comments)} comments for {len(self.moves)} moves"
            )


def to_sgf(record: GameRecord) -> str:
    """The record as SGF text, without dates, so that equal records give equal text."""
    return tree_of(record).serialise().decode("utf-8")


def tree_of(record: GameRecord) -> sgfmill.Sgf_game:
    """The record as a tree of SGF nodes, to which more can be added."""
    game = sgfmill.Sgf_game(record.size, encoding="UTF-8")
    root = game.get_root()
    root.set("AP", ("gozero", __version__))
    if record.komi_given:
        root.set("KM", record.komi)
    texts = {"RU": record.rules, "PB": record.black, "PW": record.white, "C": record.comment}
    for name, text in {**texts, "RE": record.result}.items():
        if text:
            root.set(name, text)
    for name, text in record.info:
        root.set_raw(name, sgf_grammar.escape_text(text.encode("utf-8")))
    if record.handicap:
        root.set("HA", record.handicap)
    for name, points in (("AB", record.black_stones), ("AW", record.white_stones)):
        if points:
            root.set_raw_list(
                name, [coords.to_sgf(record.size, p).encode() for p in sorted(points)]
            )
    if record.to_play is not None:
        root.set_raw("PL", _COLOURS[record.to_play].encode())
    comments = record.move_comments or ("",) * len(record.moves)
    node = root
    for (colour, action), comment in zip(record.moves, comments, strict=True):
        node = node.new_child()
        node.set_raw(_COLOURS[colour], coords.to_sgf(record.size, action).encode())
        if comment:
            node.set("C", comment)
    return game


def write(path: pathlib.Path, record: GameRecord, *, durable: bool = False) -> None:
    """Write the record to a file atomically; with `durable`, return only once it is on disk."""
    write_whole(path, to_sgf(record).encode("utf-8"), durable=durable)


Source = pathlib.Path | str | bytes
"""A file, or its bytes."""


def read(source: Source, encoding: str | None = None) -> GameRecord:
    """The main line of the first game in a file, or in bytes; `read_all` reads every game.

    A missing komi is 0, a missing size 19, and a missing result ``?``. Nodes
    without a move (remarks, markup) are skipped, but the comments of those after a move are added
    to that move's, and of those before the first move to the game's. Stones, komi, handicap and
    player (AB, AW, AE, KM, HA and PL) count up to the node of the first move.

    Args:
      source: the file, or its bytes.
      encoding: that of the file; None: what the file says (CA) if that is known, else UTF-8 if it
        is that, else Latin-1. A file in UTF-8 that names another charset, as after a conversion, is
        read as UTF-8. Bytes that are no characters are read as U+FFFD, and a character that would
        contain the `]` of its property ends before it.

    Raises:
      ValueError: the file cannot be read, is not an SGF of Go, is damaged, is in a charset of
        several bytes a character, other than UTF-8, that it does not name, sets up stones after
        its first move, has a board size that the rules do not play, or exceeds `MAX_BYTES`,
        `MAX_TOKENS` or `MAX_DEPTH`, which are checked before it is parsed.
    """
    with _named_errors(source):
        return next(_records(source, encoding))


def read_all(source: Source, encoding: str | None = None) -> list[GameRecord]:
    """The main line of every game in a file, or in bytes: a collection may have several.

    Args:
      source, encoding: as for `read`.

    Raises:
      ValueError: as for `read`; from the second game on, the message names the game.
    """
    with _named_errors(source):
        return list(_records(source, encoding))


def names_of_games(file: str, num_games: int) -> list[str]:
    """Names for the games of a file: its own, followed by a number if there are several."""
    return [f"{file} game {i}" for i in range(1, num_games + 1)] if num_games > 1 else [file]


@contextlib.contextmanager
def _named_errors(source: Source) -> Iterator[None]:
    """Turn errors into a ValueError of one line that names the file."""
    subject = "sgf" if isinstance(source, bytes) else f"sgf {source}"
    try:
        yield
    except OSError as error:
        raise ValueError(f"{subject}: cannot be read ({error.strerror})") from error
    except (ValueError, LookupError) as error:
        reason = " ".join(str(error).split())[:_LONGEST_QUOTE] or "damaged"
        raise ValueError(f"{subject}: {reason}") from error


def _records(source: Source, encoding: str | None) -> Iterator[GameRecord]:
    """The games, each read when it is asked for."""
    data = source if isinstance(source, bytes) else _bytes_of(pathlib.Path(source))
    if len(data) > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES:,} bytes")
    # First decoded, as a character may contain the bytes of brackets, as in Shift_JIS and Big5.
    text = _decoded(data, encoding).encode("utf-8", "replace")
    _check_bounds(text)
    yield _record(_parse(text))
    _, end = sgf_grammar.tokenise(text)
    for number in itertools.count(2):
        tokens, next_end = sgf_grammar.tokenise(text, end)
        if not tokens:
            return
        try:
            yield _record(_parse(text[end:next_end]))
        except (ValueError, LookupError) as error:
            raise ValueError(f"game {number}: {str(error) or 'damaged'}") from error
        end = next_end


def _bytes_of(path: pathlib.Path) -> bytes:
    """A file's bytes, at most one more than `MAX_BYTES`."""
    if path.exists() and not path.is_file():
        raise ValueError("is not a file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _decoded(data: bytes, encoding: str | None) -> str:
    """The text of a file; see `read`.

    Raises:
      ValueError: some characters seem to have several bytes, and the charset is not known.
    """
    charset = encoding or _named_charset(data)
    utf_8 = None if encoding else _strictly(data, "utf-8")
    if charset is None:
        if utf_8 is None and _UNNAMED_CHARSET.search(data):
            raise ValueError(
                "does not name the charset of its text, which may be Big5, Shift_JIS or GBK; "
                "name it in the first node, as in CA[Big5]"
            )
        return data.decode("latin-1") if utf_8 is None else utf_8
    text = _strictly(data, charset)
    if utf_8 is not None and (text is None or _is_utf_8(data, text, utf_8)):
        return utf_8
    text = data.decode(charset, "replace") if text is None else text

    def without_bracket(character: re.Match[str]) -> str:
        is_swallowed = character[0].encode(charset, "replace").endswith(b"]")
        return "\ufffd]" if is_swallowed else character[0]

    return _CLOSING_CHARACTER.sub(without_bracket, text)


def _named_charset(data: bytes) -> str | None:
    """The charset that the data name; None: none that is known."""
    named = _CHARSET.search(data)
    return _charset(named[1].decode("ascii", "replace").strip()) if named else None


def _strictly(data: bytes, charset: str) -> str | None:
    """The data decoded; None: they have bytes that are no characters of the charset."""
    try:
        return data.decode(charset)
    except UnicodeError:
        return None


def _is_utf_8(data: bytes, text: str, utf_8: str) -> bool:
    """Whether data that are valid in two charsets are UTF-8. Words of another charset are hardly
    ever valid UTF-8 with a character of three bytes; and no charset gives more values than the
    right one, as others take a `]` for a part of a character."""
    if data.isascii():
        return False  # the characters of ISO-2022-JP are ASCII
    return max(data) >= 0xE0 or text.count("]") < utf_8.count("]")


def _charset(name: str) -> str | None:
    """Python's codec for the charset of a file whose syntax is ASCII; None: it is not known."""
    try:
        codec = codecs.lookup(_ALIASES.get(name.lower(), name)).name
        if codec in _NOT_CHARSETS or _SYNTAX.decode(codec) != _SYNTAX.decode():
            return None
    except (LookupError, ValueError):
        return None
    return _SUPERSETS.get(codec, codec)


def _check_bounds(data: bytes) -> None:
    """Raises:
    ValueError: the data exceeds a limit.
    """
    depth = 0
    for number, token in enumerate(_TOKEN.finditer(data)):
        if number == MAX_TOKENS:
            raise ValueError(f"has more than {MAX_TOKENS:,} nodes and values")
        depth += {b"(": 1, b")": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            raise ValueError(f"has variations nested more than {MAX_DEPTH:,} deep")


def _parse(data: bytes) -> sgfmill.Sgf_game:
    """The first game, of UTF-8 text. A square board may be given as a rectangle: SZ[19:19]."""
    tree = sgf_grammar.parse_sgf_game(data)
    sizes = tree.sequence[0].get("SZ")
    if sizes:
        text = sizes[0].decode("ascii", "replace").strip()
        width, colon, height = (part.strip() for part in text.partition(":"))
        if colon and width != height:
            raise ValueError(f"SZ[{text}]: the board is not square")
        if not width.isdigit() or not MIN_SIZE <= int(width[:9]) <= MAX_SIZE:
            expected = f"{MIN_SIZE} to {MAX_SIZE} points on a side, as in SZ[19]"
            raise ValueError(f"SZ[{text[:20]}] is not a board size; expected {expected}")
        sizes[0] = width.encode()
    return sgfmill.Sgf_game.from_coarse_game_tree(tree, "UTF-8")


def _record(game: sgfmill.Sgf_game) -> GameRecord:
    size = game.get_size()
    nodes = list(game.main_sequence_iter())
    root = nodes[0]
    kind = _raw(root, "GM", "1")
    if kind != "1":
        raise ValueError(f"GM[{kind}] is a game other than Go, which is GM[1]")
    first_move = next((i for i, node in enumerate(nodes) if _has_move(node)), len(nodes))
    start = nodes[: first_move + 1]
    komi = _latest(start, "KM")
    moves, comment, move_comments = _moves(size, nodes)
    black_stones, white_stones = _setup(size, start)
    return GameRecord(
        size=size,
        komi=_komi(komi),
        komi_given=bool(komi),
        moves=moves,
        result=_text(root, "RE", "?"),
        black=_text(root, "PB"),
        white=_text(root, "PW"),
        rules=_text(root, "RU"),
        comment=comment,
        move_comments=move_comments if any(move_comments) else (),
        black_stones=black_stones,
        white_stones=white_stones,
        handicap=_handicap(_latest(start, "HA"), len(black_stones)),
        to_play={"B": 0, "W": 1}.get(_latest(start, "PL")[:1].upper()),
        info=tuple((name, text) for name in INFO if (text := _info(root, name))),
    )


def _latest(nodes: Sequence[sgfmill.Node], name: str) -> str:
    """The last value of a property in the nodes; empty: there is none."""
    return next((text for node in reversed(nodes) if (text := _raw(node, name))), "")


def _setup(size: int, nodes: Sequence[sgfmill.Node]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The points of Black's stones and of White's, after AB, AW and AE of all the nodes."""
    nodes = [node for node in nodes if node.has_setup_stones()]
    lists = [node.get_raw_list(x) for node in nodes for x in _SETUP if node.has_property(x)]
    if sum(map(len, lists)) > size * size:
        raise ValueError(f"AB, AW and AE name more than the {size * size} points of the board")
    colours: dict[tuple[int, int], int] = {}
    for node in nodes:
        try:
            black, white, empty = node.get_setup_stones()
        except ValueError as error:
            raise ValueError(
                f"AB, AW or AE names what is not a point of {size}x{size}; expected two letters "
                "for each, as in AB[aa][bb:cc]"
            ) from error
        if black & white:
            raise ValueError("AW names points of AB; expected different points")
        if empty & (black | white):
            raise ValueError("AE names points of AB or AW; expected different points")
        colours.update(dict.fromkeys(black, 0) | dict.fromkeys(white, 1))
        colours = {point: colour for point, colour in colours.items() if point not in empty}
    # sgfmill counts rows from the bottom.
    points = [((size - 1 - row) * size + col, colour) for (row, col), colour in colours.items()]
    black, white = (tuple(sorted(p for p, of in points if of == c)) for c in (0, 1))
    return black, white


def _handicap(text: str, black_stones: int) -> int:
    """HA; 0 if it is missing, or if its stones are played, not set up."""
    if not (text or "0").isdigit():
        raise ValueError(f"HA[{text}] is not a number of stones")
    return int(text) if text and 2 <= int(text) <= black_stones else 0


def _moves(
    size: int, nodes: Sequence[sgfmill.Node]
) -> tuple[tuple[tuple[int, int], ...], str, tuple[str, ...]]:
    """((colour, action) of each move, the comment before them, the comment of each move)."""
    moves: list[tuple[int, int]] = []
    comments: list[list[str]] = [[]]
    for node in nodes:
        if moves and node.has_setup_stones():
            raise ValueError(
                f"stones are set up or removed (AB, AW or AE) after move {len(moves)}; "
                "expected this only before the first move"
            )
        if _has_move(node):
            moves.append(_move(size, node, len(moves) + 1))
            comments.append([])
        if text := _text(node, "C"):
            comments[-1].append(text)
    first, *others = ("\n".join(texts) for texts in comments)
    return tuple(moves), first, tuple(others)


def _has_move(node: sgfmill.Node) -> bool:
    return any(node.has_property(name) for name in _COLOURS)


def _move(size: int, node: sgfmill.Node, number: int) -> tuple[int, int]:
    if all(node.has_property(name) for name in _COLOURS):
        raise ValueError(f"move {number} has both colours (B and W in one node)")
    colour = 0 if node.has_property("B") else 1
    if len(node.get_raw_list(_COLOURS[colour])) > 1:
        raise ValueError(f"move {number} has two points ({_COLOURS[colour]} with two values)")
    try:
        return colour, coords.from_sgf(size, _raw(node, _COLOURS[colour]))
    except ValueError as error:
        raise ValueError(f"move {number}: {error}") from error


def _komi(text: str) -> float:
    """KM, which may have a decimal comma; 0 if it is missing."""
    try:
        komi = float(text.replace(",", ".") or 0)
    except ValueError as error:
        raise ValueError(f"KM[{text[:20]}] is not a number; expected one as in KM[6.5]") from error
    if abs(komi) < _MOST_CHINESE_KOMI and komi * 4 % 1 == 0 and komi * 2 % 1:
        return 2 * komi  # quarters are of Chinese stones: 3.75 stones are 7.5 points
    return _FOX_KOMI.get(komi, komi)


def _raw(node: sgfmill.Node, name: str, default: str = "") -> str:
    """The raw value of a property that is not free text, not parsed by sgfmill."""
    if not node.has_property(name):
        return default
    return node.get_raw(name).decode("ascii", "replace").strip() or default


def _info(root: sgfmill.Node, name: str) -> str:
    """A property of `INFO` as text, which sgfmill would refuse if it is a damaged number."""
    raw = root.get_raw(name) if root.has_property(name) else b""
    return sgf_grammar.text_value(raw).decode("utf-8", "replace")


def _text(node: sgfmill.Node, name: str, default: str = "") -> str:
    """A property's text. Files with errors may repeat it in a node: comments are then joined, and
    of other properties the first counts."""
    if not node.has_property(name):
        return default
    raw, *others = node.get_raw_list(name)
    if not others:
        return node.get(name)
    convert = sgf_grammar.text_value if name == "C" else sgf_grammar.simpletext_value
    texts = [convert(one).decode("utf-8", "replace") for one in (raw, *others)]
    return "\n".join(texts) if name == "C" else texts[0]
