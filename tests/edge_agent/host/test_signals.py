"""SIGTERM and SIGINT end the agent."""

from __future__ import annotations

import os
import signal

import pytest

from edge_agent.host.signals import stop_on_signals

pytestmark = pytest.mark.light


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    stopped = []
    try:
        stop_on_signals(lambda: stopped.append(True))
        os.kill(os.getpid(), number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert stopped == [True]
