"""Which instance cloud-init takes a card for, and how a kit becomes a new one."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from firmware_configs.flash.instance import effective_instance, instance_of, next_instance, obstacle, set_instance

pytestmark = pytest.mark.light

IMAGER = b"console=tty1 root=PARTUUID=4e639091-02 rootwait ds=nocloud;i=rpi-imager-1763000000000\n"
META = b"dsmode: local\ninstance_id: rpios-image\ninstance-id: mine\n"
OURS = "edgestill-pi-07-0a1b2c3d4e5f"
CMDLINES = [
    IMAGER,
    b"root=x",
    b"root=x ds=nocloud",
    b"root=x ds=nocloud;i=a;h=kitchen",
    b"ds=nocloud;h=kitchen;instance-id=a quiet",
    b"ds=nocloud-net;i=a;s=http://10.0.0.1/",
    b"ds=nocloud;i=a ds=nocloud;i=b",
    b"ds=nocloud;i=a ds=nocloud-net;i=b",
    b"ds=nocloud;i=a;i=b;",
    b"ds=nocloud;i= quiet",
    b"xds=nocloud;i=a",
]


def test_cmdline_outranks_meta_data() -> None:
    assert effective_instance(IMAGER, META) == "rpi-imager-1763000000000"
    assert effective_instance(b"root=x ds=nocloud;h=kitchen", META) == "mine"
    assert effective_instance(b"root=x", b"dsmode: local\n") is None


@pytest.mark.parametrize(
    ("meta_data", "instance"),
    [
        (b'instance-id: "a b"\n', "a b"),
        (b"instance-id: a # mine\ndsmode: local\n", "a"),
        (b"'instance-id' : 'a'\r\n", "a"),
        (b"instance-id: a\ninstance-id: b\n", "b"),
        (b'{"instance-id": "a", "dsmode": "local"}', "a"),
        (b"{instance-id: a", None),
        (b"instance_id: a\n# instance-id: b\n", None),
        (b"", None),
    ],
)
def test_the_id_of_meta_data_in_every_form(meta_data: bytes, instance: str | None) -> None:
    assert instance_of(meta_data) == instance


def test_only_the_id_of_cmdline_is_rewritten() -> None:
    assert set_instance(IMAGER, OURS) == IMAGER.replace(b"rpi-imager-1763000000000", OURS.encode())
    assert set_instance(b"ds=nocloud-net;h=i=x;instance-id=a;s=/x  quiet", "b") == (
        b"ds=nocloud-net;h=i=x;instance-id=b;s=/x  quiet"
    )


@pytest.mark.parametrize("cmdline", [b"root=x ds=nocloud quiet\n", b"root=\xff i=a;i=b\n", b""])
def test_a_cmdline_without_an_id_stays_byte_for_byte(cmdline: bytes) -> None:
    assert set_instance(cmdline, OURS) == cmdline


@pytest.mark.parametrize("cmdline", CMDLINES)
def test_rewriting_twice_is_rewriting_once_and_takes_effect(cmdline: bytes) -> None:
    once = set_instance(cmdline, OURS)
    assert set_instance(once, OURS) == once
    assert effective_instance(once, f"instance-id: {OURS}\n".encode()) == OURS


def test_a_card_that_never_had_a_kit_gets_the_id_of_the_kit() -> None:
    assert next_instance(OURS, IMAGER, META, unused=False) == OURS


def test_a_kit_that_was_not_booted_yet_keeps_its_id() -> None:
    assert next_instance(OURS, b"root=x", f"instance-id: {OURS}".encode(), unused=True) == OURS
    assert next_instance(OURS, b"root=x", f"instance-id: {OURS}.3".encode(), unused=True) == f"{OURS}.3"
    assert next_instance(OURS, IMAGER, f"instance-id: {OURS}".encode(), unused=True) == OURS


def test_a_card_that_booted_with_a_kit_never_sees_an_id_twice() -> None:
    other, seen = "edgestill-pi-08-ffffffffffff", [OURS]
    for kit in (OURS, other, OURS, other, other):
        cmdline, meta_data = f"ds=nocloud;i={seen[-1]}".encode(), f"instance-id: {seen[-1]}\n".encode()
        seen.append(next_instance(kit, cmdline, meta_data, unused=False))
    assert len(set(seen)) == len(seen)
    assert seen[1:4] == [f"{OURS}.2", f"{other}.3", f"{OURS}.4"]


@pytest.mark.parametrize(
    ("cmdline", "told"),
    [
        (b"root=x cloud-init=disabled\n", "has cloud-init=disabled"),
        (b"root=x ds=none\n", "has ds=none"),
        (b"root=x ci.ds=Ec2\n", "has ci.ds=Ec2"),
        (b"root=x ds=nocloud-net;s=http://10.0.0.1/\n", "read http://10.0.0.1/ instead of the card"),
    ],
)
def test_a_cmdline_by_which_cloud_init_would_not_read_the_card_is_named(cmdline: bytes, told: str) -> None:
    assert told in obstacle(cmdline)


@pytest.mark.parametrize("cmdline", [IMAGER, b"root=x", b"ds=nocloud;s=file:///boot/firmware/", b"ci.ds=nocloud"])
def test_an_ordinary_cmdline_is_no_obstacle(cmdline: bytes) -> None:
    assert obstacle(cmdline) == ""


CLOUD_INIT = """
import json, sys
from cloudinit.sources.DataSourceNoCloud import load_cmdline_data
def read(line):
    found = {}
    load_cmdline_data(found, line)
    return found.get("instance-id") or None
print(json.dumps([read(line) for line in json.load(sys.stdin)]))
"""


@pytest.mark.skipif(shutil.which("cloud-init") is None, reason="no cloud-init: apt-get install cloud-init")
def test_cloud_init_itself_reads_the_same_ids() -> None:
    lines = [line.decode() for line in (*CMDLINES, *(set_instance(line, OURS) for line in CMDLINES))]
    command = ["/usr/bin/python3", "-c", CLOUD_INIT]
    done = subprocess.run(command, input=json.dumps(lines).encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.decode().splitlines()[-1]) == [effective_instance(x.encode(), b"") for x in lines]
