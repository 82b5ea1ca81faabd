"""Versions from package metadata."""

import sys
from importlib import metadata

import pytest

from core import versions as module
from core.versions import versions

pytestmark = pytest.mark.light


def test_what_is_installed_has_its_version_and_what_is_not_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("numpy", "no-such-package-of-ours"))
    found = versions()
    assert found["numpy"] == metadata.version("numpy")
    assert found["no-such-package-of-ours"] == "not installed"
    assert found["python"] == sys.version.split()[0].rstrip("+")
    assert found["machine"]


def test_every_version_fits_the_message_that_carries_it() -> None:
    found = versions()
    assert len(found) <= 64
    assert all(isinstance(text, str) and len(text) <= 200 for text in found.values())
