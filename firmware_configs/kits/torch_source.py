"""Where a board's torch comes from: its lock, pip's index, an index or a folder of the user's, or its own system.

| board | default | why |
|---|---|---|
| ARM without CUDA | the lock: torch 2.7.1, 99 MB | 2.10 does not run on a Cortex-A53, later ones require CUDA |
| amd64 | `torch==2.13.0+cpu`, by pip | at indexes of CPU builds only; the usual index has CUDA builds of several GB |
| Jetson | none: `torch` must be given | NVIDIA's builds for one JetPack, from an index or a folder |

`torch = "system"` is for images that have torch: the virtual environment then sees the packages of the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.boards import Board

__all__ = ["SYSTEM", "TorchSource", "is_url", "torch_source"]

SYSTEM = "system"
ANY, CPU = "torch>=2.4", "torch==2.13.0+cpu"


@dataclass(frozen=True, slots=True)
class TorchSource:
    """A source other than the lock."""

    requirement: str | None  # None: the board's system has torch
    options: tuple[str, ...] = ()  # of pip
    carried: bool = True  # with the kit, even if boards fetch other wheels by themselves
    index: str | None = None  # where a board may fetch it


def torch_source(board: Board, said: str | None, base: Path) -> TorchSource | None:
    """The source for a board that trains in mode full; None: its lock. `said` is the user's choice."""
    if said == SYSTEM:
        return TorchSource(None)
    if said is not None and is_url(said):
        return TorchSource(ANY, ("--index-url", said), carried=False, index=said)
    if said is not None:
        folder = _folder(said, base)
        if folder is None:
            what = f"{said[:80]!r} is no folder of {base}"
            raise ConfigError(f"'torch': {what}; give a folder with wheels, an index, or {SYSTEM!r}")
        return TorchSource(ANY, ("--no-index", "--find-links", str(folder)))
    if board.torch == "jetson":
        raise ConfigError(
            f"board {board.name} trains with NVIDIA's torch: give 'torch', the index or a folder of NVIDIA's wheels for"
            f" its JetPack, or {SYSTEM!r} if its image has torch"
        )
    return TorchSource(CPU) if board.arch == "amd64" else None


def _folder(said: str, base: Path) -> Path | None:
    try:
        folder = (base / Path(said).expanduser()).resolve()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL in it, or of no user
        return None


def is_url(text: str) -> bool:
    """Whether a source is an index, not a folder."""
    return text.startswith(("http://", "https://"))
