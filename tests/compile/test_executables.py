"""Programs that later starts load from files: how files are named, and which are rejected."""

import concurrent.futures
import functools
import os
import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gozero import hashing
from gozero.compile import executables
from gozero.games.go import go_game
from gozero.go import rules as go
from gozero.go.rules import Rules
from gozero.nets import network
from gozero.nets.network import NetworkConfig
from gozero.play.networks import network_evaluator
from gozero.search.config import SearchConfig

RULES = Rules(size=3)


def new_game(komi):
    return executables.jit(go.init, (0,))(RULES, np.float32(komi))


def assert_equal(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)
    assert jax.tree.structure(actual) == jax.tree.structure(expected)


def test_a_kept_program_is_loaded_without_tracing(kept, never_traced):
    first = new_game(5.5)
    assert len(list(kept.iterdir())) == 1
    never_traced()
    assert_equal(new_game(5.5), first)
    assert_equal(new_game(7.5), go.init(RULES, 7.5))


def test_keys_and_donated_arrays(kept, never_traced):
    fold = functools.partial(executables.jit, jax.random.fold_in, donate_argnums=0)
    expected = jax.random.fold_in(jax.random.key(1), 2)
    for _ in range(2):
        actual = fold()(jax.random.key(1), np.uint32(2))
        assert_equal(jax.random.key_data(actual), jax.random.key_data(expected))
        never_traced()


def test_nested_programs_and_pytrees_are_kept(kept, never_traced):
    tree = jax.tree.structure({"a": 1, "b": 2})
    given = [jnp.uint32(3), jnp.uint32(4)]

    def made():
        of_another = executables.jit(functools.partial(jax.tree.map, executables.jit(hashing.mix)))
        of_structure = executables.jit(functools.partial(jax.tree.unflatten, tree))
        return of_another(given), of_structure(given)

    first = made()
    assert len(list(kept.iterdir())) == 2
    never_traced()
    assert_equal(made(), first)
    assert_equal(first, ([*map(hashing.mix, given)], {"a": given[0], "b": given[1]}))


def test_again_skips_the_type_check(kept, never_traced):
    double = executables.jit(hashing.mix)
    first = double(np.uint32(3))
    never_traced()
    assert double.again(np.uint32(5))(np.uint32(3)) == first


@pytest.mark.parametrize("first", ["prepare", "__call__"])
def test_a_call_waits_for_a_compilation_in_another_thread(first, kept, monkeypatch):
    double, begun, goes_on = executables.jit(hashing.mix), threading.Event(), threading.Event()
    compiled, times = executables._compiled, []

    def slowly(*args):
        times.append(1)
        begun.set()
        assert goes_on.wait(60)
        return compiled(*args)

    monkeypatch.setattr(executables, "_compiled", slowly)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        prepared = pool.submit(getattr(double, first), np.uint32(3))
        assert begun.wait(60)
        called = pool.submit(double, np.uint32(3))
        with pytest.raises(concurrent.futures.TimeoutError):
            called.result(0.05)
        goes_on.set()
        prepared.result()
        assert called.result() == hashing.mix(jnp.uint32(3))
    assert len(times) == 1


def test_a_program_is_compiled_from_shapes(kept, never_traced):
    double = executables.jit(functools.partial(jax.tree.map, hashing.mix))
    given = {"a": np.uint32(3)}
    shapes = jax.eval_shape(lambda: given)
    assert double.is_missing(given)
    double.prepare(shapes)
    assert not double.is_missing(given)
    again = executables.jit(functools.partial(jax.tree.map, hashing.mix))
    assert not again.is_missing(shapes)
    never_traced()
    expected = {"a": hashing.mix(jnp.uint32(3))}
    assert double(given) == again(given) == expected


@pytest.mark.parametrize("damage", ["flipped", "shorter", "other", "writable", "link", "failing"])
def test_foreign_and_damaged_files_are_not_used(kept, damage):
    expected = new_game(5.5)
    (path,) = kept.iterdir()
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif damage == "shorter":
        path.write_bytes(data[:-1])
    elif damage == "other":
        executables.write(path, pickle.dumps("no program"))
    elif damage == "writable":
        path.chmod(0o606)
    elif damage == "link":
        path.rename(kept / "elsewhere")
        path.symlink_to(kept / "elsewhere")
    else:  # it is a valid program of another function
        executables.jit(hashing.mix)(np.uint32(1))
        (other,) = (one for one in kept.iterdir() if one != path)
        other.replace(path)
    assert_equal(new_game(5.5), expected)
    assert executables.read(path)  # written again
    assert not path.is_symlink()


