"""KataGo's networks: their files, trusted or hostile, and their outputs."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gzip
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gozero
from gozero.compile import mode, winograd
from gozero.go import coords
from gozero.go import rules as go
from gozero.nets import kinds, weights
from gozero.nets.features import Inputs
from gozero.nets.katago import model_file, network
from gozero.play.evaluators import over_symmetries
from gozero.search.game import Ancestors
from tests.nets import katago_files as files
from tests.reference import katago as reference
from tests.reference.go import ReferenceGame

DATA = pathlib.Path(
    os.environ.get("GOZERO_KATAGO") or pathlib.Path(__file__).parents[3] / "shared" / "katago"
)
NETWORK, POSITIONS = DATA / "g170-b6c96-s175395328-d26788732.bin.gz", DATA / "raw_nn.jsonl"


@pytest.fixture
def put(tmp_path):
    """A function that writes bytes to a named file."""

    def write(data, name="net.bin"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


# --- files --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 18))
def test_files_of_every_version_are_read(put, version):
    kinds_of = [files.ORDINARY, files.GPOOL]
    kinds_of += [files.NESTED, files.LEARNT, files.FIXED, files.FEED] if version >= 11 else []
    tip = "board" if version >= 17 else "batch"
    model = files.model(version, kinds_of, tip=tip)
    config, params, about = weights.load(put(files.data(model, packed=True), "net.bin.gz"), 5)
    assert (about["version"], about["name"], config.version) == (version, "tiny", version)
    assert config.scales == model["scales"]
    shape = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert shape(params) == shape(network.shapes(config))
    np.testing.assert_array_equal(params["trunk"]["conv"]["kernel"], model["stem"][0])
    plain = model_file.read(put(files.data(model)))
    jax.tree.map(np.testing.assert_array_equal, plain.params, jax.device_get(params))
    assert plain.config == config
    assert hash(config) == hash(plain.config)


def damaged(data):
    """{what is wrong: (the bytes, what the error says)}."""
    return {
        "cut": (data[:-1000], "cut off|the file ends|expected an array"),
        "more": (data + b"x", "2 bytes follow"),
        "text": (data.replace(b"@BIN@", b"1.0 2.0", 1), "expected an array, @BIN@"),
        "version": (
            data.replace(b"tiny\n8\n", b"tiny\n18\n"),
            "version: 18 .* supported are 3 to 17",
        ),
        "planes": (data.replace(b"8\n22\n19", b"8\n21\n19"), "channels in: 22, expected 21"),
        "huge": (data.replace(b"\n3\n3\n22\n6\n", b"\n3\n3\n22\n99999999\n"), "not a whole number"),
        "wide": (data.replace(b"\n3\n3\n22\n6\n", b"\n3\n3\n22\n9999\n"), "9999, expected 6"),
        "kind": (
            data.replace(b"gpool_block", b"gpool_bloc_"),
            "'gpool_bloc_' is not a supported kind",
        ),
        "blocks": (data.replace(b"trunk\n2\n", b"trunk\n100000\n"), "trunk: blocks: '100000'"),
        "epsilon": (data.replace(b"\n0.001\n", b"\nnan\n", 1), "epsilon: 'nan'"),
        "long": (data.replace(b"gpool_block", b"g" * 300), "a word of at most 256 bytes"),
    }


def test_invalid_files_are_refused_by_name_and_field(put):
    model = files.model(8)
    for name, (data, message) in damaged(files.data(model)).items():
        path = put(data, f"{name}.bin")
        with pytest.raises(ValueError, match=message) as error:
            model_file.read(path)
        assert str(path) in str(error.value)
    text = put(gzip.compress(damaged(files.data(model))["text"][0]), "net.txt.gz")
    with pytest.raises(ValueError, match=r"net\.txt\.gz.*in place of a text file use its"):
        weights.load(text)
    stem = model["stem"][0].astype("<f4").tobytes()
    for number in (np.nan, np.inf):
        data = files.data(model).replace(stem[:4], np.float32(number).tobytes(), 1)
        with pytest.raises(ValueError, match="first convolution: has numbers that are not finite"):
            model_file.read(put(data))
    with pytest.raises(ValueError, match=r"there is no file .*missing\.bin"):
        weights.load(put(b"").with_name("missing.bin"))
    with pytest.raises(ValueError, match=r"boards up to 19x19"):
        weights.load(put(files.data(model)), 20)


def test_a_katago_network_cannot_be_trained(put):
    path = put(files.data(files.model(8)))
    with pytest.raises(ValueError, match="a KataGo network, which cannot be trained"):
        weights.load_own(path)


def test_damaged_and_oversized_archives_are_refused(put):
    packed = files.data(files.model(8), packed=True)
    for data in (packed[:-9], packed[:40], b"\x1f\x8b" + b"\0" * 40, packed[:100] + packed[101:]):
        with pytest.raises(ValueError, match=r"net.bin.gz: damaged or not a KataGo model file"):
            model_file.read(put(data, "net.bin.gz"))
    bomb = gzip.compress(b"\0" * 2**25)
    with pytest.raises(ValueError, match="would unpack to more than"):
        model_file.read(put(bomb, "net.bin.gz"))


def test_mutated_files_are_read_or_raise_value_error(put):
    rng = np.random.default_rng(29)
    data = files.data(files.model(17, [files.NESTED, files.LEARNT, files.FEED], tip="board"))
    outcomes = collections.Counter()
    for _ in range(120):
        wrong = bytearray(data)
        at = int(rng.integers(len(wrong)))
        change = rng.integers(4)
        if change == 0:
            del wrong[at:]
        elif change == 1:
            del wrong[at : at + int(rng.integers(1, 64))]
        elif change == 2:
            wrong[at:at] = wrong[at // 2 : at // 2 + 40]
        else:
            wrong[at] ^= 1 << int(rng.integers(8))
        try:
            model_file.read(put(bytes(wrong)))
            outcome = "read"
        except ValueError as error:
            outcome = "refused" if "net.bin" in str(error) else f"not named: {error}"
        outcomes[outcome] += 1
    assert set(outcomes) == {"read", "refused"}
    assert min(outcomes["read"], outcomes["refused"]) > 8


def test_unsupported_features_are_named(put):
    human = files.data(files.model(15)).replace(
        b"\n0\n0\n0\n0\n0\n0\n0\n0\ntrunk", b"\n1\n0\ntrunk"
    )
    with pytest.raises(ValueError, match="imitate human players"):
        model_file.read(put(human))
    option = files.data(files.model(17)).replace(
        b"\n0\n0\n0\n0\n0\n0\ntrunk", b"\n0\n0\n0\n7\n0\n0\ntrunk"
    )
    with pytest.raises(ValueError, match="'7' is an option that is not supported"):
        model_file.read(put(option))
    plain = files.data(files.model(17, [files.FEED])).replace(b"\n6\n7\n1\nrms", b"\n6\n7\n0\nrms")
    with pytest.raises(ValueError, match="without a gate"):
        model_file.read(put(plain))
    deep = functools.reduce(
        lambda inner, _: ("nested_bottleneck_block", (inner,)), range(6), files.ORDINARY
    )
    with pytest.raises(ValueError, match="nested more than 4 deep"):
        model_file.read(put(files.data(files.model(14, [deep]))))


# --- numbers ------------------------------------------------------------------------------

ALL = [files.ORDINARY, files.NESTED, files.LEARNT, files.FEED, files.FIXED]


@pytest.mark.parametrize(
    ("version", "blocks", "tip"),
    [
        (8, (files.ORDINARY, files.GPOOL), "batch"),
        pytest.param(9, (files.ORDINARY,), "batch", marks=pytest.mark.thorough),
        pytest.param(12, (files.ORDINARY,), "batch", marks=pytest.mark.thorough),
        (17, ALL, "board"),
    ],
)
def test_networks_equal_plain_numpy(put, version, blocks, tip):
    model, size = files.model(version, blocks, tip=tip, seed=version), 5
    config, params, _ = weights.load(put(files.data(model)))
    rng = np.random.default_rng(0)
    planes = rng.normal(size=(2, size, size, 22)).astype(np.float32)
    numbers = rng.normal(size=(2, 19)).astype(np.float32)
    numbers[:, 6], numbers[:, 9] = (0, 1), 0  # simple ko, then superko
    optimism = jnp.array([0.0, 0.25]) if version >= 12 else None
    inputs = Inputs(planes, numbers, optimism)
    apply = jax.jit(functools.partial(network.apply, config))
    result = apply(params, inputs)
    at_root = apply(params, inputs._replace(optimism=None)).policy_logits
    for i in range(2):
        policy, value, score, owners = files.evaluate(model, planes[i], numbers[i])
        close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-4)
        other = policy[:, min(1, policy.shape[1] - 1)]
        close(result.policy_logits[i], policy[:, 0] + (0, 0.25)[i] * (other - policy[:, 0]))
        close(at_root[i], policy[:, 0] + 0.2 * (other - policy[:, 0]))
        close(result.ownership_logits[i], owners.reshape(-1))
        shares = np.exp(value - value.max()) * (1, 1, 1 - i)
        win, loss, nothing = shares / shares.sum()
        close([result.win[i], result.loss[i], result.no_result[i]], [win, loss, nothing])
        close(result.value[i], win - loss)
        by = model["scales"]
        close(result.score[i], score[2] * by[3] * (1 - nothing), rtol=1e-3)
        close(result.score_mean[i], score[0] * by[1] * (1 - nothing), rtol=1e-3)
        spread = np.log1p(np.exp(score[1])) * by[2]
        mean_of_squares = (1 - nothing) * ((score[0] * by[1]) ** 2 + spread**2)
        stdev = np.sqrt(mean_of_squares - (score[0] * by[1] * (1 - nothing)) ** 2)
        close(result.score_stdev[i], stdev, rtol=1e-3)
        errors = result.variance_time, result.value_error, result.score_error
        if version < 9:
            assert errors == (None, None, None)
        else:
            close([x[i] for x in errors], errors_of(version, score, by), rtol=1e-3)


def errors_of(version, score, scales):
    """How sure the other outputs are, with a positive number for each."""
    positive = lambda x: np.log1p(np.exp(x))
    time, pairs = positive(score[3]) * scales[4], list(zip(score[4:], scales[5:], strict=True))
    if version == 9:
        return [time, positive(score[4]), 10 * positive(score[5])]
    if version < 14:
        return [time, *(np.sqrt(positive(x) * by) for x, by in pairs)]
    return [time, *(positive(x / 2) * np.sqrt(by) for x, by in pairs)]


def test_a_search_is_optimistic_below_its_root():
    config = files.config(files.model(12, [files.ORDINARY]))
    rules = go.Rules(3)
    evaluator = gozero.network_evaluator(rules, config, {})
    assert (evaluator.about["optimism"], evaluator.about["root_optimism"]) == (1.0, 0.2)
    state = go.init(rules)
    positions = jax.tree.map(lambda x: jnp.stack([x] * 2), state.position)
    at = lambda n: evaluator.observe(state, state.position, Ancestors(positions, n)).optimism
    assert [float(jax.jit(at)(n)) for n in (0, 1)] == [pytest.approx(0.2), 1.0]
    old = gozero.network_evaluator(rules, files.config(files.model(11, [files.ORDINARY])), {})
    assert old.about["optimism"] == 0.0
    assert "root_optimism" not in old.about
    no_moves = Ancestors(positions, jnp.int32(1))
    assert jax.eval_shape(old.observe, state, state.position, no_moves).optimism is None


@pytest.mark.parametrize(
    ("blocks", "expected_counts"),
    [
        ((files.ORDINARY, files.GPOOL), [11, 5]),
        pytest.param(ALL, [15, 7], marks=pytest.mark.thorough),
    ],
)
def test_winograd_gives_the_same_outputs(put, blocks, expected_counts, monkeypatch):
    """In slices of 8, by `winograd`, except for convolutions other than 3x3 and 5x5."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    for name in ("_FEWEST_CHANNELS", "_FEWEST_TILES"):
        monkeypatch.setattr(winograd, name, 1)
    for name in ("_SLICE_BYTES", "_SLICE_BYTES_OF_A_CORE"):
        monkeypatch.setattr(winograd, name, 2**14)
    config, params, _ = weights.load(put(files.data(files.model(17, blocks, tip="board", seed=3))))
    keys = jax.random.split(jax.random.key(0))
    planes, numbers = (
        jax.random.normal(key, (32, *shape))
        for key, shape in zip(keys, [(5, 6, 22), (19,)], strict=True)
    )
    inputs = Inputs(planes, numbers)
    forms = [functools.partial(form, config) for form in (network.apply, network.apply_on_cpu)]
    with mode.target("cpu"):
        plain, in_tiles = (str(jax.make_jaxpr(form)(params, inputs)) for form in forms)
        prepared = network.prepared(config, params, (5, 6))
        assert network.prepared(config, prepared, (5, 6)) is prepared
        expected, found = (jax.jit(form)(params, inputs) for form in forms)
        again, plain_again = (jax.jit(form)(prepared, inputs) for form in reversed(forms))
    assert "scan" in in_tiles
    # Convolutions of 1x1, in blocks and heads, remain.
    counts = [text.count("conv_general_dilated[") for text in (plain, in_tiles)]
    assert counts == expected_counts
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    jax.tree.map(close, found, expected)
    jax.tree.map(np.testing.assert_array_equal, plain_again, expected)
    jax.tree.map(close, again, found)


