"""Boot files are what each OS family reads, and do what they say."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firmware_configs.kits.bootfiles import FIRSTBOOT, JETSON_ERROR, KIT, KIT_FOLDER, LAST_ERROR, boot_files
from firmware_configs.secrets import Wifi

pytestmark = pytest.mark.light
WIFI = Wifi(ssid="it's @HOSTNAME@ $(reboot)", password="correct horse", country="DE")
CLOUD_INIT = shutil.which("cloud-init")


def files(family: str, wifi: Wifi | None = WIFI) -> dict[str, str]:
    return boot_files(family, device="pi-07", wifi=wifi, instance="abc")


class Board:
    """A folder that stands for a board: the scripts' absolute paths are below it, `systemctl` writes down its words."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for folder in ("etc/systemd/system", "var/lib", "boot/firmware/edgestill/kit/tls", "bin", "usr"):
            (top / folder).mkdir(parents=True)
        (top / "etc/hostname").write_text("raspberrypi\n")
        (top / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1\traspberrypi\n")
        (top / "boot/firmware/edgestill/kit/tls/device.key").write_text("secret")
        (top / "boot/firmware/edgestill/kit/install.sh").write_text("#!/bin/sh\n")
        for name in ("systemctl", "imager_custom"):
            (top / "bin" / name).write_text(f'#!/bin/sh\nfor word; do echo "$word"; done >> {top}/{name}.log\n')
            (top / "bin" / name).chmod(0o755)

    def run(self, script: str) -> None:
        script = script.replace(KIT, f"{self.top}/boot/firmware/edgestill/kit")
        for path in ("/etc/", "/var/lib/", "/boot/firmware/cmdline"):
            script = re.sub(rf"(?<![\w/.-]){re.escape(path)}", f"{self.top}{path}", script)
        script = script.replace("/usr/lib/raspberrypi-sys-mods", f"{self.top}/bin")
        env = {**os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")

    def took_the_kit(self) -> None:
        assert not (self.top / "boot/firmware/edgestill/kit").exists()
        taken = Path(f"{self.top}{KIT_FOLDER}")
        assert (taken / "tls/device.key").read_text() == "secret"
        assert (taken / "tls/device.key").stat().st_mode & 0o077 == 0
        assert taken.stat().st_mode & 0o077 == 0
        unit = (self.top / "etc/systemd/system" / FIRSTBOOT).read_text()
        assert f"{KIT_FOLDER}/install.sh" in unit


def test_firstrun_names_the_board_sets_the_wifi_and_takes_the_kit_off_the_card(tmp_path: Path) -> None:
    board = Board(tmp_path)
    cmdline = tmp_path / "boot/firmware/cmdline.txt"
    run = f"systemd.run={tmp_path}/boot/firmware/edgestill/kit/firstrun.sh"
    fixed = "systemd.run_success_action=reboot systemd.unit=kernel-command-line.target"
    cmdline.write_text(f"console=tty1 root=PARTUUID=1-02 rootwait {run} {fixed}\n")
    board.run(files("bookworm")["firstrun.sh"])
    board.took_the_kit()
    assert (tmp_path / "etc/hostname").read_text() == "pi-07\n"
    assert "127.0.1.1\tpi-07\n" in (tmp_path / "etc/hosts").read_text()
    assert cmdline.read_text() == "console=tty1 root=PARTUUID=1-02 rootwait\n"
    assert (tmp_path / "systemctl.log").read_text().split() == ["enable", FIRSTBOOT]
    assert (tmp_path / "imager_custom.log").read_text().splitlines() == ["set_wlan", WIFI.ssid, WIFI.key, "DE"]


def test_firstrun_leaves_the_script_of_somebody_else_on_the_command_line(tmp_path: Path) -> None:
    board = Board(tmp_path)
    theirs = "rootwait systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot"
    (tmp_path / "boot/firmware/cmdline.txt").write_text(
        f"{theirs} systemd.run={tmp_path}/boot/firmware/edgestill/kit/firstrun.sh\n"
    )
    board.run(files("bookworm", None)["firstrun.sh"])
    assert (tmp_path / "boot/firmware/cmdline.txt").read_text() == f"{theirs}\n"
    assert not (tmp_path / "imager_custom.log").exists()


def test_the_command_of_cloud_init_takes_the_kit_and_starts_the_installation(tmp_path: Path) -> None:
    board = Board(tmp_path)
    yaml = pytest.importorskip("yaml", reason="*** NO PYYAML IN THIS ENVIRONMENT: USER-DATA IS NOT RUN ***")
    user = yaml.safe_load(files("cloud-init")["user-data"])
    ((shell, flags, script),) = user["runcmd"]
    assert (shell, flags) == ("/bin/sh", "-ec")
    assert user["hostname"] == "pi-07"
    board.run(f"set -e\n{script}")
    board.took_the_kit()
    assert (tmp_path / "systemctl.log").read_text().split() == [
        *("daemon-reload", "enable", FIRSTBOOT),
        *("start", "--no-block", FIRSTBOOT),
    ]


def test_cloud_init_finds_the_network(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="*** NO PYYAML IN THIS ENVIRONMENT: NETWORK-CONFIG IS NOT READ ***")
    network = yaml.safe_load(files("cloud-init")["network-config"])
    wlan = network["wifis"]["wlan0"]
    assert wlan["access-points"] == {WIFI.ssid: {"password": WIFI.key}}
    assert wlan["regulatory-domain"] == "DE"
    opened = Wifi(ssid="café", country="FR")
    assert '"café": {}' in files("cloud-init", opened)["network-config"]
    assert "wifis" not in files("cloud-init", None)["network-config"]
    assert yaml.safe_load(files("cloud-init")["meta-data"])["instance-id"] == "edgestill-pi-07-abc"


@pytest.mark.skipif(CLOUD_INIT is None, reason="*** NO CLOUD-INIT ON THIS MACHINE: ITS SCHEMA IS NOT CHECKED ***")
def test_cloud_init_takes_the_user_data(tmp_path: Path) -> None:
    assert CLOUD_INIT is not None
    (tmp_path / "user-data").write_text(files("cloud-init")["user-data"])
    command = [CLOUD_INIT, "schema", "--config-file", str(tmp_path / "user-data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Valid" in done.stdout


@pytest.mark.parametrize("family", ["bookworm", "cloud-init", "jetson", "generic"])
def test_no_password_is_in_any_file(family: str) -> None:
    assert not any("correct horse" in text for text in files(family).values())


def test_a_generic_board_has_no_boot_files() -> None:
    assert files("generic") == {}


def after_failures(unit: str) -> list[str]:
    """The commands that systemd runs after the installer."""
    return re.findall(r"^ExecStopPost=-/bin/sh -c '((?:.|\\\n)*?)'$", unit, re.MULTILINE)


def ended(result: str) -> dict[str, str]:
    """What systemd tells those commands."""
    name, _, status = result.partition("/")
    return {"SERVICE_RESULT": name, "EXIT_STATUS": status}


@pytest.mark.parametrize(("result", "kept"), [("exit-code/1", True), ("signal/KILL", True), ("success/0", False)])
def test_a_failed_installation_leaves_its_reason_and_a_good_one_removes_it(
    result: str, kept: bool, tmp_path: Path
) -> None:
    """The command that systemd runs after the installer, with its own `$$` for `$`."""
    command, _ = after_failures(files("jetson")[FIRSTBOOT])
    error = tmp_path / "boot/edgestill/last-error.txt"
    error.parent.mkdir(parents=True)
    error.write_text("of the attempt before")
    (tmp_path / "journalctl").write_text("#!/bin/sh\necho edgestill: no Python 3.10 or newer\n")
    (tmp_path / "journalctl").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **ended(result)}
    subprocess.run(["/bin/sh", "-c", command.replace("$$", "$").replace(JETSON_ERROR, str(error))], env=env, check=True)
    assert error.exists() == kept
    assert not kept or error.read_text().endswith("\nedgestill: no Python 3.10 or newer\n")


@pytest.mark.parametrize(
    ("result", "agent", "told"),
    [("exit-code/1", 3, True), ("exit-code/1", 0, False), ("success/0", 3, False), ("signal/TERM", 3, False)],
)
def test_a_failed_installation_is_told_to_the_fleet_unless_an_agent_is_connected(
    result: str, agent: int, told: bool, tmp_path: Path
) -> None:
    _, command = after_failures(files("jetson")[FIRSTBOOT])
    commands = {
        "journalctl": 'echo "$*"; echo edgestill: no room',
        "systemctl": f'echo "$*" > {tmp_path}/asked; exit {agent}',
        "python3": f'echo "$*" > {tmp_path}/told; cat >> {tmp_path}/told',
    }
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **ended(result)}
    subprocess.run(["/bin/sh", "-c", command.replace("$$", "$")], env=env, check=True)
    assert (tmp_path / "told").exists() == told
    if told:
        assert (tmp_path / "asked").read_text() == "is-active --quiet edgestill-agent.service\n"
        script, asked, log = (tmp_path / "told").read_text().splitlines()
        assert script == f"-I {KIT}/report_failure.py"
        assert (asked, log) == (f"-u {FIRSTBOOT} -n 20 -o cat", "edgestill: no room")


def test_a_board_that_is_shut_down_while_it_is_installed_keeps_the_reason_of_an_earlier_failure(tmp_path: Path) -> None:
    command, _ = after_failures(files("jetson")[FIRSTBOOT])
    error = tmp_path / "last-error.txt"
    error.write_text("of the attempt before")
    env = {**os.environ, **ended("signal/TERM")}
    subprocess.run(["/bin/sh", "-c", command.replace("$$", "$").replace(JETSON_ERROR, str(error))], env=env, check=True)
    assert error.read_text() == "of the attempt before"


def test_on_a_pi_the_reason_is_on_the_boot_partition() -> None:
    for text in (files("bookworm")["firstrun.sh"], files("cloud-init")["user-data"]):
        assert f"> {LAST_ERROR};" in text
