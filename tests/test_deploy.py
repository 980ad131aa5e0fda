"""The files of deploy/: what their formats ask for, and commands that our programs take."""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

from gozero.apps import flags
from train import run, worker

ROOT = pathlib.Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
YAML = sorted(DEPLOY.glob("*.yaml"))
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def parsed(path):
    return list(yaml.safe_load_all(path.read_text()))


def check_command(argv):
    """Of `python -m train`."""
    if argv[0] == "worker":
        assert flags.parse(worker.WorkerFlags, argv[1:], prog="worker").out
    else:
        assert run.parse(argv).out


def inside(value):
    """All mappings in a document."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from inside(one)


@pytest.mark.parametrize("path", [*YAML, *DEPLOY.glob("*.sh")], ids=lambda path: path.name)
def test_commands(path):
    text = path.read_text().replace("\\\n", " ").replace("#   ", "")
    found = re.findall(r"python -m train +([^'\n`]*)", text)
    commands = [shlex.split(one) for one in found if "..." not in one]
    if path.suffix == ".yaml":
        documents = itertools.chain.from_iterable(map(inside, parsed(path)))
        commands += [one["args"] for one in documents if "args" in one]
    assert commands
    for argv in commands:
        check_command(argv)


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_what_kubernetes_asks_for(path):
    documents = [one for one in parsed(path) if "apiVersion" in one]
    assert documents or path.name == "skypilot.yaml"
    for one in documents:
        assert one.keys() == {"apiVersion", "kind", "metadata", "spec"}
        assert _NAME.fullmatch(one["metadata"]["name"])
        if one["kind"] == "Deployment":
            assert one["apiVersion"] == "apps/v1"
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
        for pod in (
            found["spec"] for found in inside(one) if "containers" in found.get("spec", {})
        ):
            check_pod(pod, one["kind"])


def check_pod(pod, kind):
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    assert kind == "Deployment" or pod["restartPolicy"] in ("Never", "OnFailure")
    for container in pod["containers"]:
        assert _NAME.fullmatch(container["name"])
        assert all(isinstance(argument, str) for argument in container["args"])
        for variable in container.get("env", []):
            assert variable.keys() == {"name", "value"}
            assert isinstance(variable["value"], str)
        assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes


def test_a_slice_has_as_many_pods_as_its_topology_has_hosts():
    spec = parsed(DEPLOY / "jobset.yaml")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = spec["template"]["spec"]
    rows, columns = map(int, pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"].split("x"))
    chips = pod["containers"][0]["resources"]["limits"]["google.com/tpu"]
    assert spec["parallelism"] == spec["completions"] == rows * columns // chips
    assert spec["backoffLimit"] == 0  # JobSet restarts all of them together


def test_the_shell_takes_the_scripts():
    for path in DEPLOY.glob("*.sh"):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_image_installs_what_there_is():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    words = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert words == ["FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"]
    assert "cloud = [" in (ROOT / "pyproject.toml").read_text()
