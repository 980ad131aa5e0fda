"""The replay ring: its window, how often rows may be drawn, and which rows are drawn."""

from __future__ import annotations

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import symmetry
from gozero.go.rules import Rules
from gozero.play.rows import Rows
from tests.compile.forms import take_forms_of
from tests.go.boards import pack
from train import buffer as buffers
from train import replay
from train.buffer import BufferConfig, Window

RULES = Rules(size=3, ko="simple")
GAME = go_game(RULES)
CONFIG = BufferConfig(capacity=20, window=Window(least=4, exponent=1.0, scale=0.5), surprise=1.0)
ALIKE = dataclasses.replace(CONFIG, surprise=0.0)


def rows_of(numbers) -> Rows:
    """Blank rows, told apart by their `game` number."""
    count = len(numbers)
    blank = jax.tree.map(lambda x: x[:1].repeat(count, axis=0), buffers.start(GAME, ALIKE).rows)
    return blank.replace(game=jnp.asarray(numbers, jnp.int32))


@functools.partial(jax.jit, static_argnums=0)
def add(config, buffer, rows, frequency, keep):
    return buffers.add(config, buffer, rows, frequency, keep)


def filled(config, total, frequency=None):
    """A buffer with rows 0, 1, ... added in masked batches of seven."""
    buffer, kept = buffers.start(GAME, config), []
    rng = np.random.RandomState(total)
    while len(kept) < total:
        keep = rng.rand(7) < 0.6
        numbers = len(kept) + np.cumsum(keep) - 1
        keep &= numbers < total
        often = np.ones(7, np.float32) if frequency is None else frequency(numbers)
        buffer = add(config, buffer, rows_of(np.where(keep, numbers, -7)), often, keep)
        kept += numbers[keep].tolist()
    return buffer


@pytest.mark.parametrize("total", [0, 3, 20, 21, 59])
def test_the_ring_keeps_the_newest(total):
    buffer = filled(CONFIG, total)
    assert (buffer.size, buffer.added, buffer.owed) == (min(total, 20), total, min(total, 20))
    oldest = (int(buffer.cursor) - int(buffer.size)) % 20
    held = [int(buffer.rows.game[(oldest + i) % 20]) for i in range(int(buffer.size))]
    assert held == list(range(max(0, total - 20), total))


@pytest.mark.parametrize("capacity", [7, pytest.param(10, marks=pytest.mark.thorough), 30])
def test_a_tpu_writes_the_same_ring(capacity, monkeypatch):
    """It writes in blocks, whichever rows are kept, at any cursor, and across the wrap-around."""
    config = dataclasses.replace(CONFIG, capacity=capacity)
    rings = {}
    for platform in ("cpu", "tpu"):
        take_forms_of(platform, monkeypatch)
        write = jax.jit(functools.partial(buffers.add, config))
        buffer, rng = buffers.start(GAME, config), np.random.RandomState(capacity)
        seven = rows_of(np.zeros(7))
        for share in (0.6, 0.0, 1.0, *rng.rand(20)):
            draw = lambda x, rng=rng: jnp.asarray(rng.rand(*x.shape) * 99, x.dtype)
            rows = jax.tree.map(draw, seven)
            keep = jnp.asarray(rng.rand(7) < share)
            buffer = write(buffer, rows, jnp.asarray(3 * rng.rand(7), jnp.float32), keep)
            rings.setdefault(platform, []).append(buffer)
    for one, other in zip(rings["cpu"], rings["tpu"], strict=True):
        chex.assert_trees_all_equal(one, other)
    assert len(np.unique(one.rows.outcome)) == capacity


@pytest.mark.parametrize(
    ("added", "expected"), [(0, 0), (3, 3), (4, 4), (6, 5), (20, 12), (90, 47)]
)
def test_the_window_grows(added, expected):
    """By hand: 4 (1 + (N / 4 - 1) / 2) = 2 + N / 2."""
    assert int(CONFIG.window(jnp.int32(added))) == expected


