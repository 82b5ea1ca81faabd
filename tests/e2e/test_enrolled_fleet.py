"""Boards that make their own keys join a fleet over its TLS broker; others with their claims do not."""

import re
import shutil
import stat
from pathlib import Path

import pytest

from tests.e2e.provisioned import BASE, Fleet, provisioned
from tests.transport.events import connected, eventually
from transport.link import Link

GROUPS = """
[[group]]
name = "own"
board = "rpi-4"
devices = ["asked", "absent"]
prototype = "mlp:fp32"
data = "{samples}"
enrol = "approve"
"""


def groups(folder: Path) -> str:
    """Two boards that somebody has to approve, one whose claim is enough."""
    asked = GROUPS.format(samples=folder / "samples.npz")
    claimed = asked.replace('"own"', '"auto"').replace('["asked", "absent"]', '["claimed"]')
    return asked + claimed.replace('"approve"', '"claim"')


def shown(fleet: Fleet, name: str) -> list[str]:
    """The fingerprints that a board has logged."""
    path = fleet.folder / f"{name}.log"
    return re.findall(r"fingerprint ((?:[0-9a-f]{4} ){4}[0-9a-f]{4})", path.read_text()) if path.exists() else []


def with_claim(fleet: Fleet, name: str, filters: tuple[str, ...]) -> Link:
    tls = fleet.kits / "absent" / "tls"
    return fleet.link(name, tls / "claim.pem", tls / "claim.key", filters)


@pytest.mark.broker
def test_boards_that_make_their_own_keys_are_approved_and_complete_a_round(tmp_path: Path) -> None:
    with provisioned(tmp_path, count=1, devices=2, groups=groups(tmp_path)) as fleet, fleet.broker:
        for device in ("asked", "claimed"):
            secrets = [path for path in (fleet.kits / device).rglob("*") if b"PRIVATE KEY" in _bytes(path)]
            assert secrets == [fleet.kits / device / "tls" / "claim.key"]
        shutil.copytree(fleet.kits / "asked", fleet.kits / "stolen")
        fleet.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", "--until-done"])
        fleet.children.start("approver", ["device", "approve", "--watch", "--config", "fleet.toml"])
        spy = connected(with_claim(fleet, "spy", (f"{BASE}/all/model/#", f"{BASE}/+/job", f"{BASE}/+/enrolled")))
        fleet.start("asked", EDGESTILL_CRASH_AT="agent-certified")
        assert eventually(lambda: "enrolment: waiting" in fleet.said("asked"), 120)
        fleet.start("claimed")
        fleet.start("stolen")
        assert eventually(
            lambda: "enrolment: refused: this claim was used with other keys" in fleet.said("stolen"), 120
        )
        wrong = fleet.edgestill("device", "approve", "asked", "--fingerprint", shown(fleet, "stolen")[0])
        assert (wrong.returncode, wrong.stderr.count("\n")) == (3, 1)
        assert "is it your board?" in wrong.stderr
        done = fleet.edgestill("device", "approve", "asked", "--fingerprint", shown(fleet, "asked")[0])
        assert done.returncode == 0, done.stderr
        assert f"asked with fingerprint {shown(fleet, 'asked')[0]}: approved" in done.stdout
        assert eventually(lambda: fleet.children.ended("asked"), 120)  # killed with its certificate in hand
        fleet.start("asked")
        fleet.until(lambda journal: journal.completed() == 1)
        assert eventually(lambda: fleet.children.ended("aggregator"), 120)
        journal = fleet.journal()
        assert [update.device for update in journal.updates(1)] == ["asked", "claimed"]
        journal.close()
        assert spy.next_event(0.2) is None  # no model, no job, no answer to another
        forged = [f"{BASE}/asked/state", f"{BASE}/absent/state", f"{BASE}/asked/enrol", f"{BASE}/_claim-absent/state"]
        for topic in forged:
            assert spy.publish(topic, b"forged")
        assert eventually(lambda: fleet.broker.log.count("Denied PUBLISH from _claim-absent") == len(forged))
        spy.stop()
    log = fleet.said("aggregator")
    assert "enrolment of 'asked' refused: this claim was used with other keys" in log
    assert len(set(shown(fleet, "asked"))) == 1  # it has made its keys once
    assert f"device 'asked' asks to be enrolled; fingerprint {shown(fleet, 'asked')[0]}" in log
    assert "claimed with fingerprint" in fleet.said("approver")
    assert "waiting for `edgestill device approve asked`" in fleet.said("approver")
    for key in ("tls.key", "device.key"):
        (path,) = (tmp_path / "asked" / "identity").glob(f"*/{key}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
