"""Run by test_devices.py in a process with four devices, among which games are divided."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.play import arena, devices, resignation, searches, selfplay
from gozero.play.lockstep import LockstepPlayer
from gozero.play.player import Choice, Player, random_player
from gozero.play.resignation import ResignConfig
from gozero.search.game import Evaluator
from gozero.search.move_choice import Temperature
from gozero.search.rules.puct import Puct
from tests.search.evaluators import hash_evaluate, observe_position

RULES = go.Rules(3, "simple", max_moves=20)
PLAY = jax.jit(functools.partial(go.play, RULES))
LEGAL = jax.jit(functools.partial(go.legal_actions, RULES))
LANES, ROWS = 16, 3  # memory rows per game, as trees have


def begin(params, states):
    return jnp.zeros(ROWS * states.komi.shape[0], jnp.int32)


def choose(params, key, turn, memory):
    """An action that depends on all the player is told of a game, now and earlier."""
    count = turn.legal.sum(axis=1)
    observed = turn.recent[0] + 3 * turn.recent[1] + 5 * turn.states.position.ply.astype(jnp.int32)
    known = memory.reshape(-1, ROWS)
    known = known + jnp.stack([observed, 7 * observed + 1, known[:, 0]], axis=1)
    nth = (known.sum(axis=1) + params) % count
    action = jnp.argmax(jnp.cumsum(turn.legal, axis=1) > nth[:, None], axis=1)
    return Choice(action.astype(jnp.int32), action >= 0, known.reshape(-1), action == 8)


def ours(params: int) -> Player:
    return Player(choose, jnp.int32(params), begin)


def meshes_are_of_equal_shares():
    """Meshes use as many of the four devices as divide the games equally."""
    of = lambda games, **more: devices.make_mesh(games, **more).size
    assert [of(n) for n in (1, 8, 15, 16, 30, 32, 36, 34, 31)] == [1, 1, 1, 2, 3, 4, 4, 2, 1]
    assert [of(n, round_up=True) for n in (1, 15, 17, 31, 100)] == [1, 1, 2, 3, 4]
    for count in (1, 3, 4):
        mesh = devices.local_mesh(count)
        assert list(mesh.devices) == jax.devices()[:count]
        assert mesh == devices.mesh_of(count)
    with pytest.raises(ValueError, match="--devices 5: only 4 devices are available"):
        devices.local_mesh(5)


def a_match_is_the_same_on_any_number():
    play = lambda first, second: arena.play_match(
        RULES, first, second, jax.random.key(0), 2 * LANES, komi=0.5, openings=2
    )
    alone = play(ours(0), ours(1))
    assert len(np.unique(alone.plies)) > 2
    mesh = devices.make_mesh(32)
    on_all = [devices.over_mesh(ours(k), mesh) for k in range(2)]
    jax.tree.map(np.testing.assert_array_equal, play(*on_all), alone)
    # Players that share `choose` share a compiled program.
    assert on_all[0].choose is on_all[1].choose
    # Each device draws with its own key, so that no two play the same random games.
    at_random = devices.over_mesh(random_player(RULES), mesh)
    choice = at_random.choose(None, jax.random.key(0), turn_of_new_games(), None)
    actions = np.asarray(choice.action)
    shares = actions.reshape(mesh.size, -1)
    assert len({tuple(share) for share in shares.tolist()}) == mesh.size
    with pytest.raises(ValueError, match=r"^mesh: 4 devices do not divide 50 games"):
        arena.play_match(RULES, *on_all, jax.random.key(0), 100)


def turn_of_new_games():
    states = jax.vmap(lambda _: go.init(RULES))(jnp.arange(LANES))
    legal = jax.vmap(lambda state: go.legal_actions(RULES, state))(states)
    return arena.Turn(states, legal, jnp.full((2, LANES), arena.NO_ACTION))


def lanes_go_on_alike(fewest: int):
    """Lanes continue alike for any batch width and number of devices."""
    devices.FEWEST = fewest
    rng = np.random.default_rng(1)
    players = [
        LockstepPlayer(RULES, ours(0), LANES, jax.random.key(2), mesh)
        for mesh in (None, devices.make_mesh(4 * fewest))
    ]
    assert players[1]._mesh.size == 4
    players[1].compile()
    memories = [player.new_memory() for player in players]
    games = [go.init(RULES)] * LANES
    widths = set()
    for turn in range(6):
        selected = np.flatnonzero(rng.random(LANES) < (1, 0.5, 0.2)[turn % 3])
        states = {int(lane): games[lane] for lane in selected}
        since = {lane: rng.integers(0, 9, 2).tolist() for lane in states}
        found = []
        for i, player in enumerate(players):
            moves, memories[i] = player.choose(states, memories[i], since)
            found.append(np.stack([np.asarray(x)[selected] for x in moves]))
        np.testing.assert_array_equal(*found)
        np.testing.assert_array_equal(*memories)
        widths.add(players[1]._batch(np.isin(np.arange(LANES), selected)).shape)
        for lane, action in zip(states, found[0][0], strict=True):
            games[lane] = PLAY(games[lane], jnp.int32(action))
    return widths


def with_games_given_up(state: resignation.Resignation) -> resignation.Resignation:
    """The state of four devices [4], each with 10 records of games that were rightly given up: too
    few for a threshold, but those of all are enough."""
    records = state.records
    latest = np.arange(records.ply.shape[1]) >= records.ply.shape[1] - 10  # overwritten last
    recorded = {"winner_lowest": 1.0, "loser_lowest": -0.8}
    recorded = {name: np.where(latest, value, np.inf) for name, value in recorded.items()}
    like = lambda new, old: jax.device_put(
        np.broadcast_to(new.astype(np.float32), old.shape), old.sharding
    )
    known = {name: like(x, getattr(records, name)) for name, x in recorded.items()}
    never = jax.device_put(np.full(4, np.float32(resignation.NEVER)), state.threshold.sharding)
    return state.replace(records=records.replace(**known), threshold=never)


def self_play_is_divided():
    evaluate = hash_evaluate(RULES.num_actions, 1.0, 0.2)
    evaluator = Evaluator(evaluate, None, observe_position, Puct())
    game = go_game(RULES)
    search = searches.puct_search(game, evaluator, 4, reuse_subtree=True)
    config = selfplay.SelfPlayConfig(
        game,
        LANES,
        search,
        komi=0.5,
        num_games=40,
        temperature=Temperature(moves=20),
        reuse_subtree=True,
        resign=ResignConfig(1.0, 64),  # no game is resigned, all are recorded
        stagger=0,
    )
    mesh = devices.make_mesh(32)
    play = selfplay.make_play_moves(config, evaluator, 5, mesh)
    with pytest.raises(ValueError, match=r"^batch: 30 is not a multiple of the 4 devices$"):
        selfplay.start_on(dataclasses.replace(config, batch=30), 0, mesh)
    lanes, games = selfplay.start_on(config, 0, mesh), {}
    lanes = lanes.replace(resignation=with_games_given_up(lanes.resignation))
    while sum(bool(rows[-1].ended) for rows in games.values()) < 40:
        lanes, rows = play(None, lanes)
        if not games:  # the first call: it has calibrated on the games of all devices
            assert lanes.resignation.threshold.tolist() == [-0.5] * 4
        shape = lanes.tree.visits.sharding.shard_shape(lanes.tree.visits.shape)
        assert shape == (1, LANES // 4 * config.search.num_nodes)
        rows = jax.device_get(rows)
        assert rows.ok.all()
        for t, lane in zip(*np.nonzero(rows.game >= 0), strict=True):
            row = jax.tree.map(lambda x, t=t, lane=lane: x[t, lane], rows)
            games.setdefault(int(row.game), []).append(row)
    assert sorted(games) == list(range(40))  # every number once, whichever device began it
    for played in games.values():
        state = go.init(RULES, 0.5)
        for row in played:
            assert row.legal.tolist() == LEGAL(state).tolist()
            assert row.legal[row.action]
            state = PLAY(state, row.action)
            assert bool(row.ended) == bool(state.ended)
        assert state.ended
    first = [tuple(int(row.action) for row in games[number]) for number in range(LANES)]
    assert len(set(first)) > LANES // 2  # no device repeats another's games


def main():
    self_play_is_divided()
    meshes_are_of_equal_shares()
    a_match_is_the_same_on_any_number()
    assert lanes_go_on_alike(fewest=8) == {(4, 4)}
    assert len(lanes_go_on_alike(fewest=1)) > 1
    with pytest.raises(ValueError, match=r"lanes: 6 is not a positive multiple of the 4 devices"):
        LockstepPlayer(RULES, ours(0), 6, jax.random.key(0), devices.make_mesh(32))
    print("all is as on one device")


if __name__ == "__main__":
    main()
