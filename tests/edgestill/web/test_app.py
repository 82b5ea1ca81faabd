"""What holds for every answer."""

import pytest
from fastapi.testclient import TestClient

from aggregator.config.fleet import FleetConfig
from edgestill.web.app import make_app
from edgestill.web.changes import Changes
from tests.edgestill.web.conftest import LOCAL


@pytest.mark.parametrize("path", ["/", "/charts.json", "/static/page.js", "/theme.css", "/nothing", "/login"])
def test_the_browser_is_told_to_load_nothing_from_elsewhere(browser: TestClient, path: str) -> None:
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_a_name_of_elsewhere_that_points_here_reads_nothing(browser: TestClient) -> None:
    assert browser.get("/", headers={"host": "evil.example"}).status_code == 400
    assert browser.get("/", headers={"host": "localhost:8080"}).status_code == 200
    assert browser.get("/", headers={"host": "[::1]:8080"}).status_code == 200


def test_what_is_served_is_what_the_page_names(browser: TestClient) -> None:
    page = browser.get("/").text
    names = {part.partition('"')[0] for part in page.replace('src="', 'href="').split('href="')[1:]}
    files = {name for name in names if name.endswith((".js", ".css", ".svg"))}
    assert len(files) == 6
    assert {browser.get(name).status_code for name in files} == {200}


def test_a_fleet_that_never_started_says_so(config: FleetConfig) -> None:
    (config.state / "journal.db").unlink()
    browser = TestClient(
        make_app(config, Changes(config.state), open_reading=True, secure=False, loopback=True), base_url=LOCAL
    )
    answer = browser.get("/")
    assert (answer.status_code, "has the aggregator of this fleet been started?" in answer.text) == (503, True)
