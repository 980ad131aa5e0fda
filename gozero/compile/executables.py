"""A cache of whole executables: the next start of a command neither traces nor lowers them.

JAX's own cache saves a later start XLA's part of compiling, but not tracing and lowering: 2.7 of
the 5.3 seconds of processor time to a first move on 9x9 (jax 0.10.1, two cores). `jit` is
``jax.jit``; after a call of `keep` it stores whole executables in a folder of JAX's cache.

A file's name is a digest of all that determines its program: the files of this package, what the
function is made of (`_parts`), its arguments' types, the versions, JAX's settings, XLA's flags, the
processor. A function made of anything else, such as other packages' functions, is compiled as
usual; so is everything that fails. Loading a file executes code: a folder or file that another user
owns or can write is not read. For CPUs only; untried on other platforms.

Does not import JAX at module level: commands use this module before they import JAX.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import gc
import hashlib
import importlib.metadata
import itertools
import os
import pathlib
import pickle
import platform
import stat
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gozero.compile import mode

FOLDER = "programs"
"""The name of the folder in JAX's cache of compiled programs."""

MAX_BYTES = 2**29
"""The limit for all files together; the least recently used are removed first."""

_PACKAGES = ("gozero", "jax", "jaxlib", "flax", "numpy", "functools", "builtins", "pathlib")
"""Packages whose functions and types are determined by their versions, and by `gozero`'s files."""

_VERSIONS = ("jax", "jaxlib", "flax", "numpy")
_SETTINGS = (mode.VARIABLE, "XLA_FLAGS", "LIBTPU_INIT_ARGS")
_CACHE = ("compilation_cache_dir", "enable_compilation_cache")
_IRRELEVANT = ("cache", "log", "pallas", "mosaic")  # these two come with modules of other devices
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), pathlib.PurePath)
_is_on = False
_on_start: list[Callable[[], None]] = []

loading: dict[str, concurrent.futures.Future] = {}
"""Programs that are being loaded, by the names of their files (`gozero.compile.expected`)."""

on_first_use: Callable[[str], None] = lambda name: None
"""Called with the name of each program that is used for the first time."""


def keep(on_start: Callable[[], None] | None = None) -> None:
    """Keeps programs from now on, if JAX's own cache is enabled.

    Args:
      on_start: called once, when JAX has started: see `begin`.
    """
    global _is_on
    _is_on = True
    _on_start.extend([on_start] if on_start else [])


def begin() -> None:
    """To be called when JAX has started and programs will be used; their first calls do so too."""
    if _on_start:
        _on_start.pop()()


@functools.cache
def folder() -> pathlib.Path | None:
    """The folder where programs are kept; None if they are not kept."""
    import jax

    settings: dict[str, Any] = jax.config.values
    where, is_cached = (settings[f"jax_{name}"] for name in _CACHE)
    is_one_cpu = mode.backend() == "cpu" and jax.device_count() == 1
    if not (_is_on and where and is_cached and is_one_cpu and hasattr(os, "getuid")):
        return None
    place = pathlib.Path(where) / FOLDER
    try:
        place.mkdir(0o700, parents=True, exist_ok=True)
        _check_own(place.lstat(), stat.S_ISDIR)
    except (OSError, ValueError):
        return None
    return place


def jit(function: Callable, static_argnums: tuple[int, ...] = (), **options: Any) -> CachedFunction:
    """``jax.jit(function, static_argnums=static_argnums, **options)`` for positional arguments;
    its programs may be kept. ``compiler_options`` may be a function that returns them; it is called
    with the first call of the program, so it may use the backend."""
    cached = CachedFunction(function, static_argnums, options)
    functools.update_wrapper(cached, function)
    return cached


