"""`edgestill aggregator`: serve a fleet; pause, resume and stop its rounds from another shell."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgestill.output import out
from wire.errors import RoundError

if TYPE_CHECKING:
    from aggregator.config import FleetConfig

__all__ = ["app", "ask_service"]

app = typer.Typer(no_args_is_help=True, help="Serve a fleet: open rounds, take updates, fuse and publish models.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml (docs/aggregator.md).")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting for this once: table.key=value; repeatable.")
]
ANSWER_S = 5.0  # for the service to notice a command


@app.command()
def serve(
    config: Config,
    settings: Settings = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="End when no round is left to do; else go on serving the models.")
    ] = False,
) -> None:
    """Run the aggregator until SIGTERM or Ctrl-C. Started again, it goes on in the round it was in.

    Example:  edgestill aggregator serve --config fleet.toml --set round.rounds=20
    """
    from aggregator.config import load_fleet_config
    from aggregator.service import serve as run
    from wire.logs import setup_logging

    loaded = load_fleet_config(config, settings or [])
    setup_logging(loaded.log_format, loaded.log_level)
    run(loaded, until_done=until_done)


@app.command()
def pause(config: Config) -> None:
    """Open no further round; the open one is collected and fused."""
    _hold(config, "pause")


@app.command()
def resume(config: Config) -> None:
    """Open rounds again, after a pause or a stop."""
    _hold(config, "resume")


@app.command()
def stop(config: Config) -> None:
    """End the rounds: the open one is fused with what has come, if that is a quorum. The service itself stays."""
    _hold(config, "stop")


def _hold(path: Path, verb: str) -> None:
    from aggregator.config import load_fleet_config

    out.print(ask_service(load_fleet_config(path), verb), markup=False, soft_wrap=True)


def ask_service(config: FleetConfig, verb: str, argument: str = "", *, wait_s: float = ANSWER_S) -> str:
    """Leave a command in the journal and wait for its answer; what to tell the user."""
    from aggregator.journal import Journal
    from aggregator.status import is_running

    if not (config.state / "journal.db").is_file():
        Journal(config.state / "journal.db", read_only=True)  # says that there is none, and what to do
    journal = Journal(config.state / "journal.db")
    try:
        number = journal.ask(verb, argument)
        if not is_running(config.state):
            return f"the aggregator is not running: it will {verb} when it starts"
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            answer = journal.answer_of(number)
            if answer is not None:
                return _said(answer)
            time.sleep(0.05)
    finally:
        journal.close()
    return f"asked to {verb}; the aggregator is busy and does it next"


def _said(answer: str) -> str:
    if answer.startswith("error: "):
        raise RoundError(answer.removeprefix("error: "))
    return answer
