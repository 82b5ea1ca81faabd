"""`edgestill config`: what a configuration file means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import err, out, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Configuration files: check one before it is used.")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="An agent.toml or a fleet.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a file and print what it resolves to: environment and defaults included, secrets left out.

    Which of the two it is follows from its tables: an agent's has [agent], an aggregator's [fleet]. With [[group]]
    tables, the settings of every device are shown as well.
    """
    facts = _resolve(file)
    if as_json:
        print_json(facts)
        return
    for name, table in facts.items():
        out.print(f"[{name}]", markup=False)
        for key, value in table.items():
            out.print(f"{key} = {value}", markup=False, soft_wrap=True)
        out.print()


def _resolve(file: Path) -> dict[str, dict[str, Any]]:
    from core.config_keys import read_toml

    tables = read_toml(file)
    if "agent" in tables:
        from edge_agent.config import check_agent_config

        return check_agent_config(file)
    if "fleet" in tables:
        from aggregator.config.fleet import check_fleet_config

        devices, complete = _manifest(file) if "group" in tables else ({}, True)
        return {**(check_fleet_config(file) if complete else {}), **devices}
    raise ConfigError(f"{file}: has neither [agent] nor [fleet]; is it an agent.toml or a fleet.toml?")


def _manifest(file: Path) -> tuple[dict[str, dict[str, Any]], bool]:
    """Every device's settings, and whether the files that the aggregator's own tables may name have been made."""
    from firmware_configs.manifest import load_manifest
    from firmware_configs.provision import KIT_PUB

    manifest = load_manifest(file)
    made = (manifest.out / KIT_PUB).exists()
    if not made:
        text = "the aggregator's tables are checked too once `edgestill provision` has made the files they name"
        err.print(text, markup=False, soft_wrap=True)
    return manifest.facts(), made
