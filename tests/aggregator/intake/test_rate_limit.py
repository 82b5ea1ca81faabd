"""Who is heard, and how much of him: known devices by their budgets, strangers a little, the muted not at all."""

from __future__ import annotations

import time

import pytest

from aggregator.config.fleet import LimitConfig
from aggregator.intake import rate_limit
from aggregator.intake.rate_limit import STRANGER, STRANGER_LANE, STRANGERS, RateLimiter, Standing
from core.settings import replace
from edge_agent.protocol.events import Spooled
from edge_agent.protocol.upload import Upload
from wire.chunks import DEFAULT_CHUNK, OVERHEAD
from wire.ranges import Gaps
from wire.topics import DeviceTopic, UpdateChunk

pytestmark = pytest.mark.light
LIMITS = LimitConfig(
    update_mb=64,
    parts_mb=2048,
    transfers=2,
    messages_per_minute=6000,
    mb_per_minute=256,
    reports_per_minute=600,
    transfers_per_minute=600,
    cpu_s_per_minute=4.0,
    garbage_before_mute=20,
    mute_s=600.0,
)
BURST = 2 * 977 + 600  # messages: two updates of 64 MB, and those of 6 s


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fleet:
    """A limiter that knows a few devices."""

    def __init__(self, **changes: float) -> None:
        self.clock = Clock()
        self.standing = {"a": Standing.KNOWN, "b": Standing.KNOWN, "m": Standing.MUTED, "r": Standing.STRANGER}
        limits = replace(LIMITS, **changes)
        self.limiter = RateLimiter(limits, self._standing, clock=self.clock)

    def _standing(self, device: str) -> Standing:
        return self.standing.get(device, Standing.STRANGER)

    def chunks(self, device: str, count: int, size: int = 62) -> int:
        """How many of so many chunks are admitted."""
        topic = str(UpdateChunk("f", device, "0" * 32, 7))
        return sum(self.limiter.admit(topic, size) is not None for _ in range(count))

    def say(self, device: str, leaf: str, size: int = 200) -> str | None:
        return self.limiter.admit(str(DeviceTopic("f", device, leaf)), size)  # type: ignore[arg-type]


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_device_that_floods_is_dropped_and_another_is_heard_as_before(fleet: Fleet) -> None:
    assert fleet.chunks("a", 20_000) == BURST
    assert fleet.chunks("b", 1000) == 1000
    assert fleet.limiter.limited() == {"a": 20_000 - BURST}


def test_a_device_that_stops_flooding_is_heard_again_at_its_rate(fleet: Fleet) -> None:
    fleet.chunks("a", 20_000)
    fleet.clock.now += 1.0
    assert fleet.chunks("a", 1000) == 100
    fleet.clock.now += 61.0
    assert fleet.chunks("a", 1000) == 1000
    assert fleet.limiter.limited() == {}


def test_bytes_are_counted_beside_messages(fleet: Fleet) -> None:
    admitted = fleet.chunks("a", 500, size=1_900_000)
    assert 128e6 < admitted * 1.9e6 < 132e6
    assert [line.split(";")[0] for line in fleet.limiter.news()] == [
        f"device 'a' is over its budget (bytes): {500 - admitted} messages dropped unread"
    ]


def test_the_log_has_one_line_a_minute_of_a_device_that_floods(fleet: Fleet) -> None:
    lines = []
    fleet.chunks("a", 5000)
    for _ in range(180):
        fleet.chunks("a", 200)
        lines += fleet.limiter.news()
        fleet.clock.now += 1.0
    assert len(lines) == 3


def test_reports_have_a_budget_of_their_own_and_leave_updates_alone(fleet: Fleet) -> None:
    heard = [fleet.say("a", leaf) for leaf in ("state", "about", "metrics", "reported") for _ in range(100)]
    assert heard.count("a") == 60
    assert fleet.chunks("a", 100) == 100


def test_transfers_are_begun_so_often_a_minute(fleet: Fleet) -> None:
    assert sum(fleet.limiter.begin("a") for _ in range(1000)) == 60
    assert fleet.limiter.drops() == {"up": 940}
    assert fleet.limiter.begin("b")
    fleet.clock.now += 1.0
    assert sum(fleet.limiter.begin("a") for _ in range(1000)) == 10


def test_processor_time_is_measured_charged_to_the_device_and_paid_back(fleet: Fleet) -> None:
    topic = str(DeviceTopic("f", "a", "state"))
    before = time.thread_time()
    with fleet.limiter.charge(topic):
        while time.thread_time() - before < 0.05:
            pass
    level = fleet.limiter._accounts["a"].buckets["processor time"].level(fleet.clock.now)
    assert 0.04 < 4.0 - level < 1.0
    fleet.limiter.spend("a", 6.0)  # 2 s and a little are owed, which takes half a minute
    assert (fleet.say("a", "state"), fleet.chunks("a", 1), fleet.chunks("b", 1)) == (None, 0, 1)
    fleet.clock.now += 29.0
    assert fleet.chunks("a", 1) == 0
    fleet.clock.now += 16.0
    assert fleet.chunks("a", 1) == 1


