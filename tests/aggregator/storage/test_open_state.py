"""A state folder belongs to one fleet and one key."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.storage.open_state import open_state
from core.errors import ConfigError, EdgestillError
from wire.keys import generate_key, save_private_key

pytestmark = pytest.mark.light


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "one.key", tmp_path / "other.key"
    for path in paths:
        save_private_key(generate_key(), path)
    return paths


def opened(state: Path, key: Path, fleet: str = "garden", *, new_key: bool = False) -> str:
    state.mkdir(exist_ok=True)
    journal, blobs = open_state(state, fleet=fleet, key=key, new_key=new_key)
    signer = journal.get("key")
    blobs.close()
    journal.close()
    return signer


def test_another_fleet_is_refused(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    opened(tmp_path / "state", keys[0])
    with pytest.raises(ConfigError, match="belongs to fleet 'garden'; give fleet 'field' a folder of its own"):
        opened(tmp_path / "state", keys[0], "field")


def test_another_key_is_taken_only_as_the_new_one(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    first = opened(tmp_path / "state", keys[0])
    with pytest.raises(ConfigError, match=r"not the key that signed this fleet's models .* start once with --new-key"):
        opened(tmp_path / "state", keys[1])
    assert opened(tmp_path / "state", keys[0]) == first
    second = opened(tmp_path / "state", keys[1], new_key=True)
    assert second != first
    assert opened(tmp_path / "state", keys[1]) == second


def test_without_a_key_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(EdgestillError):
        opened(tmp_path / "state", tmp_path / "no.key")
    assert list((tmp_path / "state").iterdir()) == []
