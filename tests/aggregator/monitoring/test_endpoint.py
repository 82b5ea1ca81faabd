"""Metrics and health over HTTP, beside a service that is none."""

from __future__ import annotations

import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from aggregator.monitoring.endpoint import Endpoint
from aggregator.monitoring.live import STALLED_S, Live, Snapshot
from core.errors import ConfigError


@pytest.fixture
def live() -> Live:
    return Live(Snapshot(time=time.monotonic(), connected=True, phase="waiting"))


def get(endpoint: Endpoint, path: str, accept: str = "", method: str = "GET") -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{endpoint.port}{path}"
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers["Content-Type"]


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("some", "Some value.", registry=made).set(4)
    return made


def test_metrics_in_both_formats(live: Live) -> None:
    with Endpoint("127.0.0.1:0", registry(), live) as endpoint:
        code, body, kind = get(endpoint, "/metrics")
        assert (code, "some 4.0" in body, kind.partition(";")[0]) == (200, True, "text/plain")
        _, body, kind = get(endpoint, "/metrics?x", "application/openmetrics-text; version=1.0.0")
        assert (body.endswith("# EOF\n"), kind.partition(";")[0]) == (True, "application/openmetrics-text")


def test_health_and_readiness(live: Live) -> None:
    with Endpoint("127.0.0.1:0", registry(), live) as endpoint:
        assert [get(endpoint, path)[:2] for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
        assert get(endpoint, "/healthz", method="HEAD")[:2] == (200, "")
        live.share(Snapshot(time=time.monotonic(), phase="waiting"))
        assert get(endpoint, "/healthz")[0] == 200
        assert get(endpoint, "/readyz")[:2] == (503, "no connection to the broker\n")
        live.share(Snapshot(time=time.monotonic() - STALLED_S - 5, connected=True, phase="waiting"))
        assert [get(endpoint, path)[0] for path in ("/healthz", "/readyz")] == [503, 503]
        assert get(endpoint, "/")[0] == get(endpoint, "/metrics/x")[0] == 404
        assert get(endpoint, "/metrics", method="POST")[0] == 501


class Broken(Collector):
    def collect(self) -> Iterator[Metric]:
        raise OSError("the journal is locked")


def test_a_scrape_that_fails_costs_itself_alone(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    made = CollectorRegistry(auto_describe=False)
    made.register(Broken())
    with caplog.at_level(logging.WARNING), Endpoint("127.0.0.1:0", made, live) as endpoint:
        assert get(endpoint, "/metrics")[:2] == (500, "cannot be collected: the journal is locked\n")
        assert get(endpoint, "/healthz")[0] == 200
    assert "metrics cannot be collected: the journal is locked" in caplog.text


def test_an_address_in_use_is_told_in_one_line(live: Live) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"cannot serve metrics at {address}: Address already in use; give anoth"):
            Endpoint(address, registry(), live)


def test_after_its_block_nobody_listens(live: Live) -> None:
    with Endpoint("127.0.0.1:0", registry(), live) as endpoint:
        port = endpoint.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
