"""`edgestill aggregator`: serves a fleet, also as a service of systemd; holds its rounds; backs it up, restores it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgestill.cli.output import err, out, print_json
from edgestill.cli.service.options import Overrides

if TYPE_CHECKING:
    from firmware_configs.services.aggregator import Installed

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Serve a fleet: open rounds, collect updates, fuse and publish models.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml (docs/aggregator.md).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Root = Annotated[Path, typer.Option("--root", metavar="DIR", help="The root of another system, such as an image.")]


@app.command()
def serve(
    config: Config,
    settings: Overrides = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Exit after the last round instead of continuing to serve the models.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="Serve /metrics, /healthz and /readyz at host:port, such as 127.0.0.1:9464."),
    ] = None,
    web: Annotated[
        str | None, typer.Option("--web", help="Serve the fleet's page at host:port, such as 127.0.0.1:8080.")
    ] = None,
    new_key: Annotated[
        bool,
        typer.Option("--new-key", help="Confirm that the signing key has changed and all devices have the new one."),
    ] = False,
) -> None:
    """Run the aggregator until SIGTERM or Ctrl-C. After a restart it continues in the same round.

    SIGHUP reads the fleet.toml again: devices and limits at once, rounds and recipe from the next round on.

    Example:  edgestill aggregator serve --config fleet.toml --set round.rounds=20
    """
    from edgestill.api.fleet import serve_fleet

    flags = {"monitor.metrics": metrics, "monitor.web": web}
    given = [*(settings or []), *(f"{key}={value}" for key, value in flags.items() if value is not None)]
    serve_fleet(config, given, until_done=until_done, new_key=new_key)


@app.command()
def pause(config: Config) -> None:
    """Open no further rounds; the open one is completed."""
    _hold(config, "pause")


@app.command()
def resume(config: Config) -> None:
    """Open rounds again after a pause or a stop."""
    _hold(config, "resume")


@app.command()
def stop(config: Config) -> None:
    """End the rounds: the open one is fused now if a quorum has answered. The service keeps running."""
    _hold(config, "stop")


@app.command()
def backup(
    config: Config,
    to: Annotated[Path, typer.Option("--to", help="The file to write, such as fleet.tar.")],
    as_json: Json = False,
) -> None:
    """Write the whole fleet (journal, models, updates, memory) to one file; the aggregator may be running.

    Keys are not included: keep the aggregator's key and the fleet.toml as well.

    Example:  edgestill aggregator backup --config fleet.toml --to backups/fleet.tar
    """
    from aggregator.backup import back_up
    from aggregator.config.fleet import load_fleet_config

    facts = back_up(load_fleet_config(config).state, to)
    if as_json:
        print_json(facts)
        return
    what = f"fleet {facts['fleet']} in round {facts['round']}, {facts['models']} models, {facts['bytes']:,} bytes"
    out.print(f"wrote {to}: {what}", markup=False, soft_wrap=True)
    if facts["models_lost"]:
        lost = " ".join(digest[:12] for digest in facts["models_lost"])
        err.print(f"not included, because their blobs are missing or damaged: older models {lost}", soft_wrap=True)


@app.command()
def restore(
    config: Config,
    backup: Annotated[Path, typer.Option("--from", help="A file written by `aggregator backup`.")],
    force: Annotated[bool, typer.Option("--force", help="Move existing state aside; nothing is deleted.")] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup; the aggregator must not be running. Agents follow as soon as the fleet is served again.

    Example:  edgestill aggregator restore --config fleet.toml --from backups/fleet.tar
    """
    from aggregator.backup import put_back
    from aggregator.config.fleet import load_fleet_config

    loaded = load_fleet_config(config)
    facts = put_back(backup, loaded.state, fleet=loaded.fleet, now=time.time(), force=force)
    if as_json:
        print_json(facts)
        return
    out.print(
        f"restored fleet {facts['fleet']} in round {facts['round']} to {loaded.state}", markup=False, soft_wrap=True
    )
    if facts["revoked"] is None:
        out.print("devices that were revoked after the backup are not revoked in it: `edgestill device revoke` again")
    elif facts["revoked"]:
        out.print(f"revoked as before: {' '.join(facts['revoked'])}", markup=False, soft_wrap=True)
    if facts["moved_aside"]:
        out.print(f"the previous state is in {facts['moved_aside']}", markup=False, soft_wrap=True)


@app.command()
def install(
    config: Config,
    user: Annotated[
        str | None,
        typer.Option("--user", help="The user that the service runs as [the owner of the aggregator's key]."),
    ] = None,
    root: Root = Path("/"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the unit, write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Install the aggregator of a fleet as a service of systemd; run as root.

    The unit is edgestill-aggregator-FLEET.service, one for each fleet of the machine. It runs this installation of
    edgestill as a user without privileges, is restarted when it fails or hangs, and reads the fleet.toml again on
    `systemctl reload`. It is not started.

    Example:  sudo edgestill aggregator install --config /srv/greenhouse/fleet.toml --user greenhouse
    """
    from firmware_configs.services.aggregator import install_aggregator

    done = install_aggregator(config, user=user, root=root, dry_run=dry_run)
    if dry_run and not as_json:
        out.print(done.text, markup=False, highlight=False, soft_wrap=True)
    _say(done, as_json=as_json)


@app.command()
def uninstall(
    config: Config,
    root: Root = Path("/"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Stop the service of a fleet and remove its unit; run as root. State, models and keys stay.

    Example:  sudo edgestill aggregator uninstall --config /srv/greenhouse/fleet.toml
    """
    from firmware_configs.services.aggregator import uninstall_aggregator

    _say(uninstall_aggregator(config, root=root, dry_run=dry_run), as_json=as_json)


def _say(done: Installed, *, as_json: bool) -> None:
    if as_json:
        unit = {"path": str(done.unit), "user": done.user, "text": done.text}
        print_json({"unit": unit, "changed": done.changed, "said": done.said})
        return
    for line in done.said:
        out.print(line, markup=False, soft_wrap=True)


def _hold(path: Path, verb: str) -> None:
    from aggregator.config.fleet import load_fleet_config
    from aggregator.operator_client import ask_service

    out.print(ask_service(load_fleet_config(path), verb), markup=False, soft_wrap=True)
