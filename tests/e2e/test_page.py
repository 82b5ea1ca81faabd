"""The page of a running fleet in Debian's Chromium: views, an action, a wrong token, a restart, many devices."""

from __future__ import annotations

import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from edgestill.web.beside import PageBeside
from edgestill.web.token import make_token
from tests.aggregator.running import NAMES, Aggregator, Devices, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import Mosquitto, free_port
from tests.edgestill.web.test_beside import answers

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service as Driver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,  # a browser takes seconds to start, and 200 MB
    pytest.mark.broker,
    pytest.mark.skipif(
        bool(MISSING), reason=f"*** {' '.join(MISSING)} MISSING (Debian: chromium chromium-driver): NO BROWSER TEST ***"
    ),
]
WAIT_S = 300.0
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1250,1150")
VIEWS = {"": "Overview", "devices": "Devices", "models": "Models", "charts": "Charts", "enrolments": "Enrolments"}


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Driver(shutil.which("chromedriver")))
    yield started
    started.quit()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Aggregator, str]]:
    """A service with three devices that does rounds without end, and the address of its page."""
    port = free_port()
    with Mosquitto(tmp_path / "mosquitto") as broker:
        path = write_fleet(tmp_path, broker.config, NAMES, round="!rounds = 100000\nmin_devices = 3\ndeadline_s = 600")
        with (
            Aggregator(path) as service,
            PageBeside(path, [f"monitor.web=127.0.0.1:{port}"]),
            Devices(broker.config, NAMES),
        ):
            service.start()
            service.until(lambda journal: journal.completed() >= 2, 180)
            wait_until(lambda: answers(port))
            yield service, f"http://127.0.0.1:{port}/"


def main(driver: webdriver.Chrome) -> str:
    """The text of the middle, read at once: the page may be replaced meanwhile."""
    return str(driver.execute_script("return document.getElementById('main')?.innerText ?? ''"))


def until(driver: webdriver.Chrome, text: str) -> None:
    WebDriverWait(driver, WAIT_S).until(lambda _: text in main(driver), f"{text!r} not in {main(driver)!r}")


def log_in(driver: webdriver.Chrome, address: str, token: str) -> None:
    driver.get(f"{address}login")
    driver.find_element(By.ID, "token").send_keys(token)
    driver.find_element(By.CSS_SELECTOR, "form.login button").click()


def complaints(driver: webdriver.Chrome) -> list[str]:
    """Scripts that fail, resources that the policy forbids; not the connections that a test has cut."""
    severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    return [text for text in severe if "ERR_" not in text and "403 (Forbidden)" not in text]


def test_views_follow_a_running_fleet(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    _, address = served
    for path, title in VIEWS.items():
        driver.get(address + path)
        until(driver, title)
    driver.get(address)
    first = driver.find_element(By.CSS_SELECTOR, ".tiles dd").text.split()[0]
    WebDriverWait(driver, WAIT_S).until(
        lambda _: driver.find_element(By.CSS_SELECTOR, ".tiles dd").text.split()[0] != first
    )  # without a reload
    driver.get(f"{address}devices/{NAMES[0]}")
    until(driver, "accepted")
    driver.get(f"{address}charts")
    WebDriverWait(driver, WAIT_S).until(lambda _: driver.find_elements(By.CSS_SELECTOR, "#chart-seconds canvas"))
    assert complaints(driver) == []


def test_an_operator_revokes_and_allows_a_device(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    service, address = served
    log_in(driver, address, "wrong")
    until(driver, "This is not the token")
    log_in(driver, address, make_token(load_fleet_config(service.config).state))
    until(driver, "Overview")
    driver.get(f"{address}devices/{NAMES[1]}")
    driver.find_element(By.CSS_SELECTOR, "details summary").click()
    driver.find_element(By.CSS_SELECTOR, 'form[action="/actions/revoke"] button').click()
    until(driver, "revoked")
    service.until(lambda journal: {row.id for row in journal.devices() if row.revoked} == {NAMES[1]})
    driver.find_element(By.CSS_SELECTOR, 'form[action="/actions/allow"] button').click()
    until(driver, "allowed")
    service.until(lambda journal: not [row for row in journal.devices() if row.revoked])
    driver.get(f"{address}audit")
    until(driver, "revoke")
    assert [text in main(driver) for text in (NAMES[1], "wrong token", "allowed")] == [True] * 3
    driver.find_element(By.CSS_SELECTOR, 'form[action="/logout"] button').click()
    until(driver, "Overview")
    assert not driver.find_elements(By.CSS_SELECTOR, 'form[action^="/actions/"]')


def test_a_service_that_restarts_under_the_open_page(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    service, address = served
    driver.get(address)
    until(driver, "Overview")
    assert service.end() == 0
    until(driver, "The aggregator is not running")
    service.start()
    WebDriverWait(driver, WAIT_S).until(lambda _: "The aggregator is not running" not in main(driver))
    assert not driver.find_element(By.ID, "connection").is_displayed()


def test_a_thousand_devices(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    service, address = served
    with closing(Journal(load_fleet_config(service.config).state / "journal.db")) as journal, journal.transaction():
        for number in range(1000):
            board = "<script>document.title = 'broken into'</script>" if number == 7 else "rpi-4"
            journal.note_device(f"many-{number:04}", status="lost", board=board, seen=1e9 + number)
    times = []
    for _ in range(5):
        began = time.monotonic()
        with urllib.request.urlopen(f"{address}devices?q=many", timeout=60) as page:
            assert b"1000 of" in page.read()
        times.append(time.monotonic() - began)
    print(f"the devices view of 1,000 devices answers in {min(times):.3f} s at best")  # noqa: T201
    driver.get(f"{address}devices?q=many")
    until(driver, "page 1 of 10")
    assert "<script>document.title" in main(driver)  # as text
    assert "broken into" not in driver.title
    driver.find_element(By.LINK_TEXT, "last heard of").click()
    until(driver, "many-0000")
    driver.find_element(By.LINK_TEXT, "last heard of").click()
    until(driver, "many-0999")
    assert driver.execute_script("return performance.memory.usedJSHeapSize") < 200e6
    assert complaints(driver) == []