def test_scores_of_old_versions():
    """Version 3: an arctangent scaled by two board sides; versions 4 to 7: the mean is the lead."""
    inputs = Inputs(jnp.zeros((1, 9, 9, 22)), jnp.ones((1, 14)))
    logits, value, owners = jnp.zeros((1, 82, 1)), jnp.zeros((1, 3)), jnp.zeros((1, 81))
    third = files.config(files.model(3))
    result = network._output(third, inputs, logits, value, jnp.array([[0.5]]), owners)
    assert (float(result.score[0]), float(result.no_result[0])) == (9.0, pytest.approx(1 / 3))
    fourth = files.config(files.model(4))
    inputs = inputs._replace(global_inputs=jnp.array([[0.0] * 6 + [1.0] + [0.0] * 7]))
    result = network._output(fourth, inputs, logits, value, jnp.array([[0.5, 0.0]]), owners)
    assert (float(result.score[0]), float(result.no_result[0])) == (10.0, 0.0)
    np.testing.assert_allclose(result.score_stdev, 20 * np.log(2), rtol=1e-5)


# --- golden -------------------------------------------------------------------------------


def games_by_rules():
    rows = [json.loads(line) for line in POSITIONS.read_text().splitlines()]
    result = collections.defaultdict(list)
    for row in rows:
        rules = row["rules"]
        assert (rules["scoring"], rules["tax"], rules["hasButton"]) == ("AREA", "NONE", False)
        key = row["size"], rules["ko"].lower(), rules["suicide"], rules["friendlyPassOk"]
        result[key].append(row)
    return result


