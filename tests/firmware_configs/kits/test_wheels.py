"""`_wheels`: one copy of each wheel, fetched once, checked whenever it is used."""

import hashlib
from pathlib import Path

import pytest

from core.errors import ConfigError, SignatureError
from firmware_configs.kits import wheels as module
from firmware_configs.kits.kit import Kit, KitWheel
from firmware_configs.kits.lock import Locked
from firmware_configs.kits.own_wheel import Wheel
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.wheels import STORE, WheelStore, file_digest, kit_wheels
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light
PI = Target("arm64", "3.11")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    index = tmp_path / "index"
    index.mkdir()
    add_wheel(index, "native", "2.0", tag="cp311-cp311-manylinux_2_28_aarch64")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def locked(index: Path) -> Locked:
    path = next(index.glob("native-*"))
    return Locked(name="native", version="2.0", file=path.name, sha256=file_digest(path))


def test_a_wheel_is_fetched_once_and_again_if_it_was_damaged(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, folder = locked(index), tmp_path / STORE
    assert WheelStore(folder).fetch({"native": wheel}, PI) == 1
    path = folder / wheel.sha256 / wheel.file
    assert file_digest(path) == wheel.sha256
    assert [child.name for child in folder.iterdir()] == [wheel.sha256]
    path.write_bytes(b"damaged")
    assert WheelStore(folder).fetch({"native": wheel}, PI) == 1
    monkeypatch.setattr(module, "pip", None)  # not called
    assert WheelStore(folder).fetch({"native": wheel}, PI) == 0


def test_another_wheel_of_the_same_name_is_refused(tmp_path: Path, index: Path) -> None:
    wheel = locked(index)
    wrong = Locked(name="native", version="2.0", file=wheel.file, sha256="2" * 64)
    with pytest.raises(ConfigError, match="pip download failed: "):
        WheelStore(tmp_path / STORE).fetch({"native": wrong}, PI)
    assert not list((tmp_path / STORE).rglob("*.whl"))


def test_a_wheel_that_was_made_here_is_kept(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / STORE)
    made = store.put(Wheel("My_Models", "1.0", "My_Models-1.0-py3-none-any.whl", b"data"))
    assert (made.name, made.sha256) == ("my-models", hashlib.sha256(b"data").hexdigest())
    assert store.has(made.file, made.sha256)
    assert not store.has(made.file, "0" * 64)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    facts = {"fleet": "home", "device": "pi-07", "board": "rpi-4", "os": ("bookworm", "cloud-init"), "files": {}}
    wheels = {}
    for name, families in {"both": ("bookworm", "cloud-init"), "new": ("cloud-init",)}.items():
        digest = hashlib.sha256(name.encode()).hexdigest()
        wheels[f"{name}-1.whl"] = KitWheel(digest, len(name), families)
        (tmp_path / STORE / digest).mkdir(parents=True)
        (tmp_path / STORE / digest / f"{name}-1.whl").write_text(name)
    return Kit(created="2026-11-16T10:00:00Z", wheels=wheels, **facts)


def test_a_family_gets_its_wheels_alone(tmp_path: Path, kit: Kit) -> None:
    assert set(kit_wheels(kit, tmp_path)) == {"both-1.whl", "new-1.whl"}
    assert set(kit_wheels(kit, tmp_path, ["bookworm"])) == {"both-1.whl"}


def test_a_wheel_that_was_changed_or_is_missing_is_named(tmp_path: Path, kit: Kit) -> None:
    path = kit_wheels(kit, tmp_path)["new-1.whl"]
    path.write_text("now")
    with pytest.raises(SignatureError, match=r"new-1\.whl is not the wheel that was signed"):
        kit_wheels(kit, tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match=r"new-1\.whl is missing; run `edgestill provision` again"):
        kit_wheels(kit, tmp_path)
    assert kit_wheels(kit, tmp_path, ["bookworm"])  # which does not need it
    path.symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="symbolic link"):
        kit_wheels(kit, tmp_path)
