"""`edgestill keys`: the Ed25519 signing keys of devices and aggregators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import ConfigError
from edgestill.cli.boards.options import Json
from edgestill.cli.output import print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Signing keys: create a key, show its public key.")


@app.command()
def make(
    path: Annotated[Path, typer.Option("--out", help="File of the private key; the public key goes to FILE.pub.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing key.")] = False,
    as_json: Json = False,
) -> None:
    """Create a key, readable only by its owner, and print its public key as 64 hex digits."""
    from wire.keys import generate_key, public_key_hex, save_private_key, save_public_key

    public = Path(f"{path}.pub")
    if not force:
        for there in (path, public):
            if there.exists():
                raise ConfigError(
                    f"{there}: exists already; --force replaces it, and the old key's signatures become invalid"
                )
    key = generate_key()
    save_private_key(key, path)
    save_public_key(key.public_key(), public)
    _print(public_key_hex(key.public_key()), {"private": str(path), "public": str(public)}, as_json)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A private or a public key.")], as_json: Json = False
) -> None:
    """Print the public key as 64 hex digits, the form used in configurations and manifests."""
    from core.errors import SignatureError
    from wire.keys import load_private_key, load_public_key, public_key_hex

    try:
        key = load_public_key(path)
    except SignatureError:
        key = load_private_key(path).public_key()
    _print(public_key_hex(key), {"file": str(path)}, as_json)


def _print(public: str, facts: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({**facts, "public_hex": public})
    else:
        typer.echo(public)
