"""install.sh makes a folder that stands for a board an agent of the fleet, from the kit's wheels alone."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_configs.kits.install import Install, install_script
from firmware_configs.provision import provision
from firmware_configs.use_cases.export_kit import export_kit
from tests.firmware_configs.fleets import manifest
from tests.firmware_configs.own_board import ARCH, PYTHON, own_board

pytestmark = pytest.mark.light
PIP = "-m pip --quiet --disable-pip-version-check --no-input"


def install(kit: Path, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EDGESTILL_ROOT": str(root), "EDGESTILL_PYTHON": sys.executable, **environment}
    return subprocess.run(
        ["sh", str(kit / "install.sh")], env=env, capture_output=True, text=True, check=False, timeout=600
    )


def card_of(folder: Path, wheels: str = "network", more: str = "") -> Path:
    """A kit as it lies on a card, with a folder of wheels."""
    provision(manifest(folder, own_board(folder), provision=f'wheels = "{wheels}"\n{more}'))
    export_kit(folder / "kits/pc", folder / "card")
    for path in (folder / "card").rglob("*"):
        path.chmod(0o755)  # a FAT partition knows no modes
    return folder / "card"


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A kit that claims to bring all wheels: pip is not run."""
    card = card_of(tmp_path)
    script = (card / "install.sh").read_text()
    (card / "install.sh").write_text(script.replace("wheels=network", "wheels=card"))
    return card


def environment(root: Path, *, fails: bool = False) -> Path:
    """A virtual environment that is there already, whose Python writes down what it is asked."""
    python = root / "opt/edgestill/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    compiles = f'[ "$3" != edge_agent.precompile ] || {{ echo "$PIP_NO_COMPILE $@" >> "{root}/compiled"; exit 1; }}'
    python.write_text(f'#!/bin/sh\n{compiles}\necho "$@" >> "{root}/asked"\nexit {int(fails)}\n')
    python.chmod(0o755)
    return root / "asked"


def pretend(path: Path, says: str) -> str:
    """A Python of another board."""
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def test_a_kit_is_put_in_its_place_and_a_newer_one_in_place_of_it(tmp_path: Path, card: Path) -> None:
    root = tmp_path / "a root"  # a path with a blank in it
    asked = environment(root)
    done = install(card, root)
    assert done.returncode == 0, done.stderr
    how = "--no-deps --no-index --require-hashes"
    assert asked.read_text() == (
        f"{PIP} install {how} --find-links {card}/wheels --requirement {card}/locks/py{PYTHON}.txt\n"
    )
    etc, made = root / "etc/edgestill", tmp_path / "kits" / "pc"
    for name in ("agent.toml", "tls/device.key", "device.key", "aggregator.pub", "model.onnx", "kit.json", "kit.sig"):
        assert (etc / name).read_bytes() == (made / name).read_bytes()
        assert stat.S_IMODE((etc / name).stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (etc, etc / "tls")} == {0o700}
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


def test_what_the_agent_imports_is_compiled_and_a_board_that_cannot_is_installed_all_the_same(
    tmp_path: Path, card: Path
) -> None:
    root = tmp_path / "root"
    environment(root)
    done = install(card, root)
    assert (root / "compiled").read_text() == f"no -I -m edge_agent.precompile {card}/agent.toml\n"  # not by pip
    assert "the agent cannot do its work here yet; on the board, edgestill doctor tells what is missing" in done.stdout
    assert done.returncode == 0


def test_wheels_of_a_card_are_found_and_removed_when_they_are_installed(tmp_path: Path, card: Path) -> None:
    root = tmp_path / "root"
    places = [root / "boot/firmware/edgestill/wheels", root / "var/lib/edgestill-wheels"]
    for place in places:
        place.mkdir(parents=True)
    asked = environment(root)
    assert install(card, root).returncode == 0
    assert [f"--find-links {place}" in asked.read_text() for place in places] == [True, True]
    assert [place.exists() for place in places] == [False, False]


def test_a_board_with_a_network_fetches_by_the_same_lock_first(tmp_path: Path) -> None:
    card, root = card_of(tmp_path), tmp_path / "root"
    asked = environment(root)
    assert install(card, root).returncode == 0
    fetched = f"--dest {root}/var/lib/edgestill-wheels --find-links {card}/wheels"
    assert [" ".join(line.split()[5:]) for line in asked.read_text().splitlines()] == [
        f"download --no-deps --only-binary=:all: --require-hashes {fetched} --requirement {card}/locks/py{PYTHON}.txt",
        f"install --no-deps --no-index --require-hashes --find-links {root}/var/lib/edgestill-wheels"
        f" --requirement {card}/locks/py{PYTHON}.txt",
    ]


def fetching(tmp_path: Path, says: int = 0) -> Path:
    """A kit whose board fetches its wheels; the script that does so writes down what it is asked."""
    card = card_of(tmp_path, "none")
    text = install_script(Install(arch=ARCH, wheels="fleet", fetch=True, need_mb=1))
    (card / "install.sh").write_text(text)
    (card / "locks").mkdir()
    (card / f"locks/py{PYTHON}.txt").touch()
    said = f"import sys; open('{tmp_path}/fetched', 'a').write(' '.join(sys.argv[1:]) + chr(10)); sys.exit({says})\n"
    (card / "fetch_wheels.py").write_text(said)
    return card


