"""`edgestill model`: lists, shows, exports and rolls back the fleet's models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig
    from aggregator.storage.journal import Journal

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Published models: list, show, export, roll back.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="A prototype (its newest model), a number, or the start of a digest.")]


@app.command("list")
def list_models(config: Config, as_json: Json = False) -> None:
    """List every published model, newest last; a star marks the current ones."""
    from aggregator.storage.models import model_facts

    with _journal(config) as (_, journal):
        current = {model.digest for model in journal.current().values()}
        facts = [model_facts(model, current=model.digest in current) for model in journal.models()]
    if as_json:
        print_json(facts)
        return
    rows = [
        [
            f"{fact['number']}{'*' if fact['current'] else ''}",
            fact["prototype"],
            fact["round"],
            fact["origin"],
            f"{100 * fact['metrics']['accuracy']:.1f} %" if "accuracy" in fact["metrics"] else "",
            f"{fact['size']:,}",
            f"{datetime.fromtimestamp(fact['created']):%Y-%m-%d %H:%M}",
            fact["digest"][:12],
        ]
        for fact in facts
    ]
    print_table("", ["number", "prototype", "round", "origin", "accuracy", "bytes", "made", "digest"], rows)


@app.command()
def show(name: Name, config: Config, as_json: Json = False) -> None:
    """Show the origin of a model: round, recipe, scores, its predecessor and its updates."""
    from aggregator.storage.models import find_model, model_facts

    with _journal(config) as (_, journal):
        model = find_model(journal, name)
        current = model.digest in {row.digest for row in journal.current().values()}
        facts = model_facts(model, current=current)
        senders = {row.digest: row.device for row in journal.updates(model.round)}
    facts["devices"] = [senders[digest] for digest in facts["parents"] if digest in senders]
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if key == "parents":
            value = f"{len(value)}: {' '.join(digest[:12] for digest in value[:8])}"
        out.print(f"{key:10s} {value}", markup=False, soft_wrap=True)


@app.command()
def export(
    name: Name,
    config: Config,
    to: Annotated[Path, typer.Option("--out", "-o", help="Output file.")],
    kind: Annotated[
        str | None, typer.Option("--format", help="onnx, onnx-int8 or safetensors; default: by the file's ending.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Samples for int8, .npz with x and y; default [task] validation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Export a model for other tools. ONNX keeps the prototype's precision; onnx-int8 is for serving.

    Example:  edgestill model export cnn:fp32 --config fleet.toml --out cnn.onnx
    """
    from aggregator.storage.blobs import Blobs
    from aggregator.storage.models import export_model, find_model
    from core.files import named_file

    chosen = kind or ("safetensors" if to.suffix == ".safetensors" else "onnx")
    with _journal(config) as (loaded, journal):
        sealed = Blobs(loaded.state / "blobs").read(find_model(journal, name).digest)
        samples = calibration or loaded.task.validation
    facts = export_model(sealed, chosen, named_file(to), calibration=samples)
    if as_json:
        print_json(facts)
        return
    out.print(f"wrote {to}: {facts['prototype']} after round {facts['round']}, {facts['bytes']:,} bytes", markup=False)


@app.command()
def rollback(name: Name, config: Config) -> None:
    """Publish an older model again, like a new one. An open round is abandoned."""
    from aggregator.operator_client import ask_service
    from aggregator.storage.models import find_model

    with _journal(config) as (loaded, journal):
        digest = find_model(journal, name).digest
    out.print(ask_service(loaded, "rollback", digest), markup=False, soft_wrap=True)


@contextmanager
def _journal(path: Path) -> Iterator[tuple[FleetConfig, Journal]]:
    from aggregator.config.fleet import load_fleet_config
    from aggregator.storage.journal import Journal

    loaded = load_fleet_config(path)
    journal = Journal(loaded.state / "journal.db", read_only=True)
    try:
        yield loaded, journal
    finally:
        journal.close()
