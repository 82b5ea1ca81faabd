"""Writes a project that runs at once: a model, data, a recipe, a run, a sweep, a test, and a README with the commands.

The folder appears complete, by one rename, or not at all.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import tempfile
from pathlib import Path

from core.errors import ConfigError
from core.files import move
from fleet.page_templates import page_templates

__all__ = ["FILES", "create_project", "package_name"]

#: Template: file of the project; PACKAGE is its Python package.
FILES = {
    "readme.md.j2": "README.md",
    "pyproject.toml.j2": "pyproject.toml",
    "gitignore.j2": ".gitignore",
    "run.toml.j2": "run.toml",
    "sweep.toml.j2": "sweep.toml",
    "init.py.j2": "PACKAGE/__init__.py",
    "model.py.j2": "PACKAGE/model.py",
    "data.py.j2": "PACKAGE/data.py",
    "recipe.py.j2": "PACKAGE/recipe.py",
    "test_project.py.j2": "tests/test_project.py",
}
NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
LONGEST = 40


def create_project(folder: Path) -> list[Path]:
    """Create the project `folder.name` at `folder`, which must not exist; returns its files."""
    package = package_name(folder.name)
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder}: exists already; give another name, or remove it")
    if not folder.parent.is_dir():
        raise ConfigError(f"{folder}: there is no folder {folder.parent}; create it first")
    templates = page_templates("fleet.new_project", autoescape=False, filters={})
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch) / "project"
        for template, name in FILES.items():
            path = made / name.replace("PACKAGE", package)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(templates.get_template(template).render(name=folder.name, package=package))
        made.chmod(0o755)
        move(made, folder)
    return [folder / name.replace("PACKAGE", package) for name in FILES.values()]


def package_name(project: str) -> str:
    """The Python package of a project; a name that would hide another package is refused."""
    package = project.replace("-", "_")
    if len(project) > LONGEST or not NAME.fullmatch(project) or keyword.iskeyword(package):
        raise ConfigError(
            f"project name {project[:80]!r}: give lower-case letters, digits and single hyphens, a letter first, "
            f"at most {LONGEST} characters, such as my-project"
        )
    if importlib.util.find_spec(package) is not None:
        raise ConfigError(f"project name {project!r}: Python has a package {package!r} already, which it would hide")
    return package
