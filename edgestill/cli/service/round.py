"""`edgestill round`: lists the rounds of a fleet; skips the open one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from core.lost_devices import lost_text
from edgestill.cli.output import out, print_json, print_table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Rounds of a fleet: list them, skip the open one.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]


@app.command("list")
def list_rounds(
    config: Config,
    last: Annotated[int, typer.Option("--last", min=1, max=10**6, help="Number of rounds, newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the newest rounds: invited devices, answers, and excluded updates with the reason."""
    from aggregator.config.fleet import load_fleet_config
    from aggregator.status import round_facts
    from aggregator.storage.journal import Journal

    journal = Journal(load_fleet_config(config).state / "journal.db", read_only=True)
    try:
        facts = [round_facts(journal, row) for row in journal.rounds(last)]
    finally:
        journal.close()
    if as_json:
        print_json(facts)
        return
    columns = ["round", "phase", "opened", "asked", "answered", "late", "excluded", "why"]
    print_table("", columns, [_row(fact) for fact in facts])


@app.command()
def skip(config: Config) -> None:
    """Abandon the open round, also while it is being fused; the next one opens."""
    from aggregator.config.fleet import load_fleet_config
    from aggregator.operator_client import ask_service

    out.print(ask_service(load_fleet_config(config), "skip"), markup=False, soft_wrap=True)


def _row(fact: dict[str, Any]) -> list[object]:
    why = [fact["reason"], *(f"{device}: {reason}" for device, reason in fact["excluded"].items())]
    if fact["failed"]:
        why.append(lost_text(fact["failed"], fact["invited"]))
    return [
        fact["number"],
        fact["phase"],
        f"{datetime.fromtimestamp(fact['opened']):%Y-%m-%d %H:%M:%S}",
        fact["invited"],
        fact["answered"],
        fact["late"],
        len(fact["excluded"]),
        "; ".join(filter(None, why)),
    ]
