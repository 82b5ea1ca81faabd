"""What `prototype show` counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import models.build
from edgestill.cli.simulation.prototypes import app


def shown(name: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["show", name, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_a_model_with_its_channels_last_is_counted_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    build, usual = models.build.build, shown("resnet8:w1")
    monkeypatch.setattr(
        "models.build.build", lambda *args, **more: build(*args, **more).to(memory_format=torch.channels_last)
    )
    assert shown("resnet8:w1") == usual
