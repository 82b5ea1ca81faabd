"""Targets of `--to`: a folder where a partition is mounted, a disk image, a block device."""

from __future__ import annotations

from pathlib import Path

from core.errors import ConfigError
from firmware_configs.flash.cards.blocks import BlockDevice, journal_folder
from firmware_configs.flash.cards.disks import check_disk, examine
from firmware_configs.flash.cards.image import Image
from firmware_configs.flash.cards.mounted import Mounted

__all__ = ["open_target"]


def open_target(
    target: Path, *, yes: bool = False, base: Path | None = None, read_only: bool = False
) -> Mounted | Image | BlockDevice:
    """The card at `target`, ready to be read and written.

    With `base`, an image is created at `target` from the one at `base`. `read_only`: nothing is changed, so a block
    device needs no `yes`, and an interrupted run is not finished.
    """
    if base is not None:
        if not base.is_file():
            raise ConfigError(f"{base}: no such image; give the file of an unpacked disk image")
        if target.exists() and not target.is_file():
            raise ConfigError(f"{target}: not an image; with --from, give the name of the image to create")
        return Image(base, out=target)
    if target.is_dir():
        return Mounted(target, recover=not read_only)
    if target.is_file():
        return Image(target)
    if target.is_block_device():
        if not read_only:
            check_disk(examine(target), target, yes=yes)
        return BlockDevice(target, journal_folder(), recover=not read_only)
    raise ConfigError(
        f"{target}: no such folder, image or disk; give the folder where the card is mounted, or its device"
    )
