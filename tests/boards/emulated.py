"""A board that boots from a card: what a Raspberry Pi's firmware does, in QEMU without KVM.

    power on      kernel8.img, initramfs8 and cmdline.txt are read from the FAT partition, as the firmware does
    reboot        the same again: first-boot scripts may have changed cmdline.txt
    power cut     the process is killed; what the guest had not written is lost

The guest reaches only `BROKER` at the broker's port, relayed to the same port of this machine's loopback: no index, no
name server, no time server. The serial console is a file, root has a shell on a socket, and `network(False)` pulls the
cable.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from tests.boards.cards import read_boot

BOOT_S = 3600.0  # ends a test that hangs; a quiet machine boots in a tenth of it
QEMU = ("qemu-system-aarch64", "-M", "virt", "-accel", "tcg,thread=multi", "-display", "none", "-no-reboot")
BROKER = "10.0.2.100"  # the broker's address in the guest's network
RELAY = Path(__file__).with_name("relay.py")
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\r")


class EmulatedBoard:
    """One board with its card; `folder` gets its console's log, which stays as the test's artifact."""

    def __init__(self, name: str, folder: Path, card: Path, port: int, *, memory_mb: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.folder, self.card, self.port, self.memory_mb = name, folder, card, port, memory_mb
        self.serial = folder / f"{name}.serial"
        self._shell = folder / "hvc"
        self._monitor = folder / "monitor"
        self._process: subprocess.Popen[bytes] | None = None
        self._on = False
        self._power: threading.Thread | None = None
        self.boots = 0
        self.cable = True
        self.powered_on = self.online = 0.0  # monotonic, of the first time

    def power_on(self, *, clock: str | None = None) -> None:
        """Boot, and boot again whenever the guest asks for it. `clock` is the time of a board whose clock is wrong."""
        assert not self._on, "it is on"
        self._on = True
        self.powered_on = self.powered_on or time.monotonic()
        self._start(clock)
        self._power = threading.Thread(target=self._keep_on, args=(clock,), daemon=True)
        self._power.start()

    def power_cut(self) -> None:
        """Off at once, as when the plug is pulled."""
        self._on = False
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._power is not None:
            self._power.join(60)

    def shut_down(self) -> None:
        """Off as by `poweroff`."""
        self._on = False  # the end of QEMU is not a reboot
        self.run("sync; systemctl poweroff --no-block")
        self.until_console("reboot: Power down")
        self.power_cut()

    def network(self, on: bool) -> None:
        """Plug the cable in, or pull it."""
        self.cable = on
        with contextlib.closing(_connect(self._monitor)) as monitor:
            monitor.sendall(f"set_link n0 {'on' if on else 'off'}\n".encode())
            time.sleep(0.2)  # the monitor answers with a prompt only

    def console(self) -> str:
        """Everything on the serial console so far, of all boots, as plain text."""
        return CODES.sub("", self.serial.read_text(errors="replace")) if self.serial.exists() else ""

    def until_console(self, pattern: str, limit: float = BOOT_S, *, after: int = 0) -> str:
        """Wait until the console shows `pattern`; returns the match."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            match = re.search(pattern, self.console()[after:])
            if match:
                return match[0]
            self.check()
            time.sleep(1)
        raise AssertionError(f"{self.name}: no {pattern!r} on its console; it ends with\n{self.console()[-3000:]}")

    def check(self) -> None:
        """Raise if the emulator has ended while the board is on."""
        ended = self._process is not None and self._process.poll() not in (None, 0)
        assert not (self._on and ended), f"{self.name}: QEMU ended; {(self.folder / 'qemu.log').read_text()[-500:]}"

    def run(self, command: str, limit: float = 900.0) -> str:
        """What a command of root's prints; AssertionError if it fails."""
        code, text = self.try_run(command, limit)
        assert code == 0, f"{self.name}: {command!r} ended with {code}: {text}"
        return text

    def try_run(self, command: str, limit: float = 900.0) -> tuple[int, str]:
        """Exit code and output of a command in the guest's root shell."""
        mark = uuid.uuid4().hex[:12]
        received = b""
        until = time.monotonic() + limit
        with contextlib.closing(_connect(self._shell)) as shell:
            self._until_prompt(shell, until)
            # the marks are split in what is typed, so that their echo does not match
            typed = f"\n stty -echo; echo BEG''IN{mark}; {{ {command}\n }} 2>&1; echo \"rc=$?\" EN''D{mark}\n"
            shell.sendall(typed.encode())
            while f"END{mark}".encode() not in received and time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    received += shell.recv(65536)
        text = CODES.sub("", received.decode(errors="replace"))
        match = re.search(rf"(?s)BEGIN{mark}(.*)rc=(\d+) END{mark}", text)
        assert match, f"{self.name}: {command!r} did not end within {limit:.0f} s: {text[-500:]}"
        return int(match[2]), match[1].strip()

    def _until_prompt(self, shell: socket.socket, until: float) -> None:
        """Type until the shell answers: a login drops what was typed before it."""
        mark, received = uuid.uuid4().hex[:12], b""
        while f"HERE{mark}".encode() not in received and time.monotonic() < until:
            shell.sendall(f"\n echo HE''RE{mark}\n".encode())
            answer_by = time.monotonic() + 10
            while f"HERE{mark}".encode() not in received and time.monotonic() < answer_by:
                with contextlib.suppress(TimeoutError):
                    received += shell.recv(65536)

    def _start(self, clock: str | None) -> None:
        names = ("kernel8.img", "initramfs8", "cmdline.txt")
        kernel, initramfs, cmdline = (read_boot(self.card, name, self.folder / name) for name in names)
        self.boots += 1
        words = cmdline.read_text().strip()
        with self.serial.open("a") as log:
            log.write(f"#### power on {self.boots}: {words}\n")
        command = [*QEMU, "-cpu", "cortex-a53", "-smp", "2", "-m", str(self.memory_mb)]
        command += ["-rtc", f"base={clock}"] if clock else []
        command += ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", words]
        command += ["-drive", f"file={self.card},if=none,id=d0,format=raw,cache=writeback"]
        command += ["-device", "virtio-blk-pci,drive=d0"]
        relay = f"{sys.executable} -I {RELAY} {self.port}"
        forward = f"guestfwd=tcp:{BROKER}:{self.port}-cmd:{relay}"
        command += ["-netdev", f"user,id=n0,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=n0,romfile="]
        command += ["-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=r0"]
        command += ["-chardev", f"socket,id=c1,path={self._shell},server=on,wait=off"]
        command += ["-device", "virtio-serial-pci", "-device", "virtconsole,chardev=c1"]
        command += ["-monitor", f"unix:{self._monitor},server=on,wait=off"]
        command += ["-chardev", f"file,id=s0,path={self.serial},append=on", "-serial", "chardev:s0"]
        with (self.folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not self.cable:
            self.network(False)

    def _keep_on(self, clock: str | None) -> None:
        assert self._process is not None
        while self._process.wait() == 0 and self._on:
            self._start(clock)
            if not self._on:  # the power was cut in between
                self._process.kill()


def _connect(path: Path, limit: float = 60.0) -> socket.socket:
    """A connection to one of QEMU's sockets; it takes one client at a time."""
    until = time.monotonic() + limit
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(1)
        try:
            sock.connect(str(path))
        except OSError:
            sock.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return sock
