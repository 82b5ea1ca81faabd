"""`edgestill agent`: runs the device side of a fleet, and predicts with its current model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.output import out, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The agent on a board: run it, predict with its current model.")

_Config = Annotated[Path, typer.Option("--config", "-c", help="The agent.toml; examples/agent.toml has all settings.")]


@app.command()
def run(
    config: _Config,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of the file: table.key=value; repeatable.")
    ] = None,
) -> None:
    """Run the agent until SIGTERM or Ctrl-C: wait for jobs, train, send updates.

    It may be killed at any moment: a finished update is sent after the next start.
    """
    from core.processes.process import environment
    from core.processes.python_child import module_arguments
    from edge_agent.config import read_agent_config

    read_agent_config(config, settings=settings or ())  # report errors here, in the format of all commands
    sys.stdout.flush()
    command = [sys.executable, *module_arguments("edge_agent", str(config), *(settings or ()))]
    # the same process, without the libraries of the command line
    os.execve(sys.executable, command, environment(threads=None))


@app.command()
def predict(
    inputs: Annotated[Path, typer.Option("--input", help="Inputs (N, ...) as an .npy file.")],
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Use the model of this agent.")] = None,
    model: Annotated[Path | None, typer.Option("--model", help="Use this ONNX file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the logits (N, C) to this .npy file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: classes and logits.")] = False,
) -> None:
    """Run the agent's current model (current.onnx) on inputs; prints one class index per input."""
    if (config is None) == (model is None):
        raise typer.BadParameter("give either --config or --model")
    from edge_agent.inference import load_inputs
    from edge_agent.inference import predict as run_model

    if config is not None:
        from edge_agent.config import read_agent_config

        model = read_agent_config(config).state_dir / "current.onnx"
    assert model is not None
    logits = run_model(model, load_inputs(inputs))
    if output is not None:
        import numpy as np

        with output.open("wb") as file:  # numpy would add .npy to another name
            np.save(file, logits)
    classes = logits.argmax(1).tolist()
    if as_json:
        print_json({"model": str(model), "classes": classes, "logits": logits.tolist()})
    elif output is None:
        for number in classes:
            out.print(number)
