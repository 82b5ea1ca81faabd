"""The views as a browser gets them."""

import pytest
from fastapi.testclient import TestClient

from edgestill.web.changes import Changes
from edgestill.web.reading import _stream

TITLES = {"/": "Overview", "/devices": "Devices", "/devices/pi-0": "pi-0", "/models": "Models", "/charts": "Charts"}
MORE = {"/enrolments": "Enrolments", "/audit": "Audit", "/login": "Log in"}


@pytest.mark.parametrize(("path", "title"), [*TITLES.items(), *MORE.items()])
def test_every_view_is_a_page_or_its_middle(browser: TestClient, path: str, title: str) -> None:
    page = browser.get(path)
    assert (page.status_code, f"<h1>{title}</h1>" in page.text) == (200, True)
    assert page.text.startswith("<!DOCTYPE html>")
    part = browser.get(path, headers={"x-fragment": "1"}).text
    assert f"<h1>{title}</h1>" in part
    assert "<html" not in part


def test_what_devices_say_is_text(browser: TestClient) -> None:
    pages = [browser.get(path).text for path in ("/", "/devices", "/devices/pi-2")]
    assert "&lt;b&gt;a shape&lt;/b&gt;" in pages[0]
    for page in pages[1:]:
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script>alert" not in page


def test_buttons_are_for_operators(operator: TestClient) -> None:
    for path, action in {
        "/": "/actions/skip",
        "/devices/pi-0": "/actions/revoke",
        "/models": "/actions/rollback",
    }.items():
        assert action in operator.get(path).text
    assert "/actions/allow" in operator.get("/devices/pi-2").text  # is revoked
    operator.cookies.clear()
    assert "/actions/" not in operator.get("/").text


def test_links_keep_what_was_asked(browser: TestClient) -> None:
    page = browser.get("/devices?sort=seen&order=&state=online&q=a%26b").text
    assert 'href="/devices?sort=seen&amp;order=down&amp;state=online&amp;q=a%26b"' in page
    assert 'aria-sort="ascending"' in page


@pytest.mark.parametrize("path", ["/devices/nobody", "/devices/..%2f..%2fetc", "/nothing", "/static/../app.py"])
def test_what_is_not_there(browser: TestClient, path: str) -> None:
    assert browser.get(path).status_code == 404


def test_too_long_a_question_is_refused(browser: TestClient) -> None:
    assert browser.get(f"/devices?q={'x' * 1000}").status_code == 422


@pytest.mark.anyio
async def test_the_stream_speaks_server_sent_events(monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(_: Changes):
        for number in (0, 1, 2):
            yield number

    monkeypatch.setattr(Changes, "follow", follow)
    lines = [text async for text in _stream(Changes(None))]  # type: ignore[arg-type]
    assert lines == ["retry: 2000\n\n", ": alive\n\n", "event: changed\ndata: 1\n\n", "event: changed\ndata: 2\n\n"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
