"""`edgestill broker`: the embedded broker for demos, and the installation of a fleet's files for Mosquitto."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json
from edgestill.cli.output import err, one_line, out, print_json

__all__ = ["app"]

LIMITATIONS = """For demos on this machine only. Unlike Mosquitto, it has
  - no access from other machines: it listens on loopback only, without passwords and TLS
  - no MQTT 5, no access lists, no redelivery of unacknowledged messages
  - no last will for devices that disappear without closing their connection
  - no persistence: retained messages are lost when it stops
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM)

app = typer.Typer(invoke_without_command=True)


@app.callback()
def broker(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free one.")] = 1883,
    host: Annotated[str, typer.Option(help="Address to listen on: 127.0.0.1, ::1 or localhost only.")] = "127.0.0.1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print its limitations.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help='Print one line of JSON, {"host": ..., "port": ...}.')
    ] = False,
) -> None:
    """Run a small MQTT broker on this machine, for demos; Ctrl-C stops it.

    For a fleet of boards, install Mosquitto, then `edgestill broker install`: agents and aggregator work with it
    unchanged.

    Example:  edgestill broker --port 1883
    """
    if ctx.invoked_subcommand is not None:
        return
    from transport.embedded import EmbeddedBroker

    server = EmbeddedBroker(port, host)
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, SIGNALS
    )  # blocked before the broker's thread starts, so that sigwait receives them
    try:
        with server:
            if as_json:
                out.file.write(json.dumps({"host": server.host, "port": server.port}) + "\n")
            else:
                out.print(f"broker on {server.host}:{server.port} (MQTT 3.1.1); Ctrl-C stops it", soft_wrap=True)
                if not quiet:
                    err.print(LIMITATIONS, end="", soft_wrap=True, style="dim")
            out.file.flush()
            signal.sigwait(SIGNALS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


BrokerFiles = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FOLDER",
        help="The broker's files, written by `edgestill provision`; default those of --config, or kits/_fleet/broker.",
    ),
]
FleetFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="The fleet.toml, whose [provision] out has the broker's files.")
]
MosquittoFolder = Annotated[Path, typer.Option("--to", help="Mosquitto's configuration folder.")]
SeenAs = Annotated[
    Path | None, typer.Option("--as", metavar="FOLDER", help="Path of that folder inside the broker's container.")
]
Owner = Annotated[str, typer.Option("--owner", metavar="USER:GROUP", help="Owner of the installed files.")]
Form = Annotated[
    str | None,
    typer.Option(
        "--form", metavar="2.0|2.1", help="Version of the configuration format [that of the installed Mosquitto]."
    ),
]
Plugin = Annotated[
    Path | None, typer.Option("--plugin", help="For 2.1: path of mosquitto_acl_file.so [the packages' location].")
]
Program = Annotated[Path | None, typer.Option("--mosquitto", help="Mosquitto's executable [mosquitto in PATH].")]
Trial = Annotated[
    bool, typer.Option("--try/--no-try", help="First test the files by starting Mosquitto on a loopback port.")
]
Reload = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Make a running Mosquitto reload lists and certificates.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]
Service = Annotated[
    bool,
    typer.Option("--service", help="A Mosquitto of this fleet's own, as a service: several fleets on one machine."),
]
Units = Annotated[
    Path | None, typer.Option("--units", help="With --service: folder of systemd's units [/etc/systemd/system].")
]


@app.command()
def install(
    folder: BrokerFiles = None,
    config: FleetFile = None,
    to: MosquittoFolder = Path("/etc/mosquitto"),
    seen: SeenAs = None,
    owner: Owner = "mosquitto:mosquitto",
    form: Form = None,
    plugin: Plugin = None,
    program: Program = None,
    trial: Trial = True,
    reload: Reload = True,
    service: Service = False,
    units: Units = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Install a fleet's certificates, access list and configuration for Mosquitto; run as root.

    Run it again after `edgestill provision`, `device revoke` or `device approve`: a running Mosquitto then reloads the
    lists. The files are owned by Mosquitto's user and readable by no other. If the command fails, nothing is changed.
    A second fleet on the same machine needs --service: a broker of its own, which knows nothing of the other one.

    Example:  sudo edgestill broker install --config fleet.toml --service
    """
    from core.errors import ConfigError
    from firmware_configs.broker.install import InstallOptions, install_broker

    if units is not None and not service:
        raise ConfigError("--units requires --service")
    folder = folder or _broker_files(config)
    options = InstallOptions(
        to=to,
        seen=seen,
        owner=owner,
        form=form,
        plugin=plugin,
        program=program,
        trial=trial,
        reload=reload,
        service=service,
        units=units,
        dry_run=dry_run,
    )
    done = install_broker(folder, options)
    if as_json:
        print_json({"from": str(folder), "to": str(to), "changed": not dry_run, "said": list(done.lines)})
        return
    for line in done.lines:
        out.print(one_line(line), soft_wrap=True)


@app.command()
def uninstall(
    config: Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml of the fleet.")],
    to: MosquittoFolder = Path("/etc/mosquitto"),
    units: Units = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove a fleet's files, configuration and service from this machine; run as root.

    Example:  sudo edgestill broker uninstall --config fleet.toml
    """
    from firmware_configs.broker.uninstall import uninstall_broker
    from firmware_configs.manifest import load_manifest
    from firmware_configs.services.systemd import Systemd

    systemd = Systemd.below(Path("/")) if units is None else Systemd(units, control=False)
    fleet = load_manifest(config).fleet
    lines = uninstall_broker(fleet, to=to, systemd=systemd, dry_run=dry_run)
    if as_json:
        print_json({"fleet": fleet, "changed": not dry_run, "said": lines})
        return
    for line in lines:
        out.print(one_line(line), markup=False, soft_wrap=True)


def _broker_files(config: Path | None) -> Path:
    """The folder that `edgestill provision` has written for a fleet.toml."""
    from core.errors import ConfigError
    from firmware_configs.manifest import kits_folder
    from firmware_configs.provision import FLEET

    kits = Path("kits") if config is None else kits_folder(config)
    if kits is None:
        raise ConfigError(f"{config}: has neither [provision] nor [[group]]; give --from, or a provisioned fleet.toml")
    return kits / FLEET / "broker"
