"""`edgestill simulate`: simulates a fleet on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import out, print_json
from edgestill.cli.simulation.setting_options import names_given, with_settings
from fleet.simulation.settings.layers import Layer, overlay
from fleet.simulation.settings.panels import FLEET, OUTPUT

if TYPE_CHECKING:
    from fleet.results.run_file import Run
    from fleet.simulation.config import SimulationConfig
    from transport.config import BrokerConfig

__all__ = ["simulate"]

#: Flags allowed with --resume, in addition to the settings that may change.
WITH_RESUME = ("resume", "dry_run", "callbacks", "quiet", "as_json")


Broker = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of the broker (--transport mqtt); default: the embedded one.", rich_help_panel=FLEET),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for run.json and curves.png; created if missing.", rich_help_panel=OUTPUT),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings in [simulate]; flags override it.", rich_help_panel=OUTPUT),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        help="Resume the run in this folder with its own settings; --rounds may be higher.", rich_help_panel=OUTPUT
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace another run in --out.", rich_help_panel=OUTPUT)]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Check settings and data, print the settings as JSON, train nothing.", rich_help_panel=OUTPUT
    ),
]
Callbacks = Annotated[
    list[str] | None,
    typer.Option(
        "--callback",
        metavar="FILE.py:NAME",
        help="Call your function (run, result) after every round, or the methods of your class (docs/api.md).",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)]
AsJson = Annotated[bool, typer.Option("--json", help="Print run.json to stdout.", rich_help_panel=OUTPUT)]


@with_settings
def simulate(
    ctx: typer.Context,
    given: dict[str, Any],
    broker: Broker = None,
    out_dir: Out = None,
    config_file: ConfigFile = None,
    resume: Resume = None,
    force: Force = False,
    dry_run: DryRun = False,
    callbacks: Callbacks = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a fleet of devices with different models on this machine.

    Devices of several prototypes (architecture + precision, such as cnn:w1 with 1-bit weights) train on their own
    share of a dataset; each round, the updates are fused by a recipe: averaged per prototype, and with a recipe such
    as feddf or fedrad distilled across prototypes. Updates pass through the real wire format, so bytes are exact.

    Example:  edgestill simulate --dataset digits --devices 12 --prototypes cnn:fp32,mlp:fp32,cnn:w1 --out run
    """
    from fleet.simulation.settings.configure import configure

    settings = Layer(given) if resume is not None else _layers(given, config_file)
    with settings.located():
        if resume is None:
            config = configure(settings.values)
        else:
            out_dir = resume = resume.parent if resume.is_file() else resume  # the path of its run.json was given
            config = _resumed(ctx, resume, given)
        if broker is not None and config.transport != "mqtt":
            raise ConfigError("--broker requires --transport mqtt")
        if dry_run:
            from edgestill.api.simulate import watch
            from fleet.simulation.observer import Observer
            from fleet.simulation.run import check_run

            check_run(config)
            watch(config, out_dir, callbacks or [], Observer())
            if not quiet:
                print_json(config.to_json())
            return
        where = None if broker is None else _parse_broker(broker)
        options = {"broker": where, "force": force, "resume": resume is not None}
        _run(config, out_dir, callbacks or [], options, quiet=quiet, as_json=as_json)


def _layers(given: dict[str, Any], file: Path | None) -> Layer:
    """All settings; flags override environment variables, which override the file."""
    from fleet.simulation.settings.table import from_environment, read_file

    return overlay(Layer() if file is None else read_file(file), from_environment(), Layer(given))


def _resumed(ctx: typer.Context, folder: Path, given: dict[str, Any]) -> SimulationConfig:
    """The configuration of the run in `folder`, with the settings that may change."""
    from fleet.simulation.resume import MAY_CHANGE, resumed_config
    from fleet.simulation.settings.configure import configure

    names = names_given(ctx)
    for parameter in ctx.command.params:
        if parameter.name in names and parameter.name not in (*WITH_RESUME, *MAY_CHANGE):
            flag = parameter.opts[0]
            raise ConfigError(f"--resume uses the settings in {folder / 'run.json'}; remove {flag}")
    asked = configure(given)
    changes = {name: getattr(asked, name) for name in MAY_CHANGE if name in names}
    if "engine" in names:
        changes["address"] = asked.address
    return resumed_config(folder, changes)


def _parse_broker(text: str) -> BrokerConfig:
    from transport.config import BrokerConfig

    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--broker {text!r}: write it as HOST:PORT, such as 127.0.0.1:1883")
    return BrokerConfig(host=host, port=int(port))


def _run(
    config: SimulationConfig,
    out_dir: Path | None,
    callbacks: list[str],
    options: dict[str, Any],
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the simulation and print the summary, even if it is interrupted."""
    from edgestill.api.run import RunInterrupted
    from edgestill.api.simulate import run_watched
    from edgestill.cli.progress import RunDisplay
    from fleet.simulation.resume import is_resumable
    from fleet.simulation.run import LostRunError

    try:
        run = run_watched(config, out_dir, callbacks, RunDisplay(quiet=quiet or as_json), **options)
    except RunInterrupted as cut:
        _print(cut.run.recorded, out_dir, as_json=as_json)
        if out_dir is not None and is_resumable(config) and not as_json:
            out.print(f"to resume: edgestill simulate --resume {out_dir}", markup=False, soft_wrap=True)
        raise
    except LostRunError as ended:
        _print(ended.run, out_dir, as_json=as_json)
        raise
    _print(run.recorded, out_dir, as_json=as_json)


def _print(run: Run, out_dir: Path | None, *, as_json: bool) -> None:
    """Print the summary and the output files."""
    from edgestill.cli.run_summary import print_summary

    if as_json:
        print_json(run.to_json())
        return
    print_summary(run)
    if out_dir is not None:
        files = f"{out_dir / 'run.json'} and {out_dir / 'curves.png'}"
        out.print(f"\nwrote {files}; for a report: edgestill report {out_dir}", markup=False, soft_wrap=True)
