"""The newest instruction is kept, also when the disk was full for a while."""

from __future__ import annotations

import pytest

from edge_agent.protocol.replay import Newest
from edge_agent.state.following import RETRY_S, Following

pytestmark = pytest.mark.light


class Disk:
    """A store whose disk may be full."""

    def __init__(self) -> None:
        self.full = False
        self.done: list[tuple[str, int]] = []

    def follow(self, newest: Newest) -> None:
        self._write("follow", newest.epoch)

    def forget_before(self, epoch: int) -> None:
        self._write("forget", epoch)

    def _write(self, what: str, epoch: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.done.append((what, epoch))


def test_a_full_disk_is_tried_again_and_a_new_epoch_is_still_forgotten_for() -> None:
    disk = Disk()
    following = Following(disk)  # type: ignore[arg-type]
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        following.take(Newest(epoch=7), forget=True)
    with pytest.raises(OSError, match="No space"):
        following.take(Newest(epoch=7), forget=False)  # what was owed stays owed
    with pytest.raises(OSError, match="No space"):
        following.retry(100.0)
    disk.full = False
    following.retry(100.0 + RETRY_S / 2)
    assert disk.done == []
    following.retry(100.0 + RETRY_S)
    assert disk.done == [("forget", 7), ("follow", 7)]
    following.retry(200.0)
    assert len(disk.done) == 2
