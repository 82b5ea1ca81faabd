"""`edgestill config`: checks and resolves configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import err, out, print_json
from edgestill.cli.service.options import Overrides

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Configuration files: check a file before use.")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="An agent.toml or a fleet.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    settings: Overrides = None,
) -> None:
    """Check a file and print the resolved settings, with environment and defaults, without secrets.

    The kind of file is detected by its tables: an agent.toml has [agent], a fleet.toml [fleet]. With [[group]]
    tables, the settings of every device are shown as well. Missing files that it names are reported: a warning for
    samples, which may come later, an error for files that the service cannot start without.
    """
    facts = _resolve(file, settings or [])
    if as_json:
        print_json(facts)
    else:
        for name, table in facts.items():
            out.print(f"[{name}]", markup=False)
            for key, value in table.items():
                out.print(f"{key} = {value}", markup=False, soft_wrap=True)
            out.print()
    _check_files(file, facts)
    if not as_json:
        out.print(f"ok: {file} is {'an agent.toml' if 'agent' in facts else 'a fleet.toml'}", soft_wrap=True)


def _check_files(file: Path, facts: dict[str, dict[str, Any]]) -> None:
    """Warn of files that are not there yet; ConfigError where the service would not start without them."""
    from core.settings.named_files import missing_files

    missing = missing_files(facts)
    for one in missing:
        if not one.needed:
            err.print(f"warning: {file} {one}; it is needed before the first round", markup=False, soft_wrap=True)
    needed = [str(one) for one in missing if one.needed]
    if needed:
        raise ConfigError(f"{file} {', and '.join(needed)}; make it, or change the path")


def _resolve(file: Path, settings: list[str]) -> dict[str, dict[str, Any]]:
    from core.config_keys import read_toml

    tables = read_toml(file)
    if "agent" in tables:
        from edge_agent.config import check_agent_config

        return check_agent_config(file, settings)
    if "fleet" in tables:
        from aggregator.config.fleet import check_fleet_config

        devices, complete = _manifest(file) if "group" in tables else ({}, True)
        return {**(check_fleet_config(file, settings) if complete else {}), **devices}
    raise ConfigError(f"{file}: has neither [agent] nor [fleet]; is it an agent.toml or a fleet.toml?")


def _manifest(file: Path) -> tuple[dict[str, dict[str, Any]], bool]:
    """Every device's settings, and whether the files named in the aggregator's tables exist."""
    from firmware_configs.manifest import load_manifest
    from firmware_configs.provision import KIT_PUB

    manifest = load_manifest(file)
    made = (manifest.out / KIT_PUB).exists()
    if not made:
        text = "the aggregator's tables were not checked: first create their files with `edgestill provision`"
        err.print(text, markup=False, soft_wrap=True)
    return manifest.facts(), made