def states_of(rules, rows):
    play = jax.jit(functools.partial(go.play, rules))
    states = []
    for row in rows:
        state = go.init(rules, row["komi"])
        for move in row["moves"]:
            state = play(state, np.int32(coords.from_gtp(rules.size, move)))
        assert int(state.to_play) == (row["to_play"] == "W")
        states.append(state)
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def differences(row, legal, output):
    """The greatest difference of an output to KataGo's, from White's view, by kind."""
    said, white = row["nn"], 1 if row["to_play"] == "W" else -1
    win, loss = (output.win, output.loss)[::white]
    logits = np.where(legal, output.policy_logits, -np.inf)
    policy = np.exp(logits - logits.max())
    policy = np.where(legal, policy / policy.sum(), np.nan)
    expected = np.array(said["policy"], np.float64).reshape(-1)  # None is nan
    expected = np.append(expected, said["policy_pass"])
    np.testing.assert_array_equal(np.isnan(policy), np.isnan(expected))
    owners = white * np.tanh(output.ownership_logits)
    results = [
        win - said["whiteWin"],
        loss - said["whiteLoss"],
        output.no_result - said["noResult"],
    ]
    leads = [output.score - white * said["whiteLead"]]
    leads += [output.score_mean - white * said["whiteScoreSelfplay"]]
    ownership = owners - np.array(said["white_ownership"]).reshape(-1)
    all_of = {"result": results, "lead": leads, "policy": policy - expected}
    all_of |= {"ownership": ownership}
    return {kind: float(np.nanmax(np.abs(x))) for kind, x in all_of.items()}


