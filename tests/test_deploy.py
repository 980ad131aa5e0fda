"""The files of deploy/ fit their formats, and our programs accept their commands."""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import subprocess

import kubernetes_validate
import pytest
import yaml

from gozero.apps import flags
from gozero.compile import ahead
from train import dry_run, run, worker
from train.presets import preset_of

ROOT = pathlib.Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.31"
YAML = sorted(DEPLOY.glob("*.yaml"))
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def parsed(path):
    return list(yaml.safe_load_all(path.read_text()))


def check_command(argv):
    """Check that `python -m train` accepts these arguments."""
    if argv[0] == "worker":
        assert flags.parse(worker.WorkerFlags, argv[1:], prog="worker").out
    elif "--dry-run" in argv:
        default = dry_run.DryRunConfig(**vars(preset_of(argv, "dry run")))
        config = flags.parse(dry_run.DryRunConfig, argv, prog="dry run", default=default)
        assert ahead.target(config.target)
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
    matches = re.findall(r"python -m train +([^'\n`]*)", text)
    commands = [shlex.split(one) for one in matches if "..." not in one]
    if path.suffix == ".yaml":
        documents = itertools.chain.from_iterable(map(inside, parsed(path)))
        commands += [one["args"] for one in documents if "args" in one]
    assert commands
    for argv in commands:
        check_command(argv)


def test_kubernetes_files_match_their_schemas():
    """By Kubernetes' own schemas; for a JobSet these cover the job that it replicates."""
    for path in YAML:
        for one in parsed(path):
            if "apiVersion" not in one:
                assert path.name == "skypilot.yaml"
                continue
            assert one.keys() == {"apiVersion", "kind", "metadata", "spec"}
            assert _NAME.fullmatch(one["metadata"]["name"])
            jobs = [one]
            if one["kind"] == "JobSet":
                copied = [replicated["template"] for replicated in one["spec"]["replicatedJobs"]]
                about = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "copied"}}
                jobs = [about | template for template in copied]
            for job in jobs:
                kubernetes_validate.validate(job, KUBERNETES, strict=True)
                template = job["spec"]["template"]
                selector = job["spec"].get("selector", {"matchLabels": {}})["matchLabels"]
                assert selector.items() <= template.get("metadata", {}).get("labels", {}).items()
                check_pod(template["spec"], job["kind"])


def test_the_skypilot_file_is_valid():
    sky = pytest.importorskip("sky", reason="pip install skypilot: it checks skypilot.yaml")
    assert sky.Task.from_yaml(str(DEPLOY / "skypilot.yaml")).run.startswith(
        ".venv/bin/python -m train"
    )


def test_the_cost_of_a_million_games_matches_the_table():
    table = (ROOT / "docs/accelerators.md").read_text()
    for preset, of, names in (
        ("19x19-slice", "v5litepod-16", ["jobset.yaml"]),
        ("9x9-gpu", "one v5e", ["kubernetes.yaml", "skypilot.yaml", "slurm.sh"]),
    ):
        (cost,) = re.findall(
            rf"^\| `{preset}` \| {of} \|.* (\S+ hours, \S+) \|$", table, re.MULTILINE
        )
        for name in names:
            assert cost in " ".join((DEPLOY / name).read_text().replace("#", " ").split()), name


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
    assert spec["backoffLimit"] == 0  # JobSet restarts all pods together


def test_the_shell_parses_the_scripts():
    for path in DEPLOY.glob("*.sh"):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_image_installs_existing_packages():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    words = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert words == ["FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"]
    assert "cloud = [" in (ROOT / "pyproject.toml").read_text()
