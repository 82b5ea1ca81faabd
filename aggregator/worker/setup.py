"""The setup of the worker process, its first line of input: paths, prototypes, task and fusion."""

from __future__ import annotations

from typing import Any

import msgspec

from aggregator.config.fleet import FleetConfig

__all__ = ["worker_setup"]


def worker_setup(config: FleetConfig) -> dict[str, Any]:
    """The line, as `aggregator/worker/__main__.py` reads it."""
    task = config.task
    return {
        "state": str(config.state),
        "key": str(config.key),
        "fleet": config.fleet,
        "seed": config.seed,
        "input_shape": task.input_shape,
        "classes": task.classes,
        "latent": task.latent,
        "task": msgspec.to_builtins(task.message),
        "validation": None if task.validation is None else str(task.validation),
        "prototypes": config.prototypes,
        "fusion": config.fusion.to_json(),
    }
