"""The structure: which modules may import which, and what importing must not do."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import gozero

ROOT = pathlib.Path(__file__).parent.parent
LAYERS = {
    "gozero.struct": 0,
    "gozero.hashing": 0,
    "gozero.limits": 0,
    "gozero.compile": 0,
    "gozero.runs": 0,
    "gozero.go": 1,
    "gozero.search": 1,
    "gozero.playouts": 2,
    "gozero.nets": 2,
    "gozero.td": 3,
    "gozero.games": 3,
    "gozero.play": 4,
    "gozero.apps": 5,
    "train": 6,
    "experiments": 7,
}


MAX_LAYERS = 8


def package_of(module: str) -> str | None:
    for package in LAYERS:
        if module == package or module.startswith(package + "."):
            return package
    return None


def imports(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources():
    for top in ("gozero", "train", "experiments"):
        yield from sorted((ROOT / top).rglob("*.py"))


def test_a_file_imports_only_from_layers_below():
    wrong = []
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        package = package_of(module)
        for name in imports(path) if package else ():
            other = package_of(name)
            if other is None or other == package:
                continue
            if LAYERS[other] >= LAYERS[package]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_every_public_name_loads():
    for name in gozero.__all__:
        assert getattr(gozero, name) is not None, name
    assert set(gozero.__all__) <= set(dir(gozero))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gozero.nothing  # noqa: B018


def test_search_is_a_function_and_a_package():
    from gozero.search import edges, tree

    assert (edges.__name__, tree.__name__) == ("gozero.search.edges", "gozero.search.tree")
    assert inspect.isfunction(gozero.search)
    assert list(inspect.signature(gozero.search).parameters) == [
        *("game", "evaluator", "key", "states", "config", "tree", "keep_tree"),
    ]
    assert "Args:" in gozero.search.__doc__


def test_play_is_a_function_and_a_package():
    from gozero.go import rules
    from gozero.play import arena

    assert arena.__name__ == "gozero.play.arena"
    assert gozero.play is rules.play


def test_importing_everything_starts_no_backend():
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sources()
        if path.name != "__main__.py" and "experiments" not in path.parts
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "from jax._src import xla_bridge\n"
        "sys.exit(xla_bridge.backends_are_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "a backend was started"


def test_no_files_import_each_other():
    """There are no import cycles, in experiments either, not even for type annotations."""
    graph = imports_of_ours()
    done, circles = set(), []

    def visit(module, path):
        if module in path:
            circles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for other in sorted(graph[module]):
                visit(other, [*path, module])
            done.add(module)

    for module in graph:
        visit(module, [])
    assert circles == []


def imports_of_ours() -> dict[str, set[str]]:
    """{module: the modules of ours that it imports}."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources()
    }
    graph = {}
    for module, path in paths.items():
        names = [name for name in imports(path) if name in paths]
        # `from package import module` names the package as well.
        inner = {name for name in names if any(other.startswith(name + ".") for other in names)}
        graph[module] = set(names) - inner - {module}
    return graph


def test_no_package_has_more_than_eight_layers():
    """A file is one layer above the highest file of its package that it imports."""
    graph, tall = imports_of_ours(), {}
    for package in LAYERS:
        inside = {module for module in graph if package_of(module) == package}
        layers = layers_of({module: graph[module] & inside for module in inside})
        if max(layers.values(), default=0) >= MAX_LAYERS:
            tall[package] = max(layers, key=layers.get), max(layers.values()) + 1
    assert tall == {}


def layers_of(graph: dict[str, set[str]]) -> dict[str, int]:
    """Each module's layer, 0 if it imports nothing; the graph must be acyclic."""
    layers = {}

    def layer(module):
        if module not in layers:
            layers[module] = 1 + max((layer(other) for other in graph[module]), default=-1)
        return layers[module]

    for module in graph:
        layer(module)
    return layers


def test_layers_are_counted():
    assert layers_of({"a": set(), "b": {"a"}, "c": {"a", "b"}}) == {"a": 0, "b": 1, "c": 2}


COMPILERS = re.compile(
    r"\b(custom_vmap|platform_dependent|default_backend|set_xla_metadata|optimization_barrier)\("
    r"|import .*\b(custom_vmap|set_xla_metadata)\b"
)


def test_only_the_compile_package_has_compiler_tricks():
    offenders = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources()
        if path.parent != ROOT / "gozero/compile"
        for line in path.read_text().splitlines()
        if COMPILERS.search(line)
    ]
    assert offenders == []


def test_the_reading_guide_names_existing_files():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    linked = re.findall(r"\]\(([\w./]+)\)", text)
    named = re.findall(r"`((?:gozero|train|tests|experiments)/[\w./]*)`", text)
    assert linked
    assert [path for path in {*linked, *named} if not (ROOT / path).exists()] == []
