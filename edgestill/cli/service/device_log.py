"""`edgestill device log`: the newest lines of a device's log, over MQTT."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import DeviceError
from core.newest_lines import one_line
from edgestill.cli.output import print_json
from edgestill.cli.service.device_settings import Config, Json, Name, check_known, say

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig

__all__ = ["show_log"]

LOOK_S = 0.1


def show_log(
    device: Name,
    config: Config,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=200, help="Lines at most.")] = 50,
    wait: Annotated[float, typer.Option("--wait", min=0, max=86400, help="Seconds to wait for the device.")] = 20.0,
    as_json: Json = False,
) -> None:
    """Ask a running device for the newest lines of its log, since its agent was started.

    Example:  edgestill device log pi-01 --lines 20 --config fleet.toml

    Exit code 7 if the device has not answered, or its agent.toml says `log_lines = 0`.
    """
    from aggregator.config.fleet import load_fleet_config
    from aggregator.downlink.log_requests import LOG, log_request
    from aggregator.operator_client import ask_service
    from aggregator.status import is_running

    loaded = load_fleet_config(config)
    check_known(device, loaded, config)
    if not is_running(loaded.state):
        raise DeviceError("the aggregator is not running, and only it can ask a device; start it first")
    answer = ask_service(loaded, LOG, log_request(device, lines))
    tail = _wait(loaded, device, int(answer), wait) if answer.isdecimal() else None
    if tail is None:
        raise DeviceError(
            f"{device} has not answered within {wait:g} s; is it online, and its edgestill recent? If the broker's"
            " access list is of an older edgestill, run `edgestill broker install` again"
        )
    if tail["withheld"]:
        raise DeviceError(f"{device}: its agent.toml says log_lines = 0, so that no line of its log leaves the board")
    if as_json:
        print_json(tail)
        return
    for line in tail["lines"]:
        say(one_line(line))


def _wait(loaded: FleetConfig, device: str, number: int, seconds: float) -> dict[str, Any] | None:
    from aggregator.downlink.log_requests import read_tail

    until = time.monotonic() + seconds
    while True:
        tail = read_tail(loaded.state, device)
        if tail is not None and tail["number"] >= number:
            return tail
        if time.monotonic() >= until:
            return None
        time.sleep(LOOK_S)
