"""Who may read and who may act."""

import pytest
from fastapi.testclient import TestClient

from aggregator.config.fleet import FleetConfig
from edgestill.web.access import COOKIE, own_path
from edgestill.web.app import make_app
from edgestill.web.changes import Changes
from edgestill.web.token import make_token

VIEWS = ["/", "/devices", "/devices/pi-0", "/models", "/charts", "/charts.json", "/enrolments", "/audit", "/events"]


@pytest.mark.parametrize("path", VIEWS)
def test_beyond_this_machine_reading_needs_a_login(config: FleetConfig, path: str) -> None:
    browser = TestClient(
        make_app(config, Changes(config.state), open_reading=False, secure=True, loopback=False),
        base_url="https://a.example",
    )
    answer = browser.get(path, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?to=%2F")


def test_a_login_beyond_this_machine_reads(config: FleetConfig) -> None:
    browser = TestClient(
        make_app(config, Changes(config.state), open_reading=False, secure=True, loopback=False),
        base_url="https://a.example",
    )
    answer = browser.post("/login", data={"token": make_token(config.state), "to": "/devices"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/devices")
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"))
    assert browser.get("/devices").status_code == 200


def test_an_action_needs_the_form_of_its_login(operator: TestClient) -> None:
    assert operator.post("/actions/pause").status_code == 403
    assert operator.post("/actions/pause", data={"csrf": "x"}).status_code == 403
    page = operator.get("/").text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert len(csrf) > 40
    elsewhere = {"sec-fetch-site": "cross-site"}
    assert operator.post("/actions/pause", data={"csrf": csrf}, headers=elsewhere).status_code == 403
    assert operator.post("/actions/pause", data={"csrf": csrf}).status_code == 303
    operator.cookies.delete(COOKIE)
    assert operator.post("/actions/pause", data={"csrf": csrf}).status_code == 403


@pytest.mark.parametrize("text", ["https://x.example", "//x.example", "/\\x.example", "javascript:x", "", "/a\nb"])
def test_nobody_is_sent_elsewhere(text: str) -> None:
    assert own_path(text) == "/"
