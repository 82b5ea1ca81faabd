"""Root file systems of Debian for emulated boards: built by mmdebstrap, cached by suite, architecture and package list.

EDGESTILL_TEST_ROOTS names the cache; ~/.cache/edgestill/test-roots by default. Building a root takes 10 to 15 minutes
on two quiet cores, and needs root privileges: maintainer scripts run as aarch64 code under qemu-user.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("EDGESTILL_TEST_ROOTS") or Path.home() / ".cache" / "edgestill" / "test-roots")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
COMMON = (
    *("systemd", "systemd-sysv", "systemd-timesyncd", "udev", "dbus", "kmod", "python3", "python3-venv"),
    *("linux-image-cloud-arm64", "initramfs-tools", "zstd", "network-manager", "iproute2", "ca-certificates"),
    *("e2fsprogs", "dosfstools", "util-linux", "passwd", "sudo", "login", "nano"),
)
#: What Raspberry Pi OS of the same release has for its first boot.
OF_SUITE = {
    "bookworm": ("isc-dhcp-client",),
    "trixie": ("cloud-init", "netplan.io", "cloud-guest-utils", "openssh-client"),
}
TOOLS = ("qemu-system-aarch64", "qemu-aarch64-static", "mmdebstrap", "mke2fs", "mkfs.vfat", "mcopy", "sfdisk")

missing = [tool for tool in TOOLS if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
needs_qemu = pytest.mark.skipif(
    bool(missing) or os.geteuid() != 0,
    reason=f"*** NO BOARD IS BOOTED: needs root and {' '.join(missing) or 'the tools, which are here'} ***",
)


def root_tree(suite: str) -> Path:
    """The folder of an arm64 root; built on the first call, kept for the next ones. Callers copy it."""
    packages = ",".join((*COMMON, *OF_SUITE[suite]))
    folder = CACHE / f"{suite}-arm64-{hashlib.sha256(packages.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests may be building it
        if not folder.exists():
            emulate_aarch64()
            building = folder.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            _build(suite, packages, building)
            building.rename(folder)
    return folder


def _build(suite: str, packages: str, out: Path) -> None:
    without = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    options = ["--mode=root", "--variant=minbase", "--architectures=arm64", "--format=directory", *without]
    command = ["mmdebstrap", *options, '--aptopt=Acquire::Languages "none"', f"--include={packages}", suite, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"mmdebstrap {suite}: {done.stderr[-2000:]}"


def emulate_aarch64() -> None:
    """Have the kernel start aarch64 programs by qemu-user."""
    if not (BINFMT / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)], check=True)
    if not (BINFMT / "qemu-aarch64").exists():
        subprocess.run(["update-binfmts", "--enable", "qemu-aarch64"], check=True)
