"""A clock in the past is set by install.sh; one that is right, and that of another machine, stay."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from firmware_configs.kits.clock import SET_CLOCK

pytestmark = pytest.mark.light
MADE = "2026-11-16T10:00:00Z"
HEAD = 'set -eu\nhere=$1 root=${EDGESTILL_ROOT:-}\nsay() { echo "edgestill: $*"; }\n'
#: Returns the time `now`, and records the time that it is set to.
DATE = """#!/bin/sh
case "$*" in
    "+%s") echo {now} ;;
    *-s*) echo "$@" >> {top}/set; exit {fails} ;;
    *) exec /bin/date "$@" ;;
esac
"""

#: Knows two active timers, and writes down what it is told to do.
SYSTEMCTL = """#!/bin/sh
case "$*" in
    *is-active*apt-daily.timer | *is-active*fstrim.timer) exit 0 ;;
    *is-active*) exit 3 ;;
    *) echo "$@" >> {top}/systemctl ;;
esac
"""


def run(top: Path, *, then: str = "", now: int = 0, fails: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it as on a board whose file system is below `top` at the time `now`, then the commands `then`."""
    (top / "bin").mkdir(exist_ok=True)
    (top / "bin/date").write_text(DATE.format(now=now, top=top, fails=fails))
    (top / "bin/systemctl").write_text(SYSTEMCTL.format(top=top))
    for name in ("date", "systemctl"):
        (top / f"bin/{name}").chmod(0o755)
    (top / "kit.json").write_text(json.dumps({"device": "pi-07", "created": MADE}, indent=2))
    script = HEAD + SET_CLOCK.replace("/var/lib/systemd", f"{top}/var/lib/systemd") + then
    env = {**os.environ, "PATH": f"{top}/bin:{os.environ['PATH']}", **env}
    command = ["sh", "-c", script, "install.sh", str(top)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)


def seconds(text: str) -> int:
    done = subprocess.run(["date", "-u", "-d", text, "+%s"], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_clock_before_the_kit_is_set_and_the_next_boot_starts_there(tmp_path: Path) -> None:
    (tmp_path / "var/lib/systemd/timesync").mkdir(parents=True)
    done = run(tmp_path, now=seconds(MADE) - 1)
    assert (done.returncode, done.stderr) == (0, "")
    text = f"edgestill: the clock was earlier than this kit; it is set to {MADE}, when the kit was made\n"
    assert done.stdout == text
    assert (tmp_path / "set").read_text() == f"-u -s @{seconds(MADE)}\n"
    assert (tmp_path / "var/lib/systemd/timesync/clock").exists()


def test_a_board_without_timesyncd_gets_no_folder_of_it(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert (tmp_path / "set").exists()
    assert not (tmp_path / "var").exists()


def test_a_correct_clock_is_not_changed(tmp_path: Path) -> None:
    done = run(tmp_path, now=seconds(MADE))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "set").exists()


def test_the_clock_of_the_machine_that_prepares_an_image_is_not_changed(tmp_path: Path) -> None:
    done = run(tmp_path, EDGESTILL_ROOT=str(tmp_path / "root"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "set").exists()


def test_an_installation_continues_if_the_clock_cannot_be_set(tmp_path: Path) -> None:
    done = run(tmp_path, fails=1, then="echo on")
    assert done.returncode == 0
    text = f"edgestill: the clock is earlier than {MADE}, when this kit was made, and cannot be set"
    assert done.stdout.splitlines() == [text, "on"]


@pytest.mark.parametrize("fails", [0, 1], ids=["set", "not set"])
def test_timers_that_would_all_be_late_with_the_new_clock_begin_anew(tmp_path: Path, fails: int) -> None:
    """apt's daily jobs are not started beside the installation; a timer that is not active stays as it is."""
    stamps = [tmp_path / f"var/lib/systemd/timers/stamp-{name}.timer" for name in ("apt-daily", "fstrim", "off")]
    stamps[0].parent.mkdir(parents=True)
    for stamp in stamps:
        stamp.touch()
        os.utime(stamp, (0, 0))
    assert run(tmp_path, fails=fails).returncode == 0
    assert (tmp_path / "systemctl").read_text() == (
        "stop apt-daily.timer fstrim.timer\nstart apt-daily.timer fstrim.timer\n"
    )
    assert [stamp.stat().st_mtime > 0 for stamp in stamps] == [not fails, not fails, False]


def test_a_board_without_persistent_timers_has_none_stopped(tmp_path: Path) -> None:
    (tmp_path / "var/lib/systemd/timers").mkdir(parents=True)
    assert run(tmp_path).returncode == 0
    assert (tmp_path / "set").exists()
    assert not (tmp_path / "systemctl").exists()
