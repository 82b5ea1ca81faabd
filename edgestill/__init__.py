"""The Python API of edgestill (docs/api.md), and its command line.

    import edgestill as es

    run = es.simulate(dataset="digits", devices=12, prototypes=["cnn:fp32", "cnn:w1"], recipe="feddf", rounds=10)

Names are imported on first use: `import edgestill` imports neither torch nor NumPy; boards import `edgestill.device`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from edgestill.hidden import refuse_hidden

if TYPE_CHECKING:
    from aggregator.recipes.catalogue import Distillation, Recipe
    from core.errors import EdgestillError
    from edgestill.api.callbacks import Callback
    from edgestill.api.fleet import Fleet
    from edgestill.api.model import TrainedModel
    from edgestill.api.prototype import prototype
    from edgestill.api.run import Run, load_run
    from edgestill.api.simulate import simulate
    from edgestill.api.sweep import SweepResult, sweep

__all__ = [
    "Callback",
    "Distillation",
    "EdgestillError",
    "Fleet",
    "Recipe",
    "Run",
    "SweepResult",
    "TrainedModel",
    "__version__",
    "load_run",
    "prototype",
    "simulate",
    "sweep",
]

__version__ = "0.1.0"

_WHERE = {
    "Callback": "edgestill.api.callbacks",
    "Distillation": "aggregator.recipes.catalogue",
    "EdgestillError": "core.errors",
    "Fleet": "edgestill.api.fleet",
    "Recipe": "aggregator.recipes.catalogue",
    "Run": "edgestill.api.run",
    "TrainedModel": "edgestill.api.model",
    "load_run": "edgestill.api.run",
    "SweepResult": "edgestill.api.sweep",
    "prototype": "edgestill.api.prototype",
    "simulate": "edgestill.api.simulate",
    "sweep": "edgestill.api.sweep",
}

refuse_hidden()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'edgestill' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
