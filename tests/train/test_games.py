"""Games in play and the rows made from them, against a slow loop over the recorded moves."""

from __future__ import annotations

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import rel_entr

from gozero.go import bitboard as bb
from gozero.go import symmetry
from gozero.go.rules import init
from gozero.nets import kinds, weights
from gozero.nets.features import FEATURES
from gozero.play import resignation, selfplay
from gozero.play.networks import network_evaluator
from gozero.play.openings import Openings
from gozero.play.rows import stored_policy
from gozero.runs.memory import num_bytes
from gozero.search.game import Evaluation, Evaluator
from gozero.search.rules.gumbel import GumbelRoot
from tests.go.boards import unpack
from tests.hlo import AS_USERS_FUSE, moves_in_loops
from tests.nets import katago_files
from tests.reference.go import ReferenceGame
from tests.train import scripted
from tests.train.scripted import BUFFER, CONFIG, GAME, RULES
from train import buffer as buffers
from train import calibration, games, replay
from train.calibration import BINS

CALLS = 6
LAY = RULES.layout


@pytest.fixture(scope="module")
def run():
    """(moves [CALLS T, B], the state after each call, the jitted function)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selfplay, "search", scripted.search)
        chex.clear_trace_counter()
        play = jax.jit(chex.assert_max_traces(scripted.scan, n=1), donate_argnums=0)
        playing, seen, after = scripted.start(), [], []
        shapes = jax.tree.map(lambda x: (x.shape, x.dtype), playing)
        for _ in range(CALLS):
            playing, found = play(playing)
            seen.append(jax.device_get(found))
            after.append(jax.tree.map(np.asarray, playing.replace(lanes=bare(playing.lanes))))
        assert jax.tree.map(lambda x: (x.shape, x.dtype), playing) == shapes
        yield jax.tree.map(lambda *x: np.concatenate(x), *seen), after, play


def bare(lanes):
    """The lanes without typed keys, which NumPy lacks."""
    return lanes.replace(key=jax.random.key_data(lanes.key), batch_key=None)


def owners(game) -> np.ndarray:
    """+1 where a point is Black's, -1 White's, by walking each empty region."""
    owner = np.array(game.board)
    for p in range(len(owner)):
        if game.board[p] == 0:
            region, todo, beside = {p}, [p], set()
            while todo:
                for q in game.neighbours[todo.pop()]:
                    if game.board[q]:
                        beside.add(game.board[q])
                    elif q not in region:
                        region.add(q)
                        todo.append(q)
            owner[p] = beside.pop() if len(beside) == 1 else 0
    return owner


def pick(tree, *index):
    return jax.tree.map(lambda x: x[index], tree)


def reference(seen):
    """The rows computed by a slow loop over the moves, in the order in which games end.

    Each lane's game is also played by the plain reference rules, which say how it ends.
    """
    rows, ends = [], []
    steps, lanes = seen.made.ended.shape
    beside = [ReferenceGame(3) for _ in range(lanes)]
    pending, boards = [[] for _ in range(lanes)], [[] for _ in range(lanes)]
    for t in range(steps):
        for b in range(lanes):
            made, game = pick(seen.made, t, b), beside[b]
            mover = 1 if made.position.to_play == 0 else -1
            assert game.to_play == mover
            assert made.position.ply == game.moves
            np.testing.assert_array_equal(made.legal, game.legal())
            stones = unpack(LAY, made.position.black).astype(int) - unpack(LAY, made.position.white)
            np.testing.assert_array_equal(stones, game.board)
            if game.moves >= seen.opening[t, b] and made.ok and made.full:
                pending[b].append((made, boards[b][: -BUFFER.past_boards - 1 : -1], (t, b)))
            boards[b].append(stones)
            if made.resigned:
                assert made.action == selfplay.NO_ACTION
                end = {"outcome": -mover, "score": 0, "area": np.zeros(9), "weights": (1, 0)}
            else:
                assert made.legal[made.action]
                game.play(int(made.action))
                truncated = game.passes < 2 and game.moves == RULES.move_limit
                assert made.truncated == truncated
                score = game.area() - made.komi
                end = {"outcome": np.sign(score), "score": score, "area": owners(game)}
                end["weights"] = (0, 0) if truncated else (1, 1)
                if not truncated and game.passes < 2:
                    assert not made.ended
                    continue
            assert made.ended
            ends.append((t, b, end))
            rows += [(*move, end) for move in pending[b]]
            beside[b], pending[b], boards[b] = ReferenceGame(3), [], []
    return rows, ends


def check_row(row, move, before, _, end):
    mover = 1 if move.position.to_play == 0 else -1
    chex.assert_trees_all_equal(row.position, move.position)
    np.testing.assert_array_equal(np.unpackbits(row.legal, count=10), move.legal)
    stored = stored_policy(np, move.policy_target, BUFFER.policy_dtype)
    np.testing.assert_array_equal(row.policy_target, stored)
    black, white = (unpack(LAY, tuple(board)).astype(int) for board in row.area)
    np.testing.assert_array_equal(black - white, end["area"])
    trusted, played_out = end["weights"]
    expected = {
        "komi": move.komi,
        "root_value": move.root_value,
        "outcome": mover * end["outcome"],
        "score": mover * end["score"],
        "game": move.game,
        "known": len(before),
        "policy_weight": 1,
        "value_weight": trusted,
        "score_weight": played_out,
        "ownership_weight": played_out,
    }
    assert {name: getattr(row, name) for name in expected} == expected
    past = [unpack(LAY, tuple(b)).astype(int) - unpack(LAY, tuple(w)) for b, w in row.past]
    np.testing.assert_array_equal(past, before + [np.zeros(9)] * (BUFFER.past_boards - len(before)))


def test_the_buffer_holds_the_rows_of_finished_games(run):
    """After each call the ring holds the newest rows, each as the reference has it."""
    seen, after, _ = run
    for i in range(CALLS):
        rows, _ = reference(jax.tree.map(lambda x, i=i: x[: (i + 1) * scripted.MOVES], seen))
        buffer = after[i].buffer
        capacity = BUFFER.capacity
        assert buffer.added == len(rows)
        assert buffer.size == min(len(rows), capacity)
        assert buffer.cursor == len(rows) % capacity
        for k, row in list(enumerate(rows))[-capacity:]:
            check_row(pick(buffer.rows, k % capacity), *row)
    assert len(rows) > 3 * capacity  # it wrapped around


def test_games_end_in_every_way_and_at_several_lanes_at_once(run):
    seen, _, _ = run
    made = seen.made
    _, ends = reference(seen)
    assert [(t, b) for t, b, _ in ends] == list(zip(*np.nonzero(made.ended), strict=True))
    natural = made.ended & ~made.resigned & ~made.truncated
    drawn = (made.outcome == 0) & made.ended & ~made.resigned
    for way in (natural, made.resigned, made.truncated, drawn):
        assert way.any()
    assert (made.ended.sum(axis=1) > 1).any()
    assert set(made.komi[made.ended]) == set(CONFIG.komi)


def test_a_new_game_begins_as_init_with_new_random_numbers(run):
    seen, after, _ = run
    made = seen.made
    where = np.nonzero(made.ended[:-1])
    first = pick(made, where[0] + 1, where[1])
    for i in range(len(where[0])):
        fresh = init(RULES, first.komi[i])
        chex.assert_trees_all_equal(pick(first.position, i), fresh.position)
        assert first.legal[i].all()
    np.testing.assert_array_equal(first.game, np.sort(first.game))  # in lane order
    assert set(seen.opening.reshape(-1)) == {0, 1, 2, 3}
    past, blank = after[-1].lanes.states.past, jax.tree.map(np.asarray, init(RULES).past)
    for b in range(CONFIG.batch):  # every game's past still begins with the empty board
        np.testing.assert_array_equal(past.boards[b, 0], blank.boards[0])
        np.testing.assert_array_equal(past.fingerprints[b, ..., 0], blank.fingerprints[..., 0])


def test_one_draw_makes_a_search_full_for_the_batch(run):
    full = run[0].made.full
    assert (full == full[:, :1]).all()
    assert 0.2 < full.mean() < 0.6  # 0.4 of 84


def check_searches(made, full):
    """Each target is the scripted one of a full search or of a cheap one, as `made.full` says."""
    flat = lambda x: x.reshape(made.full.size, *x.shape[2:])
    scripted_output = jax.jit(scripted.hashed)
    of = lambda number: np.asarray(
        scripted_output(*jax.tree.map(flat, (made.position, made.legal)), number).policy_target
    )
    cheap, full = of(scripted.CHEAP), of(full)
    assert (cheap != full).any(axis=-1).mean() > 0.9
    wanted = np.where(flat(made.full)[:, None], full, cheap)
    np.testing.assert_allclose(flat(made.policy_target), wanted, rtol=1e-6)
    assert made.full.any()
    assert not made.full.all()


def test_full_searches_are_full_and_the_others_cheap(run):
    check_searches(run[0].made, scripted.FULL)


@pytest.mark.thorough
def test_full_searches_have_the_simulations_that_the_caller_asks_for(monkeypatch):
    monkeypatch.setattr(selfplay, "search", scripted.search)
    move = functools.partial(selfplay.move, CONFIG, Evaluator(None), None, num_simulations=4)
    scan = jax.jit(lambda lanes: jax.lax.scan(lambda x, _: move(x), lanes, length=scripted.MOVES))
    check_searches(jax.device_get(scan(selfplay.start(CONFIG, 0))[1]), 4)


def test_the_first_moves_are_sampled_and_the_root_rule_plays_the_others(run):
    seen, _, _ = run
    made = seen.made
    target = np.where(made.policy_target > 0, made.policy_target, 9)
    played = np.take_along_axis(target, np.maximum(made.action, 0)[..., None], -1)[..., 0]
    asked = made.counts & ~made.resigned
    obeyed = played == target.min(axis=-1)
    ply = made.position.ply
    assert obeyed[asked & (ply >= scripted.SAMPLED_MOVES)].all()
    assert obeyed[asked & (ply < scripted.SAMPLED_MOVES)].mean() < 0.8


def test_surprise_is_the_divergence_from_the_prior(run):
    made = run[0].made
    prior = 1 / made.legal.sum(axis=-1, keepdims=True)
    p = made.policy_target.astype(float)
    expected = np.where(p > 0, p * np.log(np.maximum(p, 1e-9) / prior), 0).sum(axis=-1)
    np.testing.assert_allclose(made.surprise, expected, atol=1e-5)


def test_resignation_is_recorded_where_games_are_played_on(run):
    """Who resigns; in games played on, who would have resigned and whether they still won."""
    seen, after, _ = run
    made, steps = seen.made, len(seen.made.ended)
    records, lowest, first = [], {}, {}
    for t in range(steps):
        for b in range(CONFIG.batch):
            move, colour = pick(made, t, b), int(made.position.to_play[t, b])
            # The scripted Q is never above the value, so the value is what resignation looks at.
            standing = move.root_value if move.counts else np.inf
            below = standing < scripted.THRESHOLD
            assert move.resigned == (below and seen.may_resign[t, b])
            low = lowest.setdefault(b, [np.inf, np.inf])
            low[colour] = min(low[colour], standing)
            if below and b not in first:
                first[b] = (int(move.position.ply), colour)
            if not move.ended:
                continue
            ply, who = first.pop(b, (resignation.NO_PLY, None))
            black, white = lowest.pop(b)
            if seen.may_resign[t, b] or move.truncated:
                continue
            won = move.outcome if who == 0 else -move.outcome
            pair = {1: (black, white), -1: (white, black), 0: (np.inf, min(black, white))}
            records.append((*pair[int(move.outcome)], ply, who is not None and won > 0))
    result = after[-1].lanes.resignation.records
    assert result.count == len(records) > 8
    for i in range(len(records) - 8, len(records)):
        row = tuple(getattr(result, name)[i % 8] for name in ("winner_lowest", "loser_lowest"))
        assert (*row, result.ply[i % 8], result.wrong[i % 8]) == records[i]
    kept = records[-8:]
    rates = resignation.rates(result)
    assert rates.games == 8
    assert rates.resigned == sum(ply >= 0 for _, _, ply, _ in kept)
    assert rates.wrong == sum(wrong for *_, wrong in kept)


def test_same_seed_same_games_and_shards_share_the_draws_of_a_batch(run):
    seen, _, play = run
    first = jax.tree.map(lambda x: x[: scripted.MOVES], seen)
    again = jax.device_get(play(scripted.start())[1])
    chex.assert_trees_all_equal(again, first)
    other = jax.device_get(play(scripted.start(shard=1))[1])
    np.testing.assert_array_equal(other.made.full, first.made.full)
    assert (other.made.action != first.made.action).any()


def test_a_calibrated_threshold_does_not_recompile(run):
    """The threshold is data; `run` allows a single trace."""
    _, after, play = run
    playing = scripted.start()
    records = after[-1].lanes.resignation.records
    threshold = jax.jit(resignation.calibrate)(records)
    assert float(threshold) == resignation.NEVER  # eight games are too few
    lanes = playing.lanes
    watched = lanes.resignation.replace(threshold=threshold)
    playing = playing.replace(lanes=lanes.replace(resignation=watched))
    assert not play(playing)[1].made.resigned.any()


def test_lanes_are_staggered():
    plies = selfplay.start(scripted.config_with(stagger=None), 0).states.position.ply
    assert len(set(plies.tolist())) > 2
    assert plies.max() < RULES.move_limit


def test_several_lanes_are_written_at_once(run, monkeypatch):
    """As in large batches: the same rows in the same order, with no array copied in loops."""
    seen, after, _ = run
    monkeypatch.setattr(games, "LANES_AT_ONCE", 3)

    def take(state, move):
        return games.record_move(GAME, BUFFER, *state, *move), None

    state = games.new_games(GAME, BUFFER, CONFIG.batch), buffers.start(GAME, BUFFER)
    moves = jax.tree.map(jnp.asarray, (seen.made, seen.states))
    all_ = jax.jit(functools.partial(jax.lax.scan, take), compiler_options=AS_USERS_FUSE)
    all_ = all_.lower(state, moves).compile()
    (played, buffer), _ = all_(state, moves)
    chex.assert_trees_all_equal(buffer, after[-1].buffer)
    chex.assert_trees_all_equal(played.length, after[-1].games.length)
    text = all_.as_text()
    for leading in (BUFFER.capacity, CONFIG.batch * RULES.move_limit):
        assert moves_in_loops(text, leading) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("komi", ()),
        ("komi", (0.5, 0.3)),
        ("batch", 0),
        ("batch", 2**29),
        ("stagger", 14),
        ("stagger", -1),
        ("openings", Openings(0, 14)),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        scripted.config_with(**{field: value})


def test_unknown_numbers_of_simulations_are_refused():
    assert CONFIG.full_search(4).num_simulations == 4
    assert CONFIG.full_search().root_select == GumbelRoot(4, value_scale=1.0, rescale=False)
    assert [search.num_simulations for search in CONFIG.searches] == [8, 4, 3]
    assert CONFIG.searches[-1].root_select.scale == 0
    with pytest.raises(ValueError, match="num_simulations: 5 is not one of 4, 8"):
        CONFIG.full_search(5)


def test_a_teacher_gives_the_targets_of_searched_moves(run):
    """The targets are its policy over legal actions and its value; nothing is learnt from nan."""
    seen, _, _ = run
    late = next(t for t in range(1, len(seen.made.full)) if seen.made.full[t].all())
    cheap = next(t for t in range(1, len(seen.made.full)) if not seen.made.full[t].any())

    def evaluate(params, key, plies):
        logits = plies[:, None] * jnp.arange(10, dtype=jnp.float32)[None] * params
        value = jnp.where(plies == seen.made.ply[late, 0], jnp.nan, plies / 20)
        return Evaluation(logits, value)

    observe = lambda context, position, ancestors: (
        position.ply.astype(jnp.float32) + ancestors.length
    )
    teacher = Evaluator(evaluate, jnp.float32(0.1), observe)
    taught = jax.jit(functools.partial(games.with_teacher_targets, GAME, teacher))
    made = pick(seen.made, late)
    result = taught(pick(seen.states, late - 1), made)
    for b in range(CONFIG.batch):
        weight = np.exp(0.1 * made.ply[b] * np.arange(10)) * made.legal[b]
        np.testing.assert_allclose(result.policy_target[b], weight / weight.sum(), rtol=1e-5)
        assert result.counts[b] == (made.counts[b] and made.ply[b] != made.ply[0])
        assert made.ply[b] == made.ply[0] or np.isclose(result.root_value[b], made.ply[b] / 20)
    divergence = rel_entr(result.policy_target, np.maximum(made.prior, 0)).sum(axis=1)
    np.testing.assert_allclose(result.surprise, divergence, rtol=1e-4)
    made = pick(seen.made, cheap)
    kept = taught(pick(seen.states, cheap - 1), made)
    np.testing.assert_array_equal(kept.root_value, made.root_value)


def test_a_teacher_is_prepared_once_for_all_moves(run):
    prepared: list = []

    def prepare(params):
        prepared.append(params)
        return {"prepared": params}

    def evaluate(params, key, plies):
        return Evaluation(jnp.zeros((CONFIG.batch, 10)), plies * params["prepared"])

    observe = lambda context, position, ancestors: position.ply.astype(jnp.float32)
    teacher = Evaluator(evaluate, jnp.float32(0.1), observe, prepare=prepare)
    settings = CONFIG, BUFFER, Evaluator(None), 3, None
    play = functools.partial(games.play_moves, *settings, teacher=teacher)
    jax.eval_shape(play, jax.eval_shape(scripted.start))
    assert len(prepared) == 1


@pytest.mark.thorough
def test_a_katago_network_is_a_teacher(run, tmp_path):
    """Its policy and value of the planes that it sees, by plain NumPy, are the targets."""
    seen, _, _ = run
    model, path = katago_files.model(8), tmp_path / "tiny.bin.gz"
    path.write_bytes(katago_files.data(model, packed=True))
    config, params, _ = weights.load(path, RULES.size)
    teacher = network_evaluator(RULES, config, params)
    late = next(t for t in range(1, len(seen.made.full)) if seen.made.full[t].all())
    made, states = pick(seen.made, late), pick(seen.states, late - 1)
    observe = kinds.observer(config, RULES)

    @jax.jit
    def taught(states, made):
        inputs = jax.vmap(lambda s: observe(s, s.position))(states)
        return games.with_teacher_targets(GAME, teacher, states, made), inputs

    result, inputs = jax.device_get(taught(states, made))
    for b in range(CONFIG.batch):
        policy, value, _, _ = katago_files.evaluate(model, *(x[b] for x in inputs[:2]))
        weight = np.exp(policy[:, 0] - policy.max()) * made.legal[b]
        np.testing.assert_allclose(result.policy_target[b], weight / weight.sum(), atol=1e-4)
        win, loss = np.exp(value[:2])  # under superko every game has a result
        assert result.root_value[b] == pytest.approx((win - loss) / (win + loss), abs=1e-4)


@pytest.mark.parametrize("name", ["compact", "zero", pytest.param("full", marks=pytest.mark.slow)])
def test_a_row_gives_the_planes_that_self_play_saw_and_their_images(run, name):
    """In games with random openings and moves that are not learnt from, in each symmetry."""
    seen, after, _ = run
    rows, _ = reference(seen)
    capacity, ring = BUFFER.capacity, after[-1].buffer
    places = np.arange(len(rows) - capacity, len(rows))
    lanes = np.array([rows[place][2] for place in places])
    assert lanes[:, 0].min() > 0
    states = jax.tree.map(lambda x: x[lanes[:, 0] - 1, lanes[:, 1]], seen.states)
    wanted = jax.jit(jax.vmap(lambda s: FEATURES[name].observe(RULES, s, s.position)))(states)
    example = jax.vmap(lambda row, k: replay.example(RULES, name, row, k)[0])
    symmetries = jnp.asarray(places % 8)
    found = jax.jit(example)(pick(ring.rows, places % capacity), symmetries)
    if name == "full":
        chex.assert_trees_all_equal(found.global_inputs, wanted.global_inputs)
        found, wanted = found.planes, wanted.planes
    moved = jax.vmap(symmetry.map_planes)(wanted, symmetries)
    np.testing.assert_array_equal(found, moved)


def test_predictions_are_counted_once(run):
    """Against a slow loop: the priors of fully searched moves, and the values of finished games."""
    seen, _, _ = run
    policy, value = np.zeros((3, BINS)), np.zeros((3, BINS))
    for made in (pick(seen.made, *at) for at in np.argwhere(seen.made.counts & seen.made.full)):
        for prior, share in zip(
            made.prior[made.legal], made.policy_target[made.legal], strict=True
        ):
            policy[:, min(int(prior * BINS), BINS - 1)] += 1, prior, share
    for move, _, _, end in reference(seen)[0]:
        for_black = move.raw_value * (1 if move.position.to_play == 0 else -1)
        if end["weights"] != (0, 0):
            chance, point = (1 + for_black) / 2, (1 + end["outcome"]) / 2
            value[:, min(int(chance * BINS), BINS - 1)] += 1, chance, point
    assert (value[0] > 0).all()
    made = seen.made
    is_row = (made.counts & made.full)[..., None] & made.legal
    found = calibration.binned(made.prior, made.policy_target, is_row)
    np.testing.assert_allclose(np.stack(found), policy, rtol=1e-5)
    in_play, sums = jnp.zeros((CONFIG.batch, 2, BINS)), np.zeros((3, BINS))
    for begin in range(0, len(made.ended), 5):  # games continue from call to call
        some = jax.tree.map(lambda x, begin=begin: x[begin : begin + 5], seen.predictions)
        found, in_play = calibration.of_games(in_play, some)
        sums += np.stack(found)
    np.testing.assert_allclose(sums, value, rtol=1e-5)


def test_a_row_is_small():
    buffer = jax.eval_shape(scripted.start).buffer
    row = num_bytes(buffer) // BUFFER.capacity
    past = BUFFER.past_boards * 2 * 4
    assert bb.layout(3).num_words * 5 * 4 + 2 + 20 < row - past < 100


def test_the_buffer_needs_room_for_all_games_of_a_move():
    with pytest.raises(ValueError, match="capacity: 13 rows do not hold the 14"):
        games.start(CONFIG, buffers.BufferConfig(13), 0)
