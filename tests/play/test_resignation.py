"""The resignation threshold, from games that were played to the end."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.play import resignation
from gozero.play.openings import Openings
from gozero.play.resignation import NEVER, Records, ResignConfig
from gozero.play.selfplay_config import PlayoutCap
from gozero.search.config import SearchConfig

calibrate = jax.jit(resignation.calibrate)


def records_of(winner, loser, size=64):
    """Records of games by each side's lowest value; the rest of the ring buffer is unwritten."""
    rest = np.full(size - len(winner), np.inf)
    padded = [jnp.asarray(np.append(x, rest), jnp.float32) for x in (winner, loser)]
    return Records(
        *padded,
        ply=jnp.full(size, resignation.NO_PLY, jnp.int16),
        wrong=jnp.zeros(size, bool),
        count=jnp.int32(len(winner)),
    )


def reference(winner, loser, most_wrong=0.05, ceiling=-0.5):
    """The highest acceptable threshold, by counting at every value."""
    best = NEVER
    for tried in sorted({*winner, *loser, ceiling}):
        wrong = sum(low < tried for low in winner)
        resigned = sum(min(pair) < tried for pair in zip(winner, loser, strict=True))
        if tried <= ceiling and (wrong + 1) / (resigned + 1) < most_wrong:
            best = tried
    return best


@pytest.mark.parametrize("seed", range(6))
def test_calibration_counts(seed):
    rng = np.random.RandomState(seed)
    # Losers go low, winners seldom; the last game is a draw, without a winner.
    loser = np.float32(-1 + 0.3 * rng.rand(60) ** 2)
    low = rng.rand(60) < 0.03 * seed
    winner = np.float32(np.where(low, -1 + 0.5 * rng.rand(60), -0.2 + rng.rand(60)))
    winner[-1] = np.inf
    result = calibrate(records_of(winner, loser))
    assert result == reference(winner, loser)
    assert result == -0.5 or seed > 0


def test_calibration_by_hand():
    """Forty losers reach -0.9, two winners -0.8: no threshold above that is acceptable."""
    loser = [-0.9] * 40
    assert float(calibrate(records_of([1.0] * 40, loser))) == -0.5
    low = np.float32([-0.8, -0.8, *[1.0] * 38])
    assert calibrate(records_of(low, loser)) == np.float32(-0.8)
    assert float(calibrate(records_of([1.0] * 19, loser[:19]))) == NEVER  # too few games
    assert float(calibrate(records_of([], []))) == NEVER


def test_devices_calibrate_together():
    """Forty games, of which no device alone has enough."""
    low = np.float32([-0.8, -0.8, *[1.0] * 38]).reshape(4, 10)
    shards = [records_of(winner, [-0.9] * 10, size=16) for winner in low]
    assert all(float(calibrate(shard)) == NEVER for shard in shards)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *shards)
    state = resignation.start(ResignConfig(), jax.random.key(0), 3)

    def together(records):
        return resignation.recalibrate(state.replace(records=records), "device").threshold

    thresholds = jax.vmap(together, axis_name="device")(stacked)
    assert thresholds.tolist() == [np.float32(-0.8)] * 4
    alone = resignation.recalibrate(state.replace(records=records_of(low.ravel(), [-0.9] * 40)))
    assert alone.threshold == np.float32(-0.8)
    assert resignation.recalibrate(None) is None


def test_nobody_resigns_without_a_threshold():
    """Without a threshold: not even at a value of -1, nor without a search."""
    state = resignation.start(ResignConfig(), jax.random.key(0), 3)
    ply, to_play = jnp.arange(3, dtype=jnp.int16), jnp.array([0, 1, 0], jnp.int8)
    seen, resigns = resignation.consider(state, jnp.array([-1.0, -0.9, jnp.inf]), to_play, ply)
    assert not resigns.any()
    assert (seen.ply == resignation.NO_PLY).all()
    np.testing.assert_allclose(seen.lowest, [[-1, np.inf], [np.inf, -0.9], [np.inf, np.inf]])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ResignConfig(play_on_share=0.05), "play_on_share"),
        (lambda: ResignConfig(num_records=0), "num_records"),
        (lambda: PlayoutCap(SearchConfig(), 0.0), "full_share"),
        (lambda: Openings(-1, 3), "least"),
        (lambda: Openings(4, 3), "most"),
    ],
)
def test_bad_settings(make, field):
    with pytest.raises(ValueError, match=f"^{field}: "):
        make()


def test_a_drawn_game_counts_as_wrongly_resigned():
    config = ResignConfig(1.0, 4)
    state = resignation.start(config, jax.random.key(0), 3)
    state = state.replace(threshold=jnp.float32(-0.5), may=jnp.zeros(3, bool))
    ply, to_play = jnp.zeros(3, jnp.int16), jnp.array([0, 0, 1], jnp.int8)
    state, _ = resignation.consider(state, jnp.array([-0.6, -0.7, -0.8]), to_play, ply)
    outcome = jnp.array([-1.0, 0.0, 1.0])  # Black lost, a draw, White lost
    ended = jnp.ones(3, bool)
    closed = resignation.close(config, state, jax.random.key(1), ended, ~ended, outcome)
    records = closed.records
    assert records.winner_lowest[:3].tolist() == [np.inf, np.float32(-0.7), np.inf]
    assert records.loser_lowest[:3].tolist() == [np.float32(x) for x in (-0.6, -0.7, -0.8)]
    assert resignation.rates(records) == (3, 3, 1)
