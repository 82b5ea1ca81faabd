"""The user's own packages become wheels for boards."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits.own_packages import local_wheels, named_requirements
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light
PROJECT = """
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"
[project]
name = "my_models"
version = "0.1"
dependencies = ["native>=2"]
[project.entry-points."edgestill.models"]
tiny = "my_models:build"
"""


def package(folder: Path) -> Path:
    (folder / "my_models").mkdir(parents=True)
    (folder / "my_models/__init__.py").write_text("def build():\n    return None\n")
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


def test_a_folder_is_built_elsewhere_and_to_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="*** NO SETUPTOOLS: BUILDING A USER'S PACKAGE IS NOT TESTED ***")
    folder = package(tmp_path / "src")
    (made,) = local_wheels(["./src"], tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["my_models", "pyproject.toml"]
    assert made.wheel.file.startswith("my_models-0.1+k")
    assert (made.requires, made.any_platform) == (("native>=2",), True)
    assert b"edgestill.models" not in made.wheel.data[:100]
    (folder / "my_models/__init__.py").touch()
    assert local_wheels(["./src"], tmp_path) == [made]


def test_a_wheel_is_taken_as_it_is(tmp_path: Path) -> None:
    add_wheel(tmp_path, "fast", "1.0", tag="cp311-cp311-manylinux_2_28_aarch64", requires=["rich"])
    (made,) = local_wheels(["./fast-1.0-cp311-cp311-manylinux_2_28_aarch64.whl"], tmp_path)
    assert made.wheel.data == (tmp_path / made.wheel.file).read_bytes()
    assert (made.wheel.version, made.requires, made.any_platform) == ("1.0", ("rich",), False)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("./nothing", "no folder with a pyproject.toml, and no wheel"),
        ("./bad.whl", "Invalid wheel filename"),
        ("./bad-1.0-py3-none-any.whl", "not a wheel"),
    ],
)
def test_what_is_no_package_is_named(tmp_path: Path, entry: str, said: str) -> None:
    for name in ("bad.whl", "bad-1.0-py3-none-any.whl"):
        (tmp_path / name).write_text("no")
    with pytest.raises(ConfigError, match=said):
        local_wheels([entry], tmp_path)


def test_requirements_are_those_that_are_no_paths() -> None:
    assert named_requirements(["./src", "scikit-image==0.25.*", "~/other"]) == ["scikit-image==0.25.*"]
    with pytest.raises(ConfigError, match="is not a requirement"):
        named_requirements(["scikit image"])
