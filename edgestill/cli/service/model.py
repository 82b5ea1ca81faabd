"""`edgestill model`: lists, shows, exports and rolls back the fleet's models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgestill.cli import completion
from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig
    from aggregator.storage.journal import Journal

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Published models: list, show, export, roll back, prune, pin.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The fleet.toml.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[
    str,
    typer.Argument(
        help="A prototype (its newest model), a number, or the start of a digest.", autocompletion=completion.models
    ),
]


@app.command("list")
def list_models(config: Config, as_json: Json = False) -> None:
    """List every published model, newest last; a star marks the current ones.

    The accuracy is that of the model as boards run it, at its own precision; "float weights" is without quantization.
    """
    from aggregator.storage.models import model_facts

    with _journal(config) as (_, journal):
        current = {model.digest for model in journal.current().values()}
        pruned, pins = journal.pruned(), journal.pins()
        facts = [
            model_facts(m, current=m.digest in current, pruned=m.number in pruned, pinned=m.digest in pins)
            for m in journal.models()
        ]
    if as_json:
        print_json(facts)
        return
    rows = [
        [
            f"{fact['number']}{'*' if fact['current'] else ''}",
            fact["prototype"],
            fact["round"],
            fact["origin"],
            _percent(fact["metrics"].get("accuracy")),
            _percent(fact["metrics"].get("accuracy_float")),
            f"{fact['size']:,}",
            f"{datetime.fromtimestamp(fact['created']):%Y-%m-%d %H:%M}",
            fact["digest"][:12],
            "pinned" if fact["pinned"] else "pruned" if fact["pruned"] else "",
        ]
        for fact in facts
    ]
    columns = ["number", "prototype", "round", "origin", "accuracy", "float weights", "bytes", "made", "digest", "kept"]
    print_table("", columns, rows, whole=True)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


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


_Format = Annotated[
    str | None, typer.Option("--format", help="onnx, onnx-int8 or safetensors; default: by the file's ending.")
]
_Runtime = Annotated[str | None, typer.Option(help="Oldest ONNX Runtime that must load the file, such as 1.20.")]
_Precision = Annotated[
    str | None, typer.Option(help="int8, or fp32, w1, ... instead of the prototype's own; its accuracy is shown.")
]
_RawInput = Annotated[
    bool, typer.Option("--raw-input", help="The graph takes bytes of images and answers probabilities.")
]
_MatMulNBits = Annotated[
    bool,
    typer.Option(
        "--matmul-nbits",
        help="Linear layers of 1, 2 and 4 bits as MatMulNBits, for processors with dot-product instructions.",
    ),
]
_Calibration = Annotated[
    Path | None, typer.Option(help="Samples for int8, .npz with x and y; default [task] validation.")
]


@app.command()
def export(
    name: Name,
    config: Config,
    to: Annotated[Path, typer.Option("--out", "-o", help="Output file.")],
    kind: _Format = None,
    runtime: _Runtime = None,
    opset: Annotated[int | None, typer.Option(help="Highest ONNX opset of the file, such as 21.")] = None,
    precision: _Precision = None,
    raw_input: _RawInput = False,
    matmul_nbits: _MatMulNBits = False,
    calibration: _Calibration = None,
    as_json: Json = False,
) -> None:
    """Export a model for other tools. ONNX keeps the prototype's precision; onnx-int8 is for serving.

    Example:  edgestill model export cnn:w1 --config fleet.toml --runtime 1.20 --out cnn.onnx
    """
    from aggregator.storage.blobs import Blobs
    from aggregator.storage.exports import Export, export_model
    from aggregator.storage.models import stored_model
    from core.files import named_file

    options = (runtime, opset, precision, raw_input or None, matmul_nbits or None)
    chosen = _format_of(to, kind, precision, graph_options=any(option is not None for option in options))
    low_bits, nbits = _form(runtime, opset, matmul_nbits)
    with _journal(config) as (loaded, journal):
        sealed = Blobs(loaded.state / "blobs").read(stored_model(journal, name).digest)
        validation = loaded.task.validation
    wanted = Export(
        kind=chosen,
        precision=precision,
        low_bits=low_bits,
        nbits=nbits,
        raw_input=raw_input,
        calibration=calibration or validation,
        validation=validation,
        fleet=loaded.fleet,
    )
    facts = export_model(sealed, named_file(to), wanted)
    if as_json:
        print_json(facts)
        return
    _print_export(to, facts)


def _format_of(to: Path, kind: str | None, precision: str | None, *, graph_options: bool) -> str:
    """The format of the file, as asked or by its ending; options of graphs need an ONNX format."""
    chosen = kind or ("safetensors" if to.suffix == ".safetensors" else "onnx")
    if chosen == "safetensors" and graph_options:
        raise typer.BadParameter("a .safetensors file has no graph; these options are for ONNX")
    return "onnx-int8" if precision == "int8" and chosen == "onnx" else chosen


def _print_export(to: Path, facts: dict[str, Any]) -> None:
    score = f", accuracy {100 * facts['accuracy']:.1f} % as in this file" if "accuracy" in facts else ""
    form = f", opset {facts['opset']}" if "opset" in facts else ""
    text = f"wrote {to}: {facts['prototype']} after round {facts['round']}, {facts['bytes']:,} bytes{form}{score}"
    out.print(text, markup=False, soft_wrap=True)


def _form(runtime: str | None, opset: int | None, matmul_nbits: bool) -> tuple[str | None, int | None]:
    """Storage of levels, and bits of MatMulNBits; None: the narrowest of this machine, and no such layers."""
    from core.errors import ConfigError
    from quant.onnx.targets import Target, target_of_opset, target_of_runtime

    given: list[Target] = []
    if runtime is not None:
        given.append(target_of_runtime(runtime))
    if opset is not None:
        given.append(target_of_opset(opset))
    widest = max((int(target.low_bits[3:]) for target in given), default=None)
    bits = [target.nbits for target in given]
    if matmul_nbits and None in bits:
        raise ConfigError(f"--matmul-nbits: ONNX Runtime {runtime} has no such operator; give --runtime 1.19 or newer")
    known = [number for number in bits if number is not None]
    return None if widest is None else f"int{widest}", (max(known, default=2) if matmul_nbits else None)


@app.command()
def rollback(name: Name, config: Config) -> None:
    """Publish an older model again, like a new one. An open round is abandoned."""
    from aggregator.operator_client import ask_service
    from aggregator.storage.models import find_model

    with _journal(config) as (loaded, journal):
        digest = find_model(journal, name).digest
    out.print(ask_service(loaded, "rollback", digest), markup=False, soft_wrap=True)


@app.command()
def prune(
    config: Config,
    last: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Newest models of each prototype that stay.")
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="And those of every so many rounds.")] = None,
    best: Annotated[
        int | None, typer.Option(min=0, max=1_000_000, help="And the most accurate ones of each prototype.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which would go.")] = False,
    as_json: Json = False,
) -> None:
    """Delete older models now, by [models] of fleet.toml or by these options; current and pinned ones stay.

    Example:  edgestill model prune --last 20 --every 100 --config fleet.toml --dry-run
    """
    import msgspec

    from aggregator.operator_client import ask_service
    from aggregator.storage.retention import to_prune
    from core.errors import ConfigError
    from core.settings import replace

    with _journal(config) as (loaded, journal):
        given = {name: value for name, value in (("last", last), ("every", every), ("best", best)) if value is not None}
        policy = replace(loaded.models, **given)
        if policy.last is None:
            raise ConfigError("[models] of fleet.toml keeps all models; say how many stay with --last")
        gone = to_prune(journal.unpruned(), journal.pins() | journal.needed_models(loaded.keep_rounds), policy)
    facts = {"models": [model.number for model in gone], "bytes": sum(model.size for model in gone)}
    if not dry_run and gone:
        answer = ask_service(loaded, "prune", msgspec.json.encode(policy).decode())
    else:
        answer = f"{'would prune ' * bool(gone)}{len(gone)} models, {facts['bytes']:,} bytes"
    if as_json:
        print_json({**facts, "dry_run": dry_run, "answer": answer})
    else:
        out.print(answer, markup=False, soft_wrap=True)


@app.command()
def pin(
    name: Name,
    config: Config,
    undo: Annotated[bool, typer.Option("--undo", help="Leave it to the policy again.")] = False,
) -> None:
    """Keep a model, whatever [models] of fleet.toml says."""
    from aggregator.operator_client import ask_service
    from aggregator.storage.models import stored_model

    with _journal(config) as (loaded, journal):
        digest = stored_model(journal, name).digest
    out.print(ask_service(loaded, "unpin" if undo else "pin", digest), markup=False, soft_wrap=True)


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
