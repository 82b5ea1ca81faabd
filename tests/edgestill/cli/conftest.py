"""Fixtures of the command line's tests."""

from __future__ import annotations

import io

import pytest

from edgestill.cli import output


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is said where there is no terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(output.err, "_file", stream)  # `file` would be put back as the stream that it was then
    return stream
