"""Lost devices in words."""

import pytest

from wire.lost_devices import lost_text, remedy

pytestmark = pytest.mark.light


def test_the_first_few_are_named_and_the_most_common_reason() -> None:
    lost = {f"pi-{n}": "out of memory" if n < 4 else f"reason {n}" for n in range(6)}
    text = "6 of 8 devices lost: pi-0, pi-1, pi-2, pi-3 and 2 more: out of memory (and 2 other reasons)"
    assert lost_text(lost, 8) == text
    assert lost_text({"pi-0": "a", "pi-1": "a", "pi-2": "b"}, 9).endswith("a (and 1 other reason)")


def test_the_remedy_says_what_is_set_and_what_to_try() -> None:
    now = {"lr": 0.5, "batch_size": 32, "momentum": 0.9, "clip": 0.0}
    assert "--lr is 0.5, try 0.005; and so does --clip 1, which is off" in remedy(now)
    assert "clip" not in remedy({**now, "clip": 1.0})
    assert "[train] lr is 0.001, try 0.0001" in remedy({**now, "lr": 0.001}, lr="[train] lr")
