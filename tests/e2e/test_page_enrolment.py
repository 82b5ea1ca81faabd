"""A board that made its own keys is approved on the page, by the fingerprint that it shows, and takes part."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from edgestill.web.token import make_token
from tests.aggregator.running import wait_until
from tests.brokers import free_port
from tests.e2e.provisioned import provisioned
from tests.e2e.test_enrolled_fleet import groups, shown
from tests.e2e.test_page import driver, log_in, main, pytestmark, until
from tests.e2e.test_page_agents import picture, press
from tests.edgestill.web.test_beside import answers
from tests.transport.events import eventually

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

__all__ = ["driver", "pytestmark"]
FIELD = "document.querySelector('form[action=\"/actions/approve\"] input[name=value]')"


def approve(driver: webdriver.Chrome, address: str, fingerprint: str) -> None:
    """As an operator who types what the board shows."""
    driver.get(f"{address}enrolments")
    until(driver, "waiting")
    driver.execute_script(f"{FIELD}.focus()")
    press(driver, fingerprint, Keys.ENTER)


def test_a_board_is_approved_on_the_page_and_joins_the_round(driver: webdriver.Chrome, tmp_path: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/"
    with provisioned(tmp_path, count=1, devices=2, groups=groups(tmp_path)) as fleet, fleet.broker:
        web = ["--web", f"127.0.0.1:{port}"]
        fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", *web])
        for name in ("pi-01", "asked"):
            fleet.start(name)
        wait_until(lambda: answers(port), 120)
        assert eventually(lambda: "enrolment: waiting" in fleet.said("asked"), 120)
        (fingerprint,) = set(shown(fleet, "asked"))
        log_in(driver, address, make_token(load_fleet_config(fleet.folder / "fleet.toml", environ={}).state))
        until(driver, "Overview")
        until(driver, "1 boards ask for a certificate: asked")
        driver.get(f"{address}enrolments")
        until(driver, fingerprint)
        picture(driver, "enrolments")
        approve(driver, address, "0" * 4 + fingerprint[4:])
        until(driver, "is it your board?")
        approve(driver, address, fingerprint)
        until(driver, "asked: approved")
        fleet.until(lambda journal: journal.completed() == 1)
        with closing(fleet.journal()) as journal:
            assert [row.device for row in journal.updates(1)] == ["asked", "pi-01"]
        driver.get(f"{address}audit")
        until(driver, "approve")
        assert fingerprint in main(driver)
