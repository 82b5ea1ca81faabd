"""A real virtual environment is copied by links; neither half of the pair changes the other."""

import subprocess
import sys
from pathlib import Path

import pytest

from firmware_configs.on_board.bundles import RefusedError
from firmware_configs.on_board.environments import copy_environment, installed, python_of, run, version_in

pytestmark = pytest.mark.light


def test_a_copy_has_the_packages_and_commands_of_the_other_as_its_own(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", old], check=True)
    (site,) = old.glob("lib/python3*/site-packages")
    (site / "Some_Package-1.5.dist-info").mkdir()
    (site / "edgestill-0.2.0+k1.dist-info").mkdir()
    (site / "mine.py").write_text("import sys; print(sys.prefix)")
    (old / "bin/mine").write_text(f"#!{old}/bin/python\nimport mine\n")
    (old / "bin/mine").chmod(0o755)
    copy_environment(old, new)
    assert installed(new) == {("some-package", "1.5"), ("edgestill", "0.2.0+k1")}
    assert (version_in(new), python_of(new)) == ("0.2.0+k1", "{}.{}".format(*sys.version_info[:2]))
    assert "include-system-site-packages = true" in (new / "pyvenv.cfg").read_text()
    assert subprocess.run([new / "bin/mine"], capture_output=True, text=True, check=True).stdout == f"{new}\n"
    (copy,) = new.glob("lib/python3*/site-packages/mine.py")
    assert copy.stat().st_ino == (site / "mine.py").stat().st_ino
    copy.unlink()
    assert (site / "mine.py").exists()


def test_an_environment_without_edgestill_has_version_0(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    assert version_in(tmp_path) == "0"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo first >&2; echo 'ERROR: No matching' >&2; echo notice >&2; exit 1", "ERROR: No matching"),
        ("echo one; echo two; exit 3", "two"),
        ("exit 3", "exit code 3"),
    ],
)
def test_a_command_that_fails_says_why_in_a_line(script: str, reason: str) -> None:
    with pytest.raises(RefusedError, match=f"^it cannot be installed: {reason}$"):
        run(["sh", "-c", script])


def test_commands_are_not_led_astray_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    run(["sh", "-c", 'test -z "$PYTHONPATH" && test "$MORE" = 1'], MORE="1")
