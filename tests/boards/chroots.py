"""A copy of a board's root, whose programs run as aarch64 code under qemu-user: no boot, no services.

Only /proc and /dev are mounted, for the time of a command: with this machine's /sys, importing ONNX Runtime crashes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.boards.roots import emulate_aarch64, root_tree

MOUNTED = 'mount --bind /dev "$1/dev"; mount -t proc proc "$1/proc"; cd /; exec chroot "$@"'
LIMIT_S = 1800.0  # ends a test that hangs


@contextmanager
def arm_root(suite: str, folder: Path) -> Iterator[Path]:
    """A copy of the root of `suite`, removed at the end: it takes half a gigabyte."""
    source = root_tree(suite)
    emulate_aarch64()
    root = folder / suite
    subprocess.run(["cp", "-a", str(source), str(root)], check=True)
    try:
        yield root
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=True)


def chroot(root: Path, *command: str, **environment: str) -> str:
    """What the command prints on stdout, as root, on a Cortex-A53; AssertionError if it fails."""
    done = subprocess.run(
        chroot_command(root, *command, **environment), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


def chroot_command(root: Path, *command: str, **environment: str) -> list[str]:
    """The command as this machine starts it; the process that it becomes is the emulated one."""
    own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "OMP_NUM_THREADS": "1", "QEMU_CPU": "cortex-a53"}
    variables = [f"{name}={value}" for name, value in {**own, **environment}.items()]
    mounting = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", MOUNTED, "sh"]
    return ["env", "-i", *variables, *mounting, str(root), *command]