def cached_result(make: Callable[[], Any], *inputs: Any) -> Any:
    """Returns ``make()``, plain data determined by `inputs`. It is kept beside the programs, so
    that a later start does not call `make`."""
    with contextlib.suppress(Exception):
        if (cache_folder := folder()) is not None:
            path = cache_folder / name_of(*inputs)
            with contextlib.suppress(Exception):
                return pickle.loads(read(path))
            write(path, pickle.dumps(result := make()))
            return result
    return make()


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """Disables garbage collection in this context: tracing creates little garbage, but the
    collector would scan all traced objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class CachedFunction:
    """A function whose programs may be kept; see `jit`."""

    def __init__(self, function: Callable, static: tuple[int, ...], options: dict[str, Any]):
        self.function, self._static, self._jit_options = function, static, options
        self._programs: dict[tuple, Callable | None] = {}
        self._lock = threading.RLock()  # a caller waits while another thread compiles its program

    @functools.cached_property
    def _options(self) -> dict[str, Any]:
        compiler = self._jit_options.get("compiler_options")
        compiler = compiler() if callable(compiler) else compiler
        others = {k: v for k, v in self._jit_options.items() if k != "compiler_options"}
        return others | ({"compiler_options": compiler} if compiler else {})

    @functools.cached_property
    def jitted(self) -> Any:
        """`jax.jit` of the function, for calls where nothing is kept."""
        import jax

        return jax.jit(self.function, static_argnums=self._static, **self._options)

    @functools.cached_property
    def traced(self) -> Any:
        """The same without compiler options: for inspection, and for `_compiled`."""
        import jax

        options = {k: v for k, v in self._options.items() if k != "compiler_options"}
        return jax.jit(self.function, static_argnums=self._static, **options)

    def __call__(self, *args: Any) -> Any:
        if not _is_on:
            return self.jitted(*args)
        import jax
        from jax.core import Tracer

        signature, arrays = self._signature(args)
        if any(isinstance(x, Tracer) for x in jax.tree.leaves(arrays)):
            return self.jitted(*args)
        if signature not in self._programs:
            with self._lock:
                if signature not in self._programs:
                    try:
                        return self._first(signature, args, arrays)
                    finally:
                        self._programs.setdefault(signature, None)  # not kept
        program = self._programs[signature]
        return self.jitted(*args) if program is None else program(*arrays)

    def again(self, *args: Any) -> Callable:
        """The callable that later calls with such arguments, none of them static, can use directly:
        it does not examine the type of each array again."""
        if not _is_on:
            return self.jitted
        return self._programs.get(self._signature(args)[0]) or self.jitted

    def is_missing(self, *args: Any) -> bool:
        """Whether a first call would compile the program and keep it; see `prepare`."""
        if not _is_on:
            return False
        signature, _ = self._signature(args)
        if signature in self._programs:
            return False
        place = self._place(signature)
        return place is not None and not place.exists()

    def prepare(self, *args: Any) -> None:
        """Compiles the program for such arguments, arrays or `jax.ShapeDtypeStruct`, if it
        `is_missing`, so that a call finds it ready. May run on any thread."""
        with self._lock:
            if self.is_missing(*args):
                signature, _ = self._signature(args)
                if (place := self._place(signature)) is not None:
                    on_first_use(place.name)
                    self._programs[signature] = self._compiled(place, args)

    def _signature(self, args: tuple) -> tuple[tuple, tuple]:
        """((the static arguments, the others' tree, the others' types), the others)."""
        import jax

        static = tuple(args[i] for i in self._static)
        arrays = tuple(x for i, x in enumerate(args) if i not in self._static)
        leaves, tree = jax.tree.flatten(arrays)
        leaves = [x if hasattr(x, "dtype") else jax.typeof(x) for x in leaves]
        kinds = tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves)
        return (static, tree, kinds), arrays

    def _place(self, signature: tuple) -> pathlib.Path | None:
        """The file of a program; None if it cannot be kept."""
        with contextlib.suppress(Exception):
            if (cache_folder := folder()) is not None:
                static, tree, kinds = signature
                return cache_folder / name_of(
                    self.function, self._options, static, str(tree), str(kinds)
                )
        return None

    def _first(self, signature: tuple, args: tuple, arrays: tuple) -> Any:
        """A first call: uses the program in its file, or compiles it and writes the file."""
        import jax

        if (place := self._place(signature)) is None:
            return self.jitted(*args)
        begin()
        on_first_use(place.name)
        with contextlib.suppress(Exception):
            future = loading.pop(place.name, None)
            program = load(place) if future is None else future.result()
            if program.in_tree.children()[0] != signature[1]:  # its other child: keyword arguments
                raise ValueError("the program was compiled for other arguments")
            out = jax.block_until_ready(program(*arrays))
            self._programs[signature] = program
            return out
        program = self._programs[signature] = self._compiled(place, args)
        return program(*arrays)

    def _compiled(self, place: pathlib.Path, args: tuple) -> Any:
        from jax.experimental import serialize_executable

        lowered = self.traced.lower(*args)
        with contextlib.suppress(Exception):
            _strip(lowered)
        program = _compiled(lowered, self._options.get("compiler_options"))
        with contextlib.suppress(Exception):
            write(place, pickle.dumps(serialize_executable.serialize(program)))
        return program


def _strip(lowered: Any) -> None:
    """Removes source locations from a program: loading parses and copies the whole program, and
    names of operations are most of it."""
    from jaxlib.mlir.passmanager import PassManager

    module = lowered.compiler_ir()
    with module.context:
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)


_lock = threading.Lock()
_num_compiling = 0


def _compiled(lowered: Any, options: Any = None) -> Any:
    """Compiles without JAX's cache: a program loaded from there does not serialize completely
    (jaxlib 0.10.1), and would be on the disk twice."""
    _count_compiling(1)
    try:
        return lowered.compile(options)
    finally:
        _count_compiling(-1)


def _count_compiling(change: int) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    global _num_compiling
    with _lock:
        _num_compiling += change
        jax.config.update("jax_enable_compilation_cache", _num_compiling == 0)
        compilation_cache.reset_cache()


def load(place: pathlib.Path) -> Any:
    """Loads the program in a file.

    Raises:
      Exception: of any kind, if the file is damaged, another user's, or cannot be loaded.
    """
    import jax
    from jax.experimental import serialize_executable

    return serialize_executable.deserialize_and_load(
        *pickle.loads(read(place)), execution_devices=jax.devices()[:1]
    )


def name_of(*inputs: Any) -> str:
    """The name of a program's file; see the module docstring.

    Raises:
      ValueError: the program is made of something that may differ in another process.
    """
    import jax

    device = jax.devices()[0]
    settings = jax.config.values.items()
    digest = hashlib.sha256(_sources().encode())
    visited: dict[int, Any] = {}
    environment = (
        [sys.version, *map(importlib.metadata.version, _VERSIONS)],
        [
            device.device_kind,
            device.client.platform_version,
            processor(),
            mode.cores(),
            os.cpu_count(),
        ],
        [os.environ.get(name) for name in _SETTINGS],
        sorted((k, repr(v)) for k, v in settings if not any(word in k for word in _IRRELEVANT)),
    )
    _feed(digest.update, (environment, inputs), visited)
    return digest.hexdigest()


@functools.cache
def _sources() -> str:
    """A digest of all files of the package."""
    package, digest = pathlib.Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path.relative_to(package)} {path.stat().st_size} ".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any, visited: dict[int, Any]) -> None:
    """Feeds a value and all that it is made of to a digest."""
    kind = type(value)
    if isinstance(value, _PLAIN):
        text = repr(value)
        update(f"{kind.__qualname__} {len(text)} {text}".encode())
        return
    if id(value) in visited:
        update(f"again {list(visited).index(id(value))}".encode())
        return
    if isinstance(value, types.FunctionType):  # may refer to itself
        visited[id(value)] = value
    parts = list(_parts(value))
    update(f"{_qualified_name(kind)} {len(parts)} ".encode())
    for part in parts:
        _feed(update, part, visited)


def _parts(value: Any) -> Iterable[Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    match value:
        case jax.Array() if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return str(value.dtype), jax.random.key_data(value)
        case np.ndarray() | np.generic() | jax.Array():
            array = np.asarray(value)
            return str(array.dtype), *array.shape, array.tobytes()
        case np.dtype() | jax.ShapeDtypeStruct() | jax.tree_util.PyTreeDef():
            return (str(value),)
        case tuple() | list():
            return value
        case dict():
            return itertools.chain.from_iterable(value.items())
        case set() | frozenset():
            return sorted(map(repr, value))
        case CachedFunction():
            return value.function, value._static, value._options
        case functools.partial():
            return value.func, value.args, value.keywords
        case types.MethodType():
            return value.__func__, value.__self__
        case types.FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return (
                _qualified_name(value),
                value.__code__,
                cells,
                value.__defaults__,
                value.__kwdefaults__,
            )
        case types.CodeType():
            return value.co_firstlineno, value.co_code, value.co_names, value.co_consts
        case type() | types.BuiltinFunctionType():
            return (_qualified_name(value),)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if hasattr(value, "__wrapped__"):  # of jax.jit, functools.cache, jax.custom_jvp
        return (value.__wrapped__,)
    raise ValueError(f"a function made of a {type(value)} cannot be kept")


def _qualified_name(value: Any) -> str:
    """The full name of a function or type from one of `_PACKAGES`."""
    module = value.__module__ or ""
    if module.partition(".")[0] not in _PACKAGES:
        raise ValueError(f"a function made of {module}.{value.__qualname__} cannot be kept")
    return f"{module}.{value.__qualname__}"


def read(path: pathlib.Path) -> bytes:
    """Reads data written by `write`.

    Raises:
      OSError: there is no such file.
      ValueError: another user could have written it, or it is damaged.
    """
    _check_own(path.parent.lstat(), stat.S_ISDIR)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        _check_own(os.fstat(handle), stat.S_ISREG)
        digest, data = file.read(32), file.read(MAX_BYTES)
    if hashlib.sha256(data).digest() != digest:
        raise ValueError(f"{path} is damaged")
    os.utime(path)
    return data


def _check_own(status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ValueError("other users own it or can write to it, or it is of another type")


def write(path: pathlib.Path, data: bytes) -> None:
    """Writes a file atomically, even with other writers; removes old files above `MAX_BYTES`."""
    handle, part = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    files = [(file_path.stat(), file_path) for file_path in path.parent.iterdir()]
    total = sum(status.st_size for status, _ in files)
    for status, file_path in sorted(files, key=lambda entry: entry[0].st_mtime):
        if total > MAX_BYTES and file_path != path:
            file_path.unlink(missing_ok=True)
            total -= status.st_size


@functools.cache
def processor() -> str:
    """The kind of this processor: programs are compiled for its features and run on no other."""
    description = mode.processor_features() + platform.processor()
    digest = hashlib.sha256(description.encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"
