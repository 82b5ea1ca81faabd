"""The metrics of a running service, as a real Prometheus and promtool see them; rules and dashboard of examples/."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest

from aggregator.config.fleet import load_fleet_config
from aggregator.monitoring.collector import fleet_registry
from aggregator.monitoring.live import Live, Snapshot
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model, a_round, asked
from tests.aggregator.running import NAMES, ROOT, Devices, fleet, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import Broker, free_port
from transport.config import BrokerConfig
from wire.messages import Metrics

EXAMPLES = ROOT / "examples/monitoring"
MISSING = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
needs_prometheus = pytest.mark.skipif(
    bool(MISSING), reason=f"*** {' '.join(MISSING)} MISSING (Debian: prometheus): RULES AND SCRAPES ARE NOT TESTED ***"
)


def expressions() -> dict[str, str]:
    """Every PromQL expression of the examples, by where it stands."""
    alerts = re.findall(r"- alert: (\w+)\n\s+expr: (.+)", (EXAMPLES / "alerts.yml").read_text())
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    shown = [(f"{p['title']} {t['refId']}", t["expr"]) for p in dashboard["panels"] for t in p["targets"]]
    assert len(alerts) == 10
    return dict([*alerts, *shown])


def test_rules_and_dashboard_name_metrics_that_exist(tmp_path: Path) -> None:
    config = load_fleet_config(write_fleet(tmp_path, BrokerConfig(), ["pi-0"]))
    config.state.mkdir()
    journal = Journal(config.state / "journal.db")
    with journal.transaction():
        journal.add_model(a_model(number=1, metrics={"accuracy": 0.5}))
        journal.open_round(a_round(1, "closed", closed=2.0), asked("pi-0"))
        journal.add_report(1, {"seconds": {"average": 1.0}})
        journal.open_round(a_round(2), asked("pi-0"))
    journal.close()
    live = Live(Snapshot(time=0.0))
    live.accepted("mlp:fp32", 1)
    live.measured("pi-0", Metrics(temperature_c=1.0))
    page = generate_latest(fleet_registry(config, live, version="1", now=time.time)).decode()
    served = set(re.findall(r"^(\w+)(?:\{.*\})? ", page, re.MULTILINE)) | {
        "edgestill_certificate_not_after_timestamp_seconds"  # of a fleet with TLS
    }
    for where, expression in expressions().items():
        named = set(re.findall(r"\b(?:edgestill|process)_\w+", expression))
        assert named <= served, where


@needs_prometheus
def test_promtool_finds_rules_and_dashboard_sound(tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", EXAMPLES / "alerts.yml"], check=True, capture_output=True)
    subprocess.run(["promtool", "check", "config", EXAMPLES / "prometheus.yml"], check=True, capture_output=True)
    rules = [
        f"      - record: panel:{i}\n        expr: {json.dumps(e)}\n" for i, e in enumerate(expressions().values())
    ]
    (tmp_path / "panels.yml").write_text(f"groups:\n  - name: panels\n    rules:\n{''.join(rules)}")
    subprocess.run(["promtool", "check", "rules", tmp_path / "panels.yml"], check=True, capture_output=True)


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A real one that scrapes `target` each second; its address."""
    folder.mkdir()
    port = free_port()
    text = (EXAMPLES / "prometheus.yml").read_text().replace("127.0.0.1:9464", target).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(EXAMPLES / "alerts.yml", folder)
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *options], cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(120)


def ask(address: str, expression: str) -> list[dict[str, Any]]:
    """The samples of an instant query; none while Prometheus starts."""
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=120) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result
    except (urllib.error.URLError, ConnectionError):
        return []


@needs_prometheus
@pytest.mark.slow
def test_a_real_prometheus_scrapes_a_fleet_through_its_rounds(tmp_path: Path, broker: Broker, started: Path) -> None:
    """Slow: starts a service, three devices and a Prometheus on both brokers, and waits for scrapes."""
    target = f"127.0.0.1:{free_port()}"
    tables = {"monitor": f'metrics = "{target}"', "round": "!rounds = 3\nmin_devices = 3\ndeadline_s = 60"}
    with fleet(tmp_path, broker, started, **tables) as service, prometheus(tmp_path / "prometheus", target) as address:
        service.start()
        wait_until(lambda: bool(ask(address, "edgestill_mqtt_connected == 1")), 120)
        with Devices(broker.config, NAMES):
            wait_until(lambda: bool(ask(address, 'edgestill_rounds_total{outcome="closed"} == 3')), 120)
            wait_until(lambda: bool(ask(address, 'edgestill_devices{state="online"} == 3')), 120)
        (accepted,) = ask(address, 'edgestill_uploads_total{outcome="accepted"}')
        assert int(accepted["value"][1]) >= 9
        assert {s["metric"]["prototype"] for s in ask(address, "edgestill_prototype_round == 3")} == {
            "mlp:fp32",
            "cnn:w1",
        }
        for where, expression in expressions().items():
            query = urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=120) as answer:
                assert json.load(answer)["status"] == "success", where
        with urllib.request.urlopen(f"http://{target}/readyz", timeout=120) as answer:
            assert answer.read() == b"ok\n"
        page = urllib.request.urlopen(f"http://{target}/metrics", timeout=120).read()
        subprocess.run(["promtool", "check", "metrics"], input=page, check=True, capture_output=True)
        assert service.end() == 0
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://{target}/healthz", timeout=120)
