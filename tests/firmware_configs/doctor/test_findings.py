"""What a check says when it holds, and when it does not."""

import pytest

from firmware_configs.doctor.findings import Finding, finding

pytestmark = pytest.mark.light


def test_a_finding_is_a_failure_unless_it_is_good_or_said_to_be_a_warning() -> None:
    assert finding(True, "disk", "3 GB", "full") == Finding("ok", "disk", "3 GB")
    assert finding(False, "disk", "3 GB", "full") == Finding("failure", "disk", "full")
    assert finding(False, "board", "none") == Finding("failure", "board", "none")
    assert finding(False, "clock", "ok", "late", "warning") == Finding("warning", "clock", "late")