def test_the_time_of_onnx_graphs_is_charged_to_their_device(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter([10.0, 17.0])  # of the process that reads graphs, before and after this message
    monkeypatch.setattr(rate_limit, "seconds_spent", lambda: next(spent))
    with fleet.limiter.charge("edgestill/1/f/a/up"):
        pass
    monkeypatch.setattr(rate_limit, "seconds_spent", lambda: 17.0)
    assert (fleet.chunks("a", 1), fleet.chunks("b", 1)) == (0, 1)


def test_what_a_handler_raises_is_charged_and_raised(fleet: Fleet) -> None:
    with pytest.raises(ZeroDivisionError), fleet.limiter.charge("edgestill/1/f/a/state"):
        raise ZeroDivisionError
    assert "a" in fleet.limiter._accounts


def test_the_muted_are_not_heard_and_leave_no_trace(fleet: Fleet) -> None:
    assert (fleet.chunks("m", 1000), fleet.say("m", "enrol")) == (0, None)
    assert (fleet.limiter.limited(), fleet.limiter.news()) == ({}, [])


def test_a_revoked_or_unknown_device_is_heard_now_and_then(fleet: Fleet) -> None:
    assert fleet.chunks("r", 1000) == STRANGER
    assert fleet.chunks("nobody", 1000) == STRANGER
    fleet.clock.now += 60.0
    assert fleet.chunks("r", 1000) == STRANGER


def test_all_strangers_together_have_one_budget_and_one_lane(fleet: Fleet) -> None:
    heard = [fleet.say(f"board-{n}", "enrol") for n in range(5000)]
    assert heard.count(STRANGER_LANE) == STRANGERS
    assert heard.count(None) == 5000 - STRANGERS
    assert len(fleet.limiter._stranger) == 1000
    assert fleet.limiter._accounts == {}
    assert fleet.chunks("a", 10) == 10


def test_one_board_that_asks_to_be_enrolled_all_the_time_leaves_room_for_others(fleet: Fleet) -> None:
    assert [fleet.say("board", "enrol") for _ in range(1000)].count(None) == 1000 - STRANGER
    assert fleet.say("another", "enrol") == STRANGER_LANE


@pytest.mark.parametrize(
    "topic", ["edgestill/1/f/" + "x" * 60_000 + "/state", "x", "", "edgestill/1/f/a", "/" * 300, "é" * 257]
)
def test_topics_that_are_none_of_ours_are_dropped(fleet: Fleet, topic: str) -> None:
    assert fleet.limiter.admit(topic, 10) is None
    assert fleet.limiter._accounts == {}
    with fleet.limiter.charge(topic):
        pass


def test_messages_that_found_their_lane_full_are_counted(fleet: Fleet) -> None:
    fleet.limiter.overflowed("a", 5)
    fleet.limiter.overflowed(STRANGER_LANE, 5)
    assert fleet.limiter.limited() == {"a": 5}


@pytest.mark.parametrize("megabytes", [1, 64, 256])
def test_an_honest_agent_with_the_largest_update_stays_within_its_budget_though_all_comes_again(megabytes: int) -> None:
    """As fast as it can, cut off before the last answer, and the aggregator has forgotten every chunk."""
    fleet = Fleet(update_mb=megabytes, mb_per_minute=4 * megabytes)
    count = -(-megabytes * 10**6 // DEFAULT_CHUNK)
    upload = Upload(Spooled(key="1", round=1, transfer="0" * 32, count=count))
    for stop in (count - 1, count):
        gaps, arrived = Gaps(count), 0
        assert fleet.say("a", "state") == fleet.say("a", "about") == "a"
        out = upload.connected(fleet.clock.now)
        while arrived < stop:
            assert out
            for action in out:
                fleet.clock.now += 0.001
                topic = str(UpdateChunk("f", "a", "0" * 32, action.n))
                size = min(DEFAULT_CHUNK, megabytes * 10**6 - action.n * DEFAULT_CHUNK)
                assert fleet.limiter.admit(topic, OVERHEAD + size) == "a"
                arrived += gaps.fill(action.n)
            out = upload.missing(gaps.first(64), fleet.clock.now) if gaps.left else []
        fleet.limiter.spend("a", 1.0 * megabytes / 64)
        upload = Upload(upload.spooled)  # a restarted agent knows nothing of what was sent
    assert fleet.limiter.limited() == {}
