"""edgestill's own wheel: whole, the same bytes every time, and a new version with every change."""

import hashlib
import subprocess
import sys
import zipfile
from importlib import metadata
from io import BytesIO
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from firmware_configs.kits import own_wheel as module
from firmware_configs.kits.own_wheel import ROOT, Wheel, make_wheel, own_wheel, project

pytestmark = pytest.mark.light
FILES = {
    "tiny/__init__.py": b"",
    "INFO/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "INFO/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def content(wheel: Wheel) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(wheel.data)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_every_file_of_the_packages_and_leaves_nothing_behind() -> None:
    before = sorted(path.name for path in ROOT.iterdir())
    wheel = own_wheel()
    assert sorted(path.name for path in ROOT.iterdir()) == before
    files = content(wheel)
    for name in ("core/errors.py", "firmware_configs/locks/arm64-py3.11-full.txt", "edgestill/cli/main.py"):
        assert files[name] == (ROOT / name).read_bytes()
    assert not [name for name in files if "__pycache__" in name or name.startswith("tests/")]
    info = f"edgestill-{wheel.version}.dist-info"
    assert b"edgestill = edgestill.cli.main:main" in files[f"{info}/entry_points.txt"]
    about = files[f"{info}/METADATA"].decode()
    for requirement in project(ROOT)["dependencies"]:
        assert f"Requires-Dist: {requirement}\n" in about
    assert 'Requires-Dist: torch>=2.4; extra == "train"\n' in about


def test_the_record_has_the_hash_of_every_file() -> None:
    files = content(own_wheel())
    (record,) = (files[name].decode() for name in files if name.endswith("/RECORD"))
    assert {line.split(",")[0] for line in record.splitlines()} == set(files)


def test_the_bytes_follow_from_the_content() -> None:
    assert make_wheel("tiny", FILES) == make_wheel("tiny", dict(reversed(FILES.items())))
    changed = make_wheel("tiny", {**FILES, "tiny/__init__.py": b"x = 1\n"})
    assert changed.version != make_wheel("tiny", FILES).version
    name, version, _, _ = parse_wheel_filename(changed.file)
    assert (name, version.public, str(version)) == ("tiny", "1.0", changed.version)
    assert changed.sha256 == hashlib.sha256(changed.data).hexdigest()


def test_every_requirement_is_one_to_pip() -> None:
    """pip 24.1 and newer refuse a wheel with a requirement of another form."""
    (info,) = (data for name, data in content(own_wheel()).items() if name.endswith(".dist-info/METADATA"))
    lines = [line.partition(": ")[2] for line in info.decode().splitlines() if line.startswith("Requires-Dist: ")]
    parsed = [Requirement(line) for line in lines]
    assert any("python_version" in str(one.marker) and "extra" in str(one.marker) for one in parsed)


def test_a_version_with_a_local_part_gets_a_further_one() -> None:
    files = {**FILES, "INFO/METADATA": FILES["INFO/METADATA"].replace(b"1.0", b"1.0+mine")}
    assert make_wheel("tiny", files).version.startswith("1.0+mine.k")


def test_an_installed_wheel_is_packed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip has installed from the wheel of the source tree gives the same packages."""
    made = own_wheel()
    (tmp_path / made.file).write_bytes(made.data)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target"]
    subprocess.run([*pip, str(tmp_path / "site"), str(tmp_path / made.file)], check=True, timeout=120)
    (found,) = metadata.distributions(name="edgestill", path=[str(tmp_path / "site")])
    monkeypatch.setattr(module, "ROOT", tmp_path / "site")
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    again = content(own_wheel.__wrapped__())
    packages = {name: data for name, data in content(made).items() if ".dist-info/" not in name}
    assert {name: data for name, data in again.items() if ".dist-info/" not in name} == packages
    assert [name for name in again if name.endswith("/entry_points.txt")]
    assert not [name for name in again if name.endswith(("INSTALLER", "REQUESTED", "direct_url.json"))]