BOUNDS = {"result": 2e-5, "lead": 1.1e-3, "policy": 1.1e-5, "ownership": 5e-5}
"""About twice the greatest differences of the 84 positions of 9x9. KataGo prints 6 decimals of
probabilities, 3 of leads."""

ON_LARGER_BOARDS = {"result": 2e-3, "lead": 0.05, "policy": 2e-3, "ownership": 0.01}

IN_BFLOAT16 = {"result": 0.012, "lead": 0.42, "policy": 0.03, "ownership": 0.055}
"""About twice the greatest differences on 9x9 with the trunk in bfloat16."""


POSITIONS_OF = {9: {"simple": 42, "positional": 42}, 13: {"simple": 12, "positional": 12}}
POSITIONS_OF[19] = {"simple": 10, "positional": 15}
"""By size and ko rule; 133 in all."""


@functools.cache
def golden_network():
    """(config, params) of KataGo's network."""
    return weights.load(NETWORK)[:2]


@functools.cache
def evaluating(size):
    """Jitted (params, inputs of 42 positions) -> {form: outputs}, compiled once for all rules."""
    config, _ = golden_network()
    narrow = dataclasses.replace(config, dtype="bfloat16")
    forms = {"convolutions": (network.apply, config), "winograd": (network.apply_on_cpu, config)}
    forms |= {"bfloat16": (network.apply, narrow)} if size == 9 else {}
    return jax.jit(
        lambda params, inputs: {name: form(c, params, inputs) for name, (form, c) in forms.items()}
    )


