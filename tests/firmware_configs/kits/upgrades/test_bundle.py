"""A bundle as it is written: its manifest, signature and wheels; one that is too large names another way."""

import io
import json
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits.own_wheel import Wheel
from firmware_configs.kits.upgrades import bundle as module
from firmware_configs.kits.upgrades.bundle import Bundle, BundleTarget, write_bundle
from firmware_configs.kits.wheels import WheelStore
from firmware_configs.on_board.bundles import MAGIC, open_bundle, unpack
from wire.ids import digest_of
from wire.keys import generate_key

pytestmark = pytest.mark.light
KEY = generate_key()


def made(store: WheelStore) -> Bundle:
    locked = store.put(Wheel("edgestill", "0.3.0", "edgestill-0.3.0-py3-none-any.whl", b"wheel" * 1000))
    target = BundleTarget(devices=("pi-01",), machine="aarch64", python="3.11", lock="# lock\n", unpacked=5)
    facts = {"fleet": "garden", "version": "0.3.0", "number": 7, "force": False}
    return Bundle(**facts, targets=(target,), carried=(locked,))  # type: ignore[arg-type]


def test_it_opens_on_a_board(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store")
    digest, size = write_bundle(made(store), store, KEY, tmp_path / "bundles")
    data = (tmp_path / "bundles" / digest).read_bytes()
    assert (digest_of(data), len(data)) == (digest, size)
    file = io.BytesIO(data)
    facts = open_bundle(file, lambda content, signature: KEY.public_key().verify(signature, content) is None)
    assert (facts["fleet"], facts["version"], facts["number"], facts["force"]) == ("garden", "0.3.0", 7, False)
    assert facts["targets"] == [
        {
            "devices": ["pi-01"],
            "machine": "aarch64",
            "python": "3.11",
            "lock": "# lock\n",
            "unpacked": 5,
            "others": {},
            "fetch": None,
            "network": False,
            "index": None,
        }
    ]
    unpack(file, facts["wheels"], tmp_path / "wheels")
    assert (tmp_path / "wheels/edgestill-0.3.0-py3-none-any.whl").read_bytes() == b"wheel" * 1000
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == [digest]


def test_the_signature_is_for_bundles_alone(tmp_path: Path) -> None:
    """A kit is signed with the same key; its manifest is no bundle's."""
    store = WheelStore(tmp_path / "store")
    digest, _ = write_bundle(made(store), store, KEY, tmp_path)
    data = (tmp_path / digest).read_bytes()
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "big")
    manifest = data[len(MAGIC) + 4 :][:size]
    assert json.loads(manifest)["schema"] == 1
    assert KEY.sign(manifest) not in data


def test_one_that_is_too_large_to_travel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BUNDLE", 4000)
    store = WheelStore(tmp_path / "store")
    with pytest.raises(ConfigError, match='set wheels = "fleet"'):
        write_bundle(made(store), store, KEY, tmp_path / "bundles")
    assert not (tmp_path / "bundles").exists()
