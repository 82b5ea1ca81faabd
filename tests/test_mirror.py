"""Every module has a mirrored test: a/b/c.py is tested by tests/a/b/test_c.py."""

from pathlib import Path

import pytest

from tests.test_layering import ORDER

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parent.parent


def modules() -> set[str]:
    """All modules but those that hold a package's words, or start it."""
    found = {path for package in ORDER for path in (ROOT / package).rglob("*.py")}
    return {str(path.relative_to(ROOT)) for path in found if path.name not in ("__init__.py", "__main__.py")}


def test_every_module_has_a_mirrored_test() -> None:
    assert sorted(name for name in modules() if not _test_of(name).exists()) == []


def _test_of(module: str) -> Path:
    path = ROOT / "tests" / module
    return path.with_name(f"test_{path.name}")