def inputs_by_reference(rows):
    """(legal actions, network inputs) of the positions, by sets of points."""
    legal, seen = [], []
    for row in rows:
        rules, komi = row["rules"], row["komi"]
        game = ReferenceGame(row["size"], rules["ko"].lower(), rules["suicide"])
        moves = [coords.from_gtp(game.size, move) for move in row["moves"]]
        for move in moves:
            game.play(move)
        shown = 0 if game.passes and rules["friendlyPassOk"] else 5
        planes = np.zeros((22, game.size**2), np.float32)
        for plane, points in zip(planes, reference.planes(game, moves, "none", shown), strict=True):
            plane[list(points)] = 1
        numbers = reference.numbers(game, moves, komi, "none", shown)
        legal.append(game.legal())
        seen.append(Inputs(planes.T.reshape(game.size, game.size, 22), np.float32(numbers)))
    return np.array(legal), jax.tree.map(lambda *x: np.stack(x), *seen)


@functools.cache
def golden_positions(size):
    """[(rules, whether passes are friendly, positions, their `inputs_by_reference`)]."""
    if not (NETWORK.exists() and POSITIONS.exists()):
        pytest.skip(f"{DATA} has no network and positions of KataGo; GOZERO_KATAGO may name others")
    groups = [
        (go.Rules(size, ko, suicide, remember=True), friendly, rows, inputs_by_reference(rows))
        for (n, ko, suicide, friendly), rows in games_by_rules().items()
        if n == size
    ]
    assert {rules.ko: len(rows) for rules, _, rows, _ in groups} == POSITIONS_OF[size]
    return groups


