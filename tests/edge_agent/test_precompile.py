"""After the installer's run nothing that a training imports is without bytecode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.processes.process import environment
from edge_agent.precompile import main
from tests.edge_agent.scripted import PROTOTYPE, write_device

#: What a round of the configured prototype does, after which it prints what was imported for it alone.
WORK = """
import sys
from edge_agent.config import read_agent_config
from edge_agent.precompile import precompile
precompile(read_agent_config(sys.argv[1]))
before = set(sys.modules)
import torch
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.spec import PrototypeSpec
from quant.onnx.export import export_onnx
from quant.onnx.session import open_session, run_graph
spec = {"prototype": sys.argv[2], "input_shape": [1, 8, 8], "classes": 3, "latent": 8}
drawn = torch.Generator().manual_seed(0)
model, x = build(PrototypeSpec.from_json(spec), generator=drawn), torch.zeros(8, 1, 8, 8)
train_local(model, x, torch.arange(8) % 3, LocalTraining(lr=0.1, batch_size=4, steps=2), generator=drawn)
graph = export_onnx(model.eval(), x).data
run_graph(open_session(graph), x.numpy())
print(sorted(name for name in set(sys.modules) - before if getattr(sys.modules[name], "__file__", None)))
"""


def config_of(folder: Path, prototype: str, extra: str = "") -> Path:
    """A device with this prototype."""
    file = write_device(folder, 1, extra)
    file.write_text(file.read_text().replace(f'"{PROTOTYPE}"', f'"{prototype}"'))
    return file


def python(*arguments: str | Path) -> str:
    """What another interpreter prints."""
    command = [sys.executable, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment(threads=1)).stdout


# Brevitas brings 1,100 modules more: ten seconds.
@pytest.mark.parametrize("prototype", ["cnn:w1", pytest.param("cnn:w4a4", marks=pytest.mark.slow)])
def test_a_training_imports_nothing_more(tmp_path: Path, prototype: str) -> None:
    """At 1 bit without Brevitas, and with it."""
    assert python("-c", WORK, config_of(tmp_path, prototype), prototype) == "[]\n"


def test_a_light_board_needs_no_torch_for_it(tmp_path: Path) -> None:
    graph = '[train]\nmode = "light"\n'
    config = config_of(tmp_path, "cnn:w1", graph)
    config.write_text(config.read_text().replace("[data]", 'graph = "model.onnx"\n[data]'))
    look = "import sys; from edge_agent.precompile import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    assert python("-c", look, config) == "0 False\n"


def test_a_configuration_that_cannot_be_read_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.toml"]) == 3
    assert capsys.readouterr().err.startswith("edgestill: ")
