"""Kits and cards for tests: images are made by Debian's own tools, as the vendors make theirs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from core import crashpoints
from firmware_configs.flash.cards.card import Plan
from firmware_configs.flash.cards.families import detect_family
from firmware_configs.flash.cards.targets import open_target
from firmware_configs.flash.plan import make_plan
from firmware_configs.kits.bootfiles import boot_files
from firmware_configs.kits.kit import Kit, KitFetch, KitFile, KitWheel, write_kit
from firmware_configs.kits.signed import open_kit
from firmware_configs.secrets import Wifi
from wire.keys import Ed25519PrivateKey, save_public_key

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
TOOLS_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
TOOLS = ("mkfs.vfat", "fsck.vfat", "sfdisk", "mcopy")
MISSING = [tool for tool in TOOLS if shutil.which(tool, path=TOOLS_PATH) is None]
needs_tools = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install dosfstools mtools fdisk"
)
CMDLINE = b"console=serial0,115200 console=tty1 root=PARTUUID=4e639091-02 rootfstype=ext4 fsck.repair=yes rootwait\n"
BOOKWORM = {
    "config.txt": b"dtparam=audio=on\n",
    "cmdline.txt": CMDLINE,
    "issue.txt": b"Raspberry Pi reference 2024-11-19\nGenerated using pi-gen, stage2\n",
    "overlays/README": b"device trees\n",
}
TRIXIE = {
    "config.txt": b"dtparam=audio=on\n",
    "cmdline.txt": CMDLINE,
    "issue.txt": b"Raspberry Pi reference 2025-12-04\nGenerated using pi-gen, stage2\n",
    "user-data": b"#cloud-config\n# hostname: raspberrypi\n",
    "meta-data": b"# comments stay\ninstance-id: rpios-image\ndsmode: local\n",
    "network-config": b"# wifis:\n#   wlan0:\n",
}
#: A card that Raspberry Pi Imager has customised.
IMAGER = {
    **TRIXIE,
    "cmdline.txt": CMDLINE.rstrip() + b" ds=nocloud;i=rpi-imager-1763000000000\n",
    "user-data": b"#cloud-config\nhostname: kitchen\nusers:\n- name: me\nruncmd:\n- [ rfkill, unblock, wifi ]\n",
    "meta-data": b"dsmode: local\ninstance_id: rpios-image\n",
}
JETSON = {"etc/nv_tegra_release": b"# R36 (release), REVISION: 4.3\n", "etc/systemd/system/keep.service": b"[Unit]\n"}
CARDS = {"bookworm": BOOKWORM, "cloud-init": TRIXIE, "jetson": JETSON}
WIFI = Wifi(ssid="IEEE", password="password", country="DE")


def make_kit(kits: Path, device: str = "pi-07", *, created: str = "2026-11-16T10:00:00Z", size: int = 3000) -> Path:
    """A signed kit at kits/DEVICE with boot files for every family."""
    families = ("bookworm", "cloud-init", "jetson")
    files = {
        "agent.toml": KitFile(f'[agent]\ndevice = "{device}"\n'.encode()),
        "device.key": KitFile(b"SECRET-SIGNING-KEY " + device.encode(), 0o600),
        "tls/device.key": KitFile(b"SECRET-TLS-KEY " * (size // 15), 0o600),
        "tls/ca.pem": KitFile(b"authority\n"),
        "install.sh": KitFile(b"#!/bin/sh\nexit 0\n", 0o755),
    }
    for family in families:
        for name, text in boot_files(family, device=device, wifi=WIFI, instance="0001").items():
            files[f"boot/{family}/{name}"] = KitFile(text.encode(), 0o600)
    kits.mkdir(exist_ok=True)
    kit = Kit(fleet="garden", device=device, board="rpi-4", os=families, created=created, files=files)
    write_kit(kits / device, kit, KEY)
    save_public_key(KEY.public_key(), kits / "fleet-kit.pub")
    return kits / device


def make_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A mounted partition with these files."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def add_wheels(kit: Path, sizes: Mapping[str, int], fetch: KitFetch | None = None) -> dict[str, bytes]:
    """Wheels of these sizes for a kit of `make_kit`, which is signed again; their content by name."""
    opened, _ = open_kit(kit, None)
    data = {name: hashlib.sha256(name.encode()).digest() * (size // 32) for name, size in sizes.items()}
    wheels = {}
    for name, content in data.items():
        wheels[name] = KitWheel(hashlib.sha256(content).hexdigest(), len(content), opened.os)
        folder = kit.parent / "_wheels" / wheels[name].sha256
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_kit(kit, replace(opened, wheels=wheels, fetch=fetch), KEY)
    return data


def make_image(path: Path, files: Mapping[str, bytes], *, table: str = "dos", mb: int = 56) -> Path:
    """An image with a FAT32 boot partition of 40 MB and a second partition, as Raspberry Pi OS has them."""
    start, sectors = 8192, 81920
    with path.open("wb") as file:
        file.truncate(mb << 20)
    fat = "c" if table == "dos" else "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
    linux = "83" if table == "dos" else "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
    parts = f"label: {table}\nstart={start}, size={sectors}, type={fat}\nstart={start + sectors}, type={linux}\n"
    _run("sfdisk", "--quiet", str(path), stdin=parts)
    _run("mkfs.vfat", "-F", "32", "-s", "1", "-n", "BOOTFS", "--offset", str(start), str(path), str(sectors // 2))
    tree = path.with_name(f"{path.name}.tree")
    make_folder(tree, files)
    tops = [str(top) for top in sorted(tree.iterdir())]
    _run("mcopy", "-i", f"{path}@@{start * 512}", "-s", *tops, "::/")
    shutil.rmtree(tree)
    return path


def check_fat(path: Path, folder: Path) -> None:
    """The file system checker has nothing to say about the image's first partition."""
    part = folder / "part.fat"
    with path.open("rb") as disk, part.open("wb") as out:
        disk.seek(8192 * 512)
        out.write(disk.read(81920 * 512))
    _run("fsck.vfat", "-n", str(part))


def flash(kit: Path, target: Path, **options: object) -> Plan:
    """Flash as the command does."""
    opened, signed = open_kit(kit, None)
    card = open_target(target, **options)  # type: ignore[arg-type]
    plan = make_plan(opened, signed, detect_family(card), card)
    card.write(plan)
    return plan


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; links by where they lead."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def killed(at: str, work: Callable[[], object]) -> bool:
    """Do `work` in a process that is killed at the crash point; False if it came to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["EDGESTILL_CRASH_AT"] = at
            crashpoints._seen.clear()
            work()
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0
    return os.WIFSIGNALED(ended)


def _run(program: str, *arguments: str, stdin: str = "") -> None:
    tool = shutil.which(program, path=TOOLS_PATH)
    assert tool is not None
    environment = {**os.environ, "MTOOLSRC": os.devnull}
    done = subprocess.run([tool, *arguments], input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
