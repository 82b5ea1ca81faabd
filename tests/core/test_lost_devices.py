"""Lost devices in words."""

import pytest

from core import local_defaults
from core.local_defaults import auto_lr
from core.lost_devices import lost_text, remedy

pytestmark = pytest.mark.light


def test_the_first_few_are_named_and_the_most_common_reason() -> None:
    lost = {f"pi-{n}": "out of memory" if n < 4 else f"reason {n}" for n in range(6)}
    text = "6 of 8 devices lost: pi-0, pi-1, pi-2, pi-3 and 2 more: out of memory (and 2 other reasons)"
    assert lost_text(lost, 8) == text
    assert lost_text({"pi-0": "a", "pi-1": "a", "pi-2": "b"}, 9).endswith("a (and 1 other reason)")


def test_the_remedy_says_what_is_set_and_what_to_try() -> None:
    now = {"lr": 0.5, "batch_size": 32, "momentum": 0.9, "clip": 0.0}
    usual, clip = auto_lr(32, 0.9), local_defaults.CLIP
    assert f"--lr is 0.5, try {usual:.3g}; and so does --clip {clip:g}, which is off" in remedy(now)
    assert "clip" not in remedy({**now, "clip": 1.0})
    assert "[train] lr is 1e-05, try 1e-06" in remedy({**now, "lr": 1e-5}, lr="[train] lr")
