"""The page over real agents in Debian's Chromium: progress, board, log, settings, downloads, runs; keyboard, phone.

With EDGESTILL_SCREENSHOTS=FOLDER the pictures of docs/operate.md are written there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.config.fleet import load_fleet_config
from edgestill.web.beside import PageBeside
from edgestill.web.token import make_token
from tests.aggregator.running import Aggregator, wait_until
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.brokers import Mosquitto, free_port
from tests.e2e.test_page import complaints, driver, log_in, main, pytestmark, until
from tests.edge_agent.scripted import start_agent
from tests.edgestill.web.test_beside import answers
from tests.edgestill.web.views.test_simulations import a_run
from wire.ids import AGGREGATOR
from wire.keys import public_key_hex, save_private_key

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

__all__ = ["driver", "pytestmark"]

BOARDS = {"pi-0": ("mlp:fp32", "rpi-4"), "pi-1": ("cnn:w1", "rpi-5")}
VIEWS = ("", "devices", "devices/pi-0", "models", "charts", "enrolments", "audit", "runs", "login")
WAIT_S = 300.0
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def write_agent(folder: Path, device: str, port: int) -> Path:
    folder.mkdir()
    save_private_key(key_of(device), folder / "device.pem")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 1, 8, 8)).astype(np.float32), rng.integers(3, size=60)
    np.savez(folder / "samples.npz", x=x, y=y.astype(np.int64))
    prototype, board = BOARDS[device]
    (folder / "agent.toml").write_text(f"""
