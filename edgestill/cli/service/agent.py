"""`edgestill agent`: runs the device side of a fleet, and predicts with its current model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import err, out, print_json
from edgestill.cli.service.agent_data import collect, data
from edgestill.cli.service.options import Overrides

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_agent.predict.model import Prediction

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The agent on a board: run it, predict with its current model.")
app.command()(data)
app.command()(collect)

_Config = Annotated[Path, typer.Option("--config", "-c", help="The agent.toml; examples/agent.toml has all settings.")]


@app.command()
def run(config: _Config, settings: Overrides = None) -> None:
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


_Inputs = Annotated[
    list[Path] | None,
    typer.Option("--input", help="Inputs: an .npy file of one or of N, or pictures; repeatable."),
]
_Model = Annotated[
    Path | None, typer.Option("--model", help="Use this ONNX file, model card, or folder of a published model.")
]
_Output = Annotated[
    Path | None,
    typer.Option("--output", help="Write the logits (N, C) to this .npy file, or the probabilities of a raw model."),
]
_Serve = Annotated[
    str | None, typer.Option("--serve", help="Answer over HTTP at 127.0.0.1:9000, or at unix:/run/predict.sock.")
]
_AllowRemote = Annotated[
    bool, typer.Option("--allow-remote", help="Let --serve bind an address that other machines reach.")
]


@app.command()
def predict(
    inputs: _Inputs = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="Use the model of this agent.")] = None,
    model: _Model = None,
    output: _Output = None,
    serve: _Serve = None,
    allow_remote: _AllowRemote = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: labels, classes, probabilities.")] = False,
    settings: Overrides = None,
) -> None:
    """Run the agent's current model on inputs, and print a class per input; or answer requests over HTTP.

    Example:  edgestill agent predict --config agent.toml --serve 127.0.0.1:9000
    """
    if (config is None) == (model is None):
        raise typer.BadParameter("give either --config or --model")
    if settings and config is None:
        raise typer.BadParameter("--set overrides settings of an agent.toml; give --config")
    if bool(inputs) == (serve is not None):
        raise typer.BadParameter("give either --input or --serve")
    from edge_agent.predict.model import Model

    source = model or _model_of(config, settings or ())
    if serve is not None:
        _serve(source, serve, allow_remote)
        return
    assert inputs is not None
    answer = Model(source).predict(inputs[0] if len(inputs) == 1 else inputs)
    if output is not None:
        _save(output, answer.probabilities if answer.logits is None else answer.logits)
    if as_json:
        print_json(_facts(source, answer))
    elif output is None:
        for label in answer.labels:
            out.print(label, markup=False, soft_wrap=True)


def _model_of(config: Path | None, settings: Sequence[str]) -> Path:
    """The model of an agent: in its publish folder if it has one there, otherwise in its state folder."""
    from edge_agent.config import read_agent_config
    from edge_agent.predict.model import CARD_FILE

    assert config is not None
    agent = read_agent_config(config, settings=settings)
    if agent.publish is not None and os.path.exists(agent.publish / CARD_FILE):  # False where it may not be read
        return agent.publish
    return agent.state_dir


def _facts(model: Path, answer: Prediction) -> dict[str, Any]:
    return {
        "model": str(model),
        "labels": list(answer.labels),
        "classes": answer.classes.tolist(),
        "probabilities": answer.probabilities.tolist(),
        "logits": None if answer.logits is None else answer.logits.tolist(),
    }


def _serve(model: Path, address: str, allow_remote: bool) -> None:
    from core.logs import setup_logging
    from core.systemd import notify
    from edge_agent.host.signals import stop_on_signals
    from edge_agent.predict.address import parse_address
    from edge_agent.predict.server import PredictServer, serve_until

    setup_logging()
    server = PredictServer(model, parse_address(address, remote=allow_remote))
    err.print(f"serving {model} at {server.where}", soft_wrap=True)
    notify("READY=1")
    serve_until(server, stop_on_signals)


def _save(path: Path, array: NDArray[np.float32]) -> None:
    import numpy as np

    try:
        with path.open("wb") as file:  # numpy would add .npy to another name
            np.save(file, array)
    except OSError as error:
        raise ConfigError(f"--output {path}: {error.strerror or error}; give a file in a folder that exists") from None
