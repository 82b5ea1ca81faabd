"""Cards as Raspberry Pi OS lays them out: a FAT partition that the firmware boots from, an ext4 root.

    trixie      cloud-init's seed (user-data, meta-data, network-config) on the FAT partition
    bookworm    none; first-boot scripts run from the kernel command line

A card is made once from a cached root (`roots.py`) and copied, sparse, for every board. Specific to the tests are: the
journal goes to the serial console, root has a shell on the virtio console hvc0, and systemd waits for devices and
services as long as it takes, because a loaded machine emulates a board a hundred times slower than the board is.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.boards.roots import root_tree

FAT_MB, ROOT_MB = 512, 3600
FAT_AT = 4 * 2**20  # bytes from the start of the image
DISK_ID = "ed6e5711"
CONSOLE = "ttyAMA0"
BOOT_CONFIG = "arm_64bit=1\nauto_initramfs=1\n[all]\n"
CMDLINE = (
    f"console=tty1 console={CONSOLE},115200 root=PARTUUID={DISK_ID}-02 rootfstype=ext4 fsck.repair=yes rootwait "
    "net.ifnames=0\n"
)
ISSUE = {"trixie": "Raspberry Pi reference 2025-12-04\n", "bookworm": "Raspberry Pi reference 2024-11-19\n"}
SEED = {
    "user-data": "#cloud-config\n\n# On first boot, use cloud-init to configure the system.\n#hostname: raspberrypi\n",
    "meta-data": "dsmode: local\ninstance_id: rpios-image\n",
    "network-config": "# This file contains a netplan-compatible configuration.\n#network:\n#  version: 2\n",
}


def make_card(suite: str, out: Path, samples: Path) -> Path:
    """A card of `suite` that was never booted; the board's own data are /srv/samples.npz."""
    work = out.with_suffix(".work")
    root = work / "root"
    work.mkdir(parents=True)
    try:
        subprocess.run(["cp", "-a", str(root_tree(suite)), str(root)], check=True)
        _as_raspberry_pi_os(suite, root, samples)
        _boot_partition(suite, root, work)
        _run("mke2fs", "-q", "-t", "ext4", "-L", "rootfs", "-d", str(root), str(work / "ext"), f"{ROOT_MB}M")
        _assemble(work, out)
    finally:
        shutil.rmtree(work)
    return out


def copy_card(card: Path, out: Path) -> Path:
    """A sparse copy: another board's card of the same system."""
    subprocess.run(["cp", "--sparse=always", str(card), str(out)], check=True)
    return out


def read_boot(card: Path, name: str, out: Path) -> Path:
    """A file of the boot partition, as the firmware reads it."""
    _run("mcopy", "-n", "-o", "-i", f"{card}@@{FAT_AT}", f"::{name}", str(out))
    return out


def write_boot(card: Path, name: str, text: str) -> None:
    """Replace a file of the boot partition, as Raspberry Pi Imager does."""
    _run("mcopy", "-o", "-i", f"{card}@@{FAT_AT}", "-", f"::{name}", stdin=text)


def boot_names(card: Path) -> list[str]:
    """Every file of the boot partition, with its folder."""
    listed = _run("mdir", "-/", "-b", "-i", f"{card}@@{FAT_AT}", "::")
    return [line.removeprefix("::/") for line in listed.splitlines()]


def _as_raspberry_pi_os(suite: str, root: Path, samples: Path) -> None:
    files = {
        "etc/hostname": "raspberrypi\n",
        "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\traspberrypi\n",
        "etc/machine-id": "",
        "etc/fstab": f"PARTUUID={DISK_ID}-01 /boot/firmware vfat defaults 0 2\n"
        f"PARTUUID={DISK_ID}-02 / ext4 defaults,noatime 0 1\n",
        "etc/systemd/journald.conf.d/test.conf": f"[Journal]\nForwardToConsole=yes\nTTYPath=/dev/{CONSOLE}\n"
        "MaxLevelConsole=info\n",
        "etc/systemd/system.conf.d/test.conf": "[Manager]\nDefaultDeviceTimeoutSec=infinity\n",
        "etc/systemd/system/service.d/test.conf": "[Service]\nTimeoutStartSec=infinity\n",
        "etc/systemd/system/serial-getty@hvc0.service.d/test.conf": "[Service]\nExecStart=\n"
        "ExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 - dumb\n",
    }
    if suite == "trixie":
        files["etc/cloud/cloud.cfg.d/99_raspberry-pi.cfg"] = (
            "datasource_list: [ NoCloud, None ]\ndatasource:\n  NoCloud:\n    seedfrom: file:///boot/firmware\n"
        )
        for unit in ("cloud-init-main", "cloud-init-local"):
            wants = "[Unit]\nRequiresMountsFor=/boot/firmware\n"
            files[f"etc/systemd/system/{unit}.service.d/10-boot.conf"] = wants
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "boot/firmware").mkdir(exist_ok=True)
    getty = root / "etc/systemd/system/getty.target.wants/serial-getty@hvc0.service"
    getty.parent.mkdir(parents=True, exist_ok=True)
    getty.symlink_to("/lib/systemd/system/serial-getty@.service")
    shutil.copyfile(samples, root / "srv/samples.npz")
    (root / "srv/samples.npz").chmod(0o644)


def _boot_partition(suite: str, root: Path, work: Path) -> None:
    boot = work / "boot"
    boot.mkdir()
    (kernel,) = root.glob("boot/vmlinuz-*")
    (initramfs,) = root.glob("boot/initrd.img-*")
    shutil.copyfile(kernel, boot / "kernel8.img")
    shutil.copyfile(initramfs, boot / "initramfs8")
    texts = {"config.txt": BOOT_CONFIG, "cmdline.txt": CMDLINE, "issue.txt": ISSUE[suite]}
    for name, text in (texts | (SEED if suite == "trixie" else {})).items():
        (boot / name).write_text(text)
    with (work / "fat").open("wb") as fat:
        fat.truncate(FAT_MB * 2**20)
    _run("mkfs.vfat", "-F", "32", "-n", "bootfs", str(work / "fat"))
    _run("mcopy", "-s", "-i", str(work / "fat"), *(str(path) for path in boot.iterdir()), "::")


def _assemble(work: Path, out: Path) -> None:
    with out.open("wb") as card:
        card.truncate((4 + FAT_MB + ROOT_MB + 1) * 2**20)
    start = 8192 + FAT_MB * 2048
    table = f"label: dos\nlabel-id: 0x{DISK_ID}\nstart=8192, size={FAT_MB * 2048}, type=c\n"
    _run("sfdisk", "-q", str(out), stdin=f"{table}start={start}, size={ROOT_MB * 2048}, type=83\n")
    for part, at in (("fat", 4), ("ext", 4 + FAT_MB)):
        _run("dd", f"if={work / part}", f"of={out}", "bs=1M", f"seek={at}", "conv=sparse,notrunc", "status=none")


def _run(*command: str, stdin: str | None = None) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "MTOOLSRC": "/dev/null", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{command[0]}: {done.stderr.strip()}"
    return done.stdout