def test_a_board_fetches_what_its_card_lacks_before_anything_is_made(tmp_path: Path) -> None:
    card, root = fetching(tmp_path, says=1), tmp_path / "root"
    done = install(card, root)
    assert done.returncode == 1
    assert not (root / "opt/edgestill").exists()
    assert not (root / "opt/edgestill.installing").exists()
    fetched = root / "var/lib/edgestill-wheels"
    asked = (
        f"--lock {card}/locks/py{PYTHON}.txt --to {fetched} {{}} --find-links {card}/wheels --find-links {fetched}\n"
    )
    assert (tmp_path / "fetched").read_text() == asked.format("--spare-mb 1")
    fetched.mkdir(parents=True, exist_ok=True)
    (fetched / "kept.part").touch()
    install(card, root)
    assert (fetched / "kept.part").exists()  # the next run goes on


def test_a_board_that_is_installed_fetches_only_what_is_new(tmp_path: Path) -> None:
    card, root = fetching(tmp_path), tmp_path / "root"
    asked = environment(root)
    done = install(card, root)
    assert done.returncode == 0, done.stderr
    fetch, pip = asked.read_text().splitlines()
    fetched = root / "var/lib/edgestill-wheels"
    links = f"--find-links {card}/wheels --find-links {fetched}"
    lock = f"{card}/locks/py{PYTHON}.txt"
    assert fetch == f"-I {card}/fetch_wheels.py --lock {lock} --to {fetched} --installed {links}"
    assert pip == f"{PIP} install --no-deps --no-index --require-hashes {links} --requirement {lock}"
    assert not fetched.exists()


def test_an_installation_that_was_cut_begins_again(tmp_path: Path, card: Path) -> None:
    root = tmp_path / "root"
    environment(root, fails=True)
    (root / "opt/edgestill/half").touch()
    assert install(card, root).returncode != 0
    assert (root / "opt/edgestill.installing").exists()
    script = (card / "install.sh").read_text()
    (card / "install.sh").write_text(script.replace('$python" -m venv', "$python\" -c 'exit(9)'"))
    assert install(card, root).returncode == 9
    assert not (root / "opt/edgestill").exists()  # removed before a new one is made


def test_a_board_that_has_its_packages_needs_no_wheels(tmp_path: Path) -> None:
    card, root = card_of(tmp_path, "none"), tmp_path / "root"
    done = install(card, root)
    assert (done.returncode, "this kit brings no wheels" in done.stderr) == (1, True)
    environment(root)
    (root / "opt/edgestill/bin/edgestill").symlink_to("python")
    assert install(card, root).returncode == 0
    assert not (root / "asked").exists()


def test_a_board_of_another_kind_says_so(tmp_path: Path, card: Path) -> None:
    machine = {"arm64": "aarch64", "amd64": "x86_64"}[ARCH]
    for says, reason in {
        f"{PYTHON} riscv64": f"this kit is for {machine}, and this machine is riscv64",
        f"3.99 {machine}": rf"this board has Python 3\.99, the kit has py{PYTHON}\.txt; set 'python' of its group",
    }.items():
        done = install(card, tmp_path / "root", EDGESTILL_PYTHON=pretend(tmp_path / "python", says))
        assert done.returncode == 1
        assert re.search(reason, done.stderr), done.stderr
    done = install(card, tmp_path / "root", EDGESTILL_PYTHON="/bin/false")
    assert (done.returncode, "no Python with venv; install python3-venv" in done.stderr) == (1, True)


def test_a_disk_that_is_too_small_is_told_before_anything_is_installed(tmp_path: Path, card: Path) -> None:
    script = (card / "install.sh").read_text()
    (card / "install.sh").write_text(script.replace("need_mb=0", "need_mb=999999999"))
    done = install(card, tmp_path / "root")
    assert done.returncode == 1
    assert re.search(r"\d+ MB are free in .*/opt, and the packages take 999999999 MB", done.stderr)
    assert not (tmp_path / "root/opt/edgestill").exists()


def test_what_is_to_be_installed_is_quoted() -> None:
    text = install_script(Install(arch="arm64", wheels="network", index="https://x/y?a;b", system_packages=True))
    assert "\nindex='https://x/y?a;b'\n" in text
    assert "\nsite=--system-site-packages\n" in text
    assert not re.search(r"@[A-Z_]+@", text)  # every placeholder is filled


def test_applications_get_a_folder_for_the_model(card: Path, tmp_path: Path) -> None:
    root = tmp_path / "board"
    environment(root)
    done = install(card, root)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((root / "var/lib/edgestill-model").stat().st_mode) == 0o750
    assert 'publish = "/var/lib/edgestill-model"' in (root / "etc/edgestill/agent.toml").read_text()
