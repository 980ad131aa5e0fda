"""The built packages: the wheel, the sdist, their metadata, and the citation."""

from __future__ import annotations

import email
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import hatchling.build
import pytest
import yaml
from packaging.metadata import Metadata

import gozero

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with a wheel and an sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        hatchling.build.build_wheel(str(folder))
        hatchling.build.build_sdist(str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


def test_the_wheel_has_the_library_and_its_data_and_is_small(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    about = f"gozero-{gozero.__version__}.dist-info/"
    packed = {name: data for name, data in files.items() if not name.startswith(about)}
    paths = [path for path in (ROOT / "gozero").rglob("*") if path.is_file()]
    paths = [path for path in paths if path.parent.name != "__pycache__"]
    assert packed == {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    networks = {f"gozero/play/data/{size}x{size}.safetensors" for size in (7, 9)}
    assert networks | {"gozero/py.typed"} <= packed.keys()
    assert {f"{about}licenses/LICENSE", f"{about}entry_points.txt"} <= files.keys()
    assert wheel.stat().st_size < MOST_BYTES


def test_the_metadata_is_valid_and_matches_the_project(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"gozero-{gozero.__version__}.dist-info/METADATA")
    metadata = Metadata.from_email(text, validate=True)
    assert (metadata.name, str(metadata.version)) == ("gozero", gozero.__version__)
    assert metadata.license_expression == PROJECT["license"]
    assert str(metadata.requires_python) == PROJECT["requires-python"]
    assert metadata.description_content_type == "text/markdown"
    assert email.message_from_bytes(text).get_payload() == (ROOT / "README.md").read_text()
    needed = [one for one in metadata.requires_dist if one.marker is None]
    assert len(needed) == len(PROJECT["dependencies"])


def test_the_sdist_has_all_that_the_tests_need(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not in a checkout")
    assert not {name for name in tracked.stdout.split() if (ROOT / name).exists()} - names


def test_the_wheel_runs_outside_the_checkout(wheel, tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    run = lambda *arguments: (
        subprocess.run(
            [sys.executable, *arguments],
            cwd=elsewhere,
            env=os.environ | {"PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert run("-m", "gozero", "--version") == f"gozero {gozero.__version__}\n"
    code = "from gozero.play import players; print(*players.NETWORKS.values(), sep='\\n')"
    networks = [pathlib.Path(line) for line in run("-c", code).splitlines()]
    assert len(networks) == 2
    assert all(path.is_relative_to(site) and path.exists() for path in networks)


@pytest.mark.thorough
def test_the_example_of_the_readme_has_no_type_errors(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "example.py").write_text(block)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_an_error_inside_a_module_is_not_hidden():
    """`gozero.search` is a property, and Python takes an AttributeError of it for its absence."""
    code = """
import gozero, jax
del jax.jit
gozero.search
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: gozero.search.search cannot be imported: " in done.stderr


@pytest.mark.slow
def test_the_wheel_plays_in_an_empty_environment(wheel, tmp_path):
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    run = lambda *command, **more: subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, text=True, capture_output=True, **more
    )
    run(sys.executable, "-m", "venv", "venv")
    run("venv/bin/python", "-m", "pip", "install", "-q", str(wheel))
    assert run("venv/bin/gozero", "--version").stdout == f"gozero {gozero.__version__}\n"
    assert "strong" in run("venv/bin/gozero", "players").stdout
    output = run("venv/bin/gozero", "gtp", input="name\nboardsize 7\ngenmove b\nquit\n").stdout
    assert re.fullmatch(r"= gozero\n\n=\n\n= [A-G][1-7]\n\n=\n\n", output)
    assert run("venv/bin/gozero", "gtp", "--selftest").returncode == 0


def test_the_citation_has_this_version():
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cff["cff-version"] == "1.2.0"
    assert (cff["version"], cff["license"]) == (gozero.__version__, PROJECT["license"])
    assert cff["keywords"] == PROJECT["keywords"]
    assert [one["name"] for one in cff["authors"]] == [one["name"] for one in PROJECT["authors"]]


def test_the_badges_are_true():
    facts = {
        "python": PROJECT["requires-python"].removeprefix(">=") + "+",
        "license": PROJECT["license"],
        "version": gozero.__version__,
    }
    badges = re.findall(r"!\[(.*?)\]\((docs/badges/\w+\.svg)\)", (ROOT / "README.md").read_text())
    assert badges
    for text, path in badges:
        name, _, value = text.partition(" ")
        assert facts[name.lower()] == value
        assert f">{value}</text>" in (ROOT / path).read_text()
