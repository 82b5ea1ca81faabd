"""A board's wheels: its lock, edgestill's own, the user's and torch from where it is told."""

import zipfile
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits import wheel_set
from firmware_configs.kits.lock import Locked, parse_lock, shipped_lock
from firmware_configs.kits.own_wheel import own_wheel
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.torch_source import TorchSource
from firmware_configs.kits.wheel_set import WheelSets
from firmware_configs.kits.wheels import WheelStore
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light
PI, JETSON = Target("arm64", "3.11"), Target("arm64", "3.10")


def sets(folder: Path, *packages: str) -> WheelSets:
    return WheelSets(WheelStore(folder / "_wheels"), packages, folder, carry_all=False)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def test_a_lock_of_a_kit_is_that_of_the_board_with_edgestill_itself(tmp_path: Path) -> None:
    made = sets(tmp_path).get(PI, "light", None)
    own = own_wheel()
    assert set(made.wheels) == {*shipped_lock(PI, "light"), "edgestill"}
    assert made.wheels["edgestill"].sha256 == own.sha256
    assert parse_lock(made.lock(), "") == made.wheels
    assert made.carried == {"edgestill"}  # where boards fetch the others
    entries = sets(tmp_path).kit_wheels({"bookworm": made, "generic": made})
    assert [(name, entry.bytes, entry.os) for name, entry in entries.items()] == [
        (own.file, len(own.data), ("bookworm", "generic"))
    ]
    assert made.installed > len(own.data)


def test_the_disk_that_wheels_take_is_counted_in_blocks_with_folders_and_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders, of which one has the other; 1 byte, 5000 bytes of source, half of which may be compiled."""
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as archive:
        archive.writestr("x/data/one", b"1")
        archive.writestr("x/code.py", b"#" * 5000)
    wheels = sets(tmp_path)
    monkeypatch.setattr(wheels.store, "path", lambda file, sha256: tmp_path / file)
    found = Locked(name="x", version="1", file="x-1-py3-none-any.whl", sha256="0" * 64)
    assert wheels._installed([found]) == 4096 + 8192 + 3 * 4096 + 2500  # site-packages, x, x/data


def test_torch_of_a_jetson_comes_from_the_folder_that_was_named_and_goes_with_the_kit(tmp_path: Path) -> None:
    folder = tmp_path / "jp6"
    folder.mkdir()
    add_wheel(folder, "torch", "2.8.0", tag="cp310-cp310-linux_aarch64", requires=["sympy>=1.13", "networkx"])
    source = TorchSource("torch>=2.4", ("--no-index", "--find-links", str(folder)))
    made = sets(tmp_path).get(JETSON, "full", source)
    assert made.wheels["torch"].file == "torch-2.8.0-cp310-cp310-linux_aarch64.whl"
    assert made.carried == {"edgestill", "torch"}
    system = sets(tmp_path).get(JETSON, "full", TorchSource(None))
    assert "torch" not in system.wheels
    assert "brevitas" in system.wheels


def test_packages_are_resolved_once_and_go_into_the_lock(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_wheel(index, "extra_filters", "1.1", requires=["numpy>=2", "helper; python_version < '3.12'"])
    add_wheel(index, "helper", "3.0")
    add_wheel(tmp_path, "mine", "1.0", requires=["edgestill", "extra-filters"])
    packages = ("extra-filters==1.*", "./mine-1.0-py3-none-any.whl")
    made = sets(tmp_path, *packages).get(PI, "light", None)
    assert {"extra-filters", "helper", "mine"} == set(made.wheels) - {*shipped_lock(PI, "light"), "edgestill"}
    assert made.carried == {"edgestill", "mine"}
    add_wheel(index, "extra_filters", "1.2")
    monkeypatch.setattr(wheel_set, "resolve", None)  # not called: what was found stays
    assert sets(tmp_path, *packages).get(PI, "light", None) == made


def test_a_wheel_for_another_board_is_named(tmp_path: Path) -> None:
    add_wheel(tmp_path, "fast", "1.0", tag="cp313-cp313-manylinux_2_28_aarch64")
    package = "./fast-1.0-cp313-cp313-manylinux_2_28_aarch64.whl"
    assert "fast" in sets(tmp_path, package).get(Target("arm64", "3.13"), "light", None).wheels
    with pytest.raises(ConfigError, match=r"is not for Python 3\.11 on arm64; build one that is, and name both"):
        sets(tmp_path, package).get(PI, "light", None)
