"""`edgestill keys`: the Ed25519 keys that devices and aggregators sign with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import ConfigError
from edgestill.cli.boards.options import Json
from edgestill.cli.output import print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Signing keys: make one, show its public half.")


@app.command()
def make(
    path: Annotated[Path, typer.Option("--out", help="Where the private key goes; FILE.pub holds the public one.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a key that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Make a key that only its owner can read, and print its public half in 64 hex digits."""
    from wire.keys import generate_key, public_key_hex, save_private_key, save_public_key

    public = Path(f"{path}.pub")
    if not force:
        for there in (path, public):
            if there.exists():
                raise ConfigError(
                    f"{there}: is there already; --force replaces it, and nothing signed with it verifies"
                )
    key = generate_key()
    save_private_key(key, path)
    save_public_key(key.public_key(), public)
    _print(public_key_hex(key.public_key()), {"private": str(path), "public": str(public)}, as_json)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A private or a public key.")], as_json: Json = False
) -> None:
    """Print the public half of a key in 64 hex digits, as configs and manifests take it."""
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
