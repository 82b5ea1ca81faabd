"""An update on its way out: what its header tells, and the one rename that leaves it."""

import json
from pathlib import Path

import pytest

from edge_agent.child.outbox import leave, make_staging, spool
from edge_agent.state.store import PERSONAL
from tests.edge_agent.devices import Device
from wire.ids import digest_of


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def left(device: Device, keep: dict[str, bytes] | None = None, **other: object) -> Path:
    job = device.job(2)
    request = device.request(job, **other)
    folder = make_staging(request)
    facts = {"train_loss": 0.5}
    spool(request, folder, kind="state", body=b"body", keep=keep or {}, label_counts=(3, 0, 5), metrics=facts)
    leave(folder, "outbox")
    return device.folder / "state" / "outbox" / request.key


def test_the_header_tells_round_device_base_counts_and_metrics(device: Device) -> None:
    left(device)
    header, body = device.update(device.job(2))
    assert body == b"body"
    assert (header.round, header.base, header.num_examples, header.label_counts) == (2, device.digest, 8, (3, 0, 5))
    assert header.metrics == {"train_loss": 0.5}


def test_the_entry_names_the_sealed_bytes(device: Device) -> None:
    folder = left(device, {"residual": b"r"})
    sealed = (folder / "update").read_bytes()
    entry = json.loads((folder / "entry.json").read_text())
    assert entry == {"round": 2, "digest": digest_of(sealed), "size": len(sealed), "update": "state"}
    assert (folder / "residual").read_bytes() == b"r"
    assert not (device.folder / "state" / "staging" / folder.name).exists()


def test_a_personal_model_is_noted_in_the_entry(device: Device) -> None:
    assert json.loads((left(device, {PERSONAL: b"p"}) / "entry.json").read_text())["personal"] is True


def test_binned_counts_are_told_and_the_examples_with_them(device: Device) -> None:
    left(device, count_bins=4)
    header, _ = device.update(device.job(2))
    assert header.label_counts == (4, 0, 4)
    assert header.num_examples == 8


def test_staging_is_emptied_of_what_an_earlier_child_has_left(device: Device) -> None:
    request = device.request(device.job())
    (make_staging(request) / "half").write_text("written")
    assert list(make_staging(request).iterdir()) == []


def test_work_that_an_earlier_child_has_left_is_kept(device: Device) -> None:
    first = (left(device) / "update").read_bytes()
    folder = left(device)
    assert (folder / "update").read_bytes() == first  # another nonce would give other bytes
    assert list((device.folder / "state" / "staging").iterdir()) == []