@pytest.mark.parametrize("size", POSITIONS_OF)
def test_golden_positions_equal_katagos_evaluation(size, monkeypatch):
    """With convolutions, with `winograd` as on a CPU, and with a trunk in bfloat16."""
    groups = golden_positions(size)
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    monkeypatch.setattr(winograd, "_FEWEST_POSITIONS", 1)
    rows = [row for _, _, some, _ in groups for row in some]
    legal, inputs = jax.tree.map(lambda *x: np.concatenate(x), *(found for *_, found in groups))
    padded = jax.tree.map(lambda x: np.resize(x, (max(42, len(x)), *x.shape[1:])), inputs)
    outputs = jax.device_get(evaluating(size)(golden_network()[1], padded))
    greatest = collections.defaultdict(collections.Counter)
    for i, row in enumerate(rows):
        for name, output in outputs.items():
            of_row = jax.tree.map(lambda x, i=i: x[i], output)
            greatest[name] |= differences(row, legal[i], of_row)
    for name, found in greatest.items():
        bounds = BOUNDS if size == 9 else ON_LARGER_BOARDS
        bounds = IN_BFLOAT16 if name == "bfloat16" else bounds
        assert all(found[kind] <= bound for kind, bound in bounds.items()), (name, dict(found))


_TOGETHER = 15  # positions


def observed(rules, friendly, rows):
    """(legal actions, network inputs) of the positions.

    Not jitted: both ko rules then use the same compiled loops, if they have as many positions.
    """
    config, _ = golden_network()
    observe = kinds.observer(dataclasses.replace(config, friendly_pass=friendly), rules)
    one = lambda s: (go.legal_actions(rules, s), observe(s, s.position))
    padded = [rows[i % len(rows)] for i in range(-(-len(rows) // _TOGETHER) * _TOGETHER)]
    seen = jax.vmap(one)(states_of(rules, padded))
    return jax.device_get(jax.tree.map(lambda x: x[: len(rows)], seen))


@pytest.mark.parametrize(
    "size",
    [9, pytest.param(13, marks=pytest.mark.thorough), pytest.param(19, marks=pytest.mark.thorough)],
)
def test_golden_positions_are_observed_as_by_the_reference(size, monkeypatch):
    """So that KataGo's evaluation of each is also that of the network with its own inputs."""
    monkeypatch.delenv(mode.VARIABLE, raising=False)
    for rules, friendly, rows, (legal, inputs) in golden_positions(size):
        is_legal, found = observed(rules, friendly, rows)
        np.testing.assert_array_equal(is_legal, legal)
        np.testing.assert_array_equal(found.planes, inputs.planes)
        np.testing.assert_allclose(found.global_inputs, inputs.global_inputs, atol=1e-6)
        assert found.optimism is None


# --- in a search --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", network.DTYPES)
def test_a_search_with_the_network_and_its_symmetric_mean(put, dtype):
    config, params, _ = weights.load(put(files.data(files.model(14, [files.GPOOL, files.NESTED]))))
    config = dataclasses.replace(config, dtype=dtype)
    rules = go.Rules(4, "simple", remember=True)
    states = jax.vmap(lambda komi: go.init(rules, komi))(jnp.array([0.5, 7.5]))
    evaluator = gozero.network_evaluator(rules, config, params)
    search = gozero.SearchConfig(num_simulations=12, select=evaluator.select)
    for one in (evaluator, over_symmetries(rules, evaluator)):
        result = gozero.search(gozero.go_game(rules), one, jax.random.key(0), states, search)
        assert result.ok.all()
        assert (result.visits.sum(axis=1) == 12).all()
    with pytest.raises(ValueError, match="remember=True"):
        gozero.network_evaluator(go.Rules(4, "simple"), config, params)
    with pytest.raises(ValueError, match="needs its file's parameters"):
        gozero.network_evaluator(rules, config)
