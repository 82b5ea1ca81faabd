"""Locks: what they hold is enough for edgestill on every board, and their text is read as it was written."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from core.errors import ConfigError, EdgestillError
from firmware_configs.boards import boards
from firmware_configs.kits.lock import FOLDER, Locked, lock_text, parse_lock, read_lock, shipped_lock
from firmware_configs.kits.own_wheel import project
from firmware_configs.kits.resolve import ARCHS, PYTHONS, Target

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parents[3]
TARGETS = [Target(arch, python) for arch in ARCHS for python in PYTHONS]
WHEEL = Locked(name="paho-mqtt", version="2.2.0", file="paho_mqtt-2.2.0-py3-none-any.whl", sha256="1" * 64)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.arch}-{target.python}")
@pytest.mark.parametrize("mode", ["light", "full"])
def test_a_lock_satisfies_the_ranges_of_pyproject(target: Target, mode: str) -> None:
    lock, about = shipped_lock(target, mode), project(ROOT)
    wanted = [*about["dependencies"], *(about["optional-dependencies"]["train"] if mode == "full" else ())]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate(target.environment()):
            continue
        if name == "torch" and target.arch == "amd64":
            assert name not in lock  # its CPU builds are not at the usual index: kits/torch_source.py
        else:
            assert requirement.specifier.contains(lock[name].version), requirement
    assert ("torch" in lock) == (mode == "full" and target.arch == "arm64")


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_wheels_are_for_the_architecture_and_python_of_their_lock_and_bring_no_gpu(path: Path) -> None:
    found = re.fullmatch(r"(arm64|amd64)-py3\.(\d+)-(light|full)\.txt", path.name)
    assert found is not None
    for name, wheel in read_lock(path).items():
        _, version, _, tags = parse_wheel_filename(wheel.file)
        assert str(version) == wheel.version
        assert not name.startswith(("nvidia", "triton", "cuda")), path.name
        assert {tag.platform for tag in tags} == {"any"} or all(tag.platform.endswith(ARCHS[found[1]]) for tag in tags)
        for tag in tags:
            compiled = re.fullmatch(r"cp3(\d+)", tag.interpreter)
            assert (
                compiled is None or compiled[1] == found[2] or (tag.abi == "abi3" and int(compiled[1]) <= int(found[2]))
            )


def test_every_board_has_locks_for_all_its_systems() -> None:
    for board in boards().values():
        for family in board.os:
            assert shipped_lock(Target(board.arch, board.python[family]), board.mode)


def test_a_lock_is_read_as_it_was_written() -> None:
    text = lock_text({"paho-mqtt": WHEEL}, "of a test")
    assert text == (
        "# of a test\n# paho_mqtt-2.2.0-py3-none-any.whl\npaho-mqtt==2.2.0 \\\n    --hash=sha256:" + "1" * 64 + "\n"
    )
    assert parse_lock(text, "x.txt") == {"paho-mqtt": WHEEL}
    with pytest.raises(ConfigError, match=r"x\.txt: 'rich>=13' is not of the form"):
        parse_lock(text + "rich>=13\n", "x.txt")


def test_a_python_without_a_lock_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"no lock for Python 3\.9 on arm64; there is one for 3\.10 3\.11 3\.12 3\.13"
    ):
        shipped_lock(Target("arm64", "3.9"), "light")


@pytest.mark.parametrize(("file", "digest"), [("../rich-1-py3-none-any.whl", "1" * 64), (WHEEL.file, "1")])
def test_a_wheel_of_another_package_or_without_a_hash_is_refused(file: str, digest: str) -> None:
    with pytest.raises(EdgestillError):
        Locked(name="rich", version="1", file=file, sha256=digest)