def test_a_folder_writable_by_others_is_not_used(monkeypatch, tmp_path):
    place = tmp_path / "programs"
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.setattr(executables, "_is_on", True)
    monkeypatch.setattr(executables, "FOLDER", place)
    assert executables.folder.__wrapped__() is None
    place.chmod(0o700)
    assert executables.folder.__wrapped__() == place
    monkeypatch.setattr(executables, "_is_on", False)
    assert executables.folder.__wrapped__() is None


def test_functions_that_cannot_be_named_are_compiled_normally(kept):
    seven = lambda x: x + jnp.int32(7)
    assert executables.jit(seven)(np.int32(1)) == 8
    assert list(kept.iterdir()) == []


def test_inside_another_program_it_is_inlined(kept):
    draw = jax.vmap(executables.jit(functools.partial(go.init, RULES)))
    assert draw(jnp.arange(2.0)).komi.tolist() == [0, 1]
    assert list(kept.iterdir()) == []


def test_the_oldest_programs_are_deleted(kept, monkeypatch):
    for number in range(3):
        executables.write(kept / f"{number}", bytes(100))
        os.utime(kept / f"{number}", (number, number))
    executables.read(kept / "0")  # used last
    monkeypatch.setattr(executables, "MAX_BYTES", 300)
    executables.write(kept / "3", bytes(100))
    assert sorted(path.name for path in kept.iterdir()) == ["0", "3"]


def name_of_search(size=5, simulations=8, channels=4, **more):
    """The file name of a function with a network's search in its closure."""
    config = NetworkConfig(channels=channels)
    evaluator = network_evaluator(Rules(size=size), config, network.shapes(config))
    evaluator = evaluator._replace(**{"params": {}} | more)
    settings = SearchConfig(num_simulations=simulations, select=evaluator.select)
    made_of = go_game(Rules(size=size)), evaluator, settings
    return executables.name_of(functools.partial(go.init, made_of))


def test_the_file_name_depends_on_everything_that_affects_the_program(monkeypatch):
    name = name_of_search()
    assert name == name_of_search()
    others = [
        name_of_search(size=6),
        name_of_search(simulations=9),
        name_of_search(channels=5),
        name_of_search(params={"stem": np.zeros(2)}),
        name_of_search(params={"stem": np.array([0.0, 1.0])}),
        name_of_search(prepare=functools.partial(jax.tree.map, jnp.zeros_like)),
    ]
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=128")
        others.append(name_of_search())
    with monkeypatch.context() as patch:
        patch.setattr(executables, "_sources", lambda: "a line of some file changed")
        others.append(name_of_search())
    with monkeypatch.context() as patch:
        patch.setattr(executables, "processor", lambda: "another")
        others.append(name_of_search())
    with jax.default_matmul_precision("float32"):
        others.append(name_of_search())
    assert len({name, *others}) == 1 + len(others)


def test_two_functions_on_one_line_have_different_names():
    one, two = (f.__code__ for f in (lambda: 1, lambda: 2))
    assert executables.name_of(one) != executables.name_of(two)


def session(folder, *words):
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "gozero.apps.cli", "gtp", "--size", "5", *words]
    text = "genmove b\nplay w a1\nlz-genmove_analyze b\nshowboard\nquit\n"
    return subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, check=True
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("search", ["puct", "rave", "gumbel"])
def test_a_later_engine_plays_the_same_and_compiles_nothing_large(tmp_path, search):
    words = ["--search", search, "--evaluator", "network", "--simulations", "40"]
    if search == "rave":
        words = ["--search", search, "--heuristic", "mogo", "--simulations", "200"]
    first = session(tmp_path, *words)
    files = {path.name for path in (tmp_path / executables.FOLDER).iterdir()}
    assert session(tmp_path, *words) == first
    assert {path.name for path in (tmp_path / executables.FOLDER).iterdir()} == files
    assert len(files) >= 7
    assert session("", *words) == first  # without a cache