[agent]
fleet = "{FLEET}"
device = "{device}"
board = "{board}"
state_dir = "state"
telemetry_s = 1
[broker]
port = {port}
[keys]
private = "device.pem"
aggregator = "{public_key_hex(key_of(AGGREGATOR).public_key())}"
[model]
prototype = "{prototype}"
[data]
path = "samples.npz"
""")
    return folder / "agent.toml"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Aggregator, str]]:
    """A fleet of two real agents in a round of an hour, and the address of its page."""
    folder, port = tmp_path_factory.mktemp("fleet"), free_port()
    a_run(folder / "runs", "fedavg", [0.5, 0.7, 0.8], 1_760_000_000)
    a_run(folder / "runs", "edgestill", [0.6, 0.8, 0.9], 1_760_000_100)
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(folder / "mosquitto"))
        path = write_fleet(
            folder / "aggregator",
            broker.config,
            list(BOARDS),
            round="!rounds = 9\nmin_devices = 2\ndeadline_s = 3600",
            train="!lr = 0.0001\nbatch_size = 4\nsteps = 10000000",
            monitor='runs = "../runs"',
        )
        service = stack.enter_context(Aggregator(path))
        stack.enter_context(PageBeside(path, [f"monitor.web=127.0.0.1:{port}"]))
        agents = [start_agent(write_agent(folder / name, name, broker.config.port)) for name in BOARDS]
        stack.callback(_end, agents)
        service.start()
        wait_until(lambda: answers(port), 300)
        service.until(lambda journal: journal.last_round() is not None, 300)
        yield service, f"http://127.0.0.1:{port}/"


def _end(agents: list[subprocess.Popen]) -> None:
    for agent in agents:
        agent.kill()
        agent.wait()


def picture(driver: webdriver.Chrome, name: str) -> None:
    if folder := os.environ.get("EDGESTILL_SCREENSHOTS"):
        driver.save_screenshot(str(Path(folder) / f"web-{name}.png"))


def read(driver: webdriver.Chrome, script: str) -> Any:
    """The value of an expression, at once: the page replaces its middle while a test looks at it."""
    return driver.execute_script(f"return {script}")


def click(driver: webdriver.Chrome, selector: str) -> None:
    WebDriverWait(driver, WAIT_S).until(lambda _: read(driver, f"document.querySelector({selector!r}) !== null"))
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def press(driver: webdriver.Chrome, *keys: str) -> None:
    webdriver.ActionChains(driver).send_keys(*keys).perform()


def token(service: Aggregator) -> str:
    return make_token(load_fleet_config(service.config).state)


def test_the_round_is_seen_on_the_boards(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    _, address = served
    driver.get(address)
    until(driver, "of 10,000,000 steps")
    WebDriverWait(driver, WAIT_S).until(lambda _: len(driver.find_elements(By.CSS_SELECTOR, "progress")) == 2)
    picture(driver, "live")
    before = main(driver)
    WebDriverWait(driver, WAIT_S).until(lambda _: main(driver) != before)  # it moves without a reload
    driver.get(f"{address}devices")
    until(driver, "rpi-4")
    place = "[...document.querySelectorAll('thead th')].findIndex((th) => th.textContent === 'load')"
    load = f"document.querySelector('tbody tr').children[{place}].textContent"
    WebDriverWait(driver, WAIT_S).until(lambda _: read(driver, load) != "")
    assert float(read(driver, load)) >= 0
    assert complaints(driver) == []


def test_a_devices_board_log_and_settings(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    service, address = served
    log_in(driver, address, token(service))
    until(driver, "Overview")
    driver.get(f"{address}devices/pi-0")
    until(driver, "MB free")
    click(driver, 'form[action="/actions/log"] button')
    until(driver, "training in process")  # a line of the agent's own log
    read(driver, "document.getElementById('value-set-pi-0train.threads').focus()")
    press(driver, "2", Keys.ENTER)
    until(driver, "sent to pi-0 as settings")

    row = "[...document.querySelectorAll('tr')].find((tr) => tr.children[0].textContent === 'train.threads')"
    cells = f"[...{row}.children].slice(1, 3).map((cell) => cell.textContent)"
    WebDriverWait(driver, WAIT_S).until(lambda _: read(driver, cells) == ["2", "2"])
    driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    picture(driver, "device")
    assert complaints(driver) == []


@pytest.mark.parametrize(("form", "start"), [("onnx", b"\x08"), ("safetensors", b"")])
def test_a_model_is_downloaded_whole(
    driver: webdriver.Chrome, served: tuple[Aggregator, str], form: str, start: bytes
) -> None:
    service, address = served
    log_in(driver, address, token(service))
    until(driver, "Overview")
    driver.get(f"{address}models")
    link = driver.find_element(By.CSS_SELECTOR, f'a[href$=".{form}"]')
    driver.set_script_timeout(WAIT_S)
    code, size, first = driver.execute_async_script(
        "const [url, done] = arguments; fetch(url).then(async (a) => {"
        "const b = new Uint8Array(await a.arrayBuffer()); done([a.status, b.length, b[0]]); });",
        link.get_attribute("href"),
    )
    assert code == 200
    assert size > 1000
    assert bytes([first]).startswith(start)


def test_runs_side_by_side(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    _, address = served
    driver.get(f"{address}runs")
    until(driver, "edgestill")
    WebDriverWait(driver, WAIT_S).until(lambda _: driver.find_elements(By.CSS_SELECTOR, "#chart-accuracy canvas"))
    assert "90.0 %" in main(driver)
    picture(driver, "runs")
    click(driver, 'input[value="edgestill"]')
    click(driver, "form[action='/runs'] button")
    WebDriverWait(driver, WAIT_S).until(lambda _: driver.current_url.endswith("runs?run=fedavg"))
    assert complaints(driver) == []


def test_by_keyboard_alone(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    _, address = served
    driver.get(address)
    until(driver, "pi-1")
    active = "document.activeElement.textContent.trim()"
    press(driver, Keys.TAB)
    assert read(driver, active) == "To the contents"
    for _ in range(40):  # tab stops of the header and of the actions
        press(driver, Keys.TAB)
        if read(driver, active) == "pi-1":
            break
    assert read(driver, "getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = main(driver)
    WebDriverWait(driver, WAIT_S).until(lambda _: main(driver) != before)  # the middle was replaced
    assert read(driver, active) == "pi-1"
    press(driver, Keys.ENTER)
    until(driver, "last heard of")
    assert driver.current_url == f"{address}devices/pi-1"


def test_on_a_phone_no_view_is_wider_than_the_screen(driver: webdriver.Chrome, served: tuple[Aggregator, str]) -> None:
    _, address = served
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        for view in VIEWS:
            driver.get(address + view)
            until(driver, "")
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert (view, wide) == (view, PHONE["width"])
            if view == "":
                until(driver, "steps")
                picture(driver, "phone")
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
