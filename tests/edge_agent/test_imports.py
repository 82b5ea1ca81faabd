"""What the agent process holds in memory while it waits."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("edge_agent.__main__", ("torch", "numpy", "onnx", "onnxruntime", "brevitas", "typer", "rich", "safetensors")),
        ("edge_agent.child.__main__", ("torch", "numpy", "onnx")),  # until it has limited itself
        ("edge_agent.predict.model", ("torch", "onnx", "brevitas")),
        ("edge_agent.light.train", ("torch", "onnx", "brevitas")),
        ("edge_agent.light.extractor", ("torch", "onnx", "brevitas")),
        ("edge_agent.objectives.fedgen_weights", ("torch", "numpy")),
        ("edge_agent.training.label_privacy", ("torch", "numpy")),
        ("models.latents", ("torch", "onnx")),
        ("aggregator.recipes.generator", ("torch", "numpy")),
        ("edgestill.cli.service.agent", ("torch", "numpy")),
    ],
)
def test_importing_stays_light(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys; import {module}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
