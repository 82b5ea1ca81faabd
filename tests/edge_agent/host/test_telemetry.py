"""The state of a board, as /sys and /proc of boards have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.host.telemetry import FIRMWARE, BoardState, board_state, firmware_flags, temperature_c

pytestmark = pytest.mark.light


def test_thousandths_of_a_degree_become_degrees(tmp_path: Path) -> None:
    (tmp_path / "temp").write_text("61512\n")
    assert temperature_c(tmp_path / "temp") == 61.512


@pytest.mark.parametrize("text", ["", "hot\n", "61.5\n", "-274000\n", "2147483647\n", "9" * 400])
def test_no_temperature_is_reported_without_a_plausible_number(tmp_path: Path, text: str) -> None:
    (tmp_path / "temp").write_text(text)
    assert temperature_c(tmp_path / "temp") is None


def test_a_board_without_a_sensor_tells_nothing(tmp_path: Path) -> None:
    assert temperature_c(tmp_path / "absent") is None
    assert temperature_c(tmp_path) is None


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "throttled", "undervoltage"),
    [
        ("0\n", False, False),
        ("50005", True, True),
        ("0x50000", False, False),  # both have happened, and are over
        ("1", False, True),
        ("2", True, False),
        ("8", True, False),
    ],
)
def test_a_raspberry_pi_says_what_slows_it_down(tmp_path: Path, text: str, throttled: bool, undervoltage: bool) -> None:
    state = board_state(tmp_path, put(tmp_path, {FIRMWARE: text}))
    assert (state.throttled, state.undervoltage) == (throttled, undervoltage)


def test_vcgencmds_answer_is_read_too(tmp_path: Path) -> None:
    assert firmware_flags(put(tmp_path, {FIRMWARE: "throttled=0x50004\n"})) == 0x50004
    assert firmware_flags(put(tmp_path / "b", {FIRMWARE: "VCHI initialization failed"})) is None


@pytest.mark.parametrize(("states", "throttled"), [(("0", "0"), False), (("0", "3"), True), (("", "x"), None)])
def test_other_boards_throttle_if_a_cooler_of_the_processor_is_in_use(
    tmp_path: Path, states: tuple[str, str], throttled: bool | None
) -> None:
    base = "sys/class/thermal/cooling_device"
    files = {
        f"{base}{i}/{name}": text
        for i, s in enumerate(states)
        for name, text in (("type", "cpufreq-cpu0"), ("cur_state", s))
    }
    files |= {f"{base}9/type": "pwm-fan", f"{base}9/cur_state": "4"}
    state = board_state(tmp_path, put(tmp_path, files))
    assert (state.throttled, state.undervoltage) == (throttled, None)


def test_load_memory_disk_and_battery(tmp_path: Path) -> None:
    supply = "sys/class/power_supply"
    root = put(
        tmp_path,
        {
            "proc/loadavg": "1.25 0.90 0.50 2/300 4711\n",
            "proc/meminfo": "MemTotal:  1000000 kB\nMemFree: 5 kB\nMemAvailable:  250000 kB\nHugePages_Total: 0\n",
            f"{supply}/AC/type": "Mains",
            f"{supply}/mouse/type": "Battery",
            f"{supply}/mouse/scope": "Device",
            f"{supply}/mouse/capacity": "3",
            f"{supply}/ups/type": "Battery",
            f"{supply}/ups/capacity": "57",
            f"{supply}/ups/status": "Discharging",
        },
    )
    state = board_state(tmp_path, root)
    assert (state.load, state.memory_mb, state.memory_total_mb) == (1.25, 256.0, 1024.0)
    assert (state.battery, state.on_battery) == (0.57, True)
    assert state.disk_mb is not None
    assert state.disk_mb > 0


def test_a_board_that_offers_nothing_reports_nothing(tmp_path: Path) -> None:
    state = board_state(tmp_path / "absent", tmp_path)
    assert state == BoardState(processors=state.processors)
