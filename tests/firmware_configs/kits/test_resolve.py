"""Requirements are resolved for the board: its wheels, and its markers, not those of this machine."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits.resolve import Found, Target, parse_requirement, pip, reachable, resolve
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light
PI = Target("arm64", "3.11")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of pip's world."""
    index = tmp_path / "index"
    index.mkdir()
    on_arm = 'arm-only; platform_machine == "aarch64"'
    on_x86 = 'gpu-libraries; platform_machine == "x86_64"'
    add_wheel(index, "heavy", "1.0", requires=["native>=2", on_arm, on_x86, "fast; extra == 'fast'"], extras=["fast"])
    add_wheel(index, "arm_only", "1.0", requires=["native<3"])
    add_wheel(index, "fast", "1.0")
    for version in ("1.0", "2.0", "3.0"):
        for platform in ("manylinux_2_28_aarch64", "manylinux_2_28_x86_64"):
            add_wheel(index, "native", version, tag=f"cp311-cp311-{platform}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def test_platform_tags_go_from_new_to_old() -> None:
    tags = PI.platforms()
    assert tags[0] == "manylinux_2_28_aarch64"
    assert tags[-3:] == ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64"]


def test_markers_are_those_of_the_board_and_a_late_requirement_is_heeded(index: Path) -> None:
    found = resolve(["heavy"], PI)
    assert {name: wheel.version for name, wheel in found.items()} == {
        "heavy": "1.0",
        "arm-only": "1.0",
        "native": "2.0",
    }
    assert found["native"].file == "native-2.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    assert len(found["native"].sha256) == 64


def test_a_pinned_package_is_not_looked_for_and_what_excludes_it_is_named(index: Path) -> None:
    assert set(resolve(["heavy"], PI, pins={"native": "2.5"})) == {"heavy", "arm-only"}
    with pytest.raises(ConfigError, match=r"native>=2 \(heavy requires it\) does not fit the kit's native 1\.0"):
        resolve(["heavy"], PI, pins={"native": "1.0"})


@pytest.mark.slow  # pip takes seconds to say anything
def test_what_has_no_wheel_for_the_board_is_named(index: Path) -> None:
    with pytest.raises(ConfigError, match="pip install failed: No matching distribution found for native"):
        resolve(["native"], Target("arm64", "3.13"))


def test_what_is_reachable_follows_markers_and_extras() -> None:
    def wheel(name: str, *requires: str) -> Found:
        return Found(name=name, version="1", file=f"{name}-1-py3-none-any.whl", sha256="0" * 64, requires=requires)

    found = {
        "a": wheel("a", "b; extra == 'more'", 'c; python_version < "3.11"'),
        "b": wheel("b", "a"),
        "c": wheel("c"),
        "d": wheel("d"),
    }
    assert reachable(["a"], found, PI) == {"a"}
    assert reachable(["a[more]", 'd; sys_platform == "win32"'], found, PI) == {"a", "b"}
    assert reachable(["a"], found, Target("amd64", "3.10")) == {"a", "c"}
    assert reachable(["a", "d"], found, PI, without=["d"]) == {"a"}


def test_what_is_no_requirement_is_refused() -> None:
    with pytest.raises(ConfigError, match="'scikit image' is not a requirement"):
        parse_requirement("scikit image")


def test_pips_reason_is_told_in_a_line() -> None:
    with pytest.raises(ConfigError, match="pip download failed: "):
        pip("download", "--no-index", "--only-binary=:all:", "nothing-of-this-name")
