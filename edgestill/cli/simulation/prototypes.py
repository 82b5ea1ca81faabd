"""`edgestill prototype`: lists architectures and precisions, and shows the size of a prototype."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli import completion
from edgestill.cli.output import out, print_json, print_table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Prototypes: list architectures and precisions, show sizes.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_prototypes(as_json: Json = False) -> None:
    """List architectures, including users' own, and precisions; a prototype combines both, such as resnet8:w1."""
    from models.registry import names
    from models.zoo import ZOO
    from quant.precision import PRECISIONS

    architectures = [{"name": name, "from": "edgestill" if name in ZOO else "entry point"} for name in names()]
    precisions = [
        {"name": str(p), "weight_bits": p.weight_bits or 32, "act_bits": p.act_bits or 32} for p in PRECISIONS
    ]
    if as_json:
        print_json({"architectures": architectures, "precisions": precisions})
        return
    print_table("architectures", ["name", "from"], [list(a.values()) for a in architectures])
    out.print()
    print_table("precisions", ["name", "weight bits", "activation bits"], [list(p.values()) for p in precisions])


@app.command()
def show(
    prototype: Annotated[
        str, typer.Argument(help="architecture:precision, such as resnet8:w1.", autocompletion=completion.prototypes)
    ],
    input_shape: Annotated[str, typer.Option("--input", help="Shape of one sample: CxHxW, or L for text.")] = "3x32x32",
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    latent: Annotated[int | None, typer.Option(help="Latent dimension of the fleet; default: the model's own.")] = None,
    as_json: Json = False,
) -> None:
    """Show the parameters of a prototype, and the size of one update of each kind."""
    facts = _facts(prototype, _parse_shape(input_shape), classes, latent)
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        out.print(f"{name.replace('_', ' '):22s} {value:,}" if isinstance(value, int) else f"{name:22s} {value}")


def _parse_shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text[:80].lower().split("x"))
    except ValueError:
        raise ConfigError(f"--input {text[:80]!r}: not a shape; write it like 3x32x32, or 64 for text") from None


def _facts(prototype: str, shape: tuple[int, ...], classes: int, latent: int | None) -> dict[str, Any]:
    import safetensors.torch
    import torch

    from models.build import build
    from models.roles import slice_state
    from models.spec import PrototypeSpec, parse_prototype
    from quant.pack import pack
    from wire.tensors import encode

    spec = PrototypeSpec(*parse_prototype(prototype), shape, classes, latent)
    model = build(spec, generator=torch.Generator().manual_seed(0))
    tensors = pack(model)
    state = {name: t.contiguous() for name, t in model.state_dict().items()}  # safetensors requires contiguous tensors
    return {
        "prototype": str(spec),
        "input": "x".join(map(str, shape)),
        "latent": model.latent,
        "parameters": sum(p.numel() for p in model.parameters()),
        "fp32_safetensors_bytes": len(safetensors.torch.save(state)),
        "state_update_bytes": len(encode(tensors)),
        "predictor_update_bytes": len(encode(slice_state(tensors, "predictor"))),
    }
