"""`simulate`: a simulated fleet, as by `edgestill simulate`."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError
from edgestill.api.callbacks import Watching
from edgestill.api.run import Run, RunInterrupted
from edgestill.api.settings import configured, with_signature
from fleet.simulation.config import SimulationConfig
from fleet.simulation.hooks import NO_HOOKS
from fleet.simulation.observer import Observer
from fleet.simulation.run import Interrupted, run_simulation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgestill.api.typed import SimulateSettings

__all__ = ["is_interactive", "run_watched", "simulate", "watch"]


@with_signature
def simulate(
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    quiet: bool = False,
    callbacks: Sequence[Any] = (),
    **settings: Unpack[SimulateSettings],
) -> Run:
    """Simulate a fleet on this machine; the settings are those of `edgestill simulate`, with the same defaults.

    run = simulate(dataset="mnist", devices=20, alpha=0.1, prototypes=["cnn:fp32", "cnn:w1"], recipe="feddf", rounds=30)

    out      folder for run.json, curves.png and checkpoints; `force` replaces another run there
    config   TOML file with settings in [simulate], which arguments override
    resume   continue the run in `out`, which must have been started with the same settings
    quiet    no progress; otherwise live on a terminal, one line per round in notebooks and files
    callbacks  functions (run, result) called after every round, or objects with the methods of `Callback`

    Ctrl-C in a notebook or at a prompt returns the run with its completed rounds (`run.interrupted`); in a script it
    raises `KeyboardInterrupt` with that run as `run`. A wrong argument raises `EdgestillError` with one line.
    """
    from edgestill.cli.progress import RunDisplay

    checked = configured(settings, "simulate()", config)
    folder = None if out is None else Path(out).expanduser()
    try:
        return run_watched(checked, folder, callbacks, RunDisplay(quiet=quiet), force=force, resume=resume)
    except RunInterrupted as cut:
        if not is_interactive():
            raise
        return cut.run


def watch(config: SimulationConfig, folder: Path | None, callbacks: Sequence[Any], shown: Observer) -> Watching:
    """The callbacks of a run, and its display; ConfigError if they cannot be used with this configuration."""
    watching = Watching(shown, callbacks, lambda simulation, run: Run.of(simulation, run, folder))
    if watching.hooks is not NO_HOOKS and config.transport == "mqtt":
        raise ConfigError("on_update needs transport='memory': over MQTT the aggregator is another process")
    return watching


def run_watched(
    config: SimulationConfig, folder: Path | None, callbacks: Sequence[Any], shown: Observer, **options: Any
) -> Run:
    """Run a checked configuration, as `simulate` and the command line do; `options` are those of `run_simulation`.

    Ctrl-C after the first round raises `RunInterrupted`.
    """
    watching = watch(config, folder, callbacks, shown)
    try:
        run_simulation(config, folder, observer=watching, hooks=watching.hooks, **options)
    except Interrupted:
        watching.run.interrupted = True
        raise RunInterrupted(watching.run) from None
    watching.end()
    return watching.run


def is_interactive() -> bool:
    """Whether somebody sits at a prompt, or in a notebook."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or hasattr(builtins, "get_ipython")
