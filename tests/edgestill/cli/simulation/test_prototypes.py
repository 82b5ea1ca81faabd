"""What `prototype show` counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import models.build
from core.errors import ConfigError
from edgestill.cli.simulation.prototypes import app


def shown(name: str, *more: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["show", name, *more, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_a_model_with_its_channels_last_is_counted_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    build, usual = models.build.build, shown("resnet8:w1")
    monkeypatch.setattr(
        "models.build.build", lambda *args, **more: build(*args, **more).to(memory_format=torch.channels_last)
    )
    assert shown("resnet8:w1") == usual


def test_prototypes_are_listed_and_weighed() -> None:
    listed = CliRunner().invoke(app, ["list", "--json"], catch_exceptions=False)
    names = [architecture["name"] for architecture in json.loads(listed.stdout)["architectures"]]
    assert {"mlp", "cnn", "resnet8", "resnet8-gn", "text"} <= set(names)
    facts = shown("resnet8:w1")
    assert facts["parameters"] == 78_042
    assert facts["fp32_safetensors_bytes"] > 18 * facts["state_update_bytes"]
    assert facts["predictor_update_bytes"] < facts["state_update_bytes"]


def test_shape_classes_and_latent_are_those_asked_for() -> None:
    facts = shown("mlp:fp32", "--input", "6", "--classes", "3", "--latent", "8")
    assert (facts["input"], facts["latent"]) == ("6", 8)
    assert shown("mlp:fp32", "--input", "6", "--classes", "4", "--latent", "8")["parameters"] - facts["parameters"] == 9


@pytest.mark.parametrize("text", ["axb", "", "3x", "9" * 5000])
def test_a_shape_that_is_none_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="input"):
        CliRunner().invoke(app, ["show", "mlp:fp32", "--input", text], catch_exceptions=False)
