"""Experiments by name: every module in this folder with an `EXPERIMENT`. Imports no torch.

A user's package adds its own by an entry point of the group `edgestill.experiments`: NAME = "MODULE:EXPERIMENT".
"""

from __future__ import annotations

import ast
import importlib
from importlib.metadata import entry_points
from pathlib import Path

from core.errors import ConfigError, did_you_mean
from fleet.experiments.base import Experiment

__all__ = ["find_experiment", "names"]

FOLDER = Path(__file__).parent
GROUP = "edgestill.experiments"


def names() -> dict[str, str]:
    """Every experiment's name and the first line of its docstring, or a user's module; imports none of them."""
    titles = {point.name: point.value for point in entry_points(group=GROUP)}
    for path in sorted(FOLDER.glob("*/*.py")):
        tree = ast.parse(path.read_text())
        if any(_assigns(node) for node in tree.body):
            name = f"{path.parent.name}-{path.stem.replace('_', '-')}"
            titles[name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return titles


def _module(name: str) -> str:
    """The module of a built-in experiment: `feddf-cifar` is `feddf.cifar`."""
    paper, _, rest = name.partition("-")
    return f"{paper}.{rest.replace('-', '_')}"


def _assigns(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == "EXPERIMENT" for target in targets)


def find_experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    known = names()
    if name not in known:
        raise ConfigError(f"unknown experiment {name!r}; known: {' '.join(known)}{did_you_mean(name, known)}")
    if FOLDER.joinpath(*_module(name).split(".")).with_suffix(".py").exists():
        experiment = importlib.import_module(f"fleet.experiments.{_module(name)}").EXPERIMENT
    else:
        (point, *_) = entry_points(group=GROUP, name=name)
        experiment = point.load()
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"experiment {name!r} is a {type(experiment).__name__}; give an Experiment")
    return experiment
