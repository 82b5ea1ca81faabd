"""`python -m edge_agent.precompile agent.toml`: bytecode of what the agent imports, made once by the installer.

pip would compile every module of every package: 110 MB of source with torch, of which a board imports 41 with Brevitas'
layers and less without. The agent must not write where its packages are. So the installer, which may, does the agent's
work once, with the layers of the board's prototype: what is imported for it is compiled. On a board whose processor
cannot run a package this ends as the training would.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from core.errors import EdgestillError
from edge_agent.config import AgentConfig, read_agent_config
from models.registry import architecture
from models.spec import parse_prototype

__all__ = ["main", "precompile"]

AGENT = ("edge_agent.__main__", "edge_agent.enrolment", "edgestill.cli.main", "edgestill.cli.service.agent")
LIGHT = ("edge_agent.child.__main__", "edge_agent.child.light", "onnxruntime")
FULL = ("edge_agent.child.__main__", "edge_agent.child.full")


def main(argv: Sequence[str]) -> int:
    """Import what the agent of this configuration imports; the exit code."""
    try:
        precompile(read_agent_config(argv[0], environ={}))
    except EdgestillError as error:
        sys.stderr.write(f"edgestill: {error}\n")
        return error.exit_code
    return 0


def precompile(config: AgentConfig) -> None:
    """Import the modules of the agent, and those of its training child."""
    light = config.train.mode == "light"
    for name in (*AGENT, *(LIGHT if light else FULL)):
        importlib.import_module(name)
    if not light:
        architecture(parse_prototype(config.prototype)[0])
        _train_and_export(config)


def _train_and_export(config: AgentConfig) -> None:
    """A step and the graph of one layer: torch, Brevitas and the exporter import more when they are used."""
    import torch
    from torch import nn

    from edge_agent.training.params import LocalTraining
    from edge_agent.training.sgd import train_local
    from quant.layers import layers_for
    from quant.onnx.export import export_onnx

    model = nn.Sequential(layers_for(config.precision).linear(4, 2))
    x, y = torch.zeros(4, 4), torch.tensor([0, 1, 0, 1])
    train_local(model, x, y, LocalTraining(lr=0.1, batch_size=4, steps=1), generator=torch.Generator().manual_seed(0))
    export_onnx(model.eval(), x)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
