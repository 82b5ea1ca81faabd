"""docs/operate-reference.md has a row for everything that an operator can see: alarms, waits, refusals, alerts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aggregator.monitoring.waiting import WAITS
from edgestill.web.views.alarms import ALARMS
from wire.refusals import RefusalReason

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operate-reference.md").read_text()
ROWS = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("|")]


def sentence(template: str) -> str:
    """A template as the page writes it: `…` for each of its fields."""
    return f"`{re.sub(r'{[a-z]+}', '…', template)}`"


@pytest.mark.parametrize("name", sorted(ALARMS))
def test_every_alarm_has_a_row(name: str) -> None:
    assert sentence(ALARMS[name]) in ROWS


@pytest.mark.parametrize("name", sorted(WAITS))
def test_every_line_about_what_is_waited_for_has_a_row(name: str) -> None:
    own = {"stuck": "`round … cannot be fused: …; …`", "paused": "`no further round until …`"}  # they quote commands
    assert own.get(name, sentence(WAITS[name])) in ROWS


@pytest.mark.parametrize("reason", [one for one in RefusalReason if one.text != "{detail}"])
def test_every_refusal_with_a_text_of_its_own_has_a_row(reason: RefusalReason) -> None:
    assert sentence(reason.text) in ROWS


def test_every_alert_rule_has_a_row() -> None:
    alerts = re.findall(r"- alert: (\w+)", (ROOT / "examples/monitoring/alerts.yml").read_text())
    told = {name for row in ROWS for name in re.findall(r"`(Edgestill\w+)`", row)}
    assert set(alerts) == told
