"""``--weights FILE.bin.gz``: commands play, analyse and record games with a KataGo network."""

from __future__ import annotations

import hashlib
import io
import json
import re

import numpy as np
import pytest

from gozero.apps import cli
from gozero.apps.analysis import run as analysis
from gozero.apps.analysis.config import AnalyzeConfig
from gozero.apps.gtp import run as gtp
from gozero.apps.gtp.config import GtpConfig
from gozero.apps.gtp.engine import Engine
from gozero.go import coords
from gozero.play import shards
from tests.apps.gtp.test_analyze import run_commands
from tests.nets import katago_files as files
from tests.reference import katago as reference
from tests.reference.go import ReferenceGame

MODEL = files.model(8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.bin.gz"
    path.write_bytes(files.data(MODEL, packed=True))
    return path


def evaluation(game, moves, komi):
    """(policy over the legal actions [A], White's probabilities of winning and losing), by plain
    NumPy."""
    planes = np.zeros((game.size**2, 22))
    for plane, points in enumerate(reference.planes(game, moves)):
        planes[list(points), plane] = 1
    numbers = np.array(reference.numbers(game, moves, komi))
    policy, value, _, _ = files.evaluate(MODEL, planes.reshape(game.size, -1, 22), numbers)
    weight = np.exp(policy[:, 0] - policy.max()) * np.array(game.legal())
    shares = np.exp(value) * (1, 1, numbers[6] == 0)
    return weight / weight.sum(), (shares / shares.sum())[:2][:: 1 if game.to_play == -1 else -1]


@pytest.mark.thorough
def test_gtp(path):
    config = gtp.GtpConfig.of_flags({"size": 2, "weights": path, "simulations": 2, "ko": "simple"})
    out = io.StringIO()
    script = "play b A1\nkata-raw-nn 0\nplay b A2\ngenmove w\n"
    assert gtp.run(config, io.StringIO(script), out) == 0
    _, raw, _, move = out.getvalue().split("\n\n")[:-1]
    game = ReferenceGame(2, "simple")
    game.play(coords.from_gtp(2, "A1"))
    _, (win, loss) = evaluation(game, [coords.from_gtp(2, "A1")], 7.0)
    found = dict(re.findall(r"(whiteWin|whiteLoss) ([0-9.]+)", raw))
    found = [float(found[name]) for name in ("whiteWin", "whiteLoss")]
    np.testing.assert_allclose(found, [win, loss], atol=2e-4)
    assert move.removeprefix("= ") in ("B1", "B2", "pass")


@pytest.mark.thorough
def test_analyze(path, capsys):
    config = AnalyzeConfig.of_flags(
        {"json": True, "weights": path, "simulations": 3, "batch": 1, "symmetries": "one"}
    )
    out = io.StringIO()
    server = analysis.Server(config, out)
    query = {"id": "q", "moves": [["B", "A1"]], "boardXSize": 2, "boardYSize": 2, "komi": 0.5}
    server.listen(io.StringIO(json.dumps(query | {"rules": "tromp-taylor", "includePolicy": True})))
    server.serve()
    assert "compiling for 2x2, about 30 s" in capsys.readouterr().err
    (reply,) = map(json.loads, out.getvalue().splitlines())
    game, moves = ReferenceGame(2, "positional", suicide=True), [coords.from_gtp(2, "A1")]
    game.play(moves[0])
    policy, _ = evaluation(game, moves, 0.5)
    assert reply["rootInfo"]["visits"] == 3
    np.testing.assert_allclose(np.maximum(reply["policy"], 0), policy, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_selfplay(path, tmp_path, capsys, dtype):
    flags = ["--size", "2", "--games", "2", "--batch", "2", "--simulations", "2", "--ko", "simple"]
    flags += ["--weights", str(path), "--out", str(tmp_path / "run")]
    assert cli.main(["selfplay", *flags, *(["--dtype", dtype] if dtype else [])]) == 0
    assert "compiling for 2x2, about 30 s" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["state"], manifest["games"]) == ("complete", 2)
    assert (manifest["features"], manifest["dtype"]) == ("katago", dtype or "float32")
    assert manifest["symmetries"] == "random"
    assert manifest["weights_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    _, rows, _ = shards.read_folder(tmp_path / "run")
    assert rows.num_rows > 0


@pytest.mark.thorough
def test_match(path, tmp_path):
    out = tmp_path / "match"
    flags = f"--size 2 --komi 0.5 --games 2 --player.evaluator network --player.weights {path} "
    flags += f"--player.simulations 2 --opponent.search random --out {out}"
    assert cli.main(["match", *flags.split()]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["state"], summary["games"], summary["void"]) == ("complete", 2, 0)
    used = json.loads((out / "manifest.json").read_text())["evaluators"]["player"]
    assert (used["features"], used["symmetries"]) == ("katago", "random")
    assert used["weights_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.thorough
def test_a_raw_network_prints_what_katago_prints(tmp_path):
    """In its order; for another colour, the board without its past."""
    path = tmp_path / "net.bin"
    path.write_bytes(files.data(files.model(12, [files.ORDINARY])))
    config = GtpConfig(size=3, ko="positional", evaluator="network", weights=path)
    engine = Engine(config)
    commands = "0", "w 0", "w 0 0.2", "0 1", "b 0", "all"
    run_commands(engine, "play b B2")
    answers = [run_commands(engine, f"kata-raw-nn {words}")[0] for words in commands]
    plain, white, same, optimistic, black, all_ = (one.removeprefix("= ") for one in answers)
    assert plain == white == same != optimistic
    assert all_.startswith(plain + "\nsymmetry 1\n")
    names = [line.split()[0] for line in plain.split("\n") if line[0].isalpha()]
    assert names == [
        *("symmetry", "whiteWin", "whiteLoss", "noResult", "whiteLead", "whiteScoreSelfplay"),
        *("whiteScoreSelfplaySq", "varTimeLeft", "shorttermWinlossError", "shorttermScoreError"),
        *("policy", "policyPass", "whiteOwnership"),
    ]
    values = lambda text: dict(line.split() for line in text.split("\n") if len(line.split()) == 2)
    assert all(float(values(plain)[name]) > 0 for name in names[6:10])
    changed = {name for name, value in values(plain).items() if values(optimistic)[name] != value}
    assert changed == {"policyPass"}
    fresh = Engine(config)
    assert run_commands(fresh, "set_position b B2", "kata-raw-nn b 0")[1] == f"= {black}"
