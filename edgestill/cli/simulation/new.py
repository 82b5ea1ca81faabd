"""`edgestill new`: a small project of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgestill.cli.output import out, print_json

__all__ = ["new"]


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The project's name, or the path of its new folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the files as JSON.")] = False,
) -> None:
    """Create a small project that runs at once: a model, data, a recipe, a run, a sweep and a test.

    Its README.md has the commands.

    Example:  edgestill new my-project
    """
    from fleet.new_project.create import create_project

    files = create_project(folder)
    if as_json:
        print_json({"project": folder.name, "files": [str(file) for file in files]})
        return
    out.print(f"wrote {folder}: {len(files)} files; next:", markup=False, soft_wrap=True)
    for line in (f"cd {folder}", "pip install --no-build-isolation --editable .", "less README.md"):
        out.print(f"  {line}", markup=False, soft_wrap=True)
