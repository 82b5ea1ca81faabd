"""`edgestill broker`: the embedded broker, for a first try on one machine; a fleet's files for Mosquitto."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.boards.options import Json
from edgestill.cli.output import err, one_line, out, print_json

__all__ = ["app"]

LACKS = """For demos on this machine only. What it lacks, and Mosquitto has:
  - other machines: it listens on loopback alone, without passwords and without TLS
  - MQTT 5, access lists, redelivery of unacknowledged messages
  - the last will of a device that falls silent without closing its connection
  - memory: what is retained is gone when it stops
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM)

app = typer.Typer(invoke_without_command=True)


@app.callback()
def broker(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 1883,
    host: Annotated[str, typer.Option(help="127.0.0.1, ::1 or localhost: nothing else is allowed.")] = "127.0.0.1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say what it lacks.")] = False,
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before its thread starts, so that sigwait gets them
    try:
        with server:
            if as_json:
                out.file.write(json.dumps({"host": server.host, "port": server.port}) + "\n")
            else:
                out.print(f"broker on {server.host}:{server.port} (MQTT 3.1.1); Ctrl-C stops it", soft_wrap=True)
                if not quiet:
                    err.print(LACKS, end="", soft_wrap=True, style="dim")
            out.file.flush()
            signal.sigwait(SIGNALS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


BrokerFiles = Annotated[
    Path, typer.Option("--from", metavar="FOLDER", help="The broker's files, as `edgestill provision` made them.")
]
MosquittoFolder = Annotated[Path, typer.Option("--to", help="The folder of Mosquitto's configuration.")]
SeenAs = Annotated[
    Path | None, typer.Option("--as", metavar="FOLDER", help="That folder as a broker in a container sees it.")
]
Owner = Annotated[str, typer.Option("--owner", metavar="USER:GROUP", help="Whom the files are to belong to.")]
Form = Annotated[
    str | None, typer.Option("--form", metavar="2.0|2.1", help="Of the configuration [as Mosquitto here is].")
]
Plugin = Annotated[
    Path | None, typer.Option("--plugin", help="With 2.1: mosquitto_acl_file.so [found where packages have it].")
]
Program = Annotated[Path | None, typer.Option("--mosquitto", help="The program [mosquitto of the path].")]
Trial = Annotated[bool, typer.Option("--try/--no-try", help="Start Mosquitto with the files on a loopback port first.")]
Reload = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Have a running Mosquitto read new lists and certificates.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


@app.command()
def install(
    folder: BrokerFiles = Path("kits/_fleet/broker"),
    to: MosquittoFolder = Path("/etc/mosquitto"),
    seen: SeenAs = None,
    owner: Owner = "mosquitto:mosquitto",
    form: Form = None,
    plugin: Plugin = None,
    program: Program = None,
    trial: Trial = True,
    reload: Reload = True,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Put a fleet's certificates, access list and configuration where Mosquitto reads them; run it as root.

    Run it again after `edgestill provision`, `device revoke` or `device approve`: a running Mosquitto then takes over
    the new lists. The files belong to Mosquitto's user, who alone can read them. A run that fails changes nothing.

    Example:  sudo edgestill broker install --from kits/_fleet/broker
    """
    from firmware_configs.broker.install import InstallOptions, install_broker

    options = InstallOptions(
        to=to,
        seen=seen,
        owner=owner,
        form=form,
        plugin=plugin,
        program=program,
        trial=trial,
        reload=reload,
        dry_run=dry_run,
    )
    done = install_broker(folder, options)
    if as_json:
        print_json({"from": str(folder), "to": str(to), "changed": not dry_run, "said": list(done.lines)})
        return
    for line in done.lines:
        out.print(one_line(line), soft_wrap=True)