def test_the_window_of_the_paper():
    """Wu (2019), appendix C, with its constants; the window grows after 250,000 rows."""
    for added in (10**5, 10**6, 10**8, buffers.MAX_ADDED):
        grown = 250_000 * (1 + 0.4 * ((added / 250_000) ** 0.75 - 1) / 0.75)
        expected = min(added, grown) if added > 250_000 else added
        assert int(Window()(jnp.int32(added))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("total", [3, 14, 20, 37])
def test_rows_of_the_window_are_drawn_uniformly(total):
    buffer = filled(ALIKE, total)
    live = int(buffers.num_live(ALIKE, buffer))
    assert live == min(total, 20, int(2 + total / 2) if total > 4 else total)
    rows, turns = jax.jit(lambda b: buffers.draw(ALIKE, b, jax.random.key(1), 4000))(buffer)
    counts = np.bincount(np.asarray(rows.game), minlength=total)
    assert not counts[: total - live].any()
    np.testing.assert_allclose(counts[-live:] / 4000, 1 / live, atol=0.04)
    np.testing.assert_allclose(np.bincount(np.asarray(turns)) / 4000, 1 / 8, atol=0.03)


@pytest.mark.parametrize("total", [3, 14, 20, 37, 40])
def test_surprising_rows_are_drawn_more_often(total):
    often = lambda number: (number % 4).astype(np.float32)
    buffer = filled(CONFIG, total, often)
    live = int(buffers.num_live(CONFIG, buffer))
    rows, _ = jax.jit(lambda b: buffers.draw(CONFIG, b, jax.random.key(1), 4000))(buffer)
    counts = np.bincount(np.asarray(rows.game), minlength=total)
    numbers = np.arange(total)
    expected = np.where(numbers >= total - live, often(numbers), 0)
    assert not counts[expected == 0].any()
    np.testing.assert_allclose(counts / 4000, expected / expected.sum(), atol=0.04)


def test_rows_of_a_folder_are_drawn_by_their_frequencies():
    frequency = np.array([64, 0, 4096, 1], np.uint16)
    for scale in (1, 2):
        rows = jax.tree.map(lambda x, n=scale: x.repeat(n, axis=0), rows_of(range(4)))
        config, buffer = buffers.of_rows(rows, frequency.repeat(scale))
        drawn, _ = jax.jit(lambda b, c=config: buffers.draw(c, b, jax.random.key(1), 4000))(buffer)
        counts = np.bincount(np.asarray(drawn.game), minlength=4)
        assert counts[1] == 0
        np.testing.assert_allclose(counts / 4000, frequency / frequency.sum(), atol=0.01)
    assert buffers.of_rows(rows_of(range(4)), np.full(4, 64, np.uint16))[1].frequency is None


def test_the_sum_of_frequencies_fits_in_32_bits():
    frequency = np.full(2**20, 4096, np.uint16)
    frequency[0] = 1
    total = buffers._summable(frequency).sum(dtype=np.int64)
    assert 2**31 - 2**21 < total < 2**31


def test_a_games_frequencies_are_one_on_average():
    """By hand: half is shared equally by all three rows; of the rest, 3/4 and 1/4 go to two."""
    config = dataclasses.replace(CONFIG, surprise=0.5)
    surprise = jnp.array([0.3, 0.1, 0.0, 9.0])
    keep = jnp.array([True, True, True, False])
    result = buffers.spread(config, surprise, keep)
    np.testing.assert_allclose(result[:3], [0.5 + 9 / 8, 0.5 + 3 / 8, 0.5], rtol=1e-6)
    np.testing.assert_allclose(buffers.spread(config, 0 * surprise, keep), 1.0)
    assert result.dtype == jnp.float32


def test_no_row_is_drawn_too_often():
    """Rows arrive at random, and all steps that are due are taken."""
    config = dataclasses.replace(ALIKE, reuse=2.5, min_rows=5)
    buffer, steps, rng = buffers.start(GAME, config), 0, np.random.RandomState(3)
    assert buffers.steps_due(config, buffer, 4) == 0
    for _ in range(30):
        keep = rng.rand(7) < rng.rand()
        buffer = add(config, buffer, rows_of(np.zeros(7)), np.ones(7, np.float32), keep)
        due = buffers.steps_due(config, buffer, 4)
        steps += int(due)
        buffer = buffers.pay(config, buffer, 4, due)
        assert buffers.steps_due(config, buffer, 4) == 0
        assert steps == 0 or buffer.size >= 5
        assert 4 * steps <= 2.5 * int(buffer.added)
    assert 4 * steps > 0.8 * 2.5 * int(buffer.added)


def test_a_row_becomes_an_example():
    """Ownership is the mover's and turns with the planes; weights become floats; values mix."""
    owners = np.array([1, 1, 0, -1, 0, 0, 0, -1, -1])
    area = [jnp.stack(pack(RULES.layout, owners == colour)) for colour in (1, -1)]
    blank = jax.tree.map(lambda x: x[0], buffers.start(GAME, CONFIG).rows)
    row = blank.replace(
        area=jnp.stack(area),
        legal=jnp.packbits(jnp.ones(10, bool)),
        policy_target=(jnp.arange(10) / 45).astype(jnp.float16),
        outcome=jnp.float32(-1),
        root_value=jnp.float32(0.5),
        score=jnp.float32(-3.5),
        value_weight=jnp.float16(1),
    )
    turned = jax.jit(lambda row, k: replay.example(RULES, "compact", row, k, 0.75)[1])
    for k in range(symmetry.NUM_SYMMETRIES):
        black = turned(row, k)
        np.testing.assert_array_equal(black.ownership, symmetry.map_points(3, owners, jnp.int32(k)))
        expected = symmetry.map_actions(3, row.policy_target, jnp.int32(k))
        np.testing.assert_array_equal(black.policy_target, expected.astype(jnp.float32))
    assert black.outcome == -0.75 + 0.25 * 0.5
    assert (black.score, black.value_weight, black.policy_weight) == (-3.5, 1, 0)
    cut = turned(row.replace(value_weight=jnp.float16(0)), 0)  # its outcome does not count
    assert (cut.outcome, cut.value_weight) == (0.5, 0.25)
    white = row.replace(position=row.position.replace(to_play=jnp.int8(1)))
    np.testing.assert_array_equal(turned(white, 7).ownership, -black.ownership)
    chex.assert_type([black.policy_target, black.ownership, black.value_weight], jnp.float32)
    with pytest.raises(ValueError, match="'zero' uses 7 past boards, and the rows have 0"):
        replay.example(RULES, "zero", row, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 0}, "--capacity 0: expected from 1 to"),
        ({"capacity": 2**31}, "--capacity 2147483648: expected from 1 to"),
        ({"capacity": 2**24, "surprise": 0.5}, "--capacity 16777216: too many rows"),
        ({"reuse": 0.0}, "--reuse 0.0: expected above 0"),
        ({"min_rows": 21}, "--min-rows 21: expected from 1 to the 20 of --capacity"),
        ({"surprise": 1.5}, "--surprise 1.5: expected from 0 to 1"),
        ({"policy_dtype": "bfloat16"}, "--policy-dtype bfloat16: expected one of"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        dataclasses.replace(CONFIG, **changes)


@pytest.mark.parametrize(("field", "value"), [("least", 0), ("exponent", 0.0), ("scale", 1.1)])
def test_bad_windows(field, value):
    with pytest.raises(ValueError, match=f"^--{field} {value}: expected"):
        Window(**{field: value})
