"""`python -m train average`: the mean of weights, and what it refuses."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from gozero.nets import network, weights
from gozero.nets.network import NetworkConfig
from train import average, folder

CONFIG = NetworkConfig(blocks=1, channels=4)


@pytest.fixture
def saved(tmp_path):
    """(seed, changes of the network, size) -> (path, parameters)."""

    def save(seed, size=5, **changes):
        config = NetworkConfig(**{"blocks": 1, "channels": 4} | changes)
        params = network.init(config, jax.random.key(seed))
        path = tmp_path / f"{seed}.safetensors"
        about = {"preset": "5x5", "komi": [7.0], "iteration": seed, "random": seed == 0}
        weights.save(path, params, config, size, **about)
        return path, params

    return save


def test_the_mean_of_three(saved, tmp_path, capsys):
    made = [saved(1), saved(2, dtype="bfloat16"), saved(3)]
    out = tmp_path / "mean.safetensors"
    argv = ["--weights", *(str(path) for path, _ in made), "--out", str(out)]
    assert average.main(argv) == 0
    assert capsys.readouterr().out == f"{out}\n"
    config, params, about = weights.load(out, 5)
    assert (config, config.dtype) == (CONFIG, "float32")  # as the first
    expected = jax.tree.map(lambda *x: np.mean(x, axis=0, dtype=np.float64), *(p for _, p in made))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), params, expected)
    assert about["command"] == ["python -m train average", *argv]
    assert about["mean_of"] == [weights.load(path)[2]["sha256"] for path, _ in made]
    assert (about["preset"], about["komi"]) == ("5x5", [7.0])
    assert "iteration" not in about


def test_weights_are_not_overwritten(saved, tmp_path, capsys):
    paths = [str(saved(seed)[0]) for seed in (1, 2)]
    before = (tmp_path / "2.safetensors").read_bytes()
    with pytest.raises(SystemExit, match="2"):
        average.main(["--weights", *paths, "--out", paths[1]])
    assert "2.safetensors: already exists; name a new file" in capsys.readouterr().err
    assert (tmp_path / "2.safetensors").read_bytes() == before
    assert average.main(["--weights", *paths, "--out", str(tmp_path / "new/mean.safetensors")]) == 0


@pytest.mark.parametrize("other", [{"size": 7}, {"blocks": 2}, {"features": "zero"}])
def test_other_networks_are_refused(saved, tmp_path, other, capsys):
    first, second = saved(1)[0], saved(2, **other)[0]
    out = tmp_path / "mean.safetensors"
    with pytest.raises(SystemExit, match="2"):
        average.main(["--weights", str(first), str(second), "--out", str(out)])
    error = capsys.readouterr().err
    assert error.startswith(f"python -m train average: --weights {second}: it is ")
    assert not out.exists()


def test_one_network_has_no_mean(saved, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        average.main(["--weights", str(saved(1)[0]), "--out", str(tmp_path / "mean.safetensors")])
    assert "--weights: 1 given; expected at least 2" in capsys.readouterr().err


def test_random_weights_are_refused(saved, tmp_path, capsys):
    paths = [str(saved(seed)[0]) for seed in (1, 0)]
    with pytest.raises(SystemExit, match="2"):
        average.main(["--weights", *paths, "--out", str(tmp_path / "mean.safetensors")])
    assert (
        f"--weights {paths[1]}: random weights, from which a run began" in capsys.readouterr().err
    )


def test_networks_are_in_the_order_of_their_iterations(tmp_path):
    (tmp_path / "weights").mkdir()
    for number in (999_990, 1_000_000, 30):
        (tmp_path / "weights" / f"{folder.stem(number)}.safetensors").touch()
    names = [path.stem for path in folder.weights_files(tmp_path)]
    assert names == [folder.stem(number) for number in (30, 999_990, 1_000_000)]
