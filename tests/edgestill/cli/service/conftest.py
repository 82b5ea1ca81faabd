"""A fleet that has done a round."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow
from tests.aggregator.journals import a_round, an_update, asked
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A fleet of two devices after one round; no service runs."""
    from aggregator.worker.fuse_round import Fuser  # torch, which other tests of this folder do without

    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"], prototypes='!names = ["mlp:fp32"]')
    loaded = load_fleet_config(path)
    loaded.state.mkdir()
    journal, fuser = (
        Journal(loaded.state / "journal.db"),
        Fuser(Blobs(loaded.state / "blobs"), key_of(AGGREGATOR), FLEET),
    )
    journal.open_round(a_round(1, "closed"), asked("pi-0"))
    journal.add_update(an_update("pi-0"))
    journal.note_device("pi-0", status="online", prototype="mlp:fp32", examples=120)
    for number in (0, 1):
        digest, _ = fuser.start(loaded.spec("mlp:fp32"), number)
        journal.add_model(
            ModelRow(
                digest=digest,
                prototype="mlp:fp32",
                round=number,
                origin="fused" if number else "start",
                recipe="fedavg",
                parents=(an_update("pi-0").digest,) if number else (),
                metrics={"accuracy": 0.25 + number / 2, "accuracy_float": 0.375 + number / 2},
                size=fuser.blobs.path(digest).stat().st_size,
                created=1e9,
            )
        )
    journal.close()
    return path
