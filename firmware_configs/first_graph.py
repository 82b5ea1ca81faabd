"""The graph of a fleet's first model, for light devices: made by a child process that has torch, and kept.

The aggregator builds its first models from the fleet's seed by the same function (aggregator/worker/first_model.py), so
a light device starts from the model that the aggregator starts from. `_fleet/graphs/PROTOTYPE-KEY.onnx` is kept: KEY
depends on seed, task and prototype.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from core.errors import ConfigError
from core.files import read_regular, write_atomic
from core.processes.python_child import import_path, module_arguments
from firmware_configs.kits.kit import MAX_FILE
from firmware_configs.manifest import FirstModels
from wire.ids import digest_of

__all__ = ["first_graph"]


def first_graph(folder: Path, models: FirstModels, prototype: str) -> bytes:
    """The graph of a prototype's first model; `folder` keeps those that were made."""
    request = msgspec.json.encode({"prototype": prototype, **msgspec.structs.asdict(models)})
    path = folder / f"{prototype.replace(':', '-')}-{digest_of(request)[:12]}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        write_atomic(path, _made(request, prototype))
    return read_regular(path, MAX_FILE)


def _made(request: bytes, prototype: str) -> bytes:
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(
            f"the first graph of {prototype} is made with torch: install 'edgestill[train]' here, or give the group"
            " 'graph', a file of `edgestill model export`"
        )
    command = [sys.executable, *module_arguments("aggregator.worker.first_model")]
    environment = {**os.environ, "PYTHONPATH": import_path(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, input=request, capture_output=True, check=False, env=environment)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ConfigError(f"the first graph of {prototype} cannot be made: {said[-1]}")
    return done.stdout
