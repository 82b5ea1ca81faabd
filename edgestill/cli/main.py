"""`edgestill`: parse, call, turn errors into one line and an exit code.

Exit codes: 0 done · 1 failed · 2 wrong usage · 3 configuration · 4 data · 5 malformed bytes · 6 model · 7 device ·
8 connection · 130 interrupted (core/errors.py has the tree). `--debug`, anywhere on the line, shows the traceback.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from core.errors import EdgestillError
from core.processes.fast_exit import leave_quickly
from edgestill import __version__
from edgestill.cli.boards import board, broker, keys, kit
from edgestill.cli.boards.doctor import doctor
from edgestill.cli.boards.flash import flash
from edgestill.cli.boards.provision import provision
from edgestill.cli.boards.push import push
from edgestill.cli.output import err, print_json
from edgestill.cli.service import agent, aggregator, config, device, model, web
from edgestill.cli.service import round as rounds
from edgestill.cli.service.status import status
from edgestill.cli.simulation import data, prototypes, recipe
from edgestill.cli.simulation.experiment import experiment
from edgestill.cli.simulation.new import new
from edgestill.cli.simulation.report import report
from edgestill.cli.simulation.simulate import simulate
from edgestill.cli.simulation.sweep import sweep

__all__ = ["app", "main"]

EPILOG = """
Start here:  edgestill simulate --dataset digits --devices 12 --prototypes cnn:fp32,mlp:fp32,cnn:w1 --out run

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration, 4 data, 5 malformed bytes, 6 model, 7 device,
8 connection, 130 interrupted.
"""

LONGEST = 2000  # characters of an error message, which may quote a file

app = typer.Typer(
    name="edgestill",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
app.command()(simulate)
app.command()(sweep)
app.command()(report)
app.command()(new)
app.add_typer(aggregator.app, name="aggregator")
app.add_typer(agent.app, name="agent")
app.add_typer(broker.app, name="broker")
app.command()(status)
app.add_typer(web.app, name="web")
app.add_typer(device.app, name="device")
app.add_typer(rounds.app, name="round")
app.add_typer(model.app, name="model")
app.command()(provision)
app.command()(flash)
app.command()(push)
app.add_typer(kit.app, name="kit")
app.add_typer(board.app, name="board")
app.command()(doctor)
app.add_typer(config.app, name="config")
app.add_typer(keys.app, name="keys")
app.add_typer(data.app, name="data")
app.add_typer(prototypes.app, name="prototype")
app.add_typer(recipe.app, name="recipe")
app.command()(experiment)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"edgestill {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; accepted anywhere on the line.")] = False,
) -> None:
    """Federated learning on edge boards, for models of different architecture and precision.

    Each device trains a model that fits it, down to 1-bit weights; an aggregator fuses the updates into one model
    per prototype (architecture:precision, such as cnn:w1).
    """


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the versions of edgestill and its dependencies, for bug reports."""
    from core.versions import versions

    facts = versions()
    if as_json:
        print_json(facts)
    else:
        for name, value in facts.items():
            typer.echo(f"{name:14s} {value}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    if debug:  # accepted after the subcommand too
        args = ["--debug", *(a for a in args if a != "--debug")]
    leave_quickly()
    sys.exit(_run(args, debug))


def _run(args: list[str], debug: bool) -> int:
    if threading.current_thread() is threading.main_thread():
        # a command must stop what it started; the services set their own handlers
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = app(args, prog_name="edgestill", standalone_mode=False)
    except KeyboardInterrupt:
        return _fail("interrupted", 130, debug)
    except typer.Abort:
        return _fail("aborted", 130, debug)
    except EdgestillError as error:
        return _fail(str(error), error.exit_code, debug)
    except ModuleNotFoundError as error:
        return _fail(_needed(error), 3, debug)
    except sqlite3.Error as error:
        return _fail(f"the journal cannot be read: {error}; `edgestill aggregator serve` checks it", 1, debug)
    except BrokenPipeError:
        return _gone()
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{place}", 1, debug)
    except Exception as error:
        if isinstance(error, RuntimeError) and "Symlink loop" in str(error):  # Path.resolve, before Python 3.13
            return _fail(f"{error}; give the path of a file", 1, debug)
        if hasattr(error, "format_message"):  # typer's usage errors; their class has moved between releases
            return _fail(_usage(error), 2, debug)
        return _fail(f"internal error: {type(error).__name__}: {error}; --debug shows where", 1, debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _gone()
    if code == 130:  # typer has already turned Ctrl-C into this code
        return _fail("interrupted", 130, debug=False)
    return code if isinstance(code, int) else 0


def _gone() -> int:
    """The reader of our output, such as `head`, has closed it: discard the rest silently."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # not a file, so without a reader
                os.dup2(nowhere.fileno(), stream.fileno())
    return 0


def _needed(error: ModuleNotFoundError) -> str:
    """The extra to install for a command whose dependency is missing."""
    name = (error.name or "").partition(".")[0]
    extra = {"tokenizers": "text", "ray": "ray"}.get(name, "aggregator")
    return f"this command needs {name or 'more'}, which is not installed; pip install 'edgestill[{extra}]'"


def _usage(error: Exception) -> str:
    """A usage error in one line, with the command whose --help explains more."""
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "edgestill"
    return f"{message}; see '{command} --help'"


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    line = " ".join(message.split())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
    err.print(f"edgestill: {line}", style="red", markup=False, soft_wrap=True)
    return code
