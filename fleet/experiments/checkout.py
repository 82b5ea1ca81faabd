"""The commit of the checkout that an experiment runs from, read from git's files."""

from __future__ import annotations

from pathlib import Path

__all__ = ["commit"]

ROOT = Path(__file__).parents[2]
SHOWN = 10  # of the 40 digits


def commit(root: Path = ROOT) -> str:
    """Its first digits; empty if `root` is no checkout. Uncommitted changes are not considered."""
    try:
        folder = _git_folder(root)
        head = (folder / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        return (head if name == head else _of_reference(folder, name))[:SHOWN]
    except (OSError, UnicodeDecodeError):
        return ""


def _git_folder(root: Path) -> Path:
    """`.git`, or the folder that a worktree's `.git` file points to."""
    git = root / ".git"
    return root / git.read_text().strip().removeprefix("gitdir: ") if git.is_file() else git


def _of_reference(folder: Path, name: str) -> str:
    """A branch's commit: from its own file, or from packed-refs."""
    shared = folder / (folder / "commondir").read_text().strip() if (folder / "commondir").exists() else folder
    if (shared / name).exists():
        return (shared / name).read_text().strip()
    lines = (shared / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
