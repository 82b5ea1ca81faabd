"""Logging in and out, and actions with their answers."""

from contextlib import closing

from fastapi.testclient import TestClient

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal
from edgestill.web.audit import AuditLog
from edgestill.web.sessions import TRIES
from edgestill.web.token import make_token


def csrf_of(page: str) -> str:
    return page.partition('name="csrf" value="')[2].partition('"')[0]


def test_an_action_is_answered_and_audited(config: FleetConfig, operator: TestClient) -> None:
    form = {"csrf": csrf_of(operator.get("/").text), "on": "pi-1", "to": "/devices/pi-1"}
    answer = operator.post("/actions/revoke", data=form)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/devices/pi-1?said=the+aggregator+is+not+running")
    assert (
        "the aggregator is not running: it will revoke when it starts" in operator.get(answer.headers["location"]).text
    )
    with closing(Journal(config.state / "journal.db")) as journal:
        assert [(c.verb, c.argument) for c in journal.commands()] == [("revoke", "pi-1")]
    answer = operator.post("/actions/revoke", data={**form, "on": "<i>", "to": "https://evil.example"})
    assert answer.headers["location"].startswith("/?said=refused%3A+no+device")
    entries = [(e["action"], e["on"], e["failed"]) for e in AuditLog(config.state).newest()]
    assert entries == [("revoke", "<i>", True), ("revoke", "pi-1", False), ("login", "", False)]
    assert "&lt;i&gt;" in operator.get("/audit").text


def test_wrong_tokens_are_refused_and_then_not_even_tried(config: FleetConfig, browser: TestClient) -> None:
    token = make_token(config.state)
    for _ in range(TRIES):
        answer = browser.post("/login", data={"token": "wrong"})
        assert (answer.status_code, "This is not the token" in answer.text) == (403, True)
    answer = browser.post("/login", data={"token": token})
    assert (answer.status_code, "Too many wrong tokens" in answer.text) == (429, True)
    assert not browser.cookies


def test_logging_out_ends_the_login(operator: TestClient) -> None:
    csrf = csrf_of(operator.get("/").text)
    cookies = dict(operator.cookies)
    assert operator.post("/logout", data={"csrf": csrf}).status_code == 303
    for name, value in cookies.items():
        operator.cookies.set(name, value)
    assert operator.post("/actions/pause", data={"csrf": csrf}).status_code == 403


def test_without_a_token_nobody_logs_in(browser: TestClient) -> None:
    assert browser.post("/login", data={"token": ""}).status_code == 403
