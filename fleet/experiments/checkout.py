"""The commit of the checkout that an experiment runs from, read from git's own files."""

from __future__ import annotations

from pathlib import Path

__all__ = ["commit"]

ROOT = Path(__file__).parents[2]
SHOWN = 10  # of the 40 digits


def commit(root: Path = ROOT) -> str:
    """Its first digits; empty where `root` is no checkout. Changes that are not committed do not show."""
    try:
        folder = _git_folder(root)
        head = (folder / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        return (head if name == head else _of_reference(folder, name))[:SHOWN]
    except (OSError, UnicodeDecodeError):
        return ""


def _git_folder(root: Path) -> Path:
    """`.git`, or where that file of a worktree points to."""
    git = root / ".git"
    return root / git.read_text().strip().removeprefix("gitdir: ") if git.is_file() else git


def _of_reference(folder: Path, name: str) -> str:
    """A branch's commit: a file of its own, or a line of packed-refs."""
    shared = folder / (folder / "commondir").read_text().strip() if (folder / "commondir").exists() else folder
    if (shared / name).exists():
        return (shared / name).read_text().strip()
    lines = (shared / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
