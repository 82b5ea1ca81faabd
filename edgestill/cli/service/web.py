"""`edgestill web`: the page of a fleet, and the token that logs an operator in."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from core.errors import ConfigError
from edgestill.cli.output import out, print_json
from edgestill.cli.service.options import Overrides

__all__ = ["app", "web_server"]

app = typer.Typer(invoke_without_command=True, help="Serve a page of the fleet for browsers.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]


@app.callback()
def serve(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The fleet.toml.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="host:port; default: [monitor] web, or 127.0.0.1:8080.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="A folder of simulation runs to show; default: [monitor] runs.")
    ] = None,
    settings: Overrides = None,
) -> None:
    """Serve the page of a fleet until SIGTERM or Ctrl-C, whether its aggregator runs or not.

    On 127.0.0.1 everybody on this machine may read; actions need a login with the token of `edgestill web token`.
    Elsewhere reading needs it too; `web_cert` and `web_key` of [monitor] serve it over TLS.

    Example:  edgestill web --config fleet.toml --listen 127.0.0.1:8080
    """
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter("give the fleet.toml", param_hint="--config")
    from aggregator.config.fleet import load_fleet_config
    from core.logs import setup_logging

    flags = {"web": listen, "runs": None if runs is None else runs.resolve()}
    given = [*(settings or []), *(f"monitor.{key}={value}" for key, value in flags.items() if value is not None)]
    loaded = load_fleet_config(config, given)
    setup_logging(loaded.log.format, loaded.log.level, fleet=loaded.fleet)
    server = web_server()
    server.serve_web(loaded, server.options_of(loaded))


def web_server() -> ModuleType:
    """The module that serves the page; a ConfigError says what to install if it cannot be imported."""
    try:
        from edgestill.web import server
    except ImportError as error:
        raise ConfigError(f"the page needs {error.name}; run: pip install 'edgestill[web]'") from None
    return server


@app.command()
def token(config: Config, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Make the token that logs an operator in; it replaces the one before, and is shown only now.

    Example:  edgestill web token --config fleet.toml
    """
    from aggregator.config.fleet import load_fleet_config
    from edgestill.web.token import make_token

    state = load_fleet_config(config).state
    state.mkdir(parents=True, exist_ok=True)
    made = make_token(state)
    if as_json:
        print_json({"token": made})
        return
    out.print(made, markup=False, soft_wrap=True, highlight=False)
