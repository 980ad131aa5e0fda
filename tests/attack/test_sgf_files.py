"""Hostile SGF files are read, or refused in one line, quickly and in bounded memory."""

import random
import time

import pytest

from gozero.apps import sgf
from tests.apps.test_sgf import SHORT, random_record
from tests.attack.memory import resident

VALUES = [
    b"",
    b"aa",
    b"tt",
    b"aa:ss",
    b"B+R",
    b"375",
    b"-0",
    b"1e400",
    b"nan",
    b"19:19",
    b"0",
    b"25",
]
VALUES += [
    b"\\]",
    b"9" * 5000,
    "\u7881".encode(),
    b"\xff\xfe",
    b"(;B[aa])",
    b"UTF-16",
    b"idna",
    b"punycode",
    b"hex",
]
NAMES = b"B W AB AW AE SZ KM HA RU RE PB PW C CA GM FF AP LB TB MN XX b szx".split()
FILES, SEED = 10_000, 5


def made(rng: random.Random) -> bytes:
    """A random tree of nodes with random properties."""
    parts = [b"(;FF[4]GM[1]SZ[%d]" % rng.choice((2, 5, 9, 19, 25, 52))]
    for _ in range(rng.randrange(12)):
        parts.append(rng.choice((b";", b";", b"(;", b")", b" \n", rng.randbytes(2))))
        for _ in range(rng.randrange(4)):
            parts.append(rng.choice(NAMES))
            parts += [b"[%s]" % rng.choice(VALUES) for _ in range(rng.choice((1, 1, 1, 2, 400)))]
    return b"".join(parts) + b")" * rng.randrange(4)


def damaged(rng: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randrange(20)]
            case 2:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(2000)]
        data = data or bytearray(b"(")
    return bytes(data)


def attack(count: int, seed: int) -> tuple[int, float]:
    """(the number of files that could be read, seconds of the slowest)."""
    rng = random.Random(seed)
    whole = [
        sgf.to_sgf(record).encode() for record in (SHORT, *(random_record(5, i) for i in (1, 2)))
    ]
    num_read, slowest = 0, 0.0
    for _ in range(count):
        data = made(rng) if rng.random() < 0.5 else damaged(rng, rng.choice(whole))
        started = time.perf_counter()
        try:
            record = sgf.read(data)
            num_read += 1
            assert sgf.read(sgf.to_sgf(record).encode()).moves == record.moves
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 400  # noqa: PT017
        slowest = max(slowest, time.perf_counter() - started)
    return num_read, slowest


def test_some_files():
    num_read, _ = attack(300, SEED + 1)
    assert num_read > 20


@pytest.mark.parametrize("codec", ["idna", "Punycode", "unicode_escape", "raw-unicode-escape"])
def test_codecs_that_are_no_charsets_are_not_used(codec):
    """Decoding punycode takes quadratic time: minutes for this comment."""
    data = b"(;CA[%s]C[a-%s])" % (codec.encode(), b"z" * 2_000_000)
    assert sgf.read(data).comment == "a-" + "z" * 2_000_000


def test_charsets_without_an_end_are_passed_over():
    """A search for each one's end would take quadratic time."""
    with pytest.raises(ValueError, match="sgf: "):
        sgf.read(b"(;" + b" CA[" * 2_000_000)


@pytest.mark.slow
def test_many_files():
    attack(FILES, SEED + 2)  # after this the heap has reached its largest size
    before = resident()
    num_read, slowest = attack(FILES, SEED)
    grown = resident() - before
    print(
        f"{FILES} files, seed {SEED}: {num_read} read, slowest {slowest:.2f} s, {grown:.1f} MB more"
    )
    assert num_read > FILES // 20
    assert slowest < 5
    assert grown < 20
