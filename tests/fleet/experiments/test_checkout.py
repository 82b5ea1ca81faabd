"""Which commit a run was made at."""

from __future__ import annotations

from pathlib import Path

from fleet.experiments.checkout import commit

DIGITS = "0123456789abcdef0123456789abcdef01234567"


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_branch_has_a_file_of_its_own(tmp_path: Path) -> None:
    files = {".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": f"{DIGITS}\n"}
    assert commit(made(tmp_path, files)) == DIGITS[:10]


def test_or_a_line_among_the_packed(tmp_path: Path) -> None:
    packed = f"# pack-refs with: peeled\n{'f' * 40} refs/heads/not/main\n{DIGITS} refs/heads/main\n"
    files = {".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": packed}
    assert commit(made(tmp_path, files)) == DIGITS[:10]


def test_without_a_branch_the_head_is_the_commit(tmp_path: Path) -> None:
    assert commit(made(tmp_path, {".git/HEAD": f"{DIGITS}\n"})) == DIGITS[:10]


def test_a_worktree_shares_the_branches_of_its_checkout(tmp_path: Path) -> None:
    own = tmp_path / "main" / ".git" / "worktrees" / "tree"
    files = {
        "main/.git/worktrees/tree/HEAD": "ref: refs/heads/side\n",
        "main/.git/worktrees/tree/commondir": "../..\n",
        "main/.git/refs/heads/side": f"{DIGITS}\n",
        "tree/.git": f"gitdir: {own}\n",
    }
    assert commit(made(tmp_path, files) / "tree") == DIGITS[:10]


def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    assert commit(made(tmp_path, {".git/HEAD": "ref: refs/heads/gone\n"})) == ""
