"""300 rounds over the broker that is provisioned with the fleet, as an operator lives through them in some weeks.

Three real agents (one trains with torch; two are light, of which one is updated by a bundle and one is lost) and
scripted devices that follow the protocol; they join, leave, are revoked, throttled, refused. The page is open in a
browser, and a Prometheus scrapes. At the end: memory has not grown, every line of a log above `info` has an explanation
here, and every device that was refused or lost is named. EDGESTILL_SOAK_ROUNDS makes it shorter; memory is compared
from 150 on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch

from aggregator.config.fleet import load_fleet_config
from edgestill.web.token import make_token
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from tests.aggregator.running import wait_until
from tests.aggregator.scripted import FLEET, Device, key_of, make_update
from tests.aggregator.test_monitoring import MISSING as NO_PROMETHEUS
from tests.aggregator.test_monitoring import ask, prometheus
from tests.brokers import free_port
from tests.e2e.provisioned import Fleet, provisioned
from tests.e2e.test_page import driver, log_in, main, until
from tests.e2e.test_page import pytestmark as browser_marks
from tests.e2e.test_page_agents import click, picture
from tests.e2e.test_upgraded_fleet import Board, stage, update, version
from tests.firmware_configs.own_board import ARCH, PYTHON
from transport.config import BrokerConfig, TlsConfig
from wire.board_reports import Telemetry
from wire.chunks import DEFAULT_CHUNK
from wire.ids import AGGREGATOR
from wire.keys import save_private_key, save_public_key
from wire.messages import Job
from wire.refusals import RefusalReason

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402

__all__ = ["driver"]
pytestmark = [
    *browser_marks,
    pytest.mark.skipif(bool(NO_PROMETHEUS), reason=f"*** {NO_PROMETHEUS} MISSING: NO SOAK ***"),
]

ROUNDS = int(os.environ.get("EDGESTILL_SOAK_ROUNDS", "300"))
LEAST = 150  # rounds from which memory is compared
GROWTH_MB = 5.0
SIMULATED = [f"sim-{number}" for number in range(9)]
JOINS, LEAVES, REVOKED, BAD, SLOW, NEW = SIMULATED[:6]
SERVED = f"""
[fleet]
id = "{FLEET}"
[broker]
host = "127.0.0.1"
port = {{port}}
[broker.tls]
ca = "kits/_fleet/aggregator/ca.pem"
cert = "kits/_fleet/aggregator/aggregator.pem"
key = "kits/_fleet/aggregator/aggregator.key"
[devices]
keys_dir = "kits/_fleet/devices"
[state]
dir = "state"
key = "aggregator.key"
history_rounds = 60
[models]
last = 5
every = 50
[task]
input_shape = [1, 8, 8]
classes = 3
latent = 8
[prototypes]
names = ["mlp:fp32"]
[round]
rounds = {{rounds}}
min_devices = {{devices}}
fraction = 0.3
quorum = 0.3
deadline_s = 20
throttled = "leave-out"
[train]
steps = 2
batch_size = 8
"""
GROUPS = f"""
[[group]]
name = "sim"
board = "rpi-4"
devices = {json.dumps(SIMULATED)}
prototype = "mlp:fp32"
[[group]]
name = "light"
board = "generic-{ARCH}"
devices = ["pc", "gone"]
os = ["generic"]
python = "{PYTHON}"
prototype = "mlp:fp32"
graph = "mlp.onnx"
data = "{{samples}}"
[group.settings.train]
mode = "light"
"""
#: Every line above `info` that may stand in a log, and why.
EXPLAINED = {
    r"update from 'sim-3' refused: ": "it sends tensors of another shape, on purpose",
    r"round \d+: below the quorum at the deadline": "devices were lost in this round",
    r"round \d+: \d of \d devices lost: ": "the same: named with the reason",
    r"refused: late: round \d+ is closed": "a device was slower than the deadline, on a busy machine",
    r"capped by \[fusion\] max_examples_ratio": "real agents have 120 samples, scripted ones a dozen",
    r"round \d+ goes on without 'sim-2': revoked": "it was revoked",
    r"round \d+ abandoned: ": "too few devices were left in the round",
}


@dataclass
class Soak:
    """One fleet, its devices, and what was measured of it."""

    fleet: Fleet
    board: Board
    page: str
    driver: webdriver.Chrome
    prometheus: str
    devices: dict[str, Device] = field(default_factory=dict)
    memory: dict[str, dict[int, float]] = field(default_factory=dict)  # by process and round, MB

    @property
    def state(self) -> Path:
        return self.fleet.folder / "state"

    def device(self, name: str) -> Device:
        """Start a scripted device with the certificate of its kit."""
        tls = self.fleet.kits / name / "tls"
        ca = self.fleet.kits / "_fleet" / AGGREGATOR / "ca.pem"
        config = TlsConfig(ca=ca, cert=tls / "device.pem", key=tls / "device.key")
        made = Device(name, "mlp:fp32", BrokerConfig(port=self.fleet.broker.port, tls=config), chunk_size=DEFAULT_CHUNK)
        made.one_topic = True
        self.devices[name] = made
        return made

    def measure(self, number: int) -> None:
        """Resident memory of the service, its worker, its page, and the agent with torch."""
        service = self.fleet.children.running["aggregator"].pid
        pids = {"service": service, "agent": self.fleet.children.running["pi-01"].pid}
        for child in Path(f"/proc/{service}/task/{service}/children").read_text().split():
            with suppress(OSError):  # it has ended meanwhile
                line = Path(f"/proc/{child}/cmdline").read_bytes()
                pids["page" if b"edgestill.web" in line else "worker"] = int(child)
        for name, pid in pids.items():
            with suppress(OSError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                self.memory.setdefault(name, {})[number] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.fixture
def soak(tmp_path: Path, driver: webdriver.Chrome) -> Iterator[Soak]:
    """A fleet with its service, page and real agents; the scripted devices are not started."""
    save_private_key(key_of(AGGREGATOR), tmp_path / "aggregator.key")
    arch, precision = parse_prototype("mlp:fp32")
    model = build(PrototypeSpec(arch, precision, (1, 8, 8), 3, 8), generator=torch.Generator().manual_seed(0))
    export_onnx(model, torch.zeros(2, 1, 8, 8), tmp_path / "mlp.onnx")
    groups = GROUPS.replace("{samples}", str(tmp_path / "samples.npz"))
    web, metrics = free_port(), free_port()
    with ExitStack() as stack:
        fleet = stack.enter_context(
            provisioned(tmp_path, count=1, devices=3, rounds=100_000, groups=groups, served=SERVED)
        )
        for name in SIMULATED:
            save_public_key(key_of(name).public_key(), fleet.kits / f"_fleet/devices/{name}.pub")
        shutil.move(fleet.kits / f"_fleet/devices/{NEW}.pub", tmp_path)  # it joins later
        stack.enter_context(fleet.broker)
        options = ["--web", f"127.0.0.1:{web}", "--metrics", f"127.0.0.1:{metrics}"]
        fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", *options])
        for name in ("pi-01", "gone"):
            fleet.start(name)
        board = Board(tmp_path / "board", fleet)
        stack.callback(board.stop)
        scraped = stack.enter_context(prometheus(tmp_path / "prometheus", f"127.0.0.1:{metrics}"))
        made = Soak(fleet, board, f"http://127.0.0.1:{web}/", driver, scraped)
        stack.callback(lambda: [device.end() for device in made.devices.values() if device.is_alive()])
        yield made


def wrong(count: int) -> Callable[[str, Job, bytes], bytes]:
    """Updates of which the first few have tensors of another shape."""
    left = [count]

    def make(device: str, job: Job, artifact: bytes, **changes: object) -> bytes:
        if left[0] > 0:
            left[0] -= 1
            changes["tensors"] = {"w": np.zeros(3, np.float32)}
        return make_update(device, job, artifact, **changes)

    return make


def events(soak: Soak) -> dict[int, Callable[[], object]]:
    """What happens, by the hundredth of the rounds."""
    config = soak.fleet.folder / "fleet.toml"

    def revoke() -> None:
        log_in(soak.driver, soak.page, make_token(load_fleet_config(config, environ={}).state))
        until(soak.driver, "Overview")
        soak.driver.get(f"{soak.page}devices/{REVOKED}")
        click(soak.driver, 'form[action="/actions/revoke"] button')
        until(soak.driver, "revoked")
        soak.driver.get(soak.page)

    def join_new() -> None:
        shutil.move(soak.fleet.folder / f"{NEW}.pub", soak.fleet.kits / "_fleet/devices")
        soak.fleet.children.running["aggregator"].send_signal(signal.SIGHUP)
        wait_until(lambda: "was read again" in soak.fleet.said("aggregator"), 120)
        soak.device(NEW).start()

    def set_threads() -> None:
        done = soak.fleet.edgestill("device", "set", "pi-01", "train.threads=2")
        assert done.returncode == 0, done.stderr

    return {
        5: lambda: soak.device(JOINS).start(),
        10: join_new,
        15: revoke,
        20: lambda: soak.devices[SLOW].say("telemetry", Telemetry(throttled=True)),
        25: set_threads,
        28: lambda: soak.devices[LEAVES].leave(),
        40: lambda: soak.fleet.children.kill("gone"),
        50: lambda: update(soak.fleet, "90.0"),
        60: lambda: soak.fleet.edgestill("device", "revoke", REVOKED, "--undo", "--kits", "nowhere"),
        70: lambda: soak.devices[SLOW].say("telemetry", Telemetry(throttled=False)),
    }


def live(soak: Soak) -> None:
    """All rounds, with their events."""
    waiting = {round(at * ROUNDS / 100): act for at, act in events(soak).items()}
    done, shown, stuck = 0, "", time.monotonic() + 600
    while done < ROUNDS:
        now = completed(soak.fleet)
        if now == done:
            assert time.monotonic() < stuck, soak.fleet.said("aggregator")[-3000:]
            time.sleep(0.1)
            continue
        done, stuck = now, time.monotonic() + 600
        for number in sorted(number for number in waiting if number <= done):
            waiting.pop(number)()
        soak.measure(done)
        if done % 20 == 0:
            assert main(soak.driver) != shown, "the open page has stood still for twenty rounds"
            shown = main(soak.driver)
    assert waiting == {}


def completed(fleet: Fleet) -> int:
    with closing(fleet.journal()) as journal:
        return journal.completed()


def unexplained(soak: Soak) -> list[str]:
    """Lines above `info` of all logs that nothing here explains."""
    logs = [*soak.fleet.folder.glob("*.log"), soak.board.root / "agent.log", soak.board.root / "installer.log"]
    lines = [
        line for log in logs for line in log.read_text().splitlines() if re.search(r" (WARNING|ERROR) |Traceback", line)
    ]
    return [line for line in lines if not any(re.search(pattern, line) for pattern in EXPLAINED)]


def test_weeks_of_a_fleet(soak: Soak) -> None:
    soak.fleet.until(lambda journal: len(journal.current()) == 1)
    for name in SIMULATED:
        if name not in (JOINS, NEW):
            soak.device(name)
    soak.devices[BAD].make = wrong(2)
    for device in soak.devices.values():
        device.start()
    soak.driver.get(soak.page)
    until(soak.driver, "Overview")
    live(soak)
    wait_until(lambda: stage(soak.fleet)[0] == "committed", 120, lambda: str(stage(soak.fleet)))
    assert version(soak.fleet) == "90.0"

    print({name: {n: round(mb, 1) for n, mb in seen.items() if n % 50 < 2} for name, seen in soak.memory.items()})  # noqa: T201
    if ROUNDS >= LEAST:
        assert growth(soak) == {}
    assert "\n".join(unexplained(soak)) == ""

    with closing(soak.fleet.journal()) as journal:
        refused = {refusal.device for refusal in journal.refusals() if refusal.why is not RefusalReason.LATE}
        assert refused == {BAD}
        assert [row.id for row in journal.devices() if row.status == "lost"] == ["gone"]
        assert journal.completed() >= ROUNDS
        assert len(journal.rounds()) <= 62
    said = soak.fleet.edgestill("status").stdout
    assert re.search(rf"refused: {BAD}, round \d+: ", said)
    assert re.search(r"gone +lost", said)
    for view in ("devices", "models", "charts"):
        soak.driver.get(soak.page + view)
        until(soak.driver, view.title())
        picture(soak.driver, view)
    soak.driver.get(soak.page)
    until(soak.driver, "1 devices are lost: gone")
    picture(soak.driver, "overview")
    assert soak.driver.execute_script("return performance.memory.usedJSHeapSize") < 200e6
    look_at_prometheus(soak)


def growth(soak: Soak) -> dict[str, float]:
    """Processes that have grown in the last 200 rounds (or two thirds), and by how many MB."""
    begin, grown = max(ROUNDS - 200, ROUNDS // 3), {}
    for name, seen in soak.memory.items():
        early = median(mb for number, mb in seen.items() if begin <= number < begin + 10)
        late = median(mb for number, mb in seen.items() if number > ROUNDS - 10)
        if late - early > GROWTH_MB:
            grown[name] = late - early
    return grown


def look_at_prometheus(soak: Soak) -> None:
    """What it has seen from the beginning to the end."""
    for expression in (
        f'edgestill_rounds_total{{outcome="closed"}} >= {ROUNDS}',
        'edgestill_uploads_total{outcome="refused"} >= 2',
        'edgestill_devices{state="lost"} == 1',
        'max_over_time(edgestill_devices{state="revoked"}[3h]) == 1',
        "max_over_time(edgestill_devices_throttled[3h]) == 1",
        'edgestill_devices_by_version{version=~"90.0.*"} == 1',
        "min_over_time(edgestill_mqtt_connected[3h]) == 1",
    ):
        wait_until(
            lambda expression=expression: bool(ask(soak.prometheus, expression)),
            60,
            lambda expression=expression: expression,
        )
