"""The first graph of a light prototype: made once, with the weights that the aggregator publishes first."""

import importlib.util
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs import first_graph as module
from firmware_configs.first_graph import first_graph
from firmware_configs.manifest import FirstModels
from firmware_configs.provision import provision
from tests.firmware_configs.fleets import PI, manifest

pytestmark = pytest.mark.light
MODELS = FirstModels(input_shape=(1, 8, 8), classes=3, latent=8, seed=0)


def test_a_graph_is_made_once_for_each_seed_and_prototype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def made(request: bytes, prototype: str) -> bytes:
        asked.append(request)
        return request

    monkeypatch.setattr(module, "_made", made)
    assert first_graph(tmp_path, MODELS, "cnn:w1") == first_graph(tmp_path, MODELS, "cnn:w1") == asked[0]
    other = FirstModels(input_shape=(1, 8, 8), classes=3, latent=8, seed=1)
    assert len({first_graph(tmp_path, other, "cnn:w1"), first_graph(tmp_path, MODELS, "mlp:w1"), asked[0]}) == 3
    assert len(asked) == 3


def test_without_torch_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"made with torch: install 'edgestill\[train\]' here, or give the group 'graph'"
    ):
        first_graph(tmp_path, MODELS, "cnn:w1")


def test_a_model_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ConfigError, match="the first graph of cnn:w1 cannot be made: "):
        first_graph(tmp_path, FirstModels(input_shape=(8,), classes=3, latent=8, seed=0), "cnn:w1")


def test_a_light_board_gets_its_first_graph_and_another_run_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    light = PI.replace("rpi-4", "rpi-zero-2w")
    assert provision(manifest(tmp_path, light)).made == ["pi-01", "pi-02"]
    graph = (tmp_path / "kits/pi-01/model.onnx").read_bytes()
    assert graph == (tmp_path / "kits/pi-02/model.onnx").read_bytes()
    assert provision(manifest(tmp_path, light)).kept == ["pi-01", "pi-02"]
