"""install.sh makes a folder that stands for a board an agent of the fleet, from wheels alone."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_configs.kits.install import install_script
from firmware_configs.provision import provision
from tests.firmware_configs.fleets import manifest
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light


def tiny_wheel(folder: Path) -> None:
    """A package called edgestill, without dependencies: what is tested is the script, not pip."""
    folder.mkdir()
    files = {
        "tiny_edgestill.py": "def main():\n    print('tiny')\n",
        "INFO/entry_points.txt": "[console_scripts]\nedgestill = tiny_edgestill:main\n",
    }
    add_wheel(folder, "edgestill", "0.1", extras=["train"], files=files)


def install(kit: Path, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EDGESTILL_ROOT": str(root), "EDGESTILL_PYTHON": sys.executable, **environment}
    return subprocess.run(
        ["sh", str(kit / "install.sh")], env=env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A kit as it lies on a card, with a folder of wheels."""
    provision(manifest(tmp_path))
    shutil.copytree(tmp_path / "kits" / "pi-01", tmp_path / "card")
    for path in (tmp_path / "card").rglob("*"):
        path.chmod(0o755)  # a FAT partition knows no modes
    tiny_wheel(tmp_path / "card" / "wheels")
    return tmp_path / "card"


def environment(root: Path, *, fails: bool = False) -> Path:
    """A virtual environment that is there already, whose Python writes down what it is asked."""
    python = root / "opt/edgestill/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> {root}/asked\nexit {int(fails)}\n')
    python.chmod(0o755)
    return root / "asked"


def test_a_kit_is_put_in_its_place_and_a_newer_one_in_place_of_it(tmp_path: Path, card: Path) -> None:
    root = tmp_path / "root"
    asked = environment(root)
    done = install(card, root)
    assert done.returncode == 0, done.stderr
    pip = "-m pip install --quiet --disable-pip-version-check --upgrade"
    assert asked.read_text() == f"{pip} --no-index --find-links {card}/wheels edgestill[train]\n"
    etc, made = root / "etc/edgestill", tmp_path / "kits" / "pi-01"
    for name in ("agent.toml", "tls/device.key", "device.key", "aggregator.pub", "kit.json", "kit.sig"):
        assert (etc / name).read_bytes() == (made / name).read_bytes()
        assert stat.S_IMODE((etc / name).stat().st_mode) & 0o077 == 0
    unit = root / "etc/systemd/system/edgestill-agent.service"
    assert unit.read_bytes() == (made / "edgestill-agent.service").read_bytes()
    (card / "agent.toml").write_text("# newer\n")
    assert install(card, root).returncode == 0
    assert (etc / "agent.toml").read_text() == "# newer\n"
    assert (root / "etc/edgestill.old/agent.toml").read_bytes() == (made / "agent.toml").read_bytes()


def test_nothing_is_replaced_before_the_package_is_there(tmp_path: Path, card: Path) -> None:
    root = tmp_path / "root"
    environment(root)
    assert install(card, root).returncode == 0
    environment(root, fails=True)
    (card / "agent.toml").write_text("# newer\n")
    assert install(card, root).returncode != 0
    assert "newer" not in (root / "etc/edgestill/agent.toml").read_text()


def test_without_wheels_pip_is_asked_for_the_package(tmp_path: Path, card: Path) -> None:
    shutil.rmtree(card / "wheels")
    (card / "install.sh").write_text(install_script("edgestill @ file:///srv/edgestill", ""))
    asked = environment(tmp_path / "root")
    assert install(card, tmp_path / "root").returncode == 0
    assert asked.read_text().endswith(" --upgrade edgestill @ file:///srv/edgestill\n")


@pytest.mark.slow
def test_the_package_is_installed_offline_for_real(tmp_path: Path, card: Path) -> None:
    done = install(card, tmp_path / "root")
    assert done.returncode == 0, done.stderr
    command = tmp_path / "root/opt/edgestill/bin/edgestill"
    assert subprocess.run([command], capture_output=True, text=True, check=True).stdout == "tiny\n"


def test_without_a_python_that_is_new_enough_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "install.sh").write_text(install_script("edgestill", "train"))
    done = install(tmp_path, tmp_path / "root", EDGESTILL_PYTHON="/bin/false")
    assert done.returncode == 1
    assert "no Python 3.10 or newer" in done.stderr


def test_what_is_to_be_installed_is_quoted() -> None:
    assert "package='edgestill @ git+https://x/y'\n" in install_script("edgestill @ git+https://x/y", "")
    assert "package='edgestill[train] @ git+https://x/y'\n" in install_script("edgestill @ git+https://x/y", "train")
    assert "extra=''\n" in install_script("edgestill", "")
