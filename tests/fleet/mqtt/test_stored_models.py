"""The devices' own models of a fleet over MQTT, from the disks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from aggregator.storage.artifacts import seal_artifact
from aggregator.storage.blobs import Blobs
from edge_agent.state.store import EXTRACTOR, PERSONAL, learned_path
from fleet.mqtt.stored_models import read_kept_models, stored_updates
from tests.aggregator.journals import an_update
from tests.aggregator.scripted import FLEET, key_of, seal_update
from wire.headers import encode_update
from wire.ids import AGGREGATOR
from wire.messages import ModelHeader, UpdateHeader
from wire.tensors import encode


def published(blobs: Blobs, value: float) -> str:
    header = ModelHeader(round=0, prototype="mlp:fp32", input_shape=(2,), classes=2, latent=2, recipe="start")
    body = encode({"w": np.full(2, value, np.float32)})
    return blobs.put(seal_artifact(header, body, key=key_of(AGGREGATOR), fleet=FLEET))


def test_a_delta_is_added_to_the_model_that_its_device_started_from(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    models = {"a": published(blobs, 10.0), "b": published(blobs, 20.0)}
    rows = []
    for device in ("a", "b", "uninvited"):
        header = UpdateHeader(
            round=1, device=device, prototype="mlp:fp32", update="delta", num_examples=1, label_counts=(), base=None
        )
        sealed = seal_update(device, encode_update(header, encode({"w": np.ones(2, np.float32)})), 1)
        rows.append(an_update(device, digest=blobs.put(sealed), kind="delta"))
    found = stored_updates(tmp_path, rows, models)
    assert {device: update.state()["w"].tolist() for device, update in found.items()} == {
        "a": [11.0, 11.0],
        "b": [21.0, 21.0],
    }


def test_what_agents_keep_is_given_to_their_devices(tmp_path: Path) -> None:
    devices: list[Any] = [SimpleNamespace(id=f"sim-{n}", prototype="mlp:fp32", kept={}) for n in range(3)]
    for device, what in (("sim-0", EXTRACTOR), ("sim-0", PERSONAL), ("sim-2", PERSONAL)):
        path = learned_path(tmp_path / device / "state", "mlp:fp32", what)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{what} of {device}")
    read_kept_models(tmp_path, devices)
    assert [device.kept for device in devices] == [
        {EXTRACTOR: b"extractor of sim-0", PERSONAL: b"personal of sim-0"},
        {},
        {PERSONAL: b"personal of sim-2"},
    ]
