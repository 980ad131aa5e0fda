"""CI installs pinned versions."""

from __future__ import annotations

import pathlib
import re
import tomllib

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parent.parent


def test_ci_pins_allowed_versions_of_all_packages():
    text = (ROOT / ".ci" / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)  # and no addresses
    versions = dict(line.lower().replace("_", "-").split("==") for line in lines)
    assert len(versions) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for required in project["dependencies"] + extras["test"] + extras["docs"]:
        requirement = Requirement(required)
        assert requirement.specifier.contains(versions[requirement.name.lower()])
    assert "-c .ci/constraints.txt -e '.[test,docs]'" in (ROOT / ".ci" / "run").read_text()
